"""Secrets that are known by their own shape: a fixed prefix and a body of known letters."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Check = Callable[[bytes, re.Match[bytes]], bool]
    Around = Callable[[bytes, re.Match[bytes]], tuple[int, int] | None]


ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_"
URLSAFE = WORD + "-"
HEX = "0123456789abcdef"
UPPER32 = string.ascii_uppercase + "234567"

_DIGIT = lazy_pattern(rb"[0-9]")
_TWO_DIGITS = lazy_pattern(rb"[0-9][^0-9]*[0-9]")
_CAPITAL = lazy_pattern(rb"[A-Z]")

_BLANK = rb"(?:[ \t]|\\{1,4}t)"
BREAK = rb"(?:\r?\n|\\{1,4}r\\{1,4}n|\\{1,4}n)"
WHERE = rb"[^\s:\"'\\]{1,100}[:-][0-9]{1,6}[:-]"
"""File and number as grep writes them before a line."""
BEGIN = rb"(?: {0,7}[0-9]{1,5}(?:\t|\\{1,4}t|(?:\xe2\x86\x92|\\{1,4}u2192)| ?(?:\xe2\x94\x82|\|) ?)|[+>]|\xe2\x94\x82|" + WHERE + rb")?"
"""What a tool writes before a line that it shows: its number or place, the side of a frame, or the mark of a patch or a quote."""
NEXT_LINE = BREAK + BEGIN
BELOW = _BLANK + rb"{0,28}+(?:" + NEXT_LINE + _BLANK + rb"{0,28}+){0,3}+(?:`{3}[a-z]{0,12}+" + NEXT_LINE + rb")?+"
"""What stands between a name and its value, also where that is on a line below: an indent, the number or the mark of a line, a fence."""

LONGEST = 400
"""No key is longer; the bound keeps hostile text linear."""


class Planted(NamedTuple):
    """An invented secret inside text that shows it, for tests."""

    text: str
    secret: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Detector:
    """One kind of secret: where to look (``literals``) and what it looks like there (``pattern``).

    The pattern is matched at the place of a literal, over UTF-8 bytes, and is written so
    that it also matches the JSON-escaped form of the same text. The group ``s`` is the
    part to hide; without it, all of the match. ``check`` refuses what only looks like a
    secret; it gets the hidden part and the match.
    """

    name: str
    meaning: str
    literals: tuple[bytes, ...]
    pattern: bytes
    plant: Callable[[random.Random], Planted]
    check: Check | None = None
    back: int = 0
    """How many bytes before the literal the match may begin."""
    from_end: bool = False
    """The match begins at the last byte of the literal instead of its first."""
    apart: bool = False
    """The match never begins inside a word."""
    around: Around | None = None
    """Returns the part to hide from the whole text and a match in it, None where there is nothing to hide."""


def letters(rng: random.Random, alphabet: str, count: int) -> str:
    """Return ``count`` letters with two digits, capitals and small letters each, where the alphabet has them."""
    while True:
        text = "".join(rng.choice(alphabet) for _ in range(count))
        kinds = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
        if text[-1] not in "-_." and all(sum(c in kind for c in text) >= 2 for kind in kinds if set(kind) & set(alphabet)):
            return text


def mixed(secret: bytes, _match: re.Match[bytes]) -> bool:
    """Tell whether a body holds a digit and a capital, unlike words joined by dashes."""
    return _DIGIT.search(secret) is not None and _CAPITAL.search(secret) is not None


_PICTURE = lazy_pattern(rb"[A-Za-z0-9+/]{40}[+/]\Z")


def _outside_base64(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a body of plain letters is mixed and no stretch of base64, where four letters of a beginning come by chance."""
    before = match.string[max(0, match.start() - 41) : match.start()]
    return mixed(secret, match) and not (_PICTURE.search(before) and mixed(before, match))


def digits(secret: bytes, _match: re.Match[bytes]) -> bool:
    """Tell whether a body holds at least two digits."""
    return _TWO_DIGITS.search(secret) is not None


def _class(alphabet: str) -> bytes:
    plain = b"[" + re.escape(alphabet.replace("/", "").replace("%", "")).encode() + b"]"
    slash = rb"|\\{0,3}/" if "/" in alphabet else b""
    quoted = rb"|%(?:2[BbFf]|3[Dd])" if "%" in alphabet else b""
    return rb"(?:" + plain + slash + quoted + rb")" if slash or quoted else plain


def _key(
    name: str,
    meaning: str,
    prefixes: str,
    alphabet: str,
    least: int,
    *,
    most: int = LONGEST,
    check: Check | None = None,
) -> Detector:
    """Return a detector of ``prefix`` + ``least`` to ``most`` letters of ``alphabet``."""
    heads = tuple(prefixes.split())
    exact = b"(?![A-Za-z0-9])" if most == least else b""
    either = "|".join(head.replace(".", r"\.") for head in heads).encode()
    pattern = b"(?:" + either + b")" + _class(alphabet) + b"{%d,%d}+" % (least, most) + exact

    def plant(rng: random.Random) -> Planted:
        secret = rng.choice(heads) + letters(rng, alphabet.replace("%", ""), least)
        return Planted(f"run it with {secret} please", secret)

    return Detector(name, meaning, tuple(head.encode() for head in heads), pattern, plant, check, apart=True)


KEYS: tuple[Detector, ...] = (
    _key("anthropic-key", "Anthropic API or OAuth key", "sk-ant-", URLSAFE, 24, check=digits),
    _key("openrouter-key", "OpenRouter API key", "sk-or-v1-", HEX, 64, most=64),
    _key("openai-key", "OpenAI API key (also project, service-account and admin keys)", "sk-", URLSAFE, 20, check=mixed),
    _key("github-token", "GitHub personal, OAuth, user, server or refresh token", "ghp_ gho_ ghu_ ghs_ ghr_", ALNUM, 36),
    _key("github-pat", "GitHub fine-grained personal access token", "github_pat_", WORD, 40),
    _key(
        "gitlab-token",
        "GitLab access, deploy, runner or trigger token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glsoat-",
        URLSAFE,
        20,
        check=digits,
    ),
    _key("aws-key-id", "AWS access key id", "AKIA ASIA", UPPER32, 16, most=16),
    _key("google-key", "Google API key", "AIza", URLSAFE, 35, most=39),
    _key("google-oauth-secret", "Google OAuth client secret", "GOCSPX-", URLSAFE, 24),
    _key("google-access-token", "Google OAuth access token", "ya29.", URLSAFE, 30),
    _key("slack-token", "Slack token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", ALNUM + "-%.+/=", 20, check=digits),
    _key("stripe-key", "Stripe secret or restricted key", "sk_live_ sk_test_ rk_live_ rk_test_", ALNUM, 16),
    _key("stripe-webhook-secret", "Stripe webhook signing secret", "whsec_", ALNUM + "+/=", 24),
    _key("npm-token", "npm access token", "npm_", ALNUM, 36, most=36),
    _key("pypi-token", "PyPI upload token", "pypi-AgE", URLSAFE, 40),
    _key("huggingface-token", "Hugging Face token", "hf_", ALNUM, 30, most=60),
    _key("sendgrid-key", "SendGrid API key", "SG.", URLSAFE + ".", 60, most=90, check=mixed),
    _key("twilio-key", "Twilio API key", " ".join(f"SK{c}" for c in HEX), HEX, 31, most=31),
    _key("groq-key", "Groq API key", "gsk_", ALNUM, 40),
    _key("xai-key", "xAI API key", "xai-", ALNUM, 60),
    _key("perplexity-key", "Perplexity API key", "pplx-", ALNUM, 40),
    _key("replicate-token", "Replicate API token", "r8_", ALNUM, 37, most=37),
    _key("digitalocean-token", "DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", HEX, 64, most=64),
    _key("shopify-token", "Shopify access token or shared secret", "shpat_ shpca_ shppa_ shpss_", HEX + "ABCDEF", 32),
    _key("databricks-token", "Databricks personal access token", "dapi", HEX, 32, most=32),
    _key("linear-key", "Linear API key", "lin_api_ lin_oauth_", ALNUM, 40),
    _key("notion-token", "Notion integration token", "ntn_", ALNUM, 40),
    _key("vault-token", "HashiCorp Vault token", "hvs. hvb. hvr.", URLSAFE, 24),
    _key("terraform-token", "Terraform Cloud token", "atlasv1.", URLSAFE, 40),
    _key("age-secret-key", "age encryption identity", "AGE-SECRET-KEY-1", string.ascii_uppercase + string.digits, 58, most=58),
    _key("atlassian-token", "Atlassian API token", "ATATT3 ATCTT3", URLSAFE + "=", 60),
    _key("supabase-token", "Supabase access token", "sbp_", HEX, 40),
    _key("planetscale-token", "PlanetScale token or password", "pscale_tkn_ pscale_pw_ pscale_oauth_", URLSAFE, 32),
    _key("sentry-token", "Sentry auth token", "sntrys_ sntryu_", ALNUM + "_+/=", 40),
    _key("grafana-token", "Grafana service-account or cloud token", "glsa_ glc_", ALNUM + "_+/=", 32),
    _key("postman-key", "Postman API key", "PMAK-", HEX + "-", 50),
    _key("doppler-token", "Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", ALNUM + ".", 40),
    _key("docker-token", "Docker Hub access token", "dckr_pat_ dckr_oat_", URLSAFE, 24),
    _key("gitlab-oauth-token", "GitLab OAuth, agent or incoming-mail token", "gloas- glagent- glimt- glffct-", URLSAFE, 20, check=digits),
    _key("aws-bearer", "AWS Bedrock key", "ABSK", ALNUM + "+/=", 100),
    _key("huggingface-org-token", "Hugging Face organization token", "api_org_", ALNUM, 30, most=60),
    _key("brevo-key", "Brevo or Sendinblue key", "xkeysib- xsmtpsib-", ALNUM + "-", 64),
    _key("mailgun-key", "Mailgun key", "key- pubkey-", HEX, 32, most=32),
    _key("newrelic-key", "New Relic key", "NRAK- NRII- NRIQ- NRRA- NRAA- NRJS- NRSP-", URLSAFE, 19),
    _key("square-token", "Square token or secret", "sq0atp- sq0csp- sq0idp- sq0idb-", URLSAFE, 22),
    _key("square-access-token", "Square access token", "EAAA", URLSAFE, 56, check=mixed),
    _key("facebook-token", "Facebook access token", "EAAC EAAM EAAG EAAB", ALNUM, 80, check=_outside_base64),
    _key("notion-secret", "Notion integration token of the older shape", "secret_", ALNUM, 43, most=43, check=mixed),
    _key("figma-token", "Figma token", "figd_ figo_ figoh_ figor_", URLSAFE, 30),
    _key("dropbox-token", "Dropbox token", "sl.", URLSAFE + "=.", 100, check=mixed),
    _key("circleci-token", "CircleCI token", "CCIPAT_ CCIPRJ_", WORD, 40),
    _key("buildkite-token", "Buildkite token", "bkua_ bkct_ bkaj_", ALNUM, 36),
    _key("fly-token", "Fly token", "fm1r_ fm1a_ fm2_ fo1_", ALNUM + "-_+/=", 40, check=mixed),
    _key("render-key", "Render key", "rnd_", ALNUM, 26, check=mixed),
    _key("supabase-key", "Supabase secret key", "sb_secret_", URLSAFE, 24),
    _key("pulumi-token", "Pulumi token", "pul-", HEX, 40, most=40),
    _key("together-key", "Together key", "tgp_v1_", URLSAFE, 40),
    _key("langsmith-key", "LangSmith key", "lsv2_pt_ lsv2_sk_", HEX + "_", 40),
    _key("pinecone-key", "Pinecone key", "pcsk_", WORD, 40),
    _key("fireworks-key", "Fireworks key", "fw_", ALNUM, 22, most=30, check=mixed),
    _key("cerebras-key", "Cerebras key", "csk-", string.ascii_lowercase + string.digits, 40),
    _key("nvidia-key", "NVIDIA key", "nvapi-", URLSAFE, 60),
    _key("voyage-key", "Voyage key", "pa-", URLSAFE, 40, check=mixed),
    _key("tavily-key", "Tavily key", "tvly-dev- tvly-prod- tvly-", ALNUM, 24),
    _key("firecrawl-key", "Firecrawl key", "fc-", HEX, 32, most=32),
    _key("bitbucket-token", "Bitbucket app password", "ATBB", ALNUM, 28, check=mixed),
    _key("1password-token", "1Password service account", "ops_eyJ", ALNUM + "+/=", 100),
    _key("1password-key", "1Password secret key", "A3-", string.ascii_uppercase + string.digits + "-", 30, most=34, check=digits),
    _key("adobe-secret", "Adobe client secret", "p8e- p8e_", ALNUM + "-_", 32, check=digits),
    _key("alibaba-key-id", "Alibaba Cloud key id", "LTAI", ALNUM, 16, most=24, check=mixed),
    _key("clojars-token", "Clojars token", "CLOJARS_", HEX, 60, most=60),
    _key("dynatrace-token", "Dynatrace token", "dt0c01. dt0s01. dt0s02.", ALNUM + ".", 60),
    _key("easypost-key", "EasyPost key", "EZAK EZTK", ALNUM, 54, most=54),
    _key("flutterwave-key", "Flutterwave key", "FLWSECK_TEST- FLWSECK-", HEX, 12, check=digits),
    _key("frameio-token", "Frame.io token", "fio-u-", URLSAFE + "=", 60),
    _key("heroku-key", "Heroku key", "HRKU-", URLSAFE, 36),
    _key("infracost-key", "Infracost key", "ico-", ALNUM, 32, most=32, check=mixed),
    _key("prefect-key", "Prefect key", "pnu_ pnb_", ALNUM, 36, most=36),
    _key("readme-key", "ReadMe key", "rdme_", ALNUM, 60),
    _key("rubygems-key", "RubyGems key", "rubygems_", HEX, 48, most=48),
    _key("scalingo-token", "Scalingo token", "tk-us-", URLSAFE, 40),
    _key("shippo-token", "Shippo token", "shippo_live_ shippo_test_", HEX, 40, most=40),
    _key("sonarqube-token", "SonarQube token", "squ_ sqp_ sqa_", HEX, 40, most=40),
    _key("typeform-token", "Typeform token", "tfp_", URLSAFE + ".", 40),
    _key("yandex-key", "Yandex Cloud key", "AQVN", URLSAFE, 35, check=mixed),
    _key("artifactory-key", "Artifactory key", "AKCp", ALNUM, 60),
    _key("artifactory-token", "Artifactory reference token", "cmVmdGtu", ALNUM, 50),
    _key("sourcegraph-token", "Sourcegraph token", "sgp_", HEX + "_local", 40),
    _key("netlify-token", "Netlify token", "nfp_ nfc_", ALNUM, 36),
    _key("cloudflare-key", "Cloudflare origin key", "v1.0-", HEX + "-", 150),
    _key("tailscale-key", "Tailscale key", "tskey-auth- tskey-api- tskey-client- tskey-webhook-", ALNUM + "-", 20, check=digits),
    _key("posthog-key", "PostHog personal key", "phx_", ALNUM, 40),
    _key("resend-key", "Resend key", "re_", WORD, 30, most=40, check=mixed),
    _key("nuget-key", "NuGet key", "oy2", string.ascii_lowercase + string.digits, 43, most=43),
    _key("mapbox-token", "Mapbox secret token", "sk.eyJ", URLSAFE + ".", 60),
    _key("duffel-token", "Duffel token", "duffel_live_ duffel_test_", URLSAFE + "=", 40),
    _key("ionic-token", "Ionic token", "ion_", string.ascii_lowercase + string.digits, 42, most=42, check=digits),
    _key("lob-key", "Lob key", "live_", HEX, 35, most=35),
    _key("amazon-mws-token", "Amazon MWS token", "amzn.mws.", HEX + "-", 36, most=36),
)
"""Keys with a prefix of their own, the more exact prefix first."""


# Secrets of a shape that is more than a prefix and a body.


_SLASH = rb"\\{0,3}/"


def _hash(rng: random.Random) -> Planted:
    secret = f"$2b$12${letters(rng, ALNUM, 53)}"
    return Planted(f"stored as {secret} there", secret)


def _mailchimp(rng: random.Random) -> Planted:
    secret = f"{letters(rng, HEX, 32)}-us12"
    return Planted(f"run it with {secret} please", secret)


def _parts(form: str) -> Callable[[random.Random], Planted]:
    """Return what plants a token of fixed parts: ``{a14}`` are 14 letters or digits."""
    sets = {"a": ALNUM, "h": HEX, "s": URLSAFE, "d": "0123456789", "l": HEX + "ghijklmnopqrstuvwxyz"}

    def plant(rng: random.Random) -> Planted:
        secret = re.sub(r"\{(\w)(\d+)\}", lambda m: "".join(rng.choice(sets[m[1]]) for _ in range(int(m[2]) - 1)) + "7", form)
        return Planted(f"run it with {secret} please", secret)

    return plant


def _shape(name: str, meaning: str, literals: str, pattern: bytes, form: str) -> Detector:
    return Detector(name, meaning, tuple(head.encode() for head in literals.split()), pattern, _parts(form), apart=True)


_PARTED = rb"\\{0,2}" + NEXT_LINE + rb"[ \t]{0,8}"
_JOIN = rb"[a-z0-9](?:(?:B)?[a-z0-9]){5}(?:B)?\.(?:(?:B)?[a-z0-9]){16}".replace(b"B", _PARTED)
"""Six and sixteen letters, at any place of which a line may end."""


def _token_of_six(rng: random.Random) -> str:
    lower = string.ascii_lowercase + string.digits
    return f"{''.join(rng.choice(lower) for _ in range(6))}.{letters(rng, lower, 16)}"


def _join_token(rng: random.Random) -> Planted:
    secret = _token_of_six(rng)
    return Planted(f"kubeadm join 10.2.3.4:6443 --token {secret} \\\n\t--discovery-token-ca-cert-hash sha256:<hash>", secret)


def _listed_token(rng: random.Random) -> Planted:
    secret = _token_of_six(rng)
    return Planted(f"TOKEN  TTL  EXPIRES  USAGES\n{secret}   23h   2026-01-05T10:00:00Z   authentication,signing   <none>\n", secret)


SHAPES: tuple[Detector, ...] = (
    Detector(
        "kubernetes-token",
        "token with which a machine joins a cluster of Kubernetes",
        (b"--token",),
        rb"--token(?:[ =]|" + _PARTED + rb"){1,8}" + rb"(?:\\{0,7}[\"'`])?(?P<s>" + _JOIN + rb")(?![a-z0-9.])",
        _join_token,
    ),
    Detector(
        "kubernetes-token-list",
        "token in the list of kubeadm",
        (b"authentication,signing",),
        rb"(?:(?<![a-z0-9.])|(?<=\\[nrt]))[a-z0-9]{6}\.[a-z0-9]{16}(?=[ \t]+[^\n]{4,54}[ \t]authentication,signing)",
        _listed_token,
        back=80,
    ),
    _shape("airtable-token", "Airtable token", "pat", rb"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat{a14}.{h64}"),
    _shape(
        "google-refresh-token",
        "Google refresh token",
        "1//0 1\\/\\/0",
        rb"1" + _SLASH + _SLASH + rb"0[A-Za-z0-9_-]{40,400}+",
        "1//0{a60}",
    ),
    _shape(
        "asana-token",
        "Asana personal token",
        "1/1 2/1 1\\/1 2\\/1",
        rb"[12]" + _SLASH + rb"1[0-9]{12,17}(?:" + _SLASH + rb"[0-9]{12,18})?:[0-9a-f]{32}",
        "2/1{d15}/1{d15}:{h32}",
    ),
    _shape(
        "paypal-token",
        "PayPal or Braintree access token",
        "access_token$",
        rb"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        "access_token$production${l16}${h32}",
    ),
    _shape(
        "harness-token", "Harness token", "pat. sat.", rb"[ps]at\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}", "pat.{a22}.{h24}.{a20}"
    ),
    _shape(
        "newrelic-license",
        "New Relic license key",
        "eu01xx us01xx gov01x",
        rb"(?:eu|us|gov)01xx?[0-9a-f]{28,36}(?:NRAL)?",
        "eu01xx{h30}NRAL",
    ),
    Detector(
        "mailchimp-key",
        "Mailchimp key",
        tuple(f"-us{n}".encode() for n in range(1, 10)),
        rb"(?<![0-9a-zA-Z])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9a-zA-Z])",
        _mailchimp,
        back=32,
    ),
    Detector(
        "azure-client-secret",
        "Azure client secret",
        tuple(f"{n}Q~".encode() for n in range(10)),
        rb"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
        _parts("{a3}8Q~{a34}"),
        back=3,
    ),
    Detector(
        "azure-devops-token",
        "Azure DevOps token",
        (b"AZDO",),
        rb"(?<![A-Za-z0-9])[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}",
        _parts("{a76}AZDO{a4}"),
        back=76,
    ),
    Detector(
        "password-hash",
        "stored hash of a password",
        (b"$2a$", b"$2b$", b"$2y$", b"$1$", b"$5$", b"$6$", b"$7$", b"$y$", b"$apr1$", b"$argon2", b"$P$", b"$H$", b"$scrypt$"),
        rb"\$(?:2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}|(?:1|apr1)\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}"
        rb"|[56]\$(?:rounds=[0-9]{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43,86}|[PH]\$[./A-Za-z0-9]{31}"
        rb"|7\$[./A-Za-z0-9]{11,40}\$[./A-Za-z0-9]{43}|y\$[./A-Za-z0-9]{1,10}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}"
        rb"|argon2(?:id|i|d)\$(?:v=[0-9]{1,3}\$)?[a-z0-9=,]{1,60}\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,86}"
        rb"|scrypt\$[a-z0-9=,$]{1,60}\$[A-Za-z0-9+/=]{11,86}\$[A-Za-z0-9+/=]{16,120})",
        _hash,
    ),
)
"""Secrets of a shape that is more than a prefix and a body."""


# Private keys as text holds them: whole, cut, or a line at a time behind numbers, marks and quotes.


_LONGEST = 40_000
_GAP = 1_000
"""Bytes between two lines of a key: a line number, a path, a quote."""
_BREAKS = 24
"""Line breaks between two lines of a key, for its headers and for what stands around lines in JSON."""

_NAME = rb"[ +](?:[A-Z0-9]{1,12}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)? ?-{4,5}"
_BEGIN = rb"-{4,5} ?BEGIN" + _NAME + rb"|Private-Lines: ?[0-9]{1,4}(?![0-9])"
_END = rb"-{4,5} ?END" + _NAME + rb"|Private-MAC: ?[0-9a-f]{40,64}"
_PATTERN = rb"(?P<begin>" + _BEGIN + rb")|(?:" + _END + rb")"
_MARKED = lazy_pattern(_PATTERN)
_ENDED = lazy_pattern(rb"-{0,2}(?:" + _END + rb")")
_STOP = lazy_pattern(rb"----|Private-(?:MAC|Lines):")
_RUN = lazy_pattern(rb"[A-Za-z0-9+/=]{32,}")
_DRAWN = lazy_pattern(rb"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])")
_BASE64 = ALNUM.encode() + b"+/="
_FIGURES = lazy_pattern(rb"[0-9]+")


def marked(data: bytes) -> bool:
    """Tell whether the first or last line of a private key stands in a text."""
    return _MARKED.search(data) is not None


def around(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    """Return the span of the key whose first or last line was matched, None where no key stands there."""
    return _from_begin(data, match) if match["begin"] else _to_end(data, match)


def _material(run: re.Match[bytes]) -> bool:
    """Tell a line of a key from a path and a checksum."""
    text = run[0]
    return text.count(b"/") * 6 <= len(text) and _DRAWN.match(text) is not None


def _from_begin(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    known = at = match.end()
    most = at + _LONGEST
    last = None
    while at < most:
        stop = _STOP.search(data, at, known + _GAP)
        run = _RUN.search(data, at, stop.start() if stop else known + _GAP + 32)
        if run is None or data.count(b"\n", known, run.start()) > _BREAKS:
            break
        run = _RUN.match(data, run.start()) or run
        at = run.end()
        if _material(run):
            known, last = at, run
    stop = _STOP.search(data, known, most)
    ended = _ENDED.match(data, stop.start()) if stop else None
    if ended and (last or _RUN.search(data, match.end(), ended.start())):
        return match.start(), ended.end()
    return (match.start(), _cut(data, last)) if last else None


def _cut(data: bytes, last: re.Match[bytes]) -> int:
    """Return where a key ends that has no last line: a short line that stands as the last whole one does belongs to it."""
    lead = data[data.rfind(b"\n", max(0, last.start() - _GAP), last.start()) + 1 : last.start()]
    end = at = last.end()
    for _ in range(_BREAKS // 4):
        feed = data.find(b"\n", at, at + _GAP) + 1
        if not feed:
            break
        after = data.find(b"\n", feed, feed + _GAP)
        at = after if after >= 0 else min(len(data), feed + _GAP)
        line = data[feed:at].rstrip(b"\"',;\\ \t\r")
        before = line.rstrip(_BASE64)
        if len(before) < len(line) and _FIGURES.sub(b"0", before) == _FIGURES.sub(b"0", lead):
            end = feed + len(line)
            break
    return end if lead else len(data) - len(data[end:].lstrip())


def _to_end(data: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    low = max(0, match.start() - _LONGEST)
    low = max(low, data.rfind(b"----", low, match.start()) + 4)
    at, first = match.start(), None
    for run in reversed([*_RUN.finditer(data, low, match.start())]):
        if at - run.end() > _GAP or data.count(b"\n", run.end(), at) > _BREAKS:
            break
        at = run.start()
        if _material(run):
            first = run
    if first is None:
        return None
    mark = first[0][:1] == b"+" and len(first[0]) % 4 == 1
    return first.start() + mark, match.end()


def _plant(rng: random.Random) -> Planted:
    lines = "\n".join(letters(rng, ALNUM + "+/", 64) for _ in range(4))
    secret = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    return Planted(f"cat id_rsa\n{secret}\n", secret)


PRIVATE_KEY = Detector(
    "private-key",
    "private key (PEM, OpenSSH, PGP, PuTTY, also of a Google service account), the whole block or what is there of it",
    (b"-----BEGIN", b"---- BEGIN", b"-----END", b"---- END", b"Private-Lines:", b"Private-MAC:"),
    _PATTERN,
    _plant,
    around=around,
)

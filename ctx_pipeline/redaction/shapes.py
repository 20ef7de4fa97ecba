"""Secrets that are known by their own shape: a fixed prefix and a body of known letters."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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

_DIGIT = re.compile(rb"[0-9]")
_TWO_DIGITS = re.compile(rb"[0-9][^0-9]*[0-9]")
_CAPITAL = re.compile(rb"[A-Z]")

LONGEST = 400
"""No key is longer; the bound keeps hostile text linear."""


class Planted(NamedTuple):
    """An invented secret inside text that shows it, for tests."""

    text: str
    secret: str


@dataclass(frozen=True, slots=True)
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
)
"""Keys with a prefix of their own, the more exact prefix first."""

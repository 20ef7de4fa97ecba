"""Kinds of secrets as they stand in real text, each drawn anew, and the forms under which text hides them."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import string
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from ctx_pipeline.redaction.shapes import ALNUM, HEX, UPPER32, URLSAFE, Planted, letters

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.redaction import Redactor

_LOWER = string.ascii_lowercase + string.digits
_UPPER = string.ascii_uppercase + string.digits
_B64 = ALNUM + "+/"

_SETS = {
    "a": ALNUM, "l": _LOWER, "u": _UPPER, "h": HEX, "s": URLSAFE, "b": _B64, "d": string.digits, "w": ALNUM + "_", "2": UPPER32,
}  # fmt: skip
_FIELD = re.compile(r"<([alhusbdw2])(\d+)>")

_SHAPES = {
    "anthropic": "sk-ant-api03-<s93>AA",
    "openai": "sk-proj-<s100>",
    "openai legacy": "sk-<a20>T3BlbkFJ<a20>",
    "openrouter": "sk-or-v1-<h64>",
    "github classic": "ghp_<a36>",
    "github server": "ghs_<a36>",
    "github fine-grained": "github_pat_<a22>_<a59>",
    "gitlab": "glpat-<s20>",
    "gitlab feed": "glft-<s20>",
    "gitlab agent": "glagent-<s50>",
    "gitlab oauth": "gloas-<h64>",
    "aws key id": "AKIA<216>",
    "aws bearer": "ABSK<b128>",
    "google": "AIza<s35>",
    "google oauth": "GOCSPX-<s28>",
    "google access": "ya29.<s60>",
    "slack bot": "xoxb-<d12>-<d13>-<a24>",
    "slack app": "xapp-1-A<u10>-<d13>-<h64>",
    "stripe": "sk_live_<a24>",
    "stripe restricted": "rk_live_<a24>",
    "stripe webhook": "whsec_<a32>",
    "npm": "npm_<a36>",
    "pypi": "pypi-AgEIcHlwaS5vcmc<s60>",
    "hugging face": "hf_<a34>",
    "hugging face organization": "api_org_<a34>",
    "sendgrid": "SG.<s22>.<s43>",
    "sendinblue": "xkeysib-<h64>-<a16>",
    "twilio": "SK<h32>",
    "mailgun": "key-<h32>",
        "mailchimp": "<h32>-us12",
    "new relic user": "NRAK-<u27>",
    "new relic ingest": "NRII-<s32>",
    "new relic license": "eu01xx<h30>NRAL",
    "new relic browser": "NRJS-<h19>",
    "sentry": "sntrys_eyJ<a60>_<a43>",
    "sentry user": "sntryu_<h64>",
    "square": "sq0atp-<s22>",
    "square secret": "sq0csp-<s43>",
    "square production": "EAAA<s60>",
    "paypal": "access_token$production$<l16>$<h32>",
    "notion": "ntn_<a46>",
    "notion legacy": "secret_<a43>",
    "figma": "figd_<s40>",
    "airtable": "pat<a14>.<h64>",
    "dropbox": "sl.<s135>",
    "asana": "2/1<d15>/1<d15>:<h32>",
    "circleci": "CCIPAT_<a22>_<h40>",
    "buildkite": "bkua_<h40>",
    "fly": "fm2_<b120>",
    "fly oauth": "fo1_<s43>",
    "render": "rnd_<a28>",
    "supabase": "sbp_<h40>",
    "supabase secret": "sb_secret_<s31>",
    "pulumi": "pul-<h40>",
    "together": "tgp_v1_<s43>",
    "langsmith": "lsv2_pt_<h32>_<h10>",
    "pinecone": "pcsk_<w63>",
    "groq": "gsk_<a52>",
    "xai": "xai-<a80>",
    "perplexity": "pplx-<a48>",
    "replicate": "r8_<a37>",
    "fireworks": "fw_<a24>",
    "cerebras": "csk-<l48>",
    "nvidia": "nvapi-<s64>",
    "voyage": "pa-<s43>",
    "tavily": "tvly-dev-<a32>",
    "firecrawl": "fc-<h32>",
    "digitalocean": "dop_v1_<h64>",
    "shopify": "shpat_<h32>",
    "databricks": "dapi<h32>",
    "linear": "lin_api_<a40>",
    "vault": "hvs.<s90>",
    "terraform": "<a14>.atlasv1.<s67>",
    "age": "AGE-SECRET-KEY-1<258>",
    "atlassian": "ATATT3xFfGF0<s180>",
    "bitbucket app": "ATBB<a32>",
    "planetscale": "pscale_tkn_<s43>",
    "grafana": "glsa_<a32>_<h8>",
    "grafana cloud": "glc_<a60>",
    "postman": "PMAK-<h24>-<h34>",
    "doppler": "dp.pt.<a43>",
    "docker hub": "dckr_pat_<s27>",
    "1password": "ops_eyJ<b260>",
    "1password key": "A3-<u6>-<u6>-<u5>-<u5>-<u5>",
    "adobe": "p8e-<l32>",
    "alibaba": "LTAI<a20>",
    "clojars": "CLOJARS_<h60>",
    "dynatrace": "dt0c01.<u24>.<u64>",
    "easypost": "EZAK<a54>",
    "facebook": "EAAC<a120>",
    "flutterwave": "FLWSECK_TEST-<h32>-X",
    "frame.io": "fio-u-<s64>",
    "heroku": "HRKU-AA<s58>",
    "infracost": "ico-<a32>",
    "prefect": "pnu_<l36>",
    "readme": "rdme_<l70>",
    "rubygems": "rubygems_<h48>",
    "scalingo": "tk-us-<s48>",
    "shippo": "shippo_live_<h40>",
    "sonarqube": "squ_<h40>",
    "typeform": "tfp_<s59>",
    "yandex": "AQVN<s36>",
    "artifactory": "AKCp<a69>",
    "artifactory reference": "cmVmdGtu<a56>",
    "sourcegraph": "sgp_<h16>_<h40>",
    "netlify": "nfp_<a40>",
    "cloudflare origin": "v1.0-<h24>-<h146>",
    "tailscale": "tskey-auth-<a17>-<a32>",
    "posthog": "phx_<a43>",
    "resend": "re_<a8>_<a24>",
    "nuget": "oy2<l43>",
    "mapbox": "sk.eyJ<a60>.<s22>",
    "discord": "MTE<a21>.<a6>.<s38>",
    "telegram": "<d10>:AA<s33>",
    "jwt": "eyJ<a33>.eyJ<a60>.<s43>",
    "azure ad": "<a3>8Q~<s34>",
    "azure devops": "<a76>AZDO<a4>",
    "duffel": "duffel_live_<s43>",
    "ionic": "ion_<l42>",
    "lob": "live_<h35>",
    "amazon mws": "amzn.mws.<h8>-<h4>-<h4>-<h4>-<h12>",
    "harness": "pat.<s22>.<h24>.<a20>",
    "kubernetes bootstrap": "kubeadm join --token <l6>.<l16>",
    "bcrypt": "$2b$12$<a53>",
    "sha512 crypt": "$6$<a16>$<a86>",
    "argon2": "$argon2id$v=19$m=65536,t=3,p=4$<a22>$<a43>",
    "wordpress hash": "$P$B<a30>",
    "scrypt hash": "$7$C6..../....<a22>$<a43>",
}  # fmt: skip
"""kind -> a token that is known wherever it stands; ``<a36>`` are 36 letters or digits"""

_CONTEXTS = {
    ".netrc": "machine api.example.test login deploy password <a14>",
    ".pgpass": "db.example.test:5432:orders:app:<a16>",
    "docker auth": '{"auths": {"registry.example.test": {"auth": "<b40>"}}}',
    "kubeconfig": "    client-key-data: <b400>",
    "kubeconfig token": "  user:\n    token: <a60>",
    "cookie": "Cookie: theme=dark; sessionid=<l32>",
    "set-cookie": "Set-Cookie: connect.sid=s%3A<a32>.<a43>; Path=/; HttpOnly",
    "x-api-key": "x-api-key: <a32>",
    "X-Auth-Token": "X-Auth-Token: <h32>",
    "private token": "curl --header 'PRIVATE-TOKEN: <s22>' https://git.example.test",
    "authorization token": "Authorization: token <h40>",
    "authorization bearer": "Authorization: Bearer <a40>",
    "authorization basic": "Authorization: Basic <b36>",
    "authorization ssws": "Authorization: SSWS 00<a40>",
    "authorization bare": 'curl -H "Authorization: <a40>" https://api.example.test',
    "curl cookie": "curl -s -b 'sid=<l32>; theme=dark' https://app.example.test",
    "sudo piped": "echo <a12> | sudo -kS apt-get update",
    "sudo printf": "printf '%s\\n' <a12> | sudo -u root -S id",
    "sudo fed": "sudo -S id <<< <a12>",
    "chpasswd": "echo 'deploy:<a12>' | sudo chpasswd",
    "chpasswd fed": "chpasswd <<< 'deploy:<a12>'",
    "sql create user": "CREATE USER app WITH ENCRYPTED PASSWORD '<a14>';",
    "sql alter role": "alter role app with login password '<a14>'",
    "sql identified by": "CREATE USER 'app'@'%' IDENTIFIED BY '<a14>';",
    "sql set password": "SET PASSWORD FOR 'app'@'%' = '<a14>';",
    "ngrok": "ngrok config add-authtoken <a43>",
    "cargo": "cargo login <a34>",
    "authorization apikey": "Authorization: ApiKey <b60>",
    "docker login": "docker login -u dev -p <a12> registry.example.test",
    "helm registry login": "helm registry login registry.example.test -u dev -p '<a12>'",
    "oc login": "oc login https://api.example.test:6443 -u dev -p <a12>",
    "sshpass": "sshpass -p <a12> ssh deploy@host.example.test",
    "sshpass quoted": "sshpass -p '<a12>' ssh deploy@host.example.test",
    "mysql": "mysql -u root -p<a12> shop",
    "mysqldump": "mysqldump --user=root --password=<a12> shop",
    "psql": "PGPASSWORD=<a12> psql -h db.example.test shop",
    "flag": "deploy --password <a14> --verbose",
    "flag api key": "tool --api-key=<a32> list",
    "redis": "redis-cli -h cache.example.test -a <a16> ping",
    "openssl": "openssl enc -aes-256-cbc -pass pass:<a16> -in a",
    "passphrase": 'passphrase: "<a18>"',
    "aws csv": "Access key ID,Secret access key\nAKIA<216>,<b40>",
    "aws secret": "aws_secret_access_key = <b40>",
    "aws session": "AWS_SESSION_TOKEN=<b300>",
    "azure sas": "https://store.blob.core.windows.net/c/b?sv=2023-01-03&se=2026-01-01&sp=r&sig=<a43>%3D",
    "azure client secret": "AZURE_CLIENT_SECRET=<a3>8Q~<s34>",
    "azure storage": "AccountName=store;AccountKey=<b86>==;EndpointSuffix=core.windows.net",
    "odbc": "Driver={ODBC Driver 18};Server=db;Uid=app;Pwd=<a14>;",
    "ado.net": "Server=db;User Id=app;Password=<a14>;Encrypt=true",
    "git url": "git clone https://<a40>@git.example.test/team/app.git",
    "git url oauth": "https://oauth2:<a26>@git.example.test/team/app.git",
    "database url": "postgresql://app:<a14>@db.example.test:5432/app",
    "redis url": "redis://:<a20>@cache.example.test:6379/0",
    "amqp url": "amqp://app:<a14>@queue.example.test/",
    "slack webhook": "https://hooks.slack.com/services/T<u9>/B<u9>/<a24>",
    "discord webhook": "https://discord.com/api/webhooks/<d18>/<s68>",
    "teams webhook": "https://acme.webhook.office.com/webhookb2/<h8>-<h4>-<h4>-<h4>-<h12>@<h8>-<h4>-<h4>-<h4>-<h12>/IncomingWebhook/<h32>/<h8>-<h4>-<h4>-<h4>-<h12>",
    "sentry dsn": "https://<h32>@o1234.ingest.sentry.io/56",
    "mailgun private": "mailgun: <h32>-<h8>-<h8>",
    "algolia": "ALGOLIA_ADMIN_KEY=<h32>",
    "datadog": "DD_API_KEY=<h32>",
    "cloudflare": "CLOUDFLARE_API_TOKEN=<s40>",
    "heroku uuid": "HEROKU_API_KEY=<h8>-<h4>-<h4>-<h4>-<h12>",
    "travis": "TRAVIS_TOKEN: <s22>",
    "asana secret": "ASANA_CLIENT_SECRET=<h32>",
    "npmrc": "//registry.npmjs.org/:_authToken=<h8>-<h4>-<h4>-<h4>-<h12>",
    "npmrc auth": "_auth = <b40>",
    "pypirc": "[pypi]\nusername = app\npassword = <a20>",
    "maven": "<server><username>app</username><password><a16></password></server>",
    "gradle": "signing.password=<a16>",
    "ansible": "ansible_become_pass: <a14>",
    "env password": "DB_PASSWORD=<a14>",
    "yaml password": "  password: <a14>",
    "json password": '{"user": "app", "password": "<a14>"}',
    "json api key": '{"apiKey": "<a32>"}',
    "python": 'client = Client(api_key="<a32>")',
    "javascript": "const token = '<a40>';",
    "go": 'Secret: "<a32>",',
    "toml secret": 'secret_key = "<a50>"',
    "django": "SECRET_KEY = 'django-insecure-<s50>'",
    "rails": "secret_key_base: <h128>",
    "laravel": "APP_KEY=base64:<b43>=",
    "shadow": "app:$6$<a16>$<a86>:19700:0:99999:7:::",
    "htpasswd": "app:$apr1$<a8>$<a22>",
    "wpa": 'psk="<a14>"',
    "wifi": "nmcli device wifi connect home password <a14>",
    "smb": "mount -o username=app,password=<a14> //srv/share /mnt",
    "wget": "wget --user=app --password=<a14> https://example.test/a",
    "http password": "curl -u app:<a14> https://example.test",
    "ldap": "ldapsearch -D cn=admin -w <a14> -b dc=example",
    "otp": "otpauth://totp/app:me?secret=<232>&issuer=app",
    "firebase": "FIREBASE_TOKEN=1//0<s60>",
    "oauth code": "https://example.test/cb?access_token=<a40>&state=1",
    "query key": "https://maps.example.test/v1?key=<a39>&q=1",
    "prose": "the password is <a14>, please log in",
    "prose my": "My password: <a14>",
    "prose pw": "pw: <a14>, same as before",
    "prose this key": "use this key: <a32>",
    "prose German colon": "das Passwort lautet: <a14>",
    "prose German": "das Passwort ist <a14>, bitte anmelden",
    "prose French": "le mot de passe est <a14>",
    "prose Spanish": "la contraseña es <a14>",
    "prose Italian": "la password è <a14>",
    "prose Portuguese": "a senha é <a14>",
    "prose Russian": "пароль: <a14>",
    "prose Chinese": "密码是<a14>",
    "prose Japanese": "パスワードは<a14>です",
    "prose key": "use the api key <a32> for it",
    "prose token": "my token is <a40>",
    "kubeadm": "kubeadm join 10.2.3.4:6443 --token <l6>.<l16> \\\n\t--discovery-token-ca-cert-hash sha256:0a",
    "kubeadm parted": "kubeadm join 10.2.3.4:6443 \\\n  --token \\\n  <l6>.<l16> \\\n  --control-plane",
    "kubeadm list": "<l6>.<l16>   23h   2026-01-05T10:00:00Z   authentication,signing   <none>",
    "yaml below": "db:\n  password:\n    <a14>\n  port: 5432",
    "yaml block": "db:\n  password: |-\n    <a14>\n  port: 5432",
    "yaml folded key": "api_key: >-\n  <a32>\nregion: eu",
    "yaml listed": "env:\n  - name: DB_PASSWORD\n    value: <a14>\n  - name: PORT",
    "json below": '{\n  "user": "app",\n  "password":\n      "<a14>"\n}',
    "json key below": '{\n    "apiKey":\n        "<a32>",\n    "region": "eu"\n}',
    "json listed": '[\n  {\n    "name": "API_TOKEN",\n    "value": "<a32>"\n  }\n]',
    "python below": 'client = Client(\n    api_key=(\n        "<a32>"\n    ),\n)',
    "shell document": "password = <<EOT\n<a14>\nEOT",
    "xml below": "<server>\n  <password>\n    <a16>\n  </password>\n</server>",
    "prose below": "The password is:\n\n<a14>\n\nPlease log in.",
    "prose bold": "**Password:**\n```\n<a14>\n```\n",
    "prose key below": "here is the API key:\n<a32>\n",
    "prose Russian below": "пароль:\n<a14>\n",
}  # fmt: skip
"""kind -> a text; what is drawn in it is secret, and known by what stands around it"""

_WORDS = [
    "abandon",
    "ability",
    "able",
    "about",
    "above",
    "absent",
    "absorb",
    "abstract",
    "absurd",
    "abuse",
    "access",
    "accident",
    "account",
    "accuse",
    "achieve",
    "acid",
    "acoustic",
    "acquire",
    "across",
    "act",
    "action",
    "actor",
    "actress",
    "actual",
    "adapt",
    "add",
    "addict",
    "address",
    "adjust",
    "admit",
    "adult",
    "advance",
    "advice",
    "aerobic",
    "affair",
    "afford",
    "afraid",
]


class Kind(NamedTuple):
    """A kind of secret; the text of one that has no shape of its own says what it is."""

    name: str
    draw: Callable[[random.Random], Planted]
    shaped: bool


def _shape(pattern: str) -> Callable[[random.Random], Planted]:
    def draw(rng: random.Random) -> Planted:
        secret = _FIELD.sub(lambda m: _drawn(rng, m), pattern)
        secret = secret.rpartition(" ")[2]
        return Planted(f"run it with {pattern.rpartition(' ')[0]} {secret} please".replace("  ", " "), secret)

    return draw


def _context(pattern: str) -> Callable[[random.Random], Planted]:
    def draw(rng: random.Random) -> Planted:
        drawn: list[str] = []

        def one(match: re.Match[str]) -> str:
            drawn.append(_drawn(rng, match))
            return drawn[-1]

        text = _FIELD.sub(one, pattern)
        return Planted(text, max(drawn, key=len))

    return draw


def _drawn(rng: random.Random, match: re.Match[str]) -> str:
    alphabet, count = _SETS[match[1]], int(match[2])
    return (
        letters(rng, alphabet, count)
        if count >= 10
        else "".join(rng.choice(alphabet.replace("-", "").replace("_", "")) for _ in range(count))
    )


def _block(first: str, last: str) -> Callable[[random.Random], Planted]:
    def draw(rng: random.Random) -> Planted:
        lines = [letters(rng, _B64, 64) for _ in range(5)]
        return Planted("\n".join(("cat key", first, *lines, *([last] if last else []), "done")), lines[2])

    return draw


def _phrase(rng: random.Random) -> Planted:
    secret = " ".join(rng.choice(_WORDS) for _ in range(12))
    return Planted(f"my seed phrase: {secret}", secret)


KINDS: tuple[Kind, ...] = (
    *(Kind(name, _shape(pattern), shaped=True) for name, pattern in _SHAPES.items()),
    *(Kind(name, _context(pattern), shaped=False) for name, pattern in _CONTEXTS.items()),
    Kind("private key", _block("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"), shaped=False),
    Kind("PGP key", _block("-----BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP PRIVATE KEY BLOCK-----"), shaped=False),
    Kind("PuTTY key", _block("PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 5", "Private-MAC: " + "0a" * 32), shaped=False),
    Kind("cut private key", _block("-----BEGIN OPENSSH PRIVATE KEY-----", ""), shaped=False),
    Kind("seed phrase", _phrase, shaped=False),
)


class Form(NamedTuple):
    """A way to write a text, and what reads it back."""

    write: Callable[[Planted], str]
    read: Callable[[str], str]
    shaped_only: bool = False
    """whether only a secret that is known by its own shape can be found in it"""


_COLOR = re.compile("\x1b\\[[0-9;]*[A-Za-z]")


def _as_is(text: str) -> str:
    return text


def _plain(text: str) -> str:
    return _COLOR.sub("", text)


def _halves(secret: str, between: str) -> str:
    return secret[: len(secret) * 2 // 3] + between + secret[len(secret) * 2 // 3 :]


def _decoded(text: str) -> str:
    found = [text]
    runs = [run[: -1 if len(run) % 4 == 1 else None] for run in re.findall(r"[A-Za-z0-9+/]{16,}", text)]
    found += [base64.b64decode(run + "=" * (-len(run) % 4)).decode("utf-8", "replace") for run in runs]
    return "\n".join(found)


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text)


FORMS: dict[str, Form] = {
    "prompt": Form(lambda p: p.text, _as_is),
    "answer": Form(lambda p: f"Here it is:\n\n```\n{p.text}\n```\n", _as_is),
    "written file": Form(lambda p: f"# settings\n{p.text}\n# end\n", _as_is),
    "patch": Form(lambda p: "@@ -1,2 +1,2 @@\n" + "".join(f"+{line}\n" for line in p.text.splitlines()), _as_is),
    "numbered": Form(lambda p: "".join(f"    {n}\t{line}\n" for n, line in enumerate(p.text.splitlines(), 1)), _as_is),
    "color around": Form(lambda p: p.text.replace(p.secret, f"\x1b[32m{p.secret}\x1b[0m"), _plain),
    "color at each word": Form(lambda p: re.sub(r"(\S+)", "\x1b[1;31m\\1\x1b[0m", p.text), _plain),
    "color inside": Form(lambda p: p.text.replace(p.secret, _halves(p.secret, "\x1b[0m\x1b[1m")), _plain),
    "JSON": Form(lambda p: json.dumps({"command": p.text}), lambda text: text.replace('\\"', '"').replace("\\n", "\n")),
    "JSON in JSON": Form(lambda p: json.dumps({"arguments": json.dumps({"command": p.text})}), lambda text: text.replace("\\", "")),
    "unicode escapes": Form(lambda p: _escaped(p.text), _unescaped),
    "URL": Form(lambda p: f"https://example.test/?q={quote(p.text, safe='')}", unquote),
    "HTML": Form(lambda p: f"<p>{html.escape(p.text)}</p>", html.unescape),
    "base64": Form(lambda p: f"data: {base64.b64encode((len(p.secret) % 3 * ' ' + p.text).encode()).decode()}\n", _decoded),
    "broken line": Form(lambda p: p.text.replace(p.secret, _halves(p.secret, "\n")), lambda text: text.replace("\n", ""), shaped_only=True),
}
"""name -> form"""


def leaks(redactor: Redactor) -> tuple[int, list[tuple[str, str]]]:
    """Return how many pairs of kind and form there are, and those of which the secret can still be read."""
    found: list[tuple[str, str]] = []
    pairs = 0
    for kind in KINDS:
        for name, form in FORMS.items():
            if form.shaped_only and not kind.shaped:
                continue
            planted = kind.draw(random.Random(f"{kind.name} {name}"))
            text = form.write(planted)
            pairs += 1
            kept = redactor.redact(text) if redactor.suspects([text]) else text
            if planted.secret in form.read(kept):
                found.append((kind.name, name))
    return pairs, found

"""Secrets that are known by what stands before them: a command, a header, a line of a settings file, words of prose."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.redaction.shapes import ALNUM, BELOW, BREAK, HEX, WHERE, Detector, Planted, digits, letters, mixed
from ctx_pipeline.redaction.written import of_words, scrambled

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from ctx_pipeline.redaction.shapes import Check

_GAP = rb"(?:[ \t\r\n]|\\{1,4}[nrt])"
SPACE = rb"(?:[ \t]|\\{1,4}t)"
QUOTE = rb"(?:\\{0,7}[\"'`])"
SLASH = rb"\\{0,3}/"
_B64 = rb"(?:[A-Za-z0-9+=_-]|\\{0,3}/)"
_CRUMB = rb"(?:(?!&quot;|&#)[^\s;\"'`\\<>\[\]\x1b\xc2])"
WORD = rb"(?P<s>(?!\xc2\x9b)[^\s\"'`\\,;&|<>()\[\]{}$*\x1b-][^\s\"'`\\,;&|<>()\[\]{}\x1b\xc2]{3,200}+)"
"""A value as a command line gives it, unless it is a variable, a path in quotes or a flag."""

_ASKED = rb"sudo(?:[ \t]+-u[ \t]+[^\s|;&]{1,40}|[ \t]+-[A-Za-z-]{1,20}){0,4}?[ \t]+(?:-[A-Za-z]{0,6}S|--stdin)\b"
"""sudo as it reads a password from its input."""

_TURN = lazy_pattern(rb"[A-Za-z][0-9]|[0-9][A-Za-z]")
_DIGIT = lazy_pattern(rb"[0-9]")
_MIXED = lazy_pattern(rb"(?=.*[0-9])(?=.*[a-z].*[a-z])(?=.*[A-Z].*[A-Z])", re.DOTALL)
_WORDY = lazy_pattern(rb"[a-z]+(?:[-_/.][a-z]+)*[0-9]{0,2}[.:!?]?", re.IGNORECASE)


def value(secret: bytes, _match: re.Match[bytes]) -> bool:
    """Tell a value from a variable, a placeholder, stars and what was replaced."""
    return _is_value(secret)


@lru_cache(2_048)
def _is_value(secret: bytes) -> bool:
    stars = len(set(secret)) < 4
    return not (stars or secret[:1] in b"${%*<" or secret.endswith((b"}", b">")) or b"REDACTED" in secret or b"/" in secret[:2])


def drawn(secret: bytes, _match: re.Match[bytes]) -> bool:
    """Tell whether a value looks drawn and not written: digits among letters."""
    return _looks_drawn(secret)


@lru_cache(2_048)  # a text that repeats itself asks for one value at every place
def _looks_drawn(secret: bytes) -> bool:
    if not _is_value(secret) or (_WORDY.fullmatch(secret) and not scrambled(secret)):
        return False
    turns = len(_TURN.findall(secret))
    return (len(_DIGIT.findall(secret)) >= 2 and turns >= 2) or (turns >= 1 and len(secret) >= 10 and _MIXED.match(secret) is not None)


def long_drawn(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a value that looks drawn is as long as a key."""
    return len(secret) >= 16 and drawn(secret, match)


def _holds_drawn(secret: bytes, match: re.Match[bytes]) -> bool:
    return any(long_drawn(part, match) for part in re.split(rb"[=;:,. %]+", secret))


def like(text: str, alphabet: str = ALNUM, count: int = 14) -> Callable[[random.Random], Planted]:
    """Return what plants a drawn secret in a text, at ``<s>``."""

    def plant(rng: random.Random) -> Planted:
        secret = letters(rng, alphabet, count)
        return Planted(text.replace("<s>", secret), secret)

    return plant


def after(  # noqa: PLR0917 - a row of the table below
    name: str,
    meaning: str,
    literals: str | tuple[str, ...],
    pattern: bytes,
    plant: Callable[[random.Random], Planted],
    check: Check | None = value,
) -> Detector:
    """Return a row of a table: what stands after words that tell it, with the words given apart or as one text of several."""
    heads = literals.split() if isinstance(literals, str) else literals
    return Detector(name, meaning, tuple(head.encode() for head in heads), pattern, plant, check)


_SERVICES = (
    "adafruit", "airtable", "algolia", "asana", "bitbucket", "bittrex", "cloudflare", "codecov", "cohere", "coinbase", "confluent",
    "contentful", "datadog", "discord", "dropbox", "etsy", "facebook", "fastly", "finnhub", "flickr", "freshbooks", "gitter", "gocardless",
    "heroku", "hubspot", "intercom", "jfrog", "kraken", "kucoin", "launchdarkly", "linkedin", "looker", "mailchimp", "mailgun", "mapbox",
    "mattermost", "meraki", "messagebird", "mistral", "netlify", "nytimes", "okta", "paypal", "plaid", "rapidapi", "sendbird", "shodan",
    "snyk", "squarespace", "sumologic", "travis", "trello", "twitch", "twitter", "zendesk", "zoom",
)  # fmt: skip

_IN_PROSE = (
    (rb"assword", (rb" is ", rb" was ", b": ", " è ".encode())),
    (rb"pw", (b": ", b" is ")),
    (rb"asswort", (rb" ist ", rb" lautet ", rb" lautet: ", rb": ")),
    (rb"mot de passe", (rb" est ", rb" : ", rb": ")),
    ("ontraseña".encode(), (b" es ", b": ")),
    (b"senha", (" é ".encode(), b": ")),
    ("ароль".encode(), (b": ", " это ".encode(), b" - ", " — ".encode())),
    ("密码".encode(), ("是".encode(), "\uff1a".encode(), b": ", b":")),
    ("パスワード".encode(), ("は".encode(), "\uff1a".encode(), b": ")),
    ("비밀번호".encode(), ("는 ".encode(), b": ")),
    (rb"achtwoord", (rb" is ", rb": ")),
    ("hasło".encode(), (b": ", b" to ")),
)


def _forms(words: bytes) -> tuple[bytes, ...]:
    """Return words as they are, as JSON and JSON in JSON write letters beyond ASCII, and as an address does, where these differ."""
    once = json.dumps(words.decode())[1:-1]
    address = quote(words).encode() if len(words) != len(words.decode()) else words
    return words, once.encode(), once.replace("\\", "\\\\").encode(), address


_APART, _TOUCHING = (
    tuple(
        dict.fromkeys(
            form for name, links in _IN_PROSE for link in links if link.endswith(b" ") is spaced for form in _forms(name + link.rstrip())
        )
    )
    for spaced in (True, False)
)
"""Those that a blank or a line break parts from what they name, and those that it need not."""
_NEXT = rb":?(?:\*\*)?(?=[ \t\r\n\\])" + BELOW
"""What stands between a sentence and what it tells, also where that is on the next line."""


_LABELS = (
    *(b"assword", b"ASSWORD", b"assphrase", b"asscode", b"asswort", b"ot de passe", "ontraseña".encode(), b"enha"),
    *("ароль".encode(), "密码".encode(), "パスワード".encode(), "비밀번호".encode(), b"achtwoord", "asło".encode()),
)
_KEY_LABELS = (
    *(b"API key", b"API Key", b"Api key", b"Api Key", b"api key", b"API KEY"),
    *(b"oken", b"TOKEN", b"ecret", b"SECRET", b"ccess key", b"ccess Key", b"ecret key", b"ecret Key", b"ecret access key"),
)
_LABEL = lazy_pattern(
    rb"(?:" + WHERE + rb")?(?:[\s>#*/;|+-]|\xe2\x80\xa2|\d{1,5}(?:[.):\t]|\xe2\x86\x92))*"
    rb"(?:(?:your|my|the|new|old|current|default|initial|temporary|temp|one-time|generated|admin|root|user|username|login|account|database"
    rb"|db|master|ssh|smtp|e?mail|wi-?fi|network|router|server|staging|production|prod|dev|test|access|client|bot|personal|service|app"
    rb"|application|auth|bearer|refresh|session|signing|shared|webhook|private|deploy|registry|ihr|dein|das|votre|le|tu|la)[ ]){0,3}"
    rb"(?:password|passphrase|passcode|passwort|mot de passe|senha|wachtwoord|"
    + "contraseña|Пароль|пароль|密码|パスワード|비밀번호|hasło".encode()
    + rb"|(?:api|access|secret|secret access|signing|private) key|(?:api |access )?token|secret)",
    re.IGNORECASE,
)
"""A line that is a label and nothing else: marks, the number of a line, words that say whose secret it is, what it is."""
_LABEL_OF_NAME = lazy_pattern(
    rb"(?:" + WHERE + rb")?[\s>#*/;|+\-]*(?:user(?: ?name)?|login|e-?mail(?: address)?|account|name|id)\**[ \t]*",
    re.IGNORECASE,
)
_WRITTEN = lazy_pattern(
    rb"[A-Za-z]{2,}[0-9]{0,3}(?:[-_./:]+[A-Za-z]*[0-9]{0,4})*|(?:[A-Z][a-z]+[0-9]?){2,}|[A-Za-z]+[-_]v?[0-9]+(?:\.[0-9]+)+[\w.-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|v?[0-9]+(?:[.:,][0-9]+)+\S*"
    rb"|[^@\s]+@[A-Za-z0-9-]+\.[A-Za-z.]+|[a-z0-9+.-]+://.*|[0-9a-f]{32,}|(?:sha|SHA|md|MD)[0-9]+.*|(?:TLS|SSL)v?[0-9][0-9.]*(?:[-+_:/][A-Z0-9]+)*|.*\.[a-z]{1,4}[0-9]?"
)
"""What is no secret below a label: words and names, times, versions, addresses, digests, files."""
_SIGN = lazy_pattern(rb"[!@#$%^*?+=~]")
_LOWER, _UPPER = lazy_pattern(rb"[a-z]"), lazy_pattern(rb"[A-Z]")
_LINE_MARK = rb"(?:" + WHERE + rb"|(?:#|//|--|;)[ ]| {0,7}[0-9]{1,5}(?:\t|\\{1,4}t|\xe2\x86\x92)|[+>])?(?:[ \t]|\\{1,4}t){0,12}+"
_BELOW_LABEL = (
    rb"\*?[ \t]{0,3}(?:"
    + BREAK
    + _LINE_MARK
    + rb"){1,2}+(?:(?:[-=]{3,40}|`{3}[a-z]{0,12})"
    + BREAK
    + _LINE_MARK
    + rb")?+(?:(?P<other>(?![^\s\\]{0,60}[0-9][^\s\\]{0,60}[^0-9\s\\])[^\s\"'`\\<>]{1,60})"
    + BREAK
    + _LINE_MARK
    + rb")?+(?:[-*] )?[`\"']?"
)
_LINE_ENDS = rb"(?=[`\"']?[ \t]{0,8}(?:" + BREAK + rb"|\\{0,7}\"|\Z|\x00|<|\x1b))"


_LINES = lazy_pattern(rb"\r?\n|\\{1,4}n|[\"\x00]")


def _labeled(match: re.Match[bytes]) -> bool:
    """Tell whether the line before a match is a label alone; where a line lies between, also the one above, of what that says."""
    *_, above, line = [b"", *_LINES.split(match.string[max(0, match.start() - 160) : match.start()])]
    return _LABEL.fullmatch(line.rstrip(b"* \r\\")) is not None and (match["other"] is None or _LABEL_OF_NAME.fullmatch(above) is not None)


def _password_below(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether what stands below a label is a password: it looks drawn, or has small, capital, figure and sign."""
    if not value(secret, match) or _WRITTEN.fullmatch(secret) or not _labeled(match):
        return False
    figures = len(_DIGIT.findall(secret))
    if all(kind.search(secret) for kind in (_LOWER, _UPPER, _DIGIT, _SIGN)):
        return True
    return drawn(secret, match) and (figures >= 2 or _SIGN.search(secret) is not None)


def _key_below(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether what stands below the label of a key or token is one, and no digest."""
    return long_drawn(secret, match) and not _WRITTEN.fullmatch(secret) and not of_words(secret) and _labeled(match)


def _under(labels: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(label.decode() + end for label in labels for end in ("\n", "\r", "\\", " \n", "**\n", "**\\"))


def _phrase(rng: random.Random) -> Planted:
    words = [
        "absorb",
        "canyon",
        "drastic",
        "elbow",
        "fossil",
        "gadget",
        "hazard",
        "ivory",
        "jungle",
        "kidney",
        "lizard",
        "magnet",
        "noble",
        "orchard",
        "puzzle",
        "quantum",
    ]
    secret = " ".join(rng.choice(words) for _ in range(12))
    return Planted(f"seed phrase: {secret}", secret)


def _cookie(rng: random.Random) -> Planted:
    secret = f"theme=dark; sessionid={letters(rng, ALNUM, 32)}"
    return Planted(f"Cookie: {secret}", secret)


def _curl_cookie(rng: random.Random) -> Planted:
    secret = f"sid={letters(rng, ALNUM, 32)}; theme=dark"
    return Planted(f"curl -s -b '{secret}' https://example.test", secret)


CONTEXTS: tuple[Detector, ...] = (
    after(
        "netrc",
        "password of .netrc",
        ("login ", "login\\t", "login\n"),
        rb"login" + _GAP + rb"{1,4}[^\s\"'\\]{1,100}" + _GAP + rb"{1,8}password" + _GAP + rb"{1,4}" + WORD,
        like("machine api.example.test login deploy password <s>"),
    ),
    after(
        "pgpass",
        "password of .pgpass",
        ":5432: :5433: :6432: :*:",
        rb":(?:[0-9]{4,5}|\*):[^:\s\"'\\]{1,80}:[^:\s\"'\\]{1,80}:(?P<s>(?:(?!&quot;|&#)[^\s\"'`\\:<>\[\]\x1b\xc2]){4,200}+)",
        like("db.example.test:5432:orders:app:<s>"),
        drawn,
    ),
    after(
        "stored-auth",
        "credentials in the settings of Docker or npm",
        ('auth"', "auth\\", "_auth ", "_auth=", "_auth:"),
        rb"_?auth\\{0,7}\"?\\{0,7}" + _GAP + rb"{0,4}[:=]" + _GAP + rb"{0,4}" + QUOTE + rb"?(?P<s>" + _B64 + rb"{12,400}+)",
        like('{"auths": {"registry.example.test": {"auth": "<s>"}}}', ALNUM, 40),
        mixed,
    ),
    after(
        "kubeconfig-key",
        "key data of a kubeconfig",
        "client-key-data",
        rb"client-key-data" + QUOTE + rb"?:" + _GAP + rb"{0,4}" + QUOTE + rb"?(?P<s>" + _B64 + rb"{24,8000}+)",
        like("    client-key-data: <s>", ALNUM, 300),
        digits,
    ),
    after(
        "cookie",
        "cookies of a request or a response",
        ("Cookie", "cookie:", 'cookie":', "cookie\\"),
        rb"(?i:cookie)"
        + QUOTE
        + rb"?[ \t]?[:=][ \t]?"
        + QUOTE
        + rb"?(?P<s>[A-Za-z0-9_.$%-]{1,100}="
        + _CRUMB
        + rb"{1,3000}+(?:;[ ]?[A-Za-z0-9_.$%-]{1,100}(?:="
        + _CRUMB
        + rb"{0,3000}+)?)*+)",
        _cookie,
        _holds_drawn,
    ),
    after(
        "authorization",
        "token of an Authorization header",
        "uthorization UTHORIZATION",
        rb"(?i:uthorization)"
        + QUOTE
        + rb"?[ \t]?[:=][ \t]?"
        + QUOTE
        + rb"?(?i:token|apikey|api-key|key|bot|splunk|basic|digest|negotiate|sso-key|ssws)"
        rb"[ \t]{1,4}(?:token=)?" + QUOTE + rb"?(?P<s>" + rb"(?:[A-Za-z0-9+=_.:~-]|\\{0,3}/)" + rb"{12,4000}+)",
        like("Authorization: token <s>", HEX, 40),
        drawn,
    ),
    after(
        "bare-authorization",
        "token of an Authorization header without a scheme",
        "uthorization UTHORIZATION",
        rb"(?i:uthorization)" + QUOTE + rb"?[ \t]?[:=][ \t]?" + QUOTE + rb"?(?P<s>(?:[A-Za-z0-9+=_.:~-]|\\{0,3}/){20,4000}+)(?![ \t(\[])",
        like("Authorization: <s>", ALNUM, 40),
        long_drawn,
    ),
    after(
        "sshpass",
        "password given to sshpass",
        "sshpass",
        rb"sshpass[ \t]+-p[ \t]*" + QUOTE + rb"?" + WORD,
        like("sshpass -p <s> ssh host"),
    ),
    after(
        "curl-cookie",
        "cookies given to curl",
        (" -b ", " --cookie ", " --cookie="),
        rb" (?:-b|--cookie)[ =]{1,3}"
        + QUOTE
        + rb"?(?P<s>[A-Za-z0-9_.$%-]{1,100}="
        + _CRUMB
        + rb"{1,3000}+(?:;[ ]?[A-Za-z0-9_.$%-]{1,100}(?:="
        + _CRUMB
        + rb"{0,3000}+)?)*+)",
        _curl_cookie,
        _holds_drawn,
    ),
    after(
        "piped-password",
        "password piped to sudo or chpasswd",
        ("echo ", "printf "),
        rb"(?:echo|printf)[ \t]+(?:-[a-zA-Z]+[ \t]+)?(?:"
        + QUOTE
        + rb"?%s[^ \t]{0,6}[ \t]+)?"
        + QUOTE
        + rb"?(?:[A-Za-z0-9_.-]{1,40}:(?=[^|\n]{0,200}\|[^|;\n]{0,40}chpasswd))?+"
        + WORD
        + QUOTE
        + rb"?[ \t]*\|[ \t]*(?:"
        + _ASKED
        + rb"|(?:sudo[ \t]+)?chpasswd|passwd[ \t]+--stdin)",
        like("echo <s> | sudo -S apt update"),
    ),
    after(
        "fed-password",
        "password that sudo or chpasswd reads from a string",
        ("sudo ", "chpasswd"),
        rb"(?:"
        + _ASKED
        + rb"[^|;&<\n]{0,60}<<<[ \t]*"
        + QUOTE
        + rb"?|chpasswd[ \t]*<<<[ \t]*"
        + QUOTE
        + rb"?[A-Za-z0-9_.-]{1,40}:)"
        + WORD,
        like('sudo -S whoami <<< "<s>"'),
    ),
    after(
        "login-token",
        "token given to the login of ngrok or cargo",
        ("authtoken ", "add-authtoken ", "cargo login "),
        rb"(?:(?:add-)?authtoken|cargo login)[ \t]{1,3}" + QUOTE + rb"?(?P<s>[A-Za-z0-9_-]{20,200}+)",
        like("ngrok config add-authtoken <s>", ALNUM, 43),
        long_drawn,
    ),
    after(
        "login-password",
        "password given to the login of a registry or cluster",
        (
            "docker login",
            "podman login",
            "nerdctl login",
            "buildah login",
            "skopeo login",
            "registry login",
            "az login",
            "oc login",
            "cf login",
        ),
        rb"(?:docker|podman|nerdctl|buildah|skopeo|registry|az|oc|cf) login[ \t](?:[^\n\\|;&]|\\(?![nr])){0,200}?(?<=[ \t])-p[ \t=]{1,4}"
        + QUOTE
        + rb"?"
        + WORD,
        like("docker login -u dev -p <s> registry.example.test"),
    ),
    after(
        "mysql-password",
        "password given to a client of MySQL",
        "mysql mariadb",
        rb"(?:mysql|mariadb)[a-z-]{0,12}[ \t][^\n|;&]{0,200}?(?<=[ \t])-p" + QUOTE + rb"?" + WORD,
        like("mysql -u root -p<s> shop"),
    ),
    after(
        "redis-password",
        "password given to redis-cli",
        "redis-cli",
        rb"redis-cli[^\n|;&]{0,200}?[ \t]-a[ \t]+" + QUOTE + rb"?" + WORD,
        like("redis-cli -a <s> ping"),
    ),
    after(
        "ldap-password",
        "password given to a client of LDAP",
        "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd",
        rb"ldap[a-z]{3,8}[^\n|;&]{0,200}?[ \t]-w[ \t]+" + QUOTE + rb"?" + WORD,
        like("ldapsearch -D cn=admin -w <s> -b dc=shop"),
    ),
    after(
        "openssl-password",
        "password given to openssl",
        ("pass pass:", "passin pass:", "passout pass:"),
        rb"pass(?:in|out)? pass:" + WORD,
        like("openssl enc -pass pass:<s> -in a"),
    ),
    after(
        "nmcli-password",
        "password given to nmcli",
        "nmcli",
        rb"nmcli[^\n|;&]{0,200}?[ \t](?:password|wifi-sec\.psk)[ \t]+" + QUOTE + rb"?" + WORD,
        like("nmcli device wifi connect home password <s>"),
    ),
    after(
        "wifi-key",
        "key of a wireless network",
        "psk= wpa_passphrase=",
        rb"(?:psk|wpa_passphrase)=" + QUOTE + rb"?" + WORD,
        like('psk="<s>"'),
        drawn,
    ),
    after(
        "aws-key-pair",
        "AWS secret access key beside its id",
        "AKIA ASIA",
        rb"A[KS]IA[A-Z0-9]{16}"
        + QUOTE
        + rb"?(?:,|:|"
        + SPACE
        + rb"){1,4}"
        + QUOTE
        + rb"?(?P<s>(?:[A-Za-z0-9+]|\\{0,3}/){40})(?![A-Za-z0-9+/])",
        like("AKIA1098QYLP1098HHHF,<s>", ALNUM, 40),
        mixed,
    ),
    after(
        "signed-url",
        "signature of a signed URL",
        "sig= Signature=",
        rb"(?:sig|Signature)=(?P<s>(?:[A-Za-z0-9+_-]|\\{0,3}/|%2[BbFf]){32,200}(?:=|%3[dD]){0,2})",
        like("https://store.blob.core.windows.net/c/b?sp=r&sig=<s>", ALNUM, 43),
        mixed,
    ),
    after(
        "connection-password",
        "password in a connection string",
        ";Pwd= ;pwd= ;PWD= ;Password= ;password=",
        rb";(?i:pwd|password)=" + WORD,
        like("Server=db;Uid=app;Pwd=<s>;"),
    ),
    after(
        "url-token",
        "token in front of the host of a URL",
        ":// :\\/\\/",
        rb":" + SLASH + SLASH + rb"(?P<s>[A-Za-z0-9_-]{20,255}+)(?::[^\s@/]{0,40})?@(?=[A-Za-z0-9])",
        like("git clone https://<s>@git.example.test/team/app.git", ALNUM, 40),
        long_drawn,
    ),
    after(
        "teams-webhook",
        "Microsoft Teams webhook",
        "webhook.office.com",
        rb"webhook\.office\.com" + SLASH + rb"webhookb2" + SLASH + rb"(?P<s>(?:[A-Za-z0-9@-]|\\{0,3}/){60,400}+)",
        like("https://acme.webhook.office.com/webhookb2/<s>", HEX, 80),
    ),
    after(
        "xml-password",
        "password in an element of XML",
        "<password> <passphrase> <secret> <token> <apiKey> <privateKey>",
        rb"<(?:password|passphrase|secret|token|apiKey|privateKey)>" + BELOW + rb"(?P<s>[^\s<>\"'\\]{6,400}+)(?=" + BELOW + rb"<)",
        like("<server><password><s></password></server>"),
    ),
    after(
        "signing-secret",
        "secret that signs sessions",
        ("secret_key_base", "django-insecure-"),
        rb"(?:secret_key_base"
        + QUOTE
        + rb"?"
        + _GAP
        + rb"{0,4}[:=]>?"
        + _GAP
        + rb"{0,4}"
        + QUOTE
        + rb"?|(?=django-insecure-))(?P<s>(?:(?!&quot;|&#)[^\s\"'\\<>\[\]\x1b\xc2]){30,400}+)",
        like("secret_key_base: <s>", HEX, 128),
    ),
    after(
        "query-key",
        "key in the address of a request",
        "?key= &key= ?token= &token= ?apikey= &apikey= ?sig= ?code= &code=",
        rb"[?&](?:key|token|apikey|sig|code)=(?P<s>[A-Za-z0-9_.~-]{20,400}+)",
        like("https://maps.example.test/v1?key=<s>&q=1", ALNUM, 39),
        long_drawn,
    ),
    after(
        "service-key",
        "key beside the name of a service",
        tuple(form for name in _SERVICES for form in (name, name.upper(), name.title())),
        rb"(?i:"
        + b"|".join(name.encode() for name in _SERVICES)
        + rb")[A-Za-z0-9_.-]{0,24}"
        + QUOTE
        + rb"?\]?[ \t]{0,2}(?:=>|:=|=|:)[ \t]{0,2}"
        + QUOTE
        + rb"?(?P<s>[A-Za-z0-9_=-]{20,200}+)(?![A-Za-z0-9_./(])",
        like("ALGOLIA_ADMIN_KEY=<s>", HEX, 32),
        long_drawn,
    ),
    Detector(
        "said-password",
        "password that somebody tells in prose",
        (*_APART, *_TOUCHING, b"pw: "),
        b"(?:(?:"
        + b"|".join(map(re.escape, _APART))
        + b")"
        + _NEXT
        + b"|(?:"
        + b"|".join(map(re.escape, _TOUCHING))
        + b")"
        + BELOW
        + b")"
        + QUOTE
        + rb"?(?P<s>[!-~]{6,80}?)(?=[.,;!?]?(?:[\s\"'`\\)]|\Z)|[^\x00-\x7f]|&|<)",
        like("the password is <s>, please log in"),
        drawn,
    ),
    after(
        "said-key",
        "key that somebody tells in prose",
        (
            *("api key", "api-key", "API key", "API-key", "API Key", "oken is", "key is", "ecret is"),
            *("his key:", "y key:", "his token:", "y token:"),
        ),
        rb"(?:(?:api|API)[ -][kK]ey(?: is)?|(?:oken|key|ecret) is|(?:his|y) (?:key|token)(?=:))"
        + _NEXT
        + QUOTE
        + rb"?(?P<s>[A-Za-z0-9_.-]{16,400}+)(?![(\[])",
        like("use the api key <s> for it", ALNUM, 32),
        long_drawn,
    ),
    Detector(
        "labeled-password",
        "password in the line below its label",
        tuple(label.encode() for label in _under(_LABELS)),
        _BELOW_LABEL + rb"(?P<s>(?=[!-~]{0,60}[0-9])[^\s\"'`\\<>()\[\]{},;|\x00\x1b\x80-\xff]{8,80}+)" + _LINE_ENDS,
        like("Username\ndeploy\nPassword\n<s>\n"),
        _password_below,
        from_end=True,
    ),
    Detector(
        "labeled-key",
        "key or token in the line below its label",
        tuple(label.encode() for label in _under(_KEY_LABELS)),
        _BELOW_LABEL + rb"(?P<s>(?:[A-Za-z0-9_.+=~:-]|\\{0,3}/){16,400}+)" + _LINE_ENDS,
        like("Client id\nshop-web\nClient secret\n<s>\n", ALNUM, 32),
        _key_below,
        from_end=True,
    ),
    after(
        "seed-phrase",
        "words from which a wallet is made",
        ("seed phrase", "Seed phrase", "nemonic", "ecovery phrase", "NEMONIC"),
        rb"(?:eed phrase|nemonic|ecovery phrase|NEMONIC|[sS]eed phrase)"
        + QUOTE
        + rb"?[ \t]{0,2}(?:is|[:=])[ \t]{1,2}"
        + QUOTE
        + rb"?(?P<s>[a-z]{3,8}(?:(?: |\n)[a-z]{3,8}){11,23}+)",
        _phrase,
        None,
    ),
)
"""Secrets without a shape of their own."""

"""Every kind of secret that is looked for, in order of precedence."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.redaction.commands import COMMANDS
from ctx_pipeline.redaction.contexts import CONTEXTS, SLASH
from ctx_pipeline.redaction.shapes import ALNUM, BELOW, HEX, KEYS, PRIVATE_KEY, SHAPES, URLSAFE, Detector, Planted, digits, letters
from ctx_pipeline.redaction.written import a_time, named, scrambled

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

__all__ = ["DETECTORS", "Detector"]


# Secrets that have no shape of their own: a telling name, and a value that is no code.


_PASSWORD_TAILS = ("assword", "asswd", "assphrase", "ASSWORD", "ASSWD", "ASSPHRASE", "_pwd", "_PWD", "-pwd", "_pass", "_PASS")
_SECRET_TAILS = ("ecret", "ECRET", "redential", "redentials", "REDENTIAL", "REDENTIALS")
_TOKEN_TAILS = ("oken", "OKEN")
_KEY_TAILS = tuple(
    form
    for first in ("api", "access", "secret", "private", "auth", "account", "encryption", "signing", "master", "service", "app")
    for form in (
        *(f"{first}_key", f"{first}-key", f"{first}key", f"{first}Key", f"{first.title()}Key", f"{first}_KEY".upper()),
        *(f"{first.title()}-Key", f"{first.upper()}-Key", f"{first.upper()}-KEY"),  # headers, as their names are written
    )
)
_SEPARATORS = ("=", ":", " =", " :", '"', "'", "\\", "]", "**")

_GAPS = rb"(?:[ \t\r\n]|\\{1,4}[nrt]){0,4}+"
_BLOCK = rb"(?:\*\*)?+(?:[ \t]{0,4}+(?:[|>][+-]?|<<[-~]?[A-Z]{2,12})(?=[\r\n]|\\{1,4}[nr]))?+"
"""Stars behind a name, and what begins a block of YAML or of a shell."""


def _run(plain: bytes) -> bytes:
    """Return the pattern of a value: 6 letters or more of a class, with a few JSON escapes among them.

    A run of plain letters is one step of the machine: hostile text repeats the name thousands of times.
    """
    escape = rb"(?:\\/|\\u[0-9a-fA-F]{4})"
    return rb"(?=(?:" + plain + rb"|" + escape + rb"){6})" + plain + rb"{0,400}+(?:" + escape + plain + rb"{0,80}+){0,40}+"


_VALUE = (
    rb"\\{0,7}[\"']?\]?"
    + _GAPS
    + rb"(?::" + _GAPS + rb"(?:str|string|String|SecretStr)(?: ?\| ?(?:None|null|undefined))?" + _GAPS + rb"=(?!=)|=>|:=|[:=](?![=:]))"
    + _BLOCK
    + BELOW
    + rb"(?:(?:\(" + BELOW + rb")?[rbfu]{0,2}(?P<q>\\{0,7}[\"'`])(?P<quoted>" + _run(rb"[^\s\"'`\\]") + rb")(?P=q)"
    + rb"|(?P<bare>" + _run(rb"[^\s\"'`\\,;(){}\[\]<>&|]") + rb")(?![(\[{`]))"
)  # fmt: skip
_FLAG_VALUE = rb" {1,3}\\{0,7}[\"']?(?P<bare>[^\s\"'`\\,;(){}\[\]<>&|$-][^\s\"'`\\,;(){}\[\]<>&|]{5,400}+)"

_DIGIT = lazy_pattern(rb"[0-9]")
_TURN = lazy_pattern(rb"[A-Za-z][0-9]|[0-9][A-Za-z]")
_PLACEHOLDER = lazy_pattern(
    rb"(?:x{3,}|\.{3,}|\*+|your|my[-_]|example|change[-_]?me|placeholder|dummy|fake|sample|redacted|none|null|nil|true|false|undefined|todo"
    rb"|latest|return\Z|raise\Z|(?:un)?reserved\Z|required|optional|string|text|hidden|input|field|invalid|missing|empty|process\.|os\.|env\.|self\.|this\.|config\.|settings\.|args\.)",
    re.IGNORECASE,
)
_VARIABLE = lazy_pattern(rb"\$.*|<.*>?|%.*%|%\(?\w*\)?s?|\{.*|.*\}\}?|@.*|#.*|\[REDACTED:.*|-+|[^A-Za-z0-9]*")
_PATH = lazy_pattern(rb"(?:[a-z]+:/|\.{0,2}/|~/|[A-Z]:\\).*|\w+/[\w./-]*")
_IDENTIFIER = lazy_pattern(rb"[A-Za-z_$]+(?:[_\-.:/?!]{1,2}[A-Za-z]+)*[_\-]?v?\d{0,2}[?!.:]*")


def _identifier(value: bytes) -> bool:
    """Tell whether a value reads like the name of something: words, with few digits at their end, that were not drawn."""
    return _IDENTIFIER.fullmatch(value) is not None and not scrambled(value)


def entropy(value: bytes) -> float:
    """Return Shannon's entropy of the bytes, in bits a byte."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


@lru_cache(2_048)  # a text that repeats one value asks for it at every place, twice
def _random(value: bytes) -> bool:
    """Tell whether a value looks drawn, not written: digits among letters and many different ones."""
    figures = len(value) - len(value.translate(None, b"0123456789"))
    return figures >= 2 and len(_TURN.findall(value)) >= 2 and entropy(value) >= 3.0 and not value.isdigit()


_OUTSIDE_BASE64 = lazy_pattern(rb"[^A-Za-z0-9+/=_-]")
_MARKS = b"+/=_-"
_LOWER, _UPPER = frozenset(b"abcdefghijklmnopqrstuvwxyz"), frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _is_path(value: bytes) -> bool:
    """Tell whether a value is a path: it is written as one, and is no base64 with a slash in it.

    Neighbors are of another kind (small, capital, figure) in 0.62 of the places of drawn
    base64, and in at most half of those of names, which have few figures besides.
    """
    if not _PATH.fullmatch(value):
        return False
    if len(value) < 24 or value.startswith((b"/", b"~", b".")) or _OUTSIDE_BASE64.search(value) or entropy(value) < 4.2:
        return True
    bare = value.translate(None, _MARKS)
    kinds = [1 if one in _LOWER else 2 if one in _UPPER else 3 for one in bare]
    changes = sum(one != other for one, other in pairwise(kinds))
    return kinds.count(3) < 2 or changes < 0.5 * (len(bare) - 1)


def _value_of(match: re.Match[bytes]) -> tuple[bytes, bool]:
    groups = match.groupdict()
    quoted = groups.get("quoted")
    return (quoted, True) if quoted is not None else (groups["bare"], False)


_TYPE = lazy_pattern(rb"(?:\w+\.)*(?:[A-Z][a-z]*)+(?:(?:[0-9]|25519|448|256|384|512)(?:[A-Z][a-z]*)+)?")
"""A type of a program: words with capitals, at most one digit or the number of a curve or hash among them."""
_TYPE_END = (b"Key", b"Secret", b"Token", b"Credential", b"Credentials")
_MARK = lazy_pattern(
    rb"(?:\A|[^A-Za-z0-9_])(?:[nN]ext_?(?:[pP]age_?)?|page(?=T)|[pP]agination_?|[cC]ontinuation_?|[cC]lient_?[rR]equest_?"
    rb"|[lL]ifecycle_?[aA]ction_?|[iI]dempotency_?)[tT]oken\Z"
)
"""Names of places in a list and marks of a request, as programs write them; a setting in capitals is none."""
_REQUEST = lazy_pattern(rb"(?:\A|[^A-Za-z0-9_])(?:Client|Lock|Change)Token\Z")
_UUID = lazy_pattern(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{8,12}")
_RESOURCE = lazy_pattern(rb"arn:[\w:/.*+-]*\Z")
"""The name of a resource of a cloud, which says ``secret`` before the secret's name."""
_NAMED_TYPE = lazy_pattern(rb"[\"'](?:[A-Z]\w*::){2}\w*\Z")
_NAME = lazy_pattern(rb"\w+\Z")
_NEXT_NAME = lazy_pattern(rb"(?:\n|\\n)[ \t]*\w+:\Z")
"""The name on the next line, where the value was left empty."""


def _names_itself(match: re.Match[bytes], value: bytes) -> bool:
    """Tell whether a value is a type or its own name, or stands beside the name of a type (``"AWS::IAM::AccessKey"``) or of a mark."""
    before = match.string[max(0, match.start() - 80) : match.start()].rstrip()
    name = _NAME.search(before)
    bare = match.groupdict().get("quoted") is None and not (name is not None and name[0].isupper())
    return (
        (bare and value.endswith(_TYPE_END) and _TYPE.fullmatch(value) is not None)
        or _MARK.search(before) is not None
        or _NAMED_TYPE.search(before) is not None
        or _RESOURCE.search(before) is not None
        or (_UUID.match(value) is not None and _REQUEST.search(before) is not None)
        or (name is not None and value.startswith(name[0]) and match[0].startswith(value[len(name[0]) :]))
    )


def _no_code(value: bytes) -> bool:
    if _VARIABLE.fullmatch(value) or b"REDACTED" in value:
        return False
    return not (len(value) < 24 and _PLACEHOLDER.match(value)) and not value.startswith(b"arn:")


def _written(match: re.Match[bytes], value: bytes) -> bool:
    """Tell whether a value is a date, a version or a name of code; a person sets no name of code as ``JWT_SECRET``."""
    return a_time(value) or (named(value) and not match.string[max(0, match.start() - 3) : match.start()].isupper())


def is_password(_secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value after a password's name is one and not code, a label or a placeholder."""
    value, quoted = _value_of(match)
    has_digit = _DIGIT.search(value) is not None
    if b"passw" in value.lower() and not (has_digit and _random(value)):
        return False
    if not _no_code(value) or _names_itself(match, value) or (not quoted and _NEXT_NAME.search(match[0])) or a_time(value):
        return False
    before = match.string[max(0, match.start() - 8) : match.start() + 1]
    setting = before[-1:] in b"=_" and before[:-1].isupper()
    if quoted or setting or re.search(rb"[A-Z_]{4}$", before[:-1]):
        return not (value.startswith((b"--", b"/", b"./", b"http")))
    return has_digit and not _identifier(value) and not _is_path(value) and len(value) >= 6 and not _number(value)


def is_secret(_secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value after a name such as secret or api_key is random enough to be one."""
    value, quoted = _value_of(match)
    if len(value) < 10 or not _DIGIT.search(value) or not _no_code(value) or _is_path(value) or _number(value):
        return False
    if _names_itself(match, value) or _written(match, value):
        return False
    if _random(value):
        return True
    return quoted and len(value) >= 12 and not _identifier(value) and entropy(value) >= 3.0


def is_token(_secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value after a name that ends in token is random, at least 16 long and no number."""
    value, _ = _value_of(match)
    return (
        len(value) >= 16
        and _DIGIT.search(value) is not None
        and _no_code(value)
        and not _is_path(value)
        and not _number(value)
        and _random(value)
        and not _names_itself(match, value)
        and not _written(match, value)
    )


_ACCOUNT = lazy_pattern(rb"(?:create|alter|set|grant)\b[^;]{0,180}\b(?:user|role|login|password|server|for)\b[^;]*\Z", re.IGNORECASE)


def _in_sql(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a string after PASSWORD stands in a statement that makes or changes an account."""
    before = match.string[max(0, match.start() - 240) : match.end()]
    return is_password(secret, match) and _ACCOUNT.search(before[: before.rfind(secret)]) is not None


def _is_flag(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value of a flag is a secret, or behind one for a password what a person would choose as one."""
    return is_secret(secret, match) or (
        match.string.endswith((b"password ", b"passwd "), 0, match.start() + 1) and (is_password(secret, match) or _given(secret, match))
    )


_WORD = lazy_pattern(rb"[A-Za-z][A-Za-z0-9_-]{5,}")
_END_OF_WORD = lazy_pattern(rb"\\{0,3}[\"']?(?:\s*\Z|\s*\n|\\{1,3}n|[ \t]+-|[ \t]*[&|;)`])")
_NO_VALUES = frozenset({b"option", b"options", b"argument", b"arguments", b"parameter", b"instead", b"stdin"})


def _given(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a flag for a password is given a word as a command gives it: nothing, another flag or another command follows."""
    return (
        _WORD.fullmatch(secret) is not None
        and not secret.isupper()
        and secret.lower() not in _NO_VALUES
        and _PLACEHOLDER.match(secret) is None
        and _END_OF_WORD.match(match.string, match.end()) is not None
    )


def _is_assigned(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether a value given to the name of a password is one; a word is where the name is a flag."""
    if is_password(secret, match):
        return True
    return match.string.endswith((b"--password=", b"--passwd="), 0, match.start() + 1) and _given(secret, match)


def _number(value: bytes) -> bool:
    return re.fullmatch(rb"[0-9_.,:+\-TZ/]*", value) is not None


def _literals(tails: tuple[str, ...]) -> tuple[bytes, ...]:
    found = [f"{tail}{sep}" for tail in tails for sep in _SEPARATORS]
    found += [f"{tail}_" for tail in tails if tail.isupper()]
    return tuple(dict.fromkeys(text.encode() for text in found))


def _ends_of_names(tails: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(f"{tail}{end}".encode() for tail in tails for end in ('"', "'", "\\", "\n", "\r", "_"))


_PATTERN = rb"(?:_[A-Z0-9_]{0,40}+| (?=[=:])|\*(?=:)|(?=[=:\"'\\\]]))" + _VALUE


_NAMED_VALUE = (
    rb"(?:_[A-Z0-9_]{0,40}+)?\\{0,7}[\"']?,?(?=[ \t\r\n\\])"
    + BELOW
    + rb"\\{0,7}[\"']?(?:[vV]alue|VALUE|[pP]arameterValue)\\{0,7}[\"']?"
    + _GAPS
    + rb"[:=]"
    + BELOW
    + rb"(?:(?P<q>\\{0,7}[\"'])(?P<quoted>"
    + _run(rb"[^\s\"'`\\]")
    + rb")(?P=q)|(?P<bare>"
    + _run(rb"[^\s\"'`\\,;(){}\[\]<>&|]")
    + rb"))"
)
"""The value that stands beside a name in a list of settings: ``- name: DB_PASSWORD`` and ``value: ...`` on the next line."""


def _named_value(name: Callable[[random.Random], Planted]) -> Callable[[random.Random], Planted]:
    def plant(rng: random.Random) -> Planted:
        secret = name(rng).secret
        return Planted(f'{{"name": "SHOP_{"PASSWORD" if name is _password else "API_KEY"}", "value": "{secret}"}}', secret)

    return plant


def _is_listed(secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value beside the name of a password in a list of settings is one: there is a digit in it."""
    return _DIGIT.search(secret) is not None and is_password(secret, match)


def _password(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 12)
    return Planted(f'password = "{secret}"', secret)


def _secret(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 32)
    return Planted(f"export BILLING_API_KEY={secret}", secret)


def _token(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 32)
    return Planted(f'{{"refresh_token": "{secret}"}}', secret)


def _flag(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 24)
    return Planted(f"deploy --password {secret} --verbose", secret)


def _account(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 14)
    return Planted(f"CREATE USER app WITH PASSWORD '{secret}';", secret)


ASSIGNMENTS: tuple[Detector, ...] = (
    Detector(
        "password", "value given to a name such as password", _literals(_PASSWORD_TAILS), _PATTERN, _password, _is_assigned, from_end=True
    ),
    Detector(
        "secret",
        "value given to a name such as secret or api_key",
        _literals(_SECRET_TAILS + _KEY_TAILS),
        _PATTERN,
        _secret,
        is_secret,
        from_end=True,
    ),
    Detector("token", "value given to a name that ends in token", _literals(_TOKEN_TAILS), _PATTERN, _token, is_token, from_end=True),
    Detector(
        "listed-password",
        "value beside the name of a password in a list of settings",
        _ends_of_names(_PASSWORD_TAILS),
        _NAMED_VALUE,
        _named_value(_password),
        _is_listed,
        from_end=True,
    ),
    Detector(
        "listed-secret",
        "value beside a name such as api_key in a list of settings",
        _ends_of_names(_SECRET_TAILS + _KEY_TAILS + _TOKEN_TAILS),
        _NAMED_VALUE,
        _named_value(_secret),
        is_secret,
        from_end=True,
    ),
    Detector(
        "flag",
        "value given to a command-line flag such as --password",
        tuple(
            f"{name} ".encode()
            for name in ("--password", "--passwd", "--token", "--api-key", "--secret", "--auth-token", "--access-token", "--client-secret")
        ),
        _FLAG_VALUE,
        _flag,
        _is_flag,
        from_end=True,
    ),
    Detector(
        "sql-password",
        "password of an account in SQL",
        tuple(f"{word}{gap}".encode() for word in ("PASSWORD", "assword", "ENTIFIED BY", "entified by") for gap in (" ", "(")),
        rb"[ (](?:BY |by |= ?|(?:FOR|for) [^=;\n]{1,80}= ?(?:PASSWORD\()?)?(?P<q>\\{0,7}[\"'])(?P<quoted>[^\s\"'\\]{4,200}+)(?P=q)",
        _account,
        _in_sql,
        from_end=True,
    ),
)


_B64 = rb"(?:[A-Za-z0-9+=_-]|\\{0,3}/)"
_GAP = rb"(?:[ \t\r\n]|\\{1,4}[nrt])"
_QUOTE = rb"(?:\\{0,7}[\"'])"

_DATABASES = (
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "mongodb+srv",
    "redis",
    "rediss",
    "amqp",
    "amqps",
    "clickhouse",
    "mssql",
)
_DRIVERS = ("psycopg2", "psycopg", "asyncpg", "pymysql", "mysqldb", "aiomysql", "pyodbc")
_AFTER_DATABASE = (
    b"(?:" + b"|".join(b"(?<=%s)" % s.replace("+", r"\+").encode() for s in (*_DATABASES, *(f"+{d}" for d in _DRIVERS))) + b")"
)
_CREDENTIALS = rb":" + SLASH + SLASH + rb"[^\s/@:\"'`\\<>]{0,100}+:(?P<s>[^\s/@\"'`\\<>]{1,200}+)@(?=[A-Za-z0-9\[_$%{-])"

_DISCORD_HEADS = tuple(f"{a}{b}".encode() for a in ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT") for b in "AEIMQUYcgk")


def _no_variable(secret: bytes, _match: re.Match[bytes]) -> bool:
    return not (secret[:1] in b"${%*" or secret.endswith((b"}", b"***")) or b"REDACTED" in secret)


def _jwt(rng: random.Random) -> Planted:
    secret = ".".join(("eyJ" + letters(rng, ALNUM, 20), "eyJ" + letters(rng, ALNUM, 40), letters(rng, URLSAFE, 43)))
    return Planted(f"cookie {secret};", secret)


def _bearer(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 40)
    return Planted(f'curl -H "Authorization: Bearer {secret}" https://api.example.test', secret)


def _basic(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 28)
    return Planted(f"Authorization: Basic {secret}", secret)


def _aws_secret(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 40)
    return Planted(f"aws_secret_access_key = {secret}\nregion = eu-west-1", secret)


def _aws_session(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 120)
    return Planted(f"export AWS_SESSION_TOKEN={secret}", secret)


def _slack_hook(rng: random.Random) -> Planted:
    secret = f"T{letters(rng, string.ascii_uppercase, 9)}/B{letters(rng, string.ascii_uppercase, 9)}/{letters(rng, ALNUM, 24)}"
    return Planted(f"https://hooks.slack.com/services/{secret}", secret)


def _discord_hook(rng: random.Random) -> Planted:
    secret = f"{letters(rng, string.digits, 18)}/{letters(rng, URLSAFE, 68)}"
    return Planted(f"https://discord.com/api/webhooks/{secret}", secret)


def _discord(rng: random.Random) -> Planted:
    secret = f"MTE{letters(rng, ALNUM, 21)}.{letters(rng, ALNUM, 6)}.{letters(rng, URLSAFE, 38)}"
    return Planted(f"client.login {secret}", secret)


def _telegram(rng: random.Random) -> Planted:
    secret = f"{letters(rng, string.digits, 10)}:AA{letters(rng, URLSAFE, 33)}"
    return Planted(f"the bot is {secret} ok", secret)


def _twilio(rng: random.Random) -> Planted:
    secret = letters(rng, HEX, 32)
    return Planted(f"twilio auth is {secret}", secret)


def _azure(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM + "+", 86) + "=="
    return Planted(f"AccountName=store;AccountKey={secret};EndpointSuffix=core", secret)


def _database(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 14)
    return Planted(f"DATABASE_URL=postgresql://app:{secret}@db.internal:5432/app", secret)


def _url(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 14)
    return Planted(f"git clone https://ci:{secret}@git.example.test/team/repo.git", secret)


def _curl(rng: random.Random) -> Planted:
    secret = letters(rng, ALNUM, 14)
    return Planted(f"curl -s -u admin:{secret} https://example.test", secret)


_STRUCTURED: tuple[Detector, ...] = (
    PRIVATE_KEY,
    Detector(
        "jwt",
        "JSON web token",
        (b"eyJ",),
        rb"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.(?:[A-Za-z0-9_-]{10,}+)?",
        _jwt,
        apart=True,
    ),
    Detector(
        "aws-secret-key",
        "AWS secret access key next to its name",
        (b"ecret_access_key", b"ECRET_ACCESS_KEY", b"ecretAccessKey"),
        rb"(?:ecret_access_key|ECRET_ACCESS_KEY|ecretAccessKey)(?:"
        + _QUOTE
        + rb"|\]|"
        + _GAP
        + rb"|[=:,>]){1,12}+(?P<s>(?:[A-Za-z0-9+]|\\{0,3}/){40})(?![A-Za-z0-9+])",
        _aws_secret,
    ),
    Detector(
        "aws-session-token",
        "AWS session token next to its name",
        (b"ession_token", b"ESSION_TOKEN", b"essionToken"),
        rb"(?:ession_token|ESSION_TOKEN|essionToken)(?:" + _QUOTE + rb"|\]|" + _GAP + rb"|[=:,>]){1,12}+(?P<s>" + _B64 + rb"{100,1600}+)",
        _aws_session,
    ),
    Detector(
        "slack-webhook",
        "Slack incoming webhook",
        (b"hooks.slack.com",),
        rb"hooks\.slack\.com" + SLASH + rb"(?:services|workflows|triggers)" + SLASH + rb"(?P<s>(?:[A-Za-z0-9_]|\\{0,3}/){20,200}+)",
        _slack_hook,
    ),
    Detector(
        "discord-webhook",
        "Discord webhook",
        (b"/webhooks",),
        rb"(?:(?<=api)|(?<=api\\))/webhooks" + SLASH + rb"(?P<s>[0-9]{16,20}" + SLASH + rb"[A-Za-z0-9_-]{40,100}+)",
        _discord_hook,
    ),
    Detector(
        "discord-token",
        "Discord bot token",
        _DISCORD_HEADS,
        rb"[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45}",
        _discord,
        digits,
        apart=True,
    ),
    Detector(
        "telegram-token",
        "Telegram bot token",
        (b":AA",),
        rb"(?:(?<![0-9])|(?<=\\u[0-9a-fA-F]{4}))[0-9]{8,10}:AA[A-Za-z0-9_-]{32,36}",
        _telegram,
        back=10,
    ),
    Detector(
        "twilio-token",
        "Twilio auth token near the name",
        (b"twilio", b"TWILIO", b"Twilio"),
        rb"(?i:twilio)[^\n\"]{0,60}?(?:(?<![0-9a-zA-Z])|(?<=\\[nrt]))(?P<s>[0-9a-f]{32})(?![0-9a-zA-Z])",
        _twilio,
    ),
    Detector(
        "azure-key",
        "Azure storage, service-bus or event-hub key in a connection string",
        (b"AccountKey=", b"SharedAccessKey="),
        rb"(?:AccountKey|SharedAccessKey)=(?P<s>" + _B64 + rb"{40,120}+)",
        _azure,
    ),
    Detector(
        "bearer-token",
        "token of an Authorization: Bearer header",
        (b"Bearer ", b"bearer ", b"BEARER "),
        rb"(?i:bearer) {1,4}(?P<s>(?:[A-Za-z0-9._~+=-]|\\{0,3}/){16,4000}+)",
        _bearer,
        digits,
    ),
    Detector(
        "basic-auth",
        "credentials of an Authorization: Basic header",
        (b"Basic ", b"basic "),
        rb"(?<=: )(?i:basic) {1,4}(?P<s>(?:[A-Za-z0-9+=]|\\{0,3}/){12,400}+)",
        _basic,
        digits,
    ),
    Detector(
        "database-url",
        "password in a database or queue URL",
        (b"://", b":\\/\\/"),
        _AFTER_DATABASE + _CREDENTIALS,
        _database,
        _no_variable,
    ),
    Detector("url-password", "password in any other URL", (b"://", b":\\/\\/"), rb"(?<!github)" + _CREDENTIALS, _url, _no_variable),
    Detector(
        "curl-password",
        "user and password given to curl",
        (b" -u ", b" --user "),
        rb" (?:-u|--user) {1,3}" + _QUOTE + rb"?[A-Za-z0-9_.@-]{1,60}+:(?P<s>[^\s\"'`\\:/]{4,100}+)(?![:/])",
        _curl,
        _no_variable,
    ),
)

DETECTORS: tuple[Detector, ...] = (*KEYS, *SHAPES, *_STRUCTURED, *ASSIGNMENTS, *CONTEXTS, *COMMANDS)
"""All detectors; where two find the same place the earlier one names it."""

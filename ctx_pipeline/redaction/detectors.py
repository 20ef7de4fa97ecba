"""Every kind of secret that is looked for, in order of precedence."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

from ctx_pipeline.redaction.assignments import ASSIGNMENTS
from ctx_pipeline.redaction.private_keys import PRIVATE_KEY
from ctx_pipeline.redaction.shapes import ALNUM, HEX, KEYS, URLSAFE, Detector, Planted, digits, letters

if TYPE_CHECKING:
    import random
    import re

_SLASH = rb"\\{0,3}/"
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
_CREDENTIALS = rb":" + _SLASH + _SLASH + rb"[^\s/@:\"'`\\<>]{0,100}+:(?P<s>[^\s/@\"'`\\<>]{1,200}+)@(?=[A-Za-z0-9\[_$%{-])"

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
        rb"hooks\.slack\.com" + _SLASH + rb"(?:services|workflows|triggers)" + _SLASH + rb"(?P<s>(?:[A-Za-z0-9_]|\\{0,3}/){20,200}+)",
        _slack_hook,
    ),
    Detector(
        "discord-webhook",
        "Discord webhook",
        (b"/webhooks",),
        rb"(?:(?<=api)|(?<=api\\))/webhooks" + _SLASH + rb"(?P<s>[0-9]{16,20}" + _SLASH + rb"[A-Za-z0-9_-]{40,100}+)",
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
    Detector("url-password", "password in any other URL", (b"://", b":\\/\\/"), _CREDENTIALS, _url, _no_variable),
    Detector(
        "curl-password",
        "user and password given to curl",
        (b" -u ", b" --user "),
        rb" (?:-u|--user) {1,3}" + _QUOTE + rb"?[A-Za-z0-9_.@-]{1,60}+:(?P<s>[^\s\"'`\\:/]{4,100}+)(?![:/])",
        _curl,
        _no_variable,
    ),
)

DETECTORS: tuple[Detector, ...] = (*KEYS, *_STRUCTURED, *ASSIGNMENTS)
"""All detectors; where two find the same place the earlier one names it."""

__all__ = ["DETECTORS", "Detector"]

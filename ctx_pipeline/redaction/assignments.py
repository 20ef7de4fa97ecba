"""Secrets that have no shape of their own: a telling name, and a value that is no code."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from ctx_pipeline.redaction.shapes import ALNUM, Detector, Planted, letters

if TYPE_CHECKING:
    import random

_PASSWORD_TAILS = ("assword", "asswd", "assphrase", "ASSWORD", "ASSWD", "ASSPHRASE", "_pwd", "_PWD", "-pwd", "_pass", "_PASS")
_SECRET_TAILS = ("ecret", "ECRET", "redential", "redentials", "REDENTIAL", "REDENTIALS")
_TOKEN_TAILS = ("oken", "OKEN")
_KEY_TAILS = tuple(
    form
    for first in ("api", "access", "secret", "private", "auth", "account", "encryption", "signing", "master", "service", "app")
    for form in (f"{first}_key", f"{first}-key", f"{first}key", f"{first}Key", f"{first.title()}Key", f"{first}_KEY".upper())
)
_SEPARATORS = ("=", ":", " =", " :", '"', "'", "\\", "]")

_GAP = rb"(?:[ \t\r\n]|\\{1,4}[nrt]){0,4}+"


def _run(plain: bytes) -> bytes:
    """Return the pattern of a value: 6 letters or more of a class, with a few JSON escapes among them.

    A run of plain letters is one step of the machine: hostile text repeats the name thousands of times.
    """
    escape = rb"(?:\\/|\\u[0-9a-fA-F]{4})"
    return rb"(?=(?:" + plain + rb"|" + escape + rb"){6})" + plain + rb"{0,400}+(?:" + escape + plain + rb"{0,80}+){0,40}+"


_VALUE = (
    rb"\\{0,7}[\"']?\]?"
    + _GAP
    + rb"(?::" + _GAP + rb"(?:str|string|String|SecretStr)(?: ?\| ?(?:None|null|undefined))?" + _GAP + rb"=(?!=)|=>|:=|[:=](?![=:]))"
    + _GAP
    + rb"(?:[rbfu]{0,2}(?P<q>\\{0,7}[\"'`])(?P<quoted>" + _run(rb"[^\s\"'`\\]") + rb")(?P=q)"
    + rb"|(?P<bare>" + _run(rb"[^\s\"'`\\,;(){}\[\]<>&|]") + rb")(?![(\[{`]))"
)  # fmt: skip
_FLAG_VALUE = rb" {1,3}\\{0,7}[\"']?(?P<bare>[^\s\"'`\\,;(){}\[\]<>&|$-][^\s\"'`\\,;(){}\[\]<>&|]{5,400}+)"

_DIGIT = re.compile(rb"[0-9]")
_TURN = re.compile(rb"[A-Za-z][0-9]|[0-9][A-Za-z]")
_PLACEHOLDER = re.compile(
    rb"(?:x{3,}|\.{3,}|\*+|your|my[-_]|example|change[-_]?me|placeholder|dummy|fake|sample|redacted|none|null|nil|true|false|undefined|todo"
    rb"|latest|required|optional|string|text|hidden|input|field|invalid|missing|empty|process\.|os\.|env\.|self\.|this\.|config\.|settings\.|args\.)",
    re.IGNORECASE,
)
_VARIABLE = re.compile(rb"\$.*|<.*>?|%.*%|%\(?\w*\)?s?|\{.*|.*\}\}?|@.*|#.*|\[REDACTED:.*|-+|[^A-Za-z0-9]*")
_PATH = re.compile(rb"(?:[a-z]+:/|\.{0,2}/|~/|[A-Z]:\\).*|\w+/[\w./-]*")
_IDENTIFIER = re.compile(rb"[A-Za-z_$]+(?:[_\-.:/?!]{1,2}[A-Za-z]+)*[_\-]?v?\d{0,2}[?!.:]*")


def _entropy(value: bytes) -> float:
    """Return Shannon's entropy of the bytes, in bits a byte."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _random(value: bytes) -> bool:
    """Tell whether a value looks drawn, not written: digits among letters and many different ones."""
    figures = len(value) - len(value.translate(None, b"0123456789"))
    return figures >= 2 and len(_TURN.findall(value)) >= 2 and _entropy(value) >= 3.0 and not value.isdigit()


def _value_of(match: re.Match[bytes]) -> tuple[bytes, bool]:
    groups = match.groupdict()
    quoted = groups.get("quoted")
    return (quoted, True) if quoted is not None else (groups["bare"], False)


def _no_code(value: bytes) -> bool:
    if _VARIABLE.fullmatch(value) or b"REDACTED" in value:
        return False
    return not (len(value) < 24 and _PLACEHOLDER.match(value))


def is_password(_secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value after a password's name is one and not code, a label or a placeholder."""
    value, quoted = _value_of(match)
    has_digit = _DIGIT.search(value) is not None
    if b"passw" in value.lower() and not (has_digit and _random(value)):
        return False
    if not _no_code(value):
        return False
    before = match.string[max(0, match.start() - 8) : match.start() + 1]
    setting = before[-1:] in b"=_" and before[:-1].isupper()
    if quoted or setting or re.search(rb"[A-Z_]{4}$", before[:-1]):
        return not (value.startswith((b"--", b"/", b"./", b"http")))
    return has_digit and not _IDENTIFIER.fullmatch(value) and not _PATH.fullmatch(value) and len(value) >= 6 and not _number(value)


def is_secret(_secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value after a name such as secret or api_key is random enough to be one."""
    value, quoted = _value_of(match)
    if len(value) < 10 or not _DIGIT.search(value) or not _no_code(value) or _PATH.fullmatch(value) or _number(value):
        return False
    if _random(value):
        return True
    return quoted and len(value) >= 12 and not _IDENTIFIER.fullmatch(value) and _entropy(value) >= 3.0


def is_token(_secret: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether the value after a name that ends in token is random, at least 16 long and no number."""
    value, _ = _value_of(match)
    return (
        len(value) >= 16
        and _DIGIT.search(value) is not None
        and _no_code(value)
        and not _PATH.fullmatch(value)
        and not _number(value)
        and _random(value)
    )


def _number(value: bytes) -> bool:
    return re.fullmatch(rb"[0-9_.,:+\-TZ/]*", value) is not None


def _literals(tails: tuple[str, ...]) -> tuple[bytes, ...]:
    found = [f"{tail}{sep}" for tail in tails for sep in _SEPARATORS]
    found += [f"{tail}_" for tail in tails if tail.isupper()]
    return tuple(dict.fromkeys(text.encode() for text in found))


_PATTERN = rb"(?:_[A-Z0-9_]{0,40}+| (?=[=:])|(?=[=:\"'\\\]]))" + _VALUE


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


ASSIGNMENTS: tuple[Detector, ...] = (
    Detector(
        "password", "value given to a name such as password", _literals(_PASSWORD_TAILS), _PATTERN, _password, is_password, from_end=True
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
        "flag",
        "value given to a command-line flag such as --password",
        tuple(
            f"{name} ".encode()
            for name in ("--password", "--passwd", "--token", "--api-key", "--secret", "--auth-token", "--access-token", "--client-secret")
        ),
        _FLAG_VALUE,
        _flag,
        is_secret,
        from_end=True,
    ),
)

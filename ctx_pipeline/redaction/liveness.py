"""Which of the secrets that were replaced may open something, and are worth a word: not examples, test values, key ids or names."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter

PUBLIC = frozenset({"aws-key-id"})
"""Detectors of what names a key and opens nothing alone."""

_WEAK = frozenset({"password", "flag", "database-url", "url-password", "curl-password", "basic-auth"})
"""Detectors of what a person may have chosen: a short word there is most often an example or a local default."""

_KNOWN = (
    *("4eC39HqLyjWDarjtT1zdp7dc", "TYooMQauvdEDq54NiTphI7jx", "wJalrXUtnFEMI/K7MDENG", "AKIAIOSFODNN7"),
    *("eyJzdWIiOiIxMjM0NTY3ODkw", "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c", "T00000000/B00000000", "YWRtaW46YWRtaW4", "dXNlcjpwYXNz"),
)
"""Parts of values that makers print in their documentation."""

_SHOWN = re.compile(
    r"example|sample|dummy|f[a4]ke|mock|placeholder|change.?me|your[-_a-z]|hunter2|letmein|qwerty|s[3e]cr[3e]t|passw[o0]rd|redacted|insert|replace"
    r"|lorem|x{4,}|\*{3,}|\.{3,}|012345|123456|654321|abcdef|abc123|deadbeef|cafebabe|aaaa|0{5,}|1{5,}|foo.?bar|test[-_]?(?:key|token|secret|value)",
    re.IGNORECASE,
)
"""Words and rows of signs that a person types where a secret would stand."""

_TRIED = re.compile(r"(?:sk|pk|rk)_test_|pk_live_|-test-|_test_", re.IGNORECASE)
"""Keys of a provider's test mode, and those that are made to be published."""

_CHOSEN = re.compile(r"[A-Za-z]+[-_.]?\d{0,4}[!?.@#$%]{0,2}|\d+")
_LOCAL = re.compile(
    r"@(?:(?:localhost|0\.0\.0\.0|\[?::1\]?|host\.docker\.internal|db|database|postgres\w*|mysql|mariadb|redis|mongo\w*|rabbit\w*)(?![\w.-])"
    r"|127\.\d|[\w.-]*(?:example|\.test\b|\.local\b|\.invalid))"
)
_TOLD = re.compile(
    r"\b(?:e\.g\.|for instance|for example|examples?|dummy|fixtures?|mock(?:ed|s)?|placeholder|samples?|don.?t|never|avoid|assert\w*|expect"
    r"|redact\w*|sanitiz\w*|mask(?:ed|s)?|detector|pattern|regex|leak(?:s|ed)?|parametrize|testdata|README)\b"
    r"|\bdef test_|\b(?:it|describe|test)\(|(?:^|[\\/\"' ])(?:tests?|specs?|__tests__|fixtures?|docs?|examples?)[\\/]"
    r"|_test\.\w|\.test\.\w|\.spec\.\w|test_\w+\.py|\.(?:md|rst|example)\b",
    re.IGNORECASE,
)
"""Words near a value, or in the name of its file, by which it is shown and not used."""

_HEAD = re.compile(r"AGE-SECRET-KEY-|(?:sb_)?secret_")
"""Begins every key of a kind: the word says nothing of it."""
_BEFORE, _AFTER = 160, 60
LEAST_BITS = 2.7
"""Entropy of a value, in bits a sign, below which it is written and not drawn."""


def is_live(detector: str, text: str, start: int, end: int, where: str = "") -> bool:
    """Tell whether a found secret may open something; what is doubtful is not, and is replaced all the same.

    ``text[start:end]`` is the secret, ``where`` what is known of its place: the call whose output it stands in.
    """
    secret = text[start:end]
    if (
        detector in PUBLIC
        or any(known in secret for known in _KNOWN)
        or _SHOWN.search(_HEAD.sub("", secret, count=1))
        or _TRIED.search(secret)
    ):
        return False
    if detector in _WEAK and (len(secret) < 8 or (len(secret) < 20 and _CHOSEN.fullmatch(secret)) or _LOCAL.match(text, end)):
        return False
    if detector != "private-key" and bits(secret) < LEAST_BITS:
        return False
    return not (_TOLD.search(text[max(0, start - _BEFORE) : start]) or _TOLD.search(text[end : end + _AFTER]) or _TOLD.search(where))


def bits(secret: str) -> float:
    """Return Shannon's entropy in bits a sign."""
    return -sum(n / len(secret) * math.log2(n / len(secret)) for n in Counter(secret).values()) if secret else 0.0


def named(detector: str, secret: str) -> str:
    """Return what tells a secret apart from others without saying it: the detector and 32 bits of a hash."""
    return f"{detector}:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

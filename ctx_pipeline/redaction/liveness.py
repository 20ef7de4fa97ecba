"""Which of the secrets that were replaced may open something, and are worth a word: not examples, test values, key ids or names."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter

from ctx_pipeline.model.lazy_pattern import lazy_pattern

PUBLIC = frozenset({"aws-key-id"})
"""Detectors of what names a key and opens nothing alone."""

_WEAK = frozenset({"password", "listed-password", "flag", "database-url", "url-password", "curl-password", "basic-auth"})
"""Detectors of what a person may have chosen: a short word there is most often an example or a local default."""

_KNOWN = (
    *("4eC39HqLyjWDarjtT1zdp7dc", "TYooMQauvdEDq54NiTphI7jx", "wJalrXUtnFEMI/K7MDENG", "AKIAIOSFODNN7"),
    *("eyJzdWIiOiIxMjM0NTY3ODkw", "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c", "T00000000/B00000000", "YWRtaW46YWRtaW4", "dXNlcjpwYXNz"),
)
"""Parts of values that makers print in their documentation."""

_SHOWN = lazy_pattern(
    r"example|sample|dummy|f[a4]ke|mock|placeholder|change.?me|your[-_a-z]|hunter2|letmein|qwe(?:rty|\d)|s[3e]cr[3e]t|p[a@4][s5$]{2}w[o0]r?d"
    r"|geheim|parole|scott|tiger|redacted|insert|replace|1a2b3c|a1b2c3|1234abcd|abcd1234"
    r"|lorem|x{4,}|\*{3,}|\.{3,}|012345|123456|654321|abcdef|abc123|deadbeef|cafebabe|aaaa|0{5,}|1{5,}|foo.?bar|test[-_]?(?:key|token|secret|value)",
    re.IGNORECASE,
)
"""Words and rows of signs that a person types where a secret would stand."""

_DRAFT = lazy_pattern(r"example|dummy|redacted|\.{3,}|\*{3,}|x{6,}", re.IGNORECASE)
"""The same in a key of many lines, of which every one of OpenSSH has a row of A."""

_TRIED = lazy_pattern(r"(?:sk|pk|rk)_test_|pk_live_|-test-|_test_", re.IGNORECASE)
"""Keys of a provider's test mode, and those that are made to be published."""

_CHOSEN = lazy_pattern(r"[A-Za-z]+[-_.]?\d{0,4}[!?.@#$%]{0,2}|\d+")
_LOCAL = lazy_pattern(
    r"@(?:(?:localhost|0\.0\.0\.0|\[?::1\]?|host\.docker\.internal|db|database|postgres\w*|mysql|mariadb|redis|mongo\w*|rabbit\w*)(?![\w.-])"
    r"|127\.\d|[\w.-]*(?:example|\.test\b|\.local\b|\.invalid))"
)
_TOLD = lazy_pattern(
    r"\be\.g\.|>>> |(?:^|\n)Output::|\bResponse:|\b(?:for instance|for example|examples?|dummy|fixtures?|mock(?:ed|s)?|placeholder|samples?"
    r"|don.?t|never|avoid|assert\w*|expect|redact\w*|sanitiz\w*|mask(?:ed|s)?|detector|pattern|regex|leak(?:s|ed)?|parametrize|testdata|README)\b"
    r"|\bdef test_|\b(?:it|describe|test)\(|(?:^|[\\/\"' ])(?:tests?|specs?|__tests__|fixtures?|docs?|examples?)[\\/]"
    r"|_test\.\w|\.test\.\w|\.spec\.\w|test_\w+\.py|\.(?:md|rst|example)\b",
    re.IGNORECASE,
)
"""Words near a value, or in the name of its file, by which it is shown and not used."""

_PUBLISHED = lazy_pattern(
    r"(?:site|dist)-packages|node_modules|[\\/]vendor[\\/]|[\\/]registry[\\/]src[\\/]|[\\/]lib[\\/]python\d|[\\/]usr[\\/](?:lib|share)[\\/]"
)
"""Places of code that others published: what stands there is not this person's."""

_GIVEN = lazy_pattern(r"([\w.:$-]{1,80})[\"'`]?\s{0,4}(?:=>|:=|=|:)\s{0,30}[\"'`]?$")
_NO_SECRET = lazy_pattern(
    r"(?:next|prev|client|page|paging|pagination|continuation|resume|sync|cursor|public.?key|update|verification|idempotency|request|lock|change"
    r"|etag|design|cancell?ation|stop|pad|eos|bos|special|vocab)[-_]?tokens?$|public|::|csrf|xsrf|nonce|check.?sum|hash$|digest$|integrity",
    re.IGNORECASE,
)
"""Names of values that go around in the open: places in a list, marks of a request, digests, keys that are made to be shown."""

_NAMED = frozenset({"password", "flag", "secret", "listed-secret", "token", "query-key", "url-token", "curl-password"})
"""Detectors that know a secret by the name before it alone."""
_PART = lazy_pattern(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_IDENTIFIER = lazy_pattern(r"[A-Za-z_$][\w$]*(?:(?:[.-]|::|->)[A-Za-z_$][\w$]*)*:?")
_BLOB = lazy_pattern(r"[A-Za-z0-9+/]{24}")

_HEAD = lazy_pattern(r"AGE-SECRET-KEY-|(?:sb_)?secret_")
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
        or (_DRAFT if detector == "private-key" else _SHOWN).search(_HEAD.sub("", secret, count=1))
        or _TRIED.search(secret)
    ):
        return False
    if detector in _WEAK and (len(secret) < 8 or (len(secret) < 20 and _CHOSEN.fullmatch(secret)) or _LOCAL.match(text, end)):
        return False
    if detector != "private-key" and bits(secret) < LEAST_BITS:
        return False
    before, after = text[max(0, start - _BEFORE) : start], text[end : end + _AFTER]
    if detector in _NAMED and (_is_name(secret, detector) or ((given := _GIVEN.search(before)) and _NO_SECRET.search(given[1]))):
        return False
    if _BLOB.fullmatch(before[-24:]) and _BLOB.match(after):
        return False
    return not (_TOLD.search(before) or _TOLD.search(after) or _TOLD.search(where) or _PUBLISHED.search(where))


def _is_name(secret: str, detector: str) -> bool:
    """Tell whether a value is the name of a variable, a type or a text: an identifier of words, where a password may be words too."""
    if secret.startswith("arn:"):
        return True
    if not _IDENTIFIER.fullmatch(secret):
        return False
    words = _PART.findall(secret)
    if detector == "password" and not ("." in secret or secret.isupper()):
        return False
    parted = re.search(r"[._-]|(?<=\w)[A-Z][a-z]", secret) is not None
    return parted and len(words) > 1 and sum(map(len, words)) >= 4 * len(words) and sum(map(str.isdigit, secret)) * 2 < len(secret)


def bits(secret: str) -> float:
    """Return Shannon's entropy in bits a sign."""
    return -sum(n / len(secret) * math.log2(n / len(secret)) for n in Counter(secret).values()) if secret else 0.0


def named(detector: str, secret: str) -> str:
    """Return what tells a secret apart from others without saying it: the detector and 32 bits of a hash."""
    return f"{detector}:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

"""What somebody wrote, told from what was drawn: names of code, words joined by signs, dates, versions."""

from __future__ import annotations

import re

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_DIGIT = lazy_pattern(rb"[0-9]")
_HUMPS = lazy_pattern(rb"[A-Z]?[a-z]{3,}|[A-Z]{3,}|[A-Z][a-z]{2}")
_SMALL = lazy_pattern(rb"[A-Z][a-z]{2,}|[a-z]{3,}")
_LEAST_SCRAMBLED = 12
_JOINED, _BEGUN = lazy_pattern(rb"[-_.:+]+"), lazy_pattern(rb"[A-Za-z][a-z]{3}")
_TIME = lazy_pattern(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T_ ][0-9:.,]*(?:Z|[+-][0-9:]{4,6})?)?")
_RELEASE = lazy_pattern(rb"v?[0-9]+\.[0-9]+(?:[-+.]+(?![-+.])(?:[a-z]{1,9}(?![a-z]))?[0-9]*)*", re.IGNORECASE)
_NAME = lazy_pattern(rb"[A-Za-z]+(?:(?:[0-9]|16|32|64|128|256|384|512|1024)(?:[A-Z][A-Za-z]*|\Z)){1,3}")


def scrambled(secret: bytes) -> bool:
    """Tell letters in drawn order, with figures at their end, from a name: less than half of them are words with a capital or none."""
    if len(secret) < _LEAST_SCRAMBLED or not _DIGIT.search(secret) or not secret[:-2].isalpha() or secret.islower() or secret.isupper():
        return False
    return 2 * sum(map(len, _HUMPS.findall(secret))) < len(secret)


def of_words(secret: bytes) -> bool:
    """Tell whether a text is words and versions joined by signs, as names of code, models and releases are."""
    parts = _JOINED.split(secret)
    return len(parts) > 1 and _BEGUN.search(secret) is not None and all(len(p) <= 16 and len(_DIGIT.findall(p)) <= 3 for p in parts)


def a_time(secret: bytes) -> bool:
    """Tell whether a text is a date, with or without a time of day."""
    return _TIME.fullmatch(secret) is not None


def named(secret: bytes) -> bool:
    """Tell whether a text is a date, a version, or a name of code: words written together, with a figure that code has among them."""
    if a_time(secret) or _RELEASE.fullmatch(secret):
        return True
    words = sum(map(len, _SMALL.findall(secret)))
    return _NAME.fullmatch(secret) is not None and 4 * words >= 3 * len(secret.translate(None, b"0123456789"))

"""How much the lines of a text say: Shannon entropy of their characters and of their tokens."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LOW_CHARS, HIGH_CHARS = 2.0, 4.0
"""Bits per character below which a line says little (a row of dashes), and above which it is dense (a hash, a data URL)."""

LOW_TOKENS, HIGH_TOKENS = 1.0, 3.0
"""The same in bits per token."""


class Spread(NamedTuple):
    """Entropy over the lines of a text that are not blank, in bits per unit."""

    unit: str
    """char or token"""
    mean: float
    low: int
    """lines below ``low_below``"""
    high: int
    """lines above ``high_above``"""
    lines: int
    """lines that are not blank"""
    low_below: float
    high_above: float


def entropy(units: Iterable[object]) -> float:
    """Return the Shannon entropy of a sequence in bits per unit: -sum(p log2 p); 0.0 for an empty one."""
    counts = Counter(units)
    total = sum(counts.values())
    if not total:
        return 0.0
    return max(0.0, math.log2(total) - sum(n * math.log2(n) for n in counts.values()) / total)


def char_spread(text: str) -> Spread:
    """Return the entropy of each line over its characters."""
    return _spread("char", [entropy(line) for line in _said(text)], LOW_CHARS, HIGH_CHARS)


def token_spread(text: str, tokenize: Callable[[str], Sequence[int]]) -> Spread:
    """Return the entropy of each line over its tokens."""
    return _spread("token", [entropy(tokenize(line)) for line in _said(text)], LOW_TOKENS, HIGH_TOKENS)


def _said(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _spread(unit: str, found: list[float], low: float, high: float) -> Spread:
    mean = sum(found) / len(found) if found else 0.0
    return Spread(unit, mean, sum(h < low for h in found), sum(h > high for h in found), len(found), low, high)

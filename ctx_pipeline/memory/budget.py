"""Fitting notes into a token budget by an estimate that errs on the safe side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]|\s{2,}")


def estimate(text: str) -> int:
    """Return an upper estimate of the tokens of a text without loading an encoding.

    Words count one token for each four letters begun, every digit, sign and run of blanks
    one; signs outside ASCII count two.
    """
    total = 0
    for piece in _PIECE.findall(text):
        if piece[0].isascii():
            total += -(-len(piece) // 4) if piece[0].isalpha() else 1
        else:
            total += 2
    return total


def fit(costs: Sequence[int], budget: int) -> list[int]:
    """Return the places of the items that fit, best first: an item too large is left out, a later smaller one may still fit."""
    kept = []
    left = budget
    for place, cost in enumerate(costs):
        if cost <= left:
            kept.append(place)
            left -= cost
    return kept

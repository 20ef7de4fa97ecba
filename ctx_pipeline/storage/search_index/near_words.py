"""What a word that stands nowhere was meant to be: the word of the index that differs in one letter."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHORTEST = 6
"""Letters from which on a word is looked for with one letter more, less, changed or swapped: shorter ones are too often another word."""

MOST = 3
"""Words of a question that are looked for so; each takes some eight milliseconds in a large index."""

ENOUGH = 100
"""Rows from which on a word is as common as any other."""

_FIRST = 4
"""Letters by which words of the index are listed that differ behind them: one look in place of some sixty for each letter."""


def may_be_typo(word: str) -> bool:
    """Tell whether a word is looked for so: of enough letters, without digits and signs."""
    return len(word) >= SHORTEST and word.isascii() and word.isalpha()


def near_word(word: str, rows_with: Callable[[str], int], beginning_with: Callable[[str], Iterable[str]]) -> str | None:
    """Return the word nearest to one that no row has, the commonest of several; the first letter is taken to be right."""
    neighbours = _neighbours(word)
    first = word[:_FIRST]
    there = [other for other in beginning_with(first) if other in neighbours]
    there += [other for other in neighbours if not other.startswith(first)]
    found = {other: rows for other in there if (rows := rows_with(other))}
    return max(found, key=lambda other: (found[other], other), default=None)


def _neighbours(word: str) -> dict[str, None]:
    cuts = [(word[:place], word[place:]) for place in range(1, len(word) + 1)]
    found = [before + after[1:] for before, after in cuts if after]
    found += [before + after[1] + after[0] + after[2:] for before, after in cuts if len(after) > 1]
    found += [before + letter + after[1:] for before, after in cuts if after for letter in ascii_lowercase]
    found += [before + letter + after for before, after in cuts for letter in ascii_lowercase]
    return {other: None for other in found if other != word}

"""Overlap of word 3-grams between texts, many at once: the Jaccard similarity of context rot, on arrays."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = 100
"""Words of a text that are compared; what follows hardly moves the share and costs time."""

HOLDERS = 100
"""Earlier texts with a 3-gram that are looked at, the last ones; else time would grow with the square of the texts."""

_AT_ONCE = 2_000_000
"""Pairs of (3-gram, earlier text) that are held in memory at a time."""

_MULTIPLIER = 1_000_003
_GRAM = 3


class Nearest(NamedTuple):
    """The earlier text that is most like one: its place, and the Jaccard similarity."""

    place: int
    similarity: float


class Overlap(NamedTuple):
    """For each text: its similarity to the one before it (0.0 for the first), and the nearest earlier one."""

    before: list[float]
    nearest: list[Nearest | None]


def overlap(texts: Sequence[str]) -> Overlap:
    """Return the overlap of each text with the one before it and with the nearest of all earlier ones.

    A text without three words is like nothing. Of equally near texts the latest counts.
    Grams are compared by a 64-bit hash.
    """
    import numpy as np

    count = len(texts)
    grams, owners = _grams(texts)
    # most grams stand in one text alone: those whose lowest bits no other has need no sorting
    low = grams & ((4 << len(grams).bit_length()) - 1)
    twice = np.bincount(low, minlength=1)[low] > 1
    sizes = np.bincount(owners[~twice], minlength=count)
    grams, owners = grams[twice], owners[twice]
    order = np.argsort(grams, kind="stable")
    grams, owners = grams[order], owners[order]
    # a text has a gram once, however often it says it; a gram of one text is like nothing
    heads = _changes(grams)
    first = heads | _changes(owners)
    heads, owners = heads[first], owners[first]
    sizes += np.bincount(owners, minlength=count)
    columns = np.cumsum(heads) - 1
    shared = np.bincount(columns, minlength=1)[columns] > 1
    if not shared.any():
        return Overlap([0.0] * count, [None] * count)
    columns, owners = columns[shared], owners[shared]
    by_text = np.argsort(owners, kind="stable")
    return _compared(owners[by_text], columns[by_text], sizes, count, int(columns[-1]) + 1)


def _changes(values: Any) -> Any:
    """Tell of each value whether it is the first one or differs from the one before."""
    import numpy as np

    found = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def _grams(texts: Sequence[str]) -> tuple[Any, Any]:
    """Return the hash of every 3-gram of all texts, and whose it is."""
    import numpy as np

    split = [text.lower().split(None, WORDS)[:WORDS] for text in texts]
    flat = np.fromiter(map(hash, chain.from_iterable(split)), dtype=np.int64)
    owner = np.repeat(np.arange(len(texts), dtype=np.int64), [len(words) for words in split])
    if len(flat) < _GRAM:
        return flat[:0], owner[:0]
    one_text = owner[:-2] == owner[2:]
    mixed = (flat[:-2] * _MULTIPLIER + flat[1:-1]) * _MULTIPLIER + flat[2:]
    return mixed[one_text], owner[:-2][one_text]


def _compared(owners: Any, columns: Any, sizes: Any, count: int, kinds: int) -> Overlap:
    """Return the overlap of texts whose (text, gram) pairs are sorted by text."""
    import numpy as np

    before = np.zeros(count)
    best = np.zeros(count)
    place = np.full(count, -1, dtype=np.int64)
    order = np.argsort(columns, kind="stable")
    holders = owners[order]
    begins = np.searchsorted(columns[order], np.arange(kinds))
    # within a gram the holders stand in the order of the texts, so those before a text are the earlier ones
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    starts = np.maximum(begins[columns], rank - HOLDERS)
    spans = rank - starts
    ends = np.cumsum(spans)
    first = 0
    while first < len(spans):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + _AT_ONCE)))
        if last < len(spans):
            # a text is never split over two rounds
            last = max(int(np.searchsorted(owners, owners[last])), int(np.searchsorted(owners, owners[first], side="right")))
        chosen = slice(first, last)
        total = int(spans[chosen].sum())
        if total:
            places = np.repeat(starts[chosen] - (np.cumsum(spans[chosen]) - spans[chosen]), spans[chosen]) + np.arange(total)
            keys = np.sort(np.repeat(owners[chosen], spans[chosen]) * count + holders[places])
            heads = np.flatnonzero(_changes(keys))
            shared = np.diff(np.append(heads, total))
            later, earlier = np.divmod(keys[heads], count)
            alike = shared / (sizes[later] + sizes[earlier] - shared)
            neighbours = earlier == later - 1
            before[later[neighbours]] = alike[neighbours]
            # sorted by text, then place: of the most alike the last one is the nearest
            groups = np.flatnonzero(_changes(later))
            most = np.maximum.reduceat(alike, groups)
            best[later[groups]] = most
            tops = alike == np.repeat(most, np.diff(np.append(groups, len(later))))
            place[later[groups]] = np.maximum.reduceat(np.where(tops, earlier, -1), groups)
        first = last
    nearest = [Nearest(p, s) if p >= 0 else None for p, s in zip(place.tolist(), best.tolist(), strict=True)]
    return Overlap(before.tolist(), nearest)

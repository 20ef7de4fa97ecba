"""One pass over many texts that finds those in which a secret may stand, and nothing where none does."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.redaction import views
from ctx_pipeline.redaction.detectors import DETECTORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.redaction.shapes import Detector

_BETWEEN = b"\0"
"""Stands between two texts: no literal holds it, and to a pattern it is what the edge of a text is."""

_BATCH_CHARS = 4_000_000

_ESCAPE = re.compile(rb"(?:\\[nrtbf]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2})\Z")

_EDGES = 6
"""Ends of colored pieces at which a match is tried to end."""

_POSSESSIVE_GROUP = re.compile(rb"(?<=\))([*+?]|\{\d+(?:,\d*)?\})\+")


def understood(pattern: bytes, version: tuple[int, ...] = sys.version_info[:3]) -> bytes:
    """Return a pattern that this Python reads rightly: before 3.11.5 a possessive group that has choices inside ends too early."""
    return pattern if version >= (3, 11, 5) else _POSSESSIVE_GROUP.sub(rb"\1", pattern)


class Look(NamedTuple):
    """What to try at a literal: the detector's rank, its compiled pattern, and where to begin."""

    rank: int
    detector: Detector
    pattern: re.Pattern[bytes]
    offset: int
    """Added to the literal's first byte."""


class Automaton(NamedTuple):
    """All literals as one machine, and what to try for each of them."""

    machine: Any
    looks: tuple[tuple[Look, ...], ...]


@cache
def automaton() -> Automaton:
    """Return the machine of all detectors; built once a process, at first use."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    found: dict[bytes, list[Look]] = {}
    for rank, detector in enumerate(DETECTORS):
        pattern = re.compile(understood(detector.pattern))
        for literal in detector.literals:
            offset = len(literal) - 1 if detector.from_end else 0
            found.setdefault(literal, []).append(Look(rank, detector, pattern, offset))
    machine = BytesAhoCorasick(list(found), implementation=Implementation.DFA)
    return Automaton(machine, tuple(map(tuple, found.values())))


def literal_in(data: bytes) -> bool:
    """Tell whether a literal of any detector stands in a short text; no pattern is compiled for it, as a hook has no time to."""
    return any(literal in data for detector in DETECTORS for literal in detector.literals)


def matches(data: bytes, joins: Sequence[int] = ()) -> Iterator[tuple[Look, re.Match[bytes]]]:
    """Yield every place where a detector's pattern matches, unchecked, in order of the literals.

    At ``joins``, ascending, a word may begin or end.
    """
    machine, looks = automaton()
    joined = set(joins)
    for index, start, _ in machine.find_matches_as_indexes(data, overlapping=True):
        for look in looks[index]:
            if look.detector.apart and _in_word(data, start) and start not in joined:
                continue
            match = _try(look, data, start, len(data))
            if match is None and joins:
                after = bisect_right(joins, start)
                match = next((m for edge in joins[after : after + _EDGES] if (m := _try(look, data, start, edge))), None)
            if match is not None:
                yield look, match


def suspects(texts: Sequence[str]) -> list[int]:
    """Return the places of the texts in which a detector's pattern may match, unchecked, ascending.

    All texts go through one literal pass; a short pattern is tried at each literal found.
    """
    return [first + place for first, batch in _batches(texts) for place in _suspects(batch)]


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield (place of the first, texts), each batch small enough to be joined."""
    if sum(map(len, texts)) <= _BATCH_CHARS:
        yield 0, texts
        return
    ends = list(accumulate(map(len, texts)))
    first = done = 0
    while first < len(texts):
        after = max(first + 1, bisect_right(ends, done + _BATCH_CHARS))
        yield first, texts[first:after]
        first, done = after, ends[after - 1]


def _suspects(texts: Sequence[str]) -> list[int]:
    # each by itself: one letter beyond Latin-1 would make a joined text two or four bytes a letter
    try:
        encoded = list(map(str.encode, texts))
    except UnicodeEncodeError:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    data = _BETWEEN.join(encoded)
    starts = list(accumulate((size + 1 for size in map(len, encoded)), initial=0))
    machine, looks = automaton()
    found: set[int] = set()
    for index, start, _ in machine.find_matches_as_indexes(data, overlapping=True):
        place = bisect_right(starts, start) - 1
        if place not in found and any(
            _try(look, data, start, starts[place + 1] - 1) for look in looks[index] if not (look.detector.apart and _in_word(data, start))
        ):
            found.add(place)
    found.update(place for place in views.veiled(data, starts) - found if _under_veil(encoded[place]))
    return sorted(found)


def _under_veil(data: bytes) -> bool:
    return any(next(matches(view.data, view.joins), None) for view in views.readings(data))


def _try(look: Look, data: bytes, start: int, end: int) -> re.Match[bytes] | None:
    """Try a pattern at a literal of a text that ends before byte ``end``."""
    if look.detector.back:
        return look.pattern.search(data, max(0, start - look.detector.back), min(end, start + 64))
    return look.pattern.match(data, start + look.offset, end)


def _in_word(data: bytes, start: int) -> bool:
    """Tell whether a letter or digit stands before a place that belongs to no escape."""
    return data[start - 1 : start].isalnum() and _ESCAPE.search(data, max(0, start - 6), start) is None

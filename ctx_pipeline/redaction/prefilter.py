"""One pass over bytes that finds where a secret may stand, and nothing where none does."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.redaction.detectors import DETECTORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.redaction.shapes import Detector

ESCAPES = tuple(f"\\u00{digit}".encode() for digit in "234567")
"""JSON escapes of printable ASCII can spell any prefix: their lines always count as hits."""


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
        pattern = re.compile(detector.pattern)
        for literal in detector.literals:
            offset = len(literal) - 1 if detector.from_end else 0
            found.setdefault(literal, []).append(Look(rank, detector, pattern, offset))
    for literal in ESCAPES:
        found.setdefault(literal, [])
    machine = BytesAhoCorasick(list(found), implementation=Implementation.DFA)
    return Automaton(machine, tuple(map(tuple, found.values())))


def matches(data: bytes) -> Iterator[tuple[Look, re.Match[bytes]]]:
    """Yield every place where a detector's pattern matches, unchecked, in order of the literals."""
    machine, looks = automaton()
    for index, start, _ in machine.find_matches_as_indexes(data, overlapping=True):
        for look in looks[index]:
            match = _try(look, data, start)
            if match is not None:
                yield look, match


def hits(data: bytes) -> list[int]:
    """Return the offsets in JSONL bytes where a secret may stand (escaped or not), ascending.

    A superset of what the full patterns find in the decoded text of the same lines; one
    literal pass, then a short pattern at each literal found.
    """
    machine, looks = automaton()
    found = []
    for index, start, _ in machine.find_matches_as_indexes(data, overlapping=True):
        tries = looks[index]
        if not tries or any(_try(look, data, start) for look in tries):
            found.append(start)
    return sorted(set(found))


def dirty_lines(offsets: Iterable[int], starts: Sequence[int]) -> set[int]:
    """Return the numbers of the lines that hold one of the offsets; ``starts`` are the lines' first bytes."""
    return {bisect_right(starts, offset) - 1 for offset in offsets}


def _try(look: Look, data: bytes, start: int) -> re.Match[bytes] | None:
    if look.detector.back:
        return look.pattern.search(data, max(0, start - look.detector.back), start + 64)
    return look.pattern.match(data, start + look.offset)

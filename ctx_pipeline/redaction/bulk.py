"""The places of literals and veils in texts: Hyperscan reads much six times as fast as the automaton and takes longer to build."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any

from ctx_pipeline.redaction.views import VEILS, veiled

if TYPE_CHECKING:
    from collections.abc import Sequence

_MUCH = 8_000_000
"""Bytes that this process reads before the machine is worth its building (0.2 s)."""


@cache
def installed() -> bool:
    """Tell whether Hyperscan is here; it is not made for every version of Python."""
    return find_spec("hyperscan") is not None


class Bulk:
    """Finds literals, and veils beside them, by the machine that is worth its building for what this process reads."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals, self._sizes = literals, list(map(len, literals))
        self._read = 0
        self._lock = Lock()
        self._database: Any = None
        self._automaton: Any = None
        os.register_at_fork(after_in_child=self._take_over)

    def _take_over(self) -> None:
        """Let a child begin anew where a thread of its parent was reading when it forked."""
        if self._lock.locked():
            self._lock, self._database = Lock(), None

    def places(self, data: bytes, starts: Sequence[int]) -> tuple[list[tuple[int, int]], set[int]]:
        """Return (literal, first byte) of every place, and which of the texts that begin at ``starts`` hold a veil."""
        if self.worth(len(data)):
            return self.scan(data, starts)
        if self._automaton is None:
            from ahocorasick_rs import BytesAhoCorasick, Implementation

            self._automaton = BytesAhoCorasick(list(self._literals), implementation=Implementation.DFA)
        return [(index, start) for index, start, _ in self._automaton.find_matches_as_indexes(data, overlapping=True)], veiled(data, starts)

    def worth(self, size: int) -> bool:
        """Tell whether this process has read so much, with ``size`` bytes more, that the machine is worth its building."""
        self._read += size
        return self._read > _MUCH and installed()

    def prepare(self) -> None:
        """Build the machine, if it is not; a process that forks afterwards builds it for all."""
        with self._lock:
            if self._database is None and installed():
                self._database = _database([*map(re.escape, self._literals), *(first + rest for first, rest in VEILS)])
                self._read = _MUCH

    def scan(self, data: bytes, starts: Sequence[int]) -> tuple[list[tuple[int, int]], set[int]]:
        """Return what :meth:`places` does, by Hyperscan."""
        hits: list[tuple[int, int]] = []
        veils: list[int] = []
        sizes = self._sizes

        def found(pattern: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if pattern < len(sizes):
                hits.append((pattern, end - sizes[pattern]))
            else:
                veils.append(end - 1)

        self.prepare()
        with self._lock:  # a database has one place to work in
            self._database.scan(data, match_event_handler=found)
        return hits, {bisect_right(starts, at) - 1 for at in veils}


def _database(patterns: list[bytes]) -> Any:
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=patterns, ids=range(len(patterns)), elements=len(patterns), flags=hyperscan.HS_FLAG_DOTALL)
    return database

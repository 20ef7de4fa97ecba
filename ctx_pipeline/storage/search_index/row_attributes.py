"""What is known of each indexed row beside its words: kind, outcome, tool and time, packed into about a byte a row.

One record a part of the index, found by its first row id; row ids never change, so it
stays true when rows move to another part.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_right
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.model.tables import EVENT_KINDS, EVENTS, TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

QUARTER = 900_000_000
"""Microseconds of the unit in which times are kept: every zone's clock is whole quarters of an hour ahead of UTC."""

_LAST = 0xFFFFFFFF * QUARTER

OUTCOMES = ("none", "passed", "failed", "unanswered")
"""How the tool call ended that an event is the call or the result of; none for other events."""

_KIND_CODE = {kind: number for number, kind in enumerate(EVENT_KINDS)}
_OTHER = 255
"""Number of every tool beyond the first 254 of a part."""

_UNKNOWN = _KIND_CODE["unknown"]
_KIND, _CALL, _TS, _THREAD = (EVENTS.names.index(name) for name in ("kind", "call_id", "ts", "thread_id"))
_TOLD = tuple(TOOL_CALLS.names.index(name) for name in ("call_id", "tool", "is_error", "result_event"))


class Marks(NamedTuple):
    """A byte of kind, outcome and tool and a quarter of an hour for each row of a part; ``names`` has the tools by number, 0 is none."""

    kinds: bytes
    outcomes: bytes
    tools: bytes
    quarters: array[int]
    names: tuple[str, ...]
    starts: list[int]
    """rows at which another thread begins"""
    threads: list[str]
    """the threads that begin there"""


class MarkWriter:
    """Collects the marks of the sessions of one part, in the order of its rows."""

    def __init__(self) -> None:
        self._kinds = bytearray()
        self._outcomes = bytearray()
        self._tools = bytearray()
        self._quarters = array("I")
        self._names: dict[str, int] = {}
        self._threads: list[tuple[int, str]] = []

    def add(self, events: Sequence[Sequence[Any]], tool_calls: Sequence[Sequence[Any]]) -> None:
        """Add a session's events with what its tool calls say of them; both by column, in table order."""
        call_ids, times = events[_CALL], events[_TS]
        row = len(self._kinds)
        for thread, members in groupby(events[_THREAD]):
            self._threads.append((row, thread))
            row += sum(1 for _ in members)
        tools: dict[str | None, int] = {}
        outcomes: dict[str | None, int] = {}
        names = self._names
        for call_id, tool, failed, result in zip(*(tool_calls[place] for place in _TOLD), strict=True):
            number = names.get(tool) or (names.setdefault(tool, len(names) + 1) if len(names) < _OTHER - 1 else _OTHER)
            tools[call_id] = number
            outcomes[call_id] = 2 if failed else 1 if result else 3
        self._kinds += bytes(map(_KIND_CODE.get, events[_KIND], repeat(_UNKNOWN)))
        self._tools += bytes(map(tools.get, call_ids, repeat(0))) if tools else bytes(len(call_ids))
        self._outcomes += bytes(map(outcomes.get, call_ids, repeat(0))) if tools else bytes(len(call_ids))
        self._quarters.extend([t // QUARTER if t and 0 < t < _LAST else 0 for t in times])

    def packed(self) -> bytes:
        """Return the record of the part."""
        head = json.dumps([list(self._names), self._threads], ensure_ascii=True).encode()
        quarters = self._quarters
        if quarters.itemsize != 4:
            raise StoreDamaged("this machine's integers are not four bytes", hint="please report it")
        body = b"".join((head, b"\n", self._kinds, self._outcomes, self._tools, quarters.tobytes()))
        return zlib.compress(body, 1)


def unpacked(record: bytes, rows: int) -> Marks:
    """Return the marks of a part of so many rows; raises StoreDamaged where the record is of another shape."""
    try:
        head, _, body = zlib.decompress(record).partition(b"\n")
        names, threads = json.loads(head)
    except (zlib.error, ValueError) as error:
        raise StoreDamaged("the search index search.db is damaged", hint="run `ctx run`: it is made anew") from error
    if len(body) != rows * 7:
        raise StoreDamaged("the search index search.db is damaged: marks of another length", hint="run `ctx run`: it is made anew")
    quarters = array("I")
    quarters.frombytes(body[rows * 3 :])
    return Marks(
        body[:rows],
        body[rows : 2 * rows],
        body[2 * rows : 3 * rows],
        quarters,
        tuple(names),
        [r for r, _ in threads],
        [t for _, t in threads],
    )


def blank(rows: int) -> Marks:
    """Return the marks of rows of which nothing was told."""
    return Marks(bytes([_UNKNOWN]) * rows, bytes(rows), bytes(rows), array("I", bytes(4 * rows)), (), [], [])


def quarter_of(ts: int | None) -> int:
    """Return the quarter of an hour of a time in microseconds, 0 for none and for one that marks cannot hold."""
    return ts // QUARTER if ts and 0 < ts < _LAST else 0


def tool_of(marks: Marks, row: int) -> str | None:
    """Return the tool of a row's call, None where it has none."""
    number = marks.tools[row]
    return None if number == 0 else marks.names[number - 1] if number != _OTHER else "(other)"


def thread_of(marks: Marks, row: int) -> str | None:
    """Return the thread of a row, None where nothing was told."""
    number = bisect_right(marks.starts, row) - 1
    return marks.threads[number] if number >= 0 else None

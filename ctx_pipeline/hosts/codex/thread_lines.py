"""From the streams of one thread to its lines, each once.

The same rollout can lie in ``sessions``, in ``archived_sessions``, beside its packed
copy and in older generations. One stream is read whole; of the others only lines that
stand in no stream read before.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from ctx_pipeline.hosts._lines import read_records
from ctx_pipeline.hosts.codex import record_types
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.raw import Quarantined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.model.raw import StreamBytes

_NO_PAYLOAD = 3
_BLOCKS = 100


class Entry(Struct, gc=False):
    """One line: its place, its time, its type and its body; type None in bare files."""

    stream: StreamBytes
    prefix: str
    """``<stream>.<generation>.``, how the ids of its events begin"""
    line: int
    block: int
    start: int
    end: int
    ts: int | None
    type: str | None
    payload: record_types.Payload | None


@dataclass(frozen=True, slots=True)
class Lines:
    """All lines of one thread in order, and what could not be read."""

    entries: list[Entry]
    quarantined: list[Quarantined]
    repaired: int
    count: int


def read_thread(streams: Sequence[StreamBytes]) -> Lines:
    """Return the lines of a thread; a line that several streams hold is taken once."""
    ordered = sorted(streams, key=_rank)
    entries: list[Entry] = []
    bad: list[Quarantined] = []
    repaired = count = sources = 0
    seen: set[bytes] = set()
    for number, stream in enumerate(ordered):
        read, broken, mended, lines = _read(stream)
        if number:
            read = [e for e in read if _bytes(e) not in seen]
        if len(ordered) > 1:
            seen.update(map(_bytes, read))
        sources += bool(read)
        entries += read
        bad += broken
        repaired += mended
        count += lines
    if sources > 1:
        entries = _in_time(entries)
    return Lines(entries, bad, repaired, count)


def _rank(stream: StreamBytes) -> tuple[bool, bool, bool, int, str]:
    archived = stream.rel.startswith("archived_sessions/")
    return (not stream.current, stream.rel.endswith(".zst"), archived, -stream.generation, stream.stream)


def _bytes(entry: Entry) -> bytes:
    return entry.stream.data[entry.start : entry.end].strip()


def _in_time(entries: list[Entry]) -> list[Entry]:
    """Return entries by time; one without a time stays behind the one before it."""
    keyed = []
    last = 0
    for entry in entries:
        last = entry.ts or last
        keyed.append((last, entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]


def _read(stream: StreamBytes) -> tuple[list[Entry], list[Quarantined], int, int]:
    if stream.rel.endswith(".json"):
        return _read_document(stream)
    read = read_records(stream, record_types.wrapped)
    values: Iterable[record_types.Line] = read.values
    prefix = f"{stream.stream}.{stream.generation}."
    head = read.values[:_NO_PAYLOAD]
    if head and all(v.payload is None for v in head):
        read = read_records(stream, record_types.bare)
        # Before September 2025 a line is its own payload and only the first one has a time.
        entries = [
            Entry(stream, prefix, line, 0, start, end, micros(p.timestamp), None, p)
            for p, line, start, end in zip(read.values, read.lines, read.starts, read.ends, strict=True)
        ]
    else:
        entries = [
            Entry(stream, prefix, line, 0, start, end, micros(v.timestamp), v.type or "", v.payload)
            for v, line, start, end in zip(values, read.lines, read.starts, read.ends, strict=True)
        ]
    if read.glued:
        for former, entry in pairwise(entries):
            if entry.line == former.line:
                entry.block = former.block + _BLOCKS
    return entries, read.quarantined, read.repaired, read.count


def _read_document(stream: StreamBytes) -> tuple[list[Entry], list[Quarantined], int, int]:
    end = len(stream.data)
    try:
        value = record_types.document.decode(stream.data)
    except record_types.FAILURES as error:
        reason = f"not a rollout document: {type(error).__name__}"
        return [], [Quarantined(stream.stream, stream.generation, 0, 0, end, reason)] if end else [], 0, int(bool(end))
    prefix = f"{stream.stream}.{stream.generation}."
    items = ([value.session] if value.session else []) + value.items
    # events that a record adds beside its first take the numbers up to the next record's
    entries = [Entry(stream, prefix, 0, n * _BLOCKS, 0, end, micros(p.timestamp), None, p) for n, p in enumerate(items)]
    return entries, [], 0, 1

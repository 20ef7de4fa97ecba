"""What the index holds of a part, read from the lake: how an index is made anew."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline.storage.search_index.row_attributes import MarkWriter
from ctx_pipeline.storage.search_index.tokenize import documents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ctx_pipeline.storage.lake import Lake, Manifest

_READ = ("session_id", "thread_id", "kind", "ts", "text", "call_id")


class Indexed(NamedTuple):
    """What is indexed of a part: (row, said, done) in order, (session, first row, last row), and the records of marks and pages."""

    documents: Collection[tuple[int, str | None, str | None]]
    spans: Iterable[tuple[str, int, int]]
    marks: bytes = b""
    pages: bytes = b""


def rows_of(lake: Lake, path: str, live: set[str], manifest: Manifest) -> Indexed:
    """Return what is indexed of a part of the lake: the documents of its live sessions, the marks of all its rows."""
    calls = _calls_of(lake, manifest, live)
    columns = [list(column) for column in zip(*lake.scan(path, "events", _READ), strict=True)]
    events = dict(zip((name for name in EVENTS.names if name in _READ), columns, strict=True))
    spans: dict[str, tuple[int, int]] = {}
    texts: list[str | None] = []
    for row, (session, text) in enumerate(zip(events["session_id"], events["text"], strict=True)):
        alive = session in live
        texts.append(text if alive else None)
        if alive:
            spans[session] = (spans.get(session, (row, row))[0], row)
    marks = MarkWriter()
    first = 0
    for session, members in groupby(events["session_id"]):
        end = first + sum(1 for _ in members)
        piece = [events[name][first:end] if name in events else [] for name in EVENTS.names]
        marks.add(piece, list(zip(*calls.get(session, []), strict=True)) or [[] for _ in TOOL_CALLS.names])
        first = end
    return Indexed(
        documents(events["kind"], texts), [(s, first, last) for s, (first, last) in spans.items()], marks.packed(), lake.pages(path)
    )


def _calls_of(lake: Lake, manifest: Manifest, live: set[str]) -> dict[str, list[tuple]]:
    """Return the tool calls of some sessions of a cell, with the columns that marks are made of."""
    names = ("call_id", "session_id", "tool", "is_error", "result_event")
    places = [TOOL_CALLS.names.index(name) for name in TOOL_CALLS.names if name in names]
    found: dict[str, list[tuple]] = {}
    for part in manifest.of_table("tool_calls"):
        if live.isdisjoint(part.live):
            continue
        for told in lake.scan(part.path, "tool_calls", names):
            row: list[object] = [None] * len(TOOL_CALLS.names)
            for place, value in zip(places, told, strict=True):
                row[place] = value
            session = str(row[TOOL_CALLS.names.index("session_id")])
            if session in live and session in part.live:
                found.setdefault(session, []).append(tuple(row))
    return found

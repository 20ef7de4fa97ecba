"""Whole sessions out of the warehouse: every event with its tool call, its model call and how its turn ended."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.storage.warehouse.usage_sql import COST_SQL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection


class EventRow(NamedTuple):
    """One event; ``at`` in milliseconds since 1970, None where the host wrote no time."""

    thread: int
    """number of its thread, the main one first"""
    seq: int
    at: int | None
    kind: str
    event_id: str
    call_key: str | None
    text: str | None
    parent: str | None = None
    """event that it follows, where the host says so"""


class ThreadRow(NamedTuple):
    """One context window; rows stand in the order of their numbers."""

    thread_id: str
    parent: str | None
    kind: str
    agent: str | None
    window: int | None
    """tokens it holds as the host recorded it"""


class ToolRow(NamedTuple):
    """One tool call and how it ended; ``took`` in milliseconds."""

    call_event: str
    result_event: str | None
    tool: str
    action: str
    is_error: bool
    exit: int | None
    took: int | None
    result: str | None
    """of a command, from ``command_runs``; None for other tools"""
    line: str | None
    """line that shows the result of a command"""
    command: str | None = None
    """as it ran, without the script that called it"""


class CallRow(NamedTuple):
    """One model call: tokens, nano-dollars (None without a price), and whether it is counted in this session."""

    call_key: str
    thread: int
    at: int | None
    model: str
    input: int
    output: int
    written: int
    read: int
    context: int
    cost: int | None
    owner: bool


class TurnRow(NamedTuple):
    """How a turn ended, from the fact table."""

    thread: int
    first_event: str
    last_event: str
    ended: str
    interruption_event: str | None


class ImageRow(NamedTuple):
    """Where the bytes of a picture were captured."""

    event_id: str
    stream: str
    generation: int
    start: int
    end: int
    text: str


class WholeSession(NamedTuple):
    """Everything that the transcript of one session is drawn from."""

    events: list[EventRow]
    threads: list[ThreadRow]
    tools: list[ToolRow]
    calls: list[CallRow]
    turns: list[TurnRow]
    images: list[ImageRow]
    """attachments that name a picture"""


FEW = 6
"""Sessions that are asked for one by one."""

NO_ROWS = WholeSession([], [], [], [], [], [])
"""A session of which no event was recorded."""


def whole_sessions(
    connection: DuckDBPyConnection, wanted: Mapping[tuple[str, str], int], *, cost_mode: str = "auto"
) -> Iterator[tuple[tuple[str, str], WholeSession]]:
    """Yield the rows of each wanted (host, session_id), whose value is how many events it has, as they are met in the files.

    Events are scanned once and held only until their session is complete; a few sessions are
    asked for one by one, since DuckDB passes over what a constant rules out.
    """
    if 1 < len(wanted) <= FEW:
        for name, most in wanted.items():
            yield from whole_sessions(connection, {name: most}, cost_mode=cost_mode)
        return
    import pyarrow as pa

    names = list(wanted)
    hosts, ids = zip(*names, strict=True) if names else ((), ())
    columns = {"n": list(range(len(names))), "host": pa.array(hosts, pa.string()), "session_id": pa.array(ids, pa.string())}
    connection.register("asked", pa.table(columns))
    try:
        only = _one(ids)
        others = [_grouped(connection, row, query.replace("{cost}", COST_SQL[cost_mode]), ids) for row, query in _QUERIES]
        events: dict[int, list[EventRow]] = {}
        images: dict[int, list[ImageRow]] = {}

        def whole(n: int) -> WholeSession:
            threads, tools, calls, turns = (groups[n] for groups in others)
            return WholeSession(events.pop(n), threads, tools, calls, turns, images.pop(n, []))

        cursor = connection.execute(_EVENTS.replace("{one}", only), ids if only else ())
        while rows := cursor.fetchmany(_ROWS):
            for n, *values, stream, generation, start, end in rows:
                event = EventRow._make(values)
                events.setdefault(n, []).append(event)
                if stream is not None and event.text and '"sha256":' in event.text and '"image' in event.text:
                    images.setdefault(n, []).append(ImageRow(event.event_id, stream, generation, start, end, event.text))
            for n in [n for n, held in events.items() if len(held) >= wanted[names[n]]]:
                yield names[n], whole(n)
                for groups in others:
                    groups[n] = []
        for n in list(events):
            yield names[n], whole(n)
    finally:
        connection.unregister("asked")


def searched_texts(
    connection: DuckDBPyConnection, wanted: Mapping[tuple[str, str], bool], kinds: Sequence[str], longest: Sequence[int]
) -> Iterator[tuple[int, list[tuple[str, str, int | None, str | None]]]]:
    """Yield (number of the session, (kind, event id, milliseconds since 1970, text) of its events in order) of each wanted session.

    All events of a (host, session_id) with True, else those of some ``kinds``. Of a text there are as many characters as are
    searched: ``longest`` for sessions with True and for the others.
    """
    names = list(wanted)
    if 1 < len(names) <= FEW:
        for number, one in enumerate(names):
            for _, events in searched_texts(connection, {one: wanted[one]}, kinds, longest):
                yield number, events
        return
    import pyarrow as pa

    if not names:
        return
    hosts, ids = zip(*names, strict=True)
    columns = {"n": list(range(len(names))), "host": pa.array(hosts, pa.string()), "session_id": pa.array(ids, pa.string())}
    connection.register("asked", pa.table(columns | {"whole": list(wanted.values())}))
    try:
        only = _one(ids)
        found = connection.execute(_SAID.replace("{one}", only), [*longest, *(ids if only else ()), list(kinds)]).fetchall()
        for number, rows in groupby(found, itemgetter(0)):
            yield number, [(kind, event_id, at, text) for _, kind, event_id, at, text in rows]
    finally:
        connection.unregister("asked")


def _one(ids: Sequence[str]) -> str:
    """Return the condition that names a single session by a constant; empty for several."""
    return "AND x.session_id = ?" if len(ids) == 1 else ""


def _grouped(connection: DuckDBPyConnection, row: Any, query: str, ids: Sequence[str]) -> list[list[Any]]:
    groups: list[list[Any]] = [[] for _ in ids]
    only = _one(ids) if "{one}" in query else ""
    for n, *values in connection.execute(query.replace("{one}", only), ids if only else ()).fetchall():
        groups[n].append(row._make(values))
    return groups


_ROWS = 4_000
"""Events that are taken from the scan at once."""

_NUMBERED = """
    WITH numbered AS (
        SELECT a.n, t.thread_id, t.parent_thread_id, t.kind, t.agent, t.context_window,
               row_number() OVER (PARTITION BY a.n ORDER BY t.kind <> 'main', t.first_ts, t.thread_id) - 1 AS thread
        FROM threads t JOIN asked a ON a.host = t.host AND a.session_id = t.session_id)"""
_OF = "JOIN asked a ON a.host = x.host AND a.session_id = x.session_id"
_THREAD = "LEFT JOIN numbered h ON h.n = a.n AND h.thread_id = x.thread_id"

_OF_ATTACHMENT = ", ".join(f"CASE WHEN x.kind = 'attachment' THEN x.{name} END" for name in ("stream", "generation", "start", '"end"'))

_EVENTS = f"""{_NUMBERED} SELECT a.n, coalesce(h.thread, 0), x.seq, epoch_ms(x.ts), x.kind, x.event_id, x.call_key, x.text, x.parent_id,
    {_OF_ATTACHMENT} FROM events x {_OF} {_THREAD} WHERE true {{one}}"""

_SAID = f"""
    SELECT a.n, x.kind, x.event_id, epoch_ms(x.ts), left(x.text, CASE WHEN a.whole THEN ? ELSE ? END) FROM events x {_OF}
    WHERE true {{one}} AND (a.whole OR list_contains(?, x.kind)) ORDER BY a.n, x.thread_id, x.seq"""

_QUERIES: tuple[tuple[type, str], ...] = (
    (
        ThreadRow,
        f"{_NUMBERED} SELECT n, thread_id, parent_thread_id, kind, agent, context_window FROM numbered ORDER BY n, thread",
    ),
    (
        ToolRow,
        f"""SELECT a.n, x.call_event, x.result_event, x.tool, x.action, x.is_error, x.exit,
               CAST(date_diff('millisecond', x.started, x.ended) AS BIGINT), r.result, r.line, r.command
        FROM tool_calls x {_OF}
        LEFT JOIN command_runs r ON r.host = x.host AND r.session_id = x.session_id AND r.call_event = x.call_event
        WHERE true {{one}}""",
    ),
    (
        CallRow,
        f"""{_NUMBERED} SELECT a.n, c.call_key, coalesce(h.thread, 0), epoch_ms(c.ts), c.model, c.input, c.output,
               c.cache_write_5m + c.cache_write_1h, c.cache_read, c.context_tokens, {{cost}}, c.owner
        FROM model_calls c JOIN asked a ON a.host = c.host AND a.session_id = c.session_id
        LEFT JOIN numbered h ON h.n = a.n AND h.thread_id = c.thread_id
        ORDER BY a.n, c.ts NULLS LAST, c.start""",
    ),
    (
        TurnRow,
        f"""{_NUMBERED} SELECT a.n, coalesce(h.thread, 0), x.first_event, x.last_event, x.ended, x.interruption_event
        FROM turns x {_OF} {_THREAD} WHERE true {{one}}""",
    ),
)

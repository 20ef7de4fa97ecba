"""SQL for one session's page in the terminal: what the tables say of it."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import OF_A_COPY, digest
from ctx_pipeline.storage.warehouse.database import LESSONS, LESSONS_SQL, connect, known_meta
from ctx_pipeline.storage.warehouse.kept import holds
from ctx_pipeline.storage.warehouse.usage_sql import COST_SQL
from ctx_pipeline.storage.written_sessions import ARCHIVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage.lake import Lake


_SUMS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_write_5m_tokens": "cache_write_5m",
    "cache_write_1h_tokens": "cache_write_1h",
    "cache_read_tokens": "cache_read",
    "reasoning_tokens": "reasoning",
}
_ONE = "WHERE host = ? AND session_id = ?"
_READINGS = """
    SELECT signal, family, version, kind, value, label, unit, confidence, evidence, reason, metadata
    FROM readings WHERE host = ? AND session_id = ? ORDER BY family, signal"""
_AMONG = """
    WITH own AS (SELECT signal, value FROM readings WHERE host = ? AND session_id = ? AND value IS NOT NULL)
    SELECT r.signal, median(r.value) AS median, count(*) - 1 AS others,
           count(*) FILTER (WHERE r.value < own.value) AS lower, count(*) FILTER (WHERE r.value > own.value) AS higher
    FROM readings r JOIN own ON own.signal = r.signal WHERE r.value IS NOT NULL AND r.host = ? GROUP BY r.signal"""
_RESTAMPED = f"""
SELECT ts AS first_ts, ts AS last_ts, count(*) AS events FROM events {_ONE} AND ts IS NOT NULL
GROUP BY ts HAVING count(*) >= {OF_A_COPY} ORDER BY events DESC, first_ts LIMIT 1
"""
"""The moment that more events carry than any agent writes in one: they were stamped anew."""

_DID = f"""
SELECT thread_id, left(arg_min(text, seq) FILTER (kind = 'subagent_start'), 2000) AS task,
    left(arg_max(text, seq) FILTER (kind = 'answer' AND text <> ''), 2000) AS answer
FROM events {_ONE} GROUP BY thread_id
"""
"""What each thread was asked by another agent, and its last answer."""

_QUOTES = """
    SELECT event_id, left(coalesce(text, ''), 400) AS text
    FROM events WHERE host = ? AND session_id = ? AND list_contains(?, event_id)"""

_EVENT_QUOTES = """
    SELECT event_id, host, session_id, ts, kind, coalesce(text, '') AS text
    FROM events WHERE list_contains(?, host || '/' || session_id) AND list_contains(?, event_id)"""


def session_detail(lake: Lake, host: str, session_id: str, *, cost_mode: str = "auto") -> dict[str, Any] | None:
    """Return session, threads with their cost, kinds (event kind -> count), usage (owner rows) and readings; None when it is not there.

    A reading with a value has ``median`` (of all sessions of the host), ``others`` (how many more were measured),
    ``lower`` and ``higher`` (in how many of them the value is).
    """
    sums = ", ".join(f"coalesce(sum({column}), 0)::BIGINT AS {name}" for name, column in _SUMS.items())
    with closing(lake.connect()) as connection:
        lake.views(connection, ("sessions", "threads", "events", "model_calls", "readings"))

        def rows(sql: str) -> list[dict[str, Any]]:
            return _rows(connection, sql, [host, session_id])

        sessions = rows(f"SELECT * FROM sessions {_ONE}")
        if not sessions:
            return None
        kinds = rows(f"SELECT kind, count(*) AS n FROM events {_ONE} GROUP BY kind ORDER BY n DESC, kind")
        usage = rows(
            f"SELECT count(*) AS calls, {sums}, sum({COST_SQL[cost_mode]})::BIGINT AS cost_nano FROM model_calls c {_ONE} AND owner"
        )
        of_thread = rows(
            f"SELECT thread_id, sum({COST_SQL[cost_mode]})::BIGINT AS cost_nano FROM model_calls c {_ONE} AND owner GROUP BY thread_id"
        )
        cost = {r["thread_id"]: r["cost_nano"] for r in of_thread}
        did = {r.pop("thread_id"): r for r in rows(_DID)}
        restamped = rows(_RESTAMPED)
        among = {r.pop("signal"): r for r in _rows(connection, _AMONG, [host, session_id, host])}
        nothing = {"median": None, "others": 0, "lower": 0, "higher": 0}
        readings = [{**r, **among.get(r["signal"], nothing)} for r in rows(_READINGS)]
        failed = next((r["value"] for r in readings if r["signal"] == "failed_tool_call_count"), None)
        if failed is not None:
            sessions[0]["failed_tool_calls"] = int(failed)
        return {
            "session": sessions[0],
            "threads": [
                {
                    **r,
                    "cost_nano": cost.get(r["thread_id"]) or 0,
                    **did.get(r["thread_id"], {"task": None, "answer": None}),
                }
                for r in rows(f"SELECT * FROM threads {_ONE} ORDER BY first_ts, thread_id")
            ],
            "kinds": {r["kind"]: r["n"] for r in kinds},
            "usage": usage[0],
            "restamped": restamped[0] if restamped else None,
            "readings": readings,
        }


def session_readings(lake: Lake, cell: Cell, session_id: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the readings of a session of a partition, and the text (400 characters) of the events they rest on."""
    host = cell.host
    with closing(lake.connect()) as connection:
        lake.views(connection, ("readings", "events"), cells=(cell,), sessions={session_id})
        readings = _rows(connection, _READINGS, [host, session_id])
        events = sorted({event for r in readings for event in r["evidence"]})
        quotes = _rows(connection, _QUOTES, [host, session_id, events])
    return readings, {q["event_id"]: q["text"] for q in quotes}


def event_quotes(lake: Lake, sessions: Sequence[str], events: Sequence[str]) -> list[dict[str, Any]]:
    """Return the events of these ids in these sessions (``host/session_id``), in the order of the ids: place, time, kind and text."""
    with closing(lake.connect()) as connection:
        lake.views(connection, ("events",), sessions={name.partition("/")[2] for name in sessions})
        rows = _rows(connection, _EVENT_QUOTES, [list(sessions), list(events)])
    place = {event: number for number, event in enumerate(events)}
    for row in rows:
        row["ts"] = row["ts"].isoformat(timespec="milliseconds") + "Z" if row["ts"] is not None else None
    return sorted(rows, key=lambda row: place[row["event_id"]])


_PROOFS = (
    "SELECT e.ts, p.host, p.session_id, s.title, s.project, e.kind, e.event_id, left(e.text, 4000) AS text, p.value, p.label,"
    " CASE WHEN e.kind NOT IN ('prompt', 'permission') THEN NULL WHEN r.call_id IS NOT NULL THEN r.did ELSE b.did END AS before"
    " FROM (SELECT host, session_id, value, label, unnest(evidence) AS event_id FROM readings WHERE signal = ?) p"
    " JOIN events e ON e.host = p.host AND e.session_id = p.session_id AND e.event_id = p.event_id"
    " JOIN sessions s ON s.host = p.host AND s.session_id = p.session_id"
    " LEFT JOIN calls r ON e.kind = 'permission' AND r.host = e.host AND r.session_id = e.session_id AND r.call_id = e.call_id"
    " ASOF LEFT JOIN acts b ON b.host = e.host AND b.session_id = e.session_id AND b.thread_id = e.thread_id AND b.seq < e.seq"
    " WHERE (? IS NULL OR p.host = ?) AND (? IS NULL OR ? IN (s.project, s.repository))"
    " AND (? IS NULL OR e.ts >= make_timestamp(?)) AND (? IS NULL OR e.ts < make_timestamp(?)) ORDER BY e.ts DESC, p.session_id, e.event_id"
)
_ACTS = (
    "WITH calls AS (SELECT host, session_id, thread_id, seq, call_id,"
    " left(tool || coalesce(': ' || coalesce(argv[1], paths[1]), ''), 400) AS did FROM tool_calls),"
    " acts AS (SELECT host, session_id, thread_id, seq, did FROM calls UNION ALL"
    " SELECT host, session_id, thread_id, seq, left(text, 400) FROM events WHERE kind = 'answer' AND text <> '') "
)
"""What the agent said and did, in a few words each."""


def signal_events(
    lake: Lake, signal: str, *, host: str | None, project: str | None, since: int | None, until: int | None
) -> list[dict[str, Any]]:
    """Return the events that the readings of a signal rest on, the newest first; bounds in microseconds since 1970.

    ``before`` is what the agent said or did last before the person's words, None for other events.
    """
    chosen = [value for value in (host, project, since, until) for _ in range(2)]
    with closing(lake.connect()) as connection:
        lake.views(connection, ("readings", "events", "sessions", "tool_calls"))
        rows = _rows(connection, _ACTS + _PROOFS, [signal, *chosen])
    for row in rows:
        row["ts"] = row["ts"].isoformat(timespec="milliseconds") + "Z" if row["ts"] is not None else None
    return rows


_PROVEN_FILES = (
    "SELECT r.host, r.session_id, list(DISTINCT f.path ORDER BY f.path) FROM readings r"
    " JOIN file_accesses f ON f.host = r.host AND f.session_id = r.session_id AND f.call_event = r.evidence[1]"
    " WHERE r.signal = ? AND list_contains(?, r.host || '/' || r.session_id) GROUP BY ALL"
)


def evidence_files(lake: Lake, signal: str, sessions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return (host, session id) -> the files of the first event that a signal's reading rests on, of some sessions."""
    with closing(lake.connect()) as connection:
        lake.views(connection, ("readings", "file_accesses"), sessions={session for _, session in sessions})
        rows = connection.execute(_PROVEN_FILES, [signal, [f"{host}/{session}" for host, session in sessions]]).fetchall()
    return {(host, session): paths for host, session, paths in rows}


def values_of(lake: Lake, warehouse: Path, signal: str) -> dict[tuple[str, str], tuple[float | None, str | None]]:
    """Return (host, session id) -> value and label of a signal, of the sessions in which it could be measured."""
    sql = "SELECT host, session_id, value, label FROM {readings} WHERE signal = ? AND reason IS NULL"
    return {(host, session_id): (value, label) for host, session_id, value, label in _of_readings(lake, warehouse, sql, [signal])}


def measured(lake: Lake, warehouse: Path | DuckDBPyConnection, signals: Iterable[str]) -> Sequence[tuple[str, str, str, float, str | None]]:
    """Return host, session, signal, value and metadata of every reading of some signals that has a value, in their order.

    An open ``warehouse`` is asked as it is, one by its path where it holds what the lake does. What a file said
    last is kept for as long as it and the parts of the lake are the same, and then the very same value is returned: a server
    asks it again after every capture.
    """
    asked = tuple(sorted(signals))
    if isinstance(warehouse, Path):
        same = (warehouse, _stamp(warehouse), asked, digest(sorted((part.path, sorted(part.dead)) for part in lake.parts("readings"))))
        last = _LAST.get("answer")
        if last is not None and last[0] == same:
            return last[1]
    found = _of_readings(lake, warehouse, _MEASURED, [list(asked)])
    if isinstance(warehouse, Path) and len(found) <= MOST_KEPT:
        _LAST["answer"] = same, found
    return found


_LAST: dict[str, tuple[Any, Sequence[tuple[str, str, str, float, str | None]]]] = {}
"""What was asked last with its answer, in one value: a thread never gets the answer to what another asked."""
MOST_KEPT = 200_000
"""Readings of an answer that are kept for the next one; of more none are."""
_MEASURED = (
    "SELECT host, session_id, signal, value, metadata FROM {readings}"
    " WHERE value IS NOT NULL AND signal IN (SELECT unnest(CAST(? AS VARCHAR[])))"
    " ORDER BY ALL"
)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        known = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return known.st_mtime_ns, known.st_size, known.st_ino


def _of_readings(lake: Lake, warehouse: Path | DuckDBPyConnection, sql: str, asked: Sequence[Any]) -> list[Any]:
    """Run a query over ``{readings}``: those that the warehouse keeps, or where it was made of others the hundreds of parts of the lake."""
    if not isinstance(warehouse, Path):
        return warehouse.execute(sql.format(readings="main.reading_values"), asked).fetchall()
    import duckdb

    with suppress(CtxError, duckdb.Error), connect(warehouse, read_only=True) as kept:
        if holds(kept, "reading_values", lake):
            return kept.execute(sql.format(readings="reading_values"), asked).fetchall()
    with closing(lake.connect()) as connection:
        lake.views(connection, ("readings",))
        return connection.execute(sql.format(readings="readings"), asked).fetchall()


class SessionFacts(NamedTuple):
    """What a list of sessions shows of a captured one."""

    project: str
    repository: str | None
    title: str | None
    status: str
    last: float | None
    """time of the last event in seconds since 1970"""
    busy: bool
    """whether it holds a prompt, a model call or a tool call"""
    branch: str | None
    models: tuple[str, ...]


def session_facts(lake: Lake) -> dict[tuple[str, str], SessionFacts]:
    """Return what a list shows of every captured session by (host, session id)."""
    busy = "coalesce(prompts, 0) + coalesce(model_calls, 0) + coalesce(tool_calls, 0) > 0"
    with closing(lake.connect()) as connection:
        lake.views(connection, ("sessions",))
        sql = f"SELECT host, session_id, project, repository, title, status, epoch_us(last_ts) / 1e6, {busy}, branch, models FROM sessions"
        rows = connection.execute(sql).fetchall()
    return {(row[0], row[1]): SessionFacts._make((*row[2:9], tuple(row[9] or ()))) for row in rows}


def archived_sessions(lake: Lake) -> frozenset[tuple[str, str]]:
    """Return the sessions (host, session id) that are archived."""
    with closing(lake.connect()) as connection:
        lake.views(connection, ("sessions",))
        return frozenset(connection.execute("SELECT host, session_id FROM sessions WHERE status = ?", [ARCHIVED]).fetchall())


def _rows(connection: Any, sql: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    cursor = connection.execute(sql, parameters)
    names = [d[0] for d in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def session_candidates(lake: Lake, host: str | None, session_id: str | None, methods: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return memory candidates of one session, of a host or of all, by method, session and id."""
    conditions: list[str] = ["true"]
    parameters: list[Any] = []
    for condition, value in (("host = ?", host), ("session_id = ?", session_id), ("list_contains(?, method)", methods)):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    with closing(lake.connect()) as connection:
        lake.views(connection, ("candidates",))
        names = "candidate_id, host, session_id, method, version, kind, text, when_to_use, structured, evidence, confidence, priority"
        sql = (
            f"SELECT {names}, scope, risk, repository, cwd FROM candidates WHERE {' AND '.join(conditions)}"
            " ORDER BY method, host, session_id, candidate_id"
        )
        return _rows(connection, sql, parameters)


# Queries behind findings: which sessions there are, and what the warehouse counts over all of them.


SESSIONS_SQL = (
    "SELECT s.host, s.session_id, coalesce(s.title, s.session_id), coalesce(s.project, ''), s.unknown, s.quarantined FROM sessions s"
    " WHERE (? IS NULL OR s.host = ?) AND (? IS NULL OR ? IN (s.project, s.repository))"
    " AND (? IS NULL OR s.last_ts >= ?) AND (? IS NULL OR s.first_ts < ?) ORDER BY 1, 2"
)
"""Host, session, title, project, records of an unknown kind, records that could not be decoded."""


def counted(warehouse: Path) -> dict[str, int]:
    """Return status -> lessons; empty where there is no warehouse."""
    if told := known_meta(warehouse).get(LESSONS):
        return dict(json.loads(told))
    try:
        with connect(warehouse, read_only=True) as connection:
            return dict(connection.execute(LESSONS_SQL).fetchall())
    except CtxError:
        return {}

"""Aggregates of single sessions that a warehouse keeps: of one more session only its own rows are read.

What goes over sessions is added up from these tables. A build begins with a copy of the
former file, where the rows of the sessions whose parts in the lake are others now are
replaced by those that these parts hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.warehouse.usage_sql import kept_usage_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Protocol

    from duckdb import DuckDBPyConnection

    class _Part(Protocol):
        @property
        def path(self) -> str: ...
        @property
        def dead(self) -> Sequence[str]: ...
        @property
        def live(self) -> Sequence[str]: ...

    class Lake(Protocol):
        """What a build asks of the lake: the parts of a table, and a SELECT over those that hold some sessions."""

        def parts(self, table: str) -> Sequence[_Part]:
            """Return the parts of a table."""

        def relation_sql(self, table: str, *, sessions: Collection[str] | None = None) -> str:
            """Return a SELECT over the live rows of a table, with ``sessions`` of the parts that hold them."""


class Kept(NamedTuple):
    """A table of the warehouse with some rows a session: of which table of the lake it is made, and how."""

    table: str
    query: str
    """over ``{rows}``; every row has the session_id that it is of"""


KEPT: Mapping[str, Kept] = {
    "reading_values": Kept(
        "readings",
        """SELECT host, session_id, signal, family, version, kind, value, label, unit, reason,
                  CASE WHEN contains(metadata, '"dollars"') THEN metadata END AS metadata
           FROM {rows}""",
    ),
    "session_scores": Kept(
        "readings",
        """SELECT host, session_id, string_agg(signal, ' ' ORDER BY signal) AS signals, list(value ORDER BY signal) AS values
           FROM {rows} WHERE starts_with(signal, 'trajectory_') AND kind IN ('numeric', 'boolean') GROUP BY host, session_id""",
    ),
    "session_usage": Kept("model_calls", kept_usage_sql()),
    "session_tools": Kept(
        "tool_calls",
        """SELECT host, session_id, tool, action, count(*) AS calls, count(*) FILTER (WHERE is_error) AS failed,
                  count(*) FILTER (WHERE ended IS NULL) AS unanswered,
                  CAST(sum(in_chars) AS BIGINT) AS in_chars, CAST(sum(out_chars) AS BIGINT) AS out_chars
           FROM {rows} GROUP BY ALL""",
    ),
    "session_hours": Kept(
        "events",
        """SELECT host, session_id, date_trunc('hour', ts) AS hour, count(*) FILTER (WHERE kind = 'prompt') AS prompts,
                  count(*) FILTER (WHERE kind = 'compaction') AS compactions
           FROM {rows} WHERE kind IN ('prompt', 'compaction') GROUP BY ALL""",
    ),
    "session_streams": Kept("events", "SELECT DISTINCT host, session_id, stream FROM {rows}"),
    "session_commands": Kept(
        "command_runs",
        """SELECT host, session_id, count(*) AS commands, count(*) FILTER (WHERE result = 'failed') AS failed_commands
           FROM {rows} GROUP BY ALL""",
    ),
    "session_turns": Kept(
        "turns",
        """SELECT host, session_id, date_trunc('hour', began) AS hour,
                  CAST(sum(worked) AS BIGINT) AS microseconds
           FROM {rows} WHERE thread_id = session_id AND worked > 0 GROUP BY ALL""",
    ),
}
"""Table of the warehouse -> what it is made of."""

PARTS = "kept_parts"
"""Says which parts of the lake these tables were made of."""


def fill(connection: DuckDBPyConnection, lake: Lake | None, *, grown: bool) -> dict[str, set[str]]:
    """Make the tables of KEPT over the views of a warehouse; return table -> sessions whose rows are others, of those not read whole.

    In one that has ``grown`` out of a former file they are there, and the rows of sessions
    that changed are replaced; else, and without a lake that tells which sessions changed, all rows are read.
    """
    before = _parts_of(connection) if grown and lake is not None else {}
    made_of: list[tuple[str, str, str, str]] = []
    replaced: dict[str, set[str]] = {}
    for name, kept in KEPT.items():
        parts = list(lake.parts(kept.table)) if lake is not None else []
        now = {part.path: json.dumps(sorted(part.dead)) for part in parts}
        live = {part.path: part.live for part in parts}
        if before.get(name) and lake is not None:
            known = before[name]
            changed = {path for path, gone in now.items() if known.get(path) != gone}
            left = {path for path in known if path not in now or path in changed}
            stale = {session for path in changed for session in live[path]} | _sessions_of(connection, name, left)
            replaced[name] = stale
            _remove(connection, name, stale)
            if fresh := stale.intersection(session for sessions in live.values() for session in sessions):
                rows = f"({lake.relation_sql(kept.table, sessions=fresh)}) AS narrowed"
                rows = f"(SELECT * FROM {rows} SEMI JOIN stale USING (session_id))"
                connection.execute(f"INSERT INTO {name} {kept.query.format(rows=rows)}")
        else:
            # what another process commits after the parts were listed is read as well, and anew by the next build; the view
            # is older than the list, and what came between would count as read for good
            rows = f"main.{kept.table}" if lake is None else f"({lake.relation_sql(kept.table)}) AS whole"
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS {kept.query.format(rows=rows)}")
        made_of += [(name, path, gone, json.dumps(list(live[path]))) for path, gone in now.items()]
    connection.execute(f"CREATE OR REPLACE TABLE {PARTS} (name VARCHAR, path VARCHAR, gone VARCHAR, sessions VARCHAR)")
    if made_of:
        _insert(connection, PARTS, ("name", "path", "gone", "sessions"), made_of)
    return replaced


def holds(connection: DuckDBPyConnection, name: str, lake: Lake) -> bool:
    """Tell whether one of the tables of KEPT holds what the parts of the lake do now."""
    now = {part.path: json.dumps(sorted(part.dead)) for part in lake.parts(KEPT[name].table)}
    return _parts_of(connection, name).get(name, {}) == now


def _parts_of(connection: DuckDBPyConnection, *names: str) -> dict[str, dict[str, str]]:
    """Return table -> path -> dead sessions of the parts that a warehouse's kept tables, or some of them, were made of."""
    found: dict[str, dict[str, str]] = {}
    asked = [list(names or KEPT)]
    rows = connection.execute(f"SELECT name, path, gone FROM {PARTS} WHERE name IN (SELECT unnest(CAST(? AS VARCHAR[])))", asked)
    for name, path, gone in rows.fetchall():
        found.setdefault(name, {})[path] = gone
    return found


def _sessions_of(connection: DuckDBPyConnection, name: str, paths: Collection[str]) -> set[str]:
    """Return the sessions that had rows in some parts that a warehouse was made of."""
    if not paths:
        return set()
    asked = [name, sorted(paths)]
    rows = connection.execute(f"SELECT sessions FROM {PARTS} WHERE name = ? AND path IN (SELECT unnest(CAST(? AS VARCHAR[])))", asked)
    return {session for (sessions,) in rows.fetchall() for session in json.loads(sessions)}


def _remove(connection: DuckDBPyConnection, name: str, stale: Collection[str]) -> None:
    """Remove the rows of some sessions, which the table ``stale`` names afterwards."""
    if stale:
        connection.execute("CREATE OR REPLACE TEMP TABLE stale AS SELECT unnest(CAST(? AS VARCHAR[])) AS session_id", [sorted(stale)])
        connection.execute(f"DELETE FROM {name} WHERE session_id IN (SELECT session_id FROM stale)")


def _insert(connection: DuckDBPyConnection, table: str, names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    import pyarrow as pa

    connection.register("given", pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))
    try:
        connection.execute(f"INSERT INTO {table} SELECT * FROM given")
    finally:
        connection.unregister("given")

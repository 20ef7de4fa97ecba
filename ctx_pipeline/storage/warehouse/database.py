"""The warehouse: one DuckDB file that answers questions about the whole history.

Its views name exactly the live parts of the lake; its tables are small aggregates. The
file is rebuilt beside the old one and swapped, since DuckDB lets one process write and
locks the readers out meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.storage import connections, temporary
from ctx_pipeline.storage.files import Files, Made
from ctx_pipeline.storage.warehouse import kept, signal_sql
from ctx_pipeline.storage.warehouse.days import day_sql
from ctx_pipeline.storage.warehouse.usage_sql import amounts_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    Connect = Callable[[Path], AbstractContextManager[DuckDBPyConnection]]
    ProjectNames = Callable[[Iterable[tuple[str, str | None]]], Mapping[tuple[str, str | None], str]]

SCHEMA_VERSION = 12
"""Rises when an aggregate table changes, or when files made before may lack rows."""

MEMORY = "512MB"
"""The most that a connection to the warehouse holds."""

_NOTE = "made.json"
"""Repeats, beside the file, what it says of itself."""

DETECTORS = "detectors"
"""Row of ``meta``: the version of what finds secrets. A file never grows out of one that was made with
another: rows that are removed from a file stay in its bytes."""

LESSONS = "lessons"
"""Row of ``meta``: status -> lessons, so that DuckDB is not started to tell them."""

LESSONS_SQL = "SELECT status, CAST(sum(memories) AS BIGINT) FROM memory_counts GROUP BY ALL ORDER BY 1"

AGGREGATES = (
    "usage_by_day",
    "session_overview",
    "tool_use",
    "signal_summary",
    "signal_labels",
    *signal_sql.KEYS,
    "memory_counts",
    "redactions",
)
"""Tables of what goes over many sessions."""


@dataclass(frozen=True)
class Built:
    """What a build made: rows by aggregate table, the hash of its input and of its content."""

    rows: dict[str, int]
    fingerprint: str
    content_hash: str


def views(lake: Any) -> dict[str, str]:
    """Return view name -> SELECT over the live rows of each table of the lake."""
    return {name: lake.relation_sql(name) for name in TABLES}


def fingerprint(relations: Mapping[str, str], *, timezone: str | None, cost_mode: str) -> str:
    """Return the hash of everything a build depends on: the live parts, the zone, the cost mode, the schema."""
    return digest(SCHEMA_VERSION, sorted(relations.items()), day_sql("ts", timezone), cost_mode)


def places(path: Path) -> dict[str, Path]:
    """Return what a connection to a warehouse file may read, the store that it lies in, and where it puts what it cannot hold."""
    store = path.parents[1]
    return {"reads": store, "scratch": store / temporary.shared_name()}


@contextlib.contextmanager
def connect(path: Path, *, read_only: bool = False) -> Iterator[DuckDBPyConnection]:
    """Open a warehouse file with this package's settings; raises StoreError with a hint when it cannot be read."""
    import duckdb

    if read_only and not path.exists():
        raise StoreError(f"there is no warehouse at {path}", hint="make it with: ctx run")
    try:
        connection = connections.connect(str(path), read_only=read_only, memory=MEMORY, **places(path))
    except duckdb.Error as error:
        raise _unreadable(path, error) from error
    try:
        yield connection
    finally:
        connection.close()


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(f"the warehouse {path} cannot be opened: {error}", hint="remove the file and run: ctx run", path=str(path))


@contextlib.contextmanager
def of_sessions(
    connection: DuckDBPyConnection, lake: Any, wanted: Collection[str], *, timezone: str | None, cost_mode: str
) -> Iterator[None]:
    """Let the views of a warehouse read only the parts that hold rows of some sessions, by id; their other rows may be missing meanwhile.

    Where the lake holds other parts than the file names, the views stay as they are.
    """
    lake = lake.snapshot()
    made_of = connection.execute("SELECT value FROM meta WHERE key = 'fingerprint'").fetchall()
    narrowed: list[str] = []
    if made_of == [(fingerprint(views(lake), timezone=timezone, cost_mode=cost_mode),)]:
        narrowed = [name for name, table in TABLES.items() if "session_id" in table.names]
    for name in narrowed:
        connection.execute(f"CREATE TEMP VIEW {name} AS {lake.relation_sql(name, sessions=wanted)}")
    try:
        yield
    finally:
        for name in narrowed:
            connection.execute(f"DROP VIEW temp.{name}")


def build(
    relations: Mapping[str, str],
    target: Path,
    *,
    timezone: str | None = None,
    cost_mode: str = "auto",
    versions: Mapping[str, str] | None = None,
    project_names: ProjectNames | None = None,
    open_file: Connect = connect,
    lake: kept.Lake | None = None,
    anew: bool = False,
) -> Built:
    """Write a new warehouse file and put it in the place of ``target``; readers of the old one keep it.

    ``relations`` are the views (see :func:`views`), ``versions`` further rows of the table
    ``meta``. ``project_names`` gives the names under which aggregates hold projects, from
    (project, repository). ``open_file`` gives a connection to a path that does not exist yet, so that a
    Dagster resource can own it. With the ``lake`` that the views are of, the rows of single
    sessions that did not change are taken over from the old file, unless all is to be read ``anew``. The old file stays
    when anything fails.
    """
    made = fingerprint(relations, timezone=timezone, cost_mode=cost_mode)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = target.with_name(temporary.name())
    try:
        with contextlib.ExitStack() as opened:
            like = _shape() | {name: version for name, version in (versions or {}).items() if name == DETECTORS}
            connection, grown = _begun(opened, open_file, fresh, None if anew else target, like)
            _make_views(connection, relations, grown=grown)
            replaced = kept.fill(connection, lake, grown=grown)
            if grown and lake is not None:
                _narrow_events(connection, lake)
            # half of the aggregates ask the readings, which lie in hundreds of small parts, or the sums of calls
            connection.execute("CREATE TEMP VIEW readings AS SELECT * FROM main.reading_values")
            connection.execute("CREATE TEMP VIEW model_calls AS SELECT *, true AS owner FROM main.session_usage")
            if project_names is not None:
                _name_projects(connection, project_names)
            connection.execute(f"CREATE TABLE copies AS {signal_sql.COPIES}")
            queries = _aggregates(timezone, cost_mode)
            queries["signal_by"] = _split_readings(connection, replaced.get("reading_values") if grown else None)
            for name, query in queries.items():
                connection.execute(f"CREATE TABLE {name} AS {query}")
            rows = {name: _count(connection, name) for name in AGGREGATES}
            content = _content_hash(connection)
            meta = {
                **_shape(),
                "place": str(target.absolute()),
                "fingerprint": made,
                "content_hash": content,
                "rows": str(sum(rows.values())),
                LESSONS: json.dumps(dict(connection.execute(LESSONS_SQL).fetchall())),
                "timezone": timezone or "local",
                "cost_mode": cost_mode,
                **(versions or {}),
            }
            connection.execute("CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR)")
            columns = [list(column) for column in zip(*sorted(meta.items()), strict=True)]
            connection.execute("INSERT INTO meta SELECT unnest(CAST(? AS VARCHAR[])), unnest(CAST(? AS VARCHAR[]))", columns)
            connection.execute("CHECKPOINT")  # closing does the same and keeps to itself that the disk had no room for it
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(target)
        _keep_note(target, meta)
    finally:
        fresh.unlink(missing_ok=True)
        fresh.with_name(f"{fresh.name}.wal").unlink(missing_ok=True)
    return Built(rows, made, content)


def _name_projects(connection: DuckDBPyConnection, names: ProjectNames) -> None:
    """Let the aggregates see sessions under the names of their projects, where those differ from what was recorded."""
    import pyarrow as pa

    known = names(connection.execute("SELECT DISTINCT coalesce(project, ''), repository FROM main.sessions").fetchall())
    renamed = [(*place, name) for place, name in known.items() if name != place[0]]
    if renamed:
        columns = dict(zip(("project", "repository", "name"), map(list, zip(*renamed, strict=True)), strict=True))
        connection.register("renamed_rows", pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns])))
        connection.execute("CREATE TEMP TABLE renamed AS SELECT * FROM renamed_rows")
        connection.unregister("renamed_rows")
        connection.execute(
            "CREATE TEMP TABLE sessions AS SELECT s.* REPLACE (coalesce(r.name, s.project) AS project) FROM main.sessions s"
            " LEFT JOIN renamed r ON r.project = coalesce(s.project, '') AND r.repository IS NOT DISTINCT FROM s.repository"
        )


def read_meta(path: Path) -> dict[str, str]:
    """Return the rows of ``meta``; empty when there is no readable warehouse."""
    try:
        with connect(path, read_only=True) as connection:
            return dict(connection.execute("SELECT key, value FROM meta").fetchall())
    except Exception:  # noqa: BLE001 - whatever the file is, it is not a warehouse of ours and is built anew
        return {}


def known_meta(path: Path) -> dict[str, str]:
    """Return :func:`read_meta` of the file that lies there now, from a note beside it where that is of this very file.

    The note spares starting DuckDB.
    """
    try:
        status = path.stat()
    except OSError:
        return {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.with_name(_NOTE).read_bytes())
        if kept["stamp"] == [status.st_size, status.st_mtime_ns]:
            return {str(key): str(value) for key, value in kept["meta"].items()}
    meta = read_meta(path)
    _keep_note(path, meta)
    return meta


def _keep_note(path: Path, meta: Mapping[str, str]) -> None:
    with contextlib.suppress(StoreError, OSError):
        status = path.stat()
        note = {"stamp": [status.st_size, status.st_mtime_ns], "meta": meta}
        Files(path.parent).write(_NOTE, json.dumps(note).encode())


def made(path: Path) -> Made | None:
    """Return what the file that lies there now was made of; None where there is none, or one that does not say."""
    meta = known_meta(path)
    if not set(Made._fields) <= meta.keys():
        return None
    return Made(meta["input_fp"], meta["code_version"], meta["content_hash"], int(meta["rows"]))


def is_current(path: Path) -> bool:
    """Tell whether the file that lies there was made here, by a program that makes its tables as this one does."""
    meta = known_meta(path)
    return {**_shape(), "place": str(path.absolute())}.items() <= meta.items()


def _count(connection: DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def _content_hash(connection: DuckDBPyConnection) -> str:
    """Return the hash over all aggregate rows and lessons, in any order; a session's row carries the hash of its events.

    DuckDB adds the hashes up, so that no row of a long history is brought into Python for it.
    Lists are hashed as text as well: its hashes of one that is NULL, of an empty one and of one of NULLs are alike.
    """
    parts = []
    lists = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main' AND database_name = current_database()"
        " AND data_type LIKE '%[%' ORDER BY table_name, column_index"
    ).fetchall()
    for name in (*AGGREGATES, "memories"):
        hashed = ", ".join(("held", *(f'CAST(held."{column}" AS VARCHAR)' for table, column in lists if table == name)))
        row = connection.execute(f"SELECT count(*), CAST(sum(hash({hashed})) AS VARCHAR) FROM {name} AS held").fetchone()
        parts.append((name, *(row or ())))
    return digest(*parts, size=64)


def _begun(
    opened: contextlib.ExitStack, open_file: Connect, fresh: Path, former: Path | None, like: Mapping[str, str]
) -> tuple[DuckDBPyConnection, bool]:
    """Open the file that is to be made, and tell whether it is a copy of the former one: that is so where its ``meta`` has some rows."""
    if former is not None and like.items() <= known_meta(former).items():
        fresh.touch(mode=0o600)
        with contextlib.suppress(Exception):  # whatever the file is, a copy that cannot be opened is of no use
            shutil.copyfile(former, fresh)
            return opened.enter_context(open_file(fresh)), True
        fresh.unlink()
    connection = opened.enter_context(open_file(fresh))
    fresh.chmod(0o600)
    return connection, False


def _make_views(connection: DuckDBPyConnection, relations: Mapping[str, str], *, grown: bool) -> None:
    """Leave of a former warehouse the kept tables alone, make the views, and ``known_redactions`` of sessions that it has searched."""
    connection.execute(
        "CREATE TEMP TABLE known_redactions (host VARCHAR, session_id VARCHAR, content_hash VARCHAR, detector VARCHAR, found BIGINT)"
    )
    if grown:
        connection.execute(
            "INSERT INTO known_redactions SELECT host, session_id, content_hash, detector, found FROM main.redactions"
            " UNION ALL SELECT host, session_id, content_hash, NULL, 0 FROM main.session_overview"
        )
        connection.execute("CREATE TEMP TABLE former_buckets AS FROM main.session_buckets")
        connection.execute("CREATE TEMP TABLE former_signal_by AS FROM main.signal_by")
    left = connection.execute(
        "SELECT 'VIEW', view_name FROM duckdb_views() WHERE NOT internal AND schema_name = 'main' AND NOT temporary"
        " UNION ALL SELECT 'TABLE', table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT temporary"
    ).fetchall()
    for sort, name in left:
        if name not in kept.KEPT and name != kept.PARTS:
            connection.execute(f"DROP {sort} main.{name}")
    for name, relation in relations.items():
        connection.execute(f"CREATE VIEW {name} AS {relation}")


def _split_readings(connection: DuckDBPyConnection, replaced: Collection[str] | None) -> str:
    """Make ``session_buckets`` and return the query for ``signal_by``.

    With the sessions whose readings were ``replaced`` in a copy of a former warehouse the rows of buckets that hold none of
    them stay as they were.
    """
    connection.execute(f"CREATE TABLE session_buckets AS {signal_sql.BUCKETS}")
    if replaced is None:
        return f"{signal_sql.signal_by('session_buckets')} ORDER BY ALL"
    connection.execute(f"CREATE TEMP TABLE touched AS {signal_sql.TOUCHED}", [sorted(replaced)])
    made = signal_sql.signal_by("session_buckets", touched="touched")
    return f"FROM ({made}) UNION ALL (FROM former_signal_by ANTI JOIN touched USING (dimension, bucket)) ORDER BY ALL"


def _narrow_events(connection: DuckDBPyConnection, lake: kept.Lake) -> None:
    """Let what is read of events be read of sessions alone that the former warehouse has not searched."""
    unknown = connection.execute(
        "SELECT session_id FROM main.sessions ANTI JOIN known_redactions USING (host, session_id, content_hash)"
    ).fetchall()
    connection.execute(f"CREATE TEMP VIEW events AS {lake.relation_sql('events', sessions={session for (session,) in unknown})}")


def _shape() -> dict[str, str]:
    """Return the rows of ``meta`` that say how the tables of a file are made."""
    return {"schema_version": str(SCHEMA_VERSION), **{f"table.{t.name}": str(t.version) for t in TABLES.values()}}


def _aggregates(timezone: str | None, cost_mode: str) -> dict[str, str]:
    """Return aggregate table -> its query over the views, in order of building."""
    sums = amounts_sql(cost_mode, kept=True)
    return {
        "usage_by_day": f"""
            SELECT CAST(c.ts AS DATE) AS day_utc, {day_sql("c.ts", timezone)} AS day, c.host AS host,
                   coalesce(s.project, '') AS project, c.model AS model, {sums}, CAST(sum(c.web_searches) AS BIGINT) AS web_searches
            FROM session_usage c LEFT JOIN sessions s ON s.host = c.host AND s.session_id = c.session_id
            GROUP BY ALL ORDER BY ALL""",
        "session_overview": f"""
            WITH usage AS (
                SELECT c.host AS host, c.session_id AS session_id, {sums}, max(c.peak_context_tokens) AS peak_context_tokens
                FROM session_usage c GROUP BY ALL),
            compactions AS (
                SELECT host, session_id, CAST(sum(compactions) AS BIGINT) AS compactions FROM session_hours GROUP BY ALL),
            measured AS (
                SELECT host, session_id, CAST(bit_xor(hash(signal, version, value, label, reason)) AS VARCHAR) AS readings_hash
                FROM readings GROUP BY ALL),
            judged AS (
                SELECT host, session_id, CAST(max(value) AS BIGINT) AS failed_tool_calls
                FROM readings WHERE signal = 'failed_tool_call_count' AND value IS NOT NULL GROUP BY ALL)
            SELECT s.host, s.session_id, s.title, s.title_source, s.cwd, s.project, s.branch, s.version, s.models, s.first_ts, s.last_ts,
                   {day_sql("s.first_ts", timezone)} AS day, s.parent_session, s.status, s.threads, s.events, s.prompts,
                   s.tool_calls, coalesce(j.failed_tool_calls, s.failed_tool_calls) AS failed_tool_calls,
                   s.unknown, s.quarantined, s.lines, s.bytes, s.content_hash,
                   coalesce(u.calls, 0) AS calls, coalesce(u.input_tokens, 0) AS input_tokens,
                   coalesce(u.output_tokens, 0) AS output_tokens,
                   coalesce(u.cache_write_5m_tokens, 0) AS cache_write_5m_tokens,
                   coalesce(u.cache_write_1h_tokens, 0) AS cache_write_1h_tokens,
                   coalesce(u.cache_read_tokens, 0) AS cache_read_tokens, coalesce(u.reasoning_tokens, 0) AS reasoning_tokens,
                   coalesce(u.cost_nano, 0) AS cost_nano, coalesce(u.unpriced_calls, 0) AS unpriced_calls,
                   coalesce(u.recorded_calls, 0) AS recorded_calls,
                   coalesce(u.peak_context_tokens, 0) AS peak_context_tokens,
                   coalesce(k.compactions, 0) AS compactions, coalesce(d.commands, 0) AS commands,
                   coalesce(d.failed_commands, 0) AS failed_commands, coalesce(m.readings_hash, '') AS readings_hash
            FROM sessions s
            LEFT JOIN usage u ON u.host = s.host AND u.session_id = s.session_id
            LEFT JOIN compactions k ON k.host = s.host AND k.session_id = s.session_id
            LEFT JOIN session_commands d ON d.host = s.host AND d.session_id = s.session_id
            LEFT JOIN judged j ON j.host = s.host AND j.session_id = s.session_id
            LEFT JOIN measured m ON m.host = s.host AND m.session_id = s.session_id
            ORDER BY s.host, s.session_id""",
        "tool_use": """
            SELECT host, tool, action, CAST(sum(calls) AS BIGINT) AS calls, CAST(sum(failed) AS BIGINT) AS failed,
                   CAST(sum(unanswered) AS BIGINT) AS unanswered,
                   CAST(sum(in_chars) AS BIGINT) AS in_chars, CAST(sum(out_chars) AS BIGINT) AS out_chars
            FROM session_tools t ANTI JOIN copies c ON c.host = t.host AND c.session_id = t.session_id GROUP BY ALL ORDER BY ALL""",
        "signal_summary": f"""
            WITH {signal_sql.COUNTED}
            SELECT signal, any_value(family) AS family, max(version) AS version, kind, unit, count(*) AS sessions,
                   count(*) FILTER (WHERE reason IS NULL) AS measured, round(list_avg(list_sort(list(value))), 9) AS mean,
                   CAST(median(value) AS DOUBLE) AS median, CAST(quantile_cont(value, 0.9) AS DOUBLE) AS p90,
                   CAST(max(value) AS DOUBLE) AS highest,
                   CAST(min(value) AS DOUBLE) AS lowest, count(*) FILTER (WHERE value > 0) AS positive
            FROM counted GROUP BY signal, kind, unit ORDER BY signal, kind, unit""",
        "signal_labels": f"""
            WITH {signal_sql.COUNTED}
            SELECT signal, label, count(*) AS sessions FROM counted
            WHERE label IS NOT NULL AND kind = 'categorical' GROUP BY ALL ORDER BY ALL""",
        **signal_sql.QUERIES,
        "memory_counts": """
            SELECT kind, status, scope, count(*) AS memories, count(*) FILTER (WHERE len(flags) > 0) AS flagged
            FROM memories WHERE superseded_by IS NULL GROUP BY ALL ORDER BY ALL""",
        "redactions": """
            WITH done AS (SELECT DISTINCT host, session_id, content_hash FROM known_redactions),
            fresh AS (
                SELECT s.host, s.session_id, s.content_hash FROM sessions s
                ANTI JOIN done d ON d.host = s.host AND d.session_id = s.session_id AND d.content_hash = s.content_hash),
            marks AS (
                SELECT e.host, e.session_id, f.content_hash,
                       unnest(regexp_extract_all(e.text, '\\[REDACTED:([A-Za-z0-9_.-]+)\\]', 1)) AS detector
                FROM events e JOIN fresh f ON f.host = e.host AND f.session_id = e.session_id
                WHERE contains(e.text, '[REDACTED:'))
            SELECT host, session_id, content_hash, detector, count(*) AS found FROM marks GROUP BY ALL
            UNION ALL
            SELECT k.host, k.session_id, k.content_hash, k.detector, k.found FROM known_redactions k
            JOIN sessions s ON s.host = k.host AND s.session_id = k.session_id AND s.content_hash = k.content_hash
            WHERE k.detector IS NOT NULL
            ORDER BY 1, 2, 4""",
    }

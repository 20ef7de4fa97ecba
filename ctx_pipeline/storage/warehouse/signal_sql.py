"""What readings add up to, by signal and by project, host, model and month: the queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.storage.lake.queries import LakeConnection


DIMENSIONS = ("all", "host", "model", "month", "project")
"""What readings are split by; ``all`` has one bucket without a name."""

MONTH_OF_HOST = "host month"
"""Dimension of the months of one host, which a trend compares; its buckets are a host and a month with a blank between."""

COPIES = """
    SELECT s.host, s.session_id FROM sessions s
    ANTI JOIN (SELECT host, session_id FROM model_calls WHERE owner) o ON o.host = s.host AND o.session_id = s.session_id
    WHERE s.model_calls > 0"""
"""Sessions all of whose model calls count for others, copies as a whole; the queries below read a table of this name."""

COUNTED = """
    counted AS (
        SELECT r.* FROM readings r ANTI JOIN copies c ON c.host = r.host AND c.session_id = r.session_id)"""
"""Readings but for those of copies as a whole; one that went on has readings of its whole transcript."""

_MOSTLY = """
    used AS (
        SELECT host, session_id, model, sum(context_tokens + output) AS tokens FROM model_calls WHERE owner GROUP BY ALL),
    mostly AS (
        SELECT host, session_id, arg_max(model, {'tokens': tokens, 'model': model}) AS model FROM used GROUP BY ALL)"""

_PLACED = f"""{COUNTED}, {_MOSTLY},
    placed AS (
        SELECT r.host AS host, coalesce(m.model, '') AS model, s.month AS month, s.project AS project,
               r.signal, r.kind, r.unit, r.value, r.label, r.reason
        FROM counted r JOIN sessions s ON s.host = r.host AND s.session_id = r.session_id
        LEFT JOIN mostly m ON m.host = r.host AND m.session_id = r.session_id)"""

BUCKETS = f"""
    WITH {_MOSTLY}
    SELECT s.host, s.session_id, unnest(['all', 'host', 'model', 'month', 'project', '{MONTH_OF_HOST}']) AS dimension,
           unnest(['', s.host, coalesce(m.model, ''), s.month, s.project, concat_ws(' ', s.host, s.month)]) AS bucket
    FROM sessions s ANTI JOIN copies c ON c.host = s.host AND c.session_id = s.session_id
    LEFT JOIN mostly m ON m.host = s.host AND m.session_id = s.session_id"""
"""Each session with readings that count -> where these belong to, one row for each dimension; a bucket is NULL where nobody knows."""

TOUCHED = """
    WITH other AS ((FROM former_buckets EXCEPT FROM session_buckets) UNION ALL (FROM session_buckets EXCEPT FROM former_buckets)),
    changed AS (SELECT session_id FROM other UNION SELECT unnest(CAST(? AS VARCHAR[])))
    SELECT DISTINCT dimension, coalesce(bucket, '') AS bucket FROM (FROM former_buckets UNION ALL FROM session_buckets)
    WHERE session_id IN (FROM changed)"""
"""Buckets that sessions with other readings than before, which are asked with it, or in other buckets, are or were in."""


def signal_by(buckets: str = f"({BUCKETS})", *, touched: str = "") -> str:
    """Return the query for what the readings of all buckets add up to, with ``touched`` of those that a table so named holds."""
    only = f"SEMI JOIN {touched} t ON t.dimension = b.dimension AND t.bucket = coalesce(b.bucket, '')" if touched else ""
    return f"""
        WITH gathered AS (
            SELECT b.dimension, b.bucket, signal, kind, unit, count(*) AS sessions, count(reason) AS missing,
                   min(value) AS lowest, max(value) AS highest, list_sort(list(value) FILTER (WHERE value IS NOT NULL)) AS sorted,
                   quantile_cont(value, [0.5, 0.9]) AS quantiles,
                   count(*) FILTER (WHERE kind = 'boolean' AND value > 0) AS true_count
            FROM readings r JOIN {buckets} b ON b.host = r.host AND b.session_id = r.session_id {only}
            GROUP BY b.dimension, b.bucket, signal, kind, unit)
        SELECT dimension, coalesce(bucket, '') AS bucket, signal, kind, unit, sessions, sessions - missing AS measured, missing,
               lowest, highest, round(list_avg(sorted), 9) AS mean, round(list_stddev_samp(sorted), 9) AS deviation,
               CAST(quantiles[1] AS DOUBLE) AS median, CAST(quantiles[2] AS DOUBLE) AS p90,
               round(list_sum(sorted), 9) AS total, true_count
        FROM gathered"""


_SPLIT = """
    CASE WHEN GROUPING(host) = 0 THEN 'host' WHEN GROUPING(model) = 0 THEN 'model' WHEN GROUPING(month) = 0 THEN 'month'
         WHEN GROUPING(project) = 0 THEN 'project' ELSE 'all' END AS dimension,
    concat_ws(' ', host, model, month, project) AS bucket"""

QUERIES: Mapping[str, str] = {
    "signal_by": f"{signal_by()} ORDER BY ALL",
    "signal_label_by": f"""
        WITH {_PLACED}
        SELECT {_SPLIT}, signal, label, count(*) AS sessions
        FROM placed WHERE kind = 'categorical' AND label IS NOT NULL
        GROUP BY GROUPING SETS ((signal, label), (signal, label, host), (signal, label, model), (signal, label, month),
                                (signal, label, project))
        ORDER BY ALL""",
    "signal_reasons": f"""
        WITH {COUNTED}
        SELECT signal, reason, count(*) AS sessions FROM counted WHERE reason IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    "signal_histogram": f"""
        WITH {COUNTED}, ends AS (
            SELECT signal, min(value) AS low, max(value) AS top,
                   greatest(quantile_cont(value, 0.99), min(value)) AS high
            FROM counted WHERE kind = 'numeric' AND value IS NOT NULL GROUP BY signal),
        spans AS (
            SELECT signal, low, top, CASE WHEN high > low THEN high ELSE top END AS high FROM ends),
        binned AS (
            SELECT r.signal, s.low, s.top, (s.high - s.low) / 10 AS width,
                   CASE WHEN s.high > s.low
                        THEN CAST(least(9, floor((r.value - s.low) / (s.high - s.low) * 10)) AS INTEGER) ELSE 0 END AS bin
            FROM counted r JOIN spans s ON s.signal = r.signal WHERE r.kind = 'numeric' AND r.value IS NOT NULL)
        SELECT signal, bin, round(low + bin * width, 9) AS from_value,
               CASE WHEN bin = 9 OR width = 0 THEN top ELSE round(low + (bin + 1) * width, 9) END AS to_value, count(*) AS sessions
        FROM binned GROUP BY signal, bin, low, top, width ORDER BY signal, bin""",
}
"""Aggregate table -> its query over the tables of the lake."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "signal_by": ("dimension", "bucket", "signal", "kind", "unit"),
    "signal_label_by": ("dimension", "bucket", "signal", "label"),
    "signal_reasons": ("signal", "reason"),
    "signal_histogram": ("signal", "bin"),
}
"""Aggregate table -> its key.

A session belongs to the model that had most of its tokens, and to the month of its
cell. A histogram has ten bins of one width up to the 99th percentile; the last one holds
what is above.
"""


def rows(connection: DuckDBPyConnection | LakeConnection, name: str, *, built: bool = False) -> list[dict[str, Any]]:
    """Return the rows of one of QUERIES as dictionaries; with ``built`` from the table that a warehouse made of it."""
    order = ", ".join(KEYS[name])
    if not built:
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS copies AS {COPIES}")
    cursor = connection.execute(f"SELECT * FROM {name} ORDER BY {order}" if built else QUERIES[name])
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

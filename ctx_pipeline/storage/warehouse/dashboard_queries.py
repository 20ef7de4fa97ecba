"""What the page reads from a warehouse: rows as plain dictionaries and tuples, the SQL stays here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.storage.warehouse.usage_sql import COST_SQL, bounded_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duckdb import DuckDBPyConnection

USAGE = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "reasoning_tokens",
    "calls",
    "cost_nano",
    "unpriced_calls",
    "recorded_calls",
)
"""Columns of usage, in the order of every query of this module."""

MOST_MEMORIES = 2_000
"""Memories that the page holds; all of them are in ``ctx memory list``."""

_SUMS = ", ".join(f"{bounded_sum(name)} AS {name}" for name in USAGE)

QUERIES: dict[str, str] = {
    "days": f"SELECT day, host, {_SUMS} FROM usage_by_day WHERE day IS NOT NULL GROUP BY ALL ORDER BY day, host",
    "usage": f"SELECT day, host, project, model, {_SUMS} FROM usage_by_day GROUP BY ALL ORDER BY day NULLS FIRST, host, project, model",
    "models": f"SELECT host, model, {_SUMS} FROM usage_by_day GROUP BY ALL ORDER BY cost_nano DESC, calls DESC, host, model",
    "projects": f"""
        WITH used AS (SELECT project, {_SUMS} FROM usage_by_day GROUP BY ALL)
        SELECT s.project, count(*) AS sessions, CAST(sum(s.tool_calls) AS BIGINT) AS tool_calls,
               CAST(sum(s.failed_tool_calls) AS BIGINT) AS failed_tool_calls, max(s.last_ts) AS last_ts,
               {", ".join(f"coalesce(any_value(u.{name}), 0) AS {name}" for name in USAGE)}
        FROM session_overview s LEFT JOIN used u ON u.project = s.project
        GROUP BY s.project ORDER BY cost_nano DESC, sessions DESC, s.project""",
    "sessions": f"""
        WITH named AS (SELECT memory_id, evidence, unnest(sessions) AS session FROM memories),
        placed AS (
            SELECT n.session, n.memory_id, n.event
            FROM (SELECT session, memory_id, unnest(evidence) AS event FROM named) n
            JOIN session_streams s ON s.host || '/' || s.session_id = n.session AND s.stream = split_part(n.event, '.', 1)),
        learned AS (
            SELECT session, CAST(bit_xor(hash(memory_id, event)) AS VARCHAR) AS memories_hash
            FROM (SELECT session, memory_id, NULL AS event FROM named UNION ALL SELECT session, memory_id, event FROM placed)
            GROUP BY session)
        SELECT host, session_id, title, title_source, cwd, project, branch, version, models, first_ts, last_ts, parent_session, status,
               threads, events, prompts, tool_calls, failed_tool_calls, unknown, quarantined, lines, bytes, compactions, commands,
               failed_commands, peak_context_tokens, md5(CAST((s, memories_hash) AS VARCHAR)) AS stamp, content_hash AS content,
               {", ".join(USAGE)}
        FROM session_overview s LEFT JOIN learned ON session = host || '/' || session_id
        ORDER BY first_ts DESC NULLS LAST, host, session_id""",
    "signals": """
        SELECT signal, family, kind, unit, sessions, measured, mean, median, p90, lowest, highest, positive
        FROM signal_summary ORDER BY family, signal, kind, unit""",
    "signal_tops": """
        SELECT signal, max({'value': value, 'host': host, 'session_id': session_id}, 5) AS tops FROM reading_values
        WHERE kind IN ('numeric', 'boolean') AND value <> 0 GROUP BY signal ORDER BY signal""",
    "scores": "SELECT host, session_id, signals, values FROM session_scores ORDER BY host, session_id",
    "labels": "SELECT signal, label, sessions FROM signal_labels ORDER BY signal, sessions DESC, label",
    "memories": f"""
        SELECT memory_id, kind, left(text, 600) AS text, left(when_to_use, 300) AS when_to_use, status, flags, scope, repository,
               confidence, priority, support, uses, sessions, source, methods, risk, utility, links, superseded_by, first_ts, last_ts,
               len(evidence) AS evidence
        FROM memories ORDER BY status = 'needs_review' DESC, support DESC, priority DESC, memory_id LIMIT {MOST_MEMORIES}""",
    "learned": """
        SELECT memory_id, kind, left(text, 600) AS text, status FROM memories WHERE len(sessions) > 0 ORDER BY memory_id""",
    "memory_links": "SELECT memory_id, links FROM memories ORDER BY memory_id",
    "memory_status": "SELECT status, CAST(sum(memories) AS BIGINT) AS memories FROM memory_counts GROUP BY ALL ORDER BY ALL",
    "tools": "SELECT host, tool, action, calls, failed FROM tool_use ORDER BY calls DESC, host, tool, action LIMIT 200",
    "prompt_hours": """
        SELECT hour, CAST(sum(prompts) AS BIGINT) AS prompts
        FROM session_hours h ANTI JOIN copies c ON c.host = h.host AND c.session_id = h.session_id
        WHERE prompts > 0 AND hour IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    "working": """
        SELECT hour, host, CAST(sum(microseconds) AS DOUBLE) / 1e6 AS seconds FROM session_turns GROUP BY ALL ORDER BY ALL""",
    "redactions": "SELECT detector, CAST(sum(found) AS BIGINT) AS found FROM redactions GROUP BY ALL ORDER BY found DESC, detector",
    "prices": """
        SELECT price, CAST(sum(calls) AS BIGINT) AS calls FROM session_usage WHERE price IS NOT NULL GROUP BY price ORDER BY price""",
}
"""What the page shows of the whole history -> the query over the warehouse."""


class Limits(NamedTuple):
    """How much of a session its drill-down holds."""

    tool_calls: int
    model_calls: int


class Detail(NamedTuple):
    """The rows of one session's drill-down, but for its transcript."""

    host: str
    session_id: str
    tool_calls: list[tuple]
    """(milliseconds since 1970, tool, action, target, failed, exit, milliseconds it took, out_chars)"""
    model_calls: list[tuple]
    """(milliseconds since 1970, model, input, output, cache writes, cache read, context, nano-dollars or None, thread number)"""
    readings: list[tuple]
    """(signal, value, label, confidence, why it has no value, ids of the events it rests on with spaces between or None)"""
    memories: list[tuple]
    """(memory_id, ids of the events it rests on, in this session and others, with spaces between)"""
    models: list[tuple]
    """(model, calls, input, output, cache writes of five minutes, of an hour, cache read, nano-dollars or None), by cost"""
    threads: list[tuple]
    """(thread number, kind, agent or None, calls, prompt tokens, output tokens, nano-dollars or None); none where it is one thread"""


def rows(connection: DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    """Return the rows of one of QUERIES as dictionaries."""
    cursor = connection.execute(QUERIES[name])
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def details(connection: DuckDBPyConnection, wanted: Sequence[tuple[str, str, Limits]], *, cost_mode: str = "auto") -> Iterator[Detail]:
    """Yield the drill-down rows of the wanted (host, session_id, limits), in their order.

    Where a session has more than its limits, failed tool calls and the most expensive
    model calls are kept before the rest. One scan of each table serves all that is
    wanted, so callers ask for hundreds at a time.
    """
    import pyarrow as pa

    asked = [(number, host, session_id, *limits) for number, (host, session_id, limits) in enumerate(wanted)]
    names = ("n", "host", "session_id", *(f"most_{name}" for name in Limits._fields))
    columns = zip(*asked, strict=True) if asked else ([] for _ in names)
    connection.register("asked", pa.table(dict(zip(names, (list(c) for c in columns), strict=True))))
    try:
        cost = COST_SQL[cost_mode]
        priced = [query.replace("{cost}", cost) for query in (_MODEL_CALLS, _MODELS, _THREAD_SUMS)]
        queries = (_TOOL_CALLS, priced[0], _READINGS, _MEMORIES, *priced[1:])
        found = [_grouped(connection.execute(query).fetchall(), len(asked)) for query in queries]
    finally:
        connection.unregister("asked")
    for (host, session_id, _), *kept in zip(wanted, *found, strict=True):
        yield Detail(host, session_id, *kept)


def _grouped(found: Iterable[tuple], sessions: int) -> list[list[tuple]]:
    """Return the rows of each session, whose number is their first value, without it."""
    grouped: list[list[tuple]] = [[] for _ in range(sessions)]
    for row in found:
        grouped[row[0]].append(row[1:])
    return grouped


_THREADS = """
    threads_of AS (
        SELECT a.n, t.host, t.session_id, t.thread_id, t.kind, t.agent, count(*) OVER (PARTITION BY a.n) AS many,
               row_number() OVER (PARTITION BY a.n ORDER BY t.kind <> 'main', t.first_ts, t.thread_id) - 1 AS thread
        FROM threads t JOIN asked a ON a.host = t.host AND a.session_id = t.session_id)"""

_TOOL_CALLS = """
    SELECT a.n, epoch_ms(c.started) AS at, c.tool, c.action,
           left(coalesce(r.command, nullif(array_to_string(c.argv, ' '), ''), array_to_string(c.paths, ', ')), 400) AS target,
           c.is_error, c.exit, CAST(date_diff('millisecond', c.started, c.ended) AS BIGINT) AS took, c.out_chars
    FROM tool_calls c JOIN asked a ON a.host = c.host AND a.session_id = c.session_id AND a.most_tool_calls > 0
    LEFT JOIN command_runs r ON r.host = c.host AND r.session_id = c.session_id AND r.call_event = c.call_event
    QUALIFY row_number() OVER (PARTITION BY a.n ORDER BY NOT c.is_error, c.started NULLS LAST, c.seq) <= a.most_tool_calls
    ORDER BY a.n, c.started NULLS LAST, c.thread_id, c.seq"""

_MODEL_CALLS = f"""
    WITH {_THREADS}
    SELECT a.n, epoch_ms(c.ts) AS at, c.model, c.input, c.output, c.cache_write_5m + c.cache_write_1h AS written, c.cache_read,
           c.context_tokens, {{cost}} AS cost, coalesce(h.thread, 0) AS thread
    FROM model_calls c JOIN asked a ON a.host = c.host AND a.session_id = c.session_id AND a.most_model_calls > 0
    LEFT JOIN threads_of h ON h.n = a.n AND h.thread_id = c.thread_id
    WHERE c.owner
    QUALIFY row_number() OVER (PARTITION BY a.n ORDER BY coalesce({{cost}}, 0) DESC, c.ts, c.call_key) <= a.most_model_calls
    ORDER BY a.n, c.ts NULLS LAST, c.start"""

_READINGS = """
    SELECT a.n, r.signal, r.value, left(r.label, 300) AS label, r.confidence,
           CASE WHEN r.value IS NULL AND r.label IS NULL THEN r.reason END AS reason,
           CASE WHEN len(r.evidence) > 0 THEN array_to_string(r.evidence, ' ') END AS evidence
    FROM readings r JOIN asked a ON a.host = r.host AND a.session_id = r.session_id ORDER BY a.n, r.family, r.signal"""

_MEMORIES = """
    WITH named AS (
        SELECT m.memory_id, m.evidence, unnest(m.sessions) AS session FROM memories m)
    SELECT a.n, n.memory_id, array_to_string(n.evidence, ' ') AS evidence
    FROM named n JOIN asked a ON n.session = a.host || '/' || a.session_id ORDER BY n.memory_id"""

_MODELS = """
    SELECT a.n, c.model, count(*) AS calls, CAST(sum(c.input) AS BIGINT), CAST(sum(c.output) AS BIGINT),
           CAST(sum(c.cache_write_5m) AS BIGINT), CAST(sum(c.cache_write_1h) AS BIGINT), CAST(sum(c.cache_read) AS BIGINT),
           CAST(sum({cost}) AS BIGINT) AS cost
    FROM model_calls c JOIN asked a ON a.host = c.host AND a.session_id = c.session_id
    WHERE c.owner GROUP BY a.n, c.model ORDER BY a.n, cost DESC NULLS LAST, calls DESC, c.model"""

_THREAD_SUMS = f"""
    WITH {_THREADS}
    SELECT h.n, h.thread, h.kind, h.agent, count(c.call_key) AS calls,
           CAST(coalesce(sum(c.input + c.cache_write_5m + c.cache_write_1h + c.cache_read), 0) AS BIGINT),
           CAST(coalesce(sum(c.output), 0) AS BIGINT), CAST(sum({{cost}}) AS BIGINT) AS cost
    FROM threads_of h
    LEFT JOIN model_calls c ON c.host = h.host AND c.session_id = h.session_id AND c.thread_id = h.thread_id AND c.owner
    WHERE h.many > 1 GROUP BY ALL ORDER BY h.n, h.thread"""

"""The one definition of usage: which calls count, what their tokens are, whose day they fall on."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.storage.days import day_sql, day_start

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Group = Literal["day", "week", "month", "session", "project", "model", "thread"]

COST_SQL: Mapping[str, str] = {
    "auto": "coalesce(c.recorded_cost, c.cost)",
    "calculate": "c.cost",
    "display": "c.recorded_cost",
}
"""Nano-dollars of one call by cost mode: the host's own figure first, the list price alone, the host's alone."""

_SIDES = (("recorded_cost", "recorded_nano"), ("cost", "calculated_nano"))

SUMS_SQL = (
    "CAST(sum(c.input) AS BIGINT) AS input_tokens, "
    "CAST(sum(c.output) AS BIGINT) AS output_tokens, "
    "CAST(sum(c.cache_write_5m) AS BIGINT) AS cache_write_5m_tokens, "
    "CAST(sum(c.cache_write_1h) AS BIGINT) AS cache_write_1h_tokens, "
    "CAST(sum(c.cache_read) AS BIGINT) AS cache_read_tokens, "
    "CAST(sum(c.reasoning) AS BIGINT) AS reasoning_tokens, "
    "count(*) AS calls"
)

_KEYS: Mapping[str, tuple[str, str]] = {
    "day": ("date", "strftime({day}, '%Y-%m-%d')"),
    "week": ("date", "strftime(date_trunc('week', {day}), '%Y-%m-%d')"),
    "month": ("date", "strftime(date_trunc('month', {day}), '%Y-%m-%d')"),
    "session": ("session_id", "c.session_id"),
    "project": ("project", "coalesce(s.project, '')"),
    "model": ("", ""),
    "thread": ("thread", "CASE WHEN c.thread_id = c.session_id THEN 'main' ELSE 'subagent' END"),
}

_MARK = chr(31)
"""Between host and session where both are one parameter."""


def usage_sql(
    group: Group,
    *,
    since: date | datetime | None = None,
    until: date | datetime | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    cost_mode: str = "auto",
    only: Collection[tuple[str, str]] | None = None,
    without: Collection[tuple[str, str]] = (),
    apart: bool = False,
) -> tuple[str, list[Any]]:
    """Return the query for usage by day, week, month, session, project, model or thread, and its parameters.

    Works over the views ``model_calls`` and ``sessions`` of any connection. One row for
    each (key, host, model) with input_tokens (cached tokens are not in it),
    output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens,
    reasoning_tokens (a part of output), calls, cost_nano (nano-dollars), unpriced_calls
    (calls that add nothing to cost_nano) and recorded_calls (calls whose cost the host
    wrote down). The key is ``date`` (the day, the week's Monday or the month's first,
    ``YYYY-MM-DD``, null for calls without a time), ``session_id`` or ``project``.
    A project is a repository: its rows carry ``repository`` last, for several may share
    the short name, and ``project`` selects by either.

    ``only`` and ``without`` choose (host, session); ``apart`` adds the two sources of cost
    beside each other: recorded_nano and calculated_nano. Only calls that own their usage
    are counted. ``since`` and ``until`` select by the
    time of the call: a date is a whole day of ``timezone`` (both included), a datetime
    is a moment (``until`` excluded; naive means UTC). Raises UsageError for an unknown
    group or cost mode.
    """
    if group not in _KEYS:
        raise UsageError(f"usage cannot be grouped by {group!r}", hint=f"use one of {', '.join(_KEYS)}")
    if cost_mode not in COST_SQL:
        raise UsageError(f"cost mode {cost_mode!r} is not known", hint=f"use one of {', '.join(COST_SQL)}")
    name, expression = _KEYS[group]
    key = f"{expression.format(day=day_sql('c.ts', timezone))} AS {name}, " if name else ""
    conditions = ["c.owner"]
    parameters: list[Any] = []
    for condition, value in (
        ("c.ts >= ?", _moment(since, timezone, end=False)),
        ("c.ts < ?", _moment(until, timezone, end=True)),
        ("c.host = ?", host),
        ("? IN (s.project, s.repository)", project),
        ("c.model = ?", model),
    ):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    for chosen, negated in ((only, ""), (without or None, "NOT ")):
        if chosen is not None:
            conditions.append(f"concat(c.host, chr({ord(_MARK)}), c.session_id) {negated}IN (SELECT unnest(CAST(? AS VARCHAR[])))")
            parameters.append([f"{h}{_MARK}{s}" for h, s in sorted(chosen)])
    joined = " LEFT JOIN sessions s ON s.host = c.host AND s.session_id = c.session_id" if group == "project" or project is not None else ""
    cost = COST_SQL[cost_mode]
    place = ", coalesce(s.repository, '') AS repository" if group == "project" else ""
    sides = ", ".join(f"coalesce(sum(c.{column}), 0) AS {name}" for column, name in _SIDES)
    sql = (
        f"SELECT {key}c.host AS host, c.model AS model, {SUMS_SQL}, "
        f"coalesce(sum({cost}), 0) AS cost_nano, count(*) FILTER (WHERE {cost} IS NULL) AS unpriced_calls, "
        f"count(c.recorded_cost) AS recorded_calls{f', {sides}' if apart else ''}{place} "
        f"FROM model_calls c{joined} WHERE {' AND '.join(conditions)} "
        f"GROUP BY ALL ORDER BY {f'{name} NULLS FIRST, ' if name else ''}host, model{', repository' if place else ''}"
    )
    return sql, parameters


CANDIDATES_SQL = (
    "SELECT n.session_id, c.call_key, c.ts FROM callers n CROSS JOIN calls c ON c.session = n.number WHERE n.host = ? ORDER BY 1, 2"
)
"""Over the ledger: the calls that the sessions of a host may own."""

OWNERS_SQL = "SELECT call_key, owner_session FROM owners WHERE host = ?"
"""Over the ledger: who owns the calls that more than one session of a host has."""


USES_SQL = (
    "SELECT t.host, t.session_id, e.call_key, t.tool, t.action, t.argv, CASE WHEN lower(t.tool) = 'skill' THEN e.text END"
    " FROM tool_calls t JOIN events e ON e.event_id = t.call_event WHERE e.call_key IS NOT NULL ORDER BY t.session_id, t.thread_id, t.seq"
)
"""What each model call asked for: host, session, call key, tool, action, argv, and the arguments of a skill."""


BRANCHES_SQL = "SELECT host, session_id, branch FROM sessions WHERE branch IS NOT NULL"
"""The branch on which each session began."""


LIMITS_SQL = (
    f"SELECT e.host, e.session_id, epoch_us(e.ts), e.subtype, e.text, coalesce(s.project, ''), coalesce(s.repository, '')"
    " FROM events e LEFT JOIN sessions s ON s.host = e.host AND s.session_id = e.session_id"
    f" WHERE e.ts IS NOT NULL AND e.text IS NOT NULL"
    f" AND concat(e.host, chr({ord(_MARK)}), e.subtype) IN (SELECT unnest(CAST(? AS VARCHAR[]))) ORDER BY e.ts, e.event_id"
)
"""The events of these (host, subtype) in the order of time: host, session, microseconds, subtype, text, project, repository."""

CALL_TIMES_SQL = "SELECT host, epoch_us(ts) FROM model_calls WHERE owner AND ts IS NOT NULL ORDER BY ts"
"""When each model call was made."""

COMMITS_SQL = (
    "SELECT host, session_id, argv FROM tool_calls WHERE action = 'shell' AND NOT is_error AND CAST(argv AS VARCHAR) LIKE '%commit%'"
)
"""Shell commands that may have made a commit."""

OUTCOMES_SQL = (
    "SELECT s.host, s.session_id, s.project, s.month, epoch_us(s.first_ts), s.tool_calls,"
    " max(r.value) FILTER (WHERE r.signal = 'git_commits_made_during'), max(r.value) FILTER (WHERE r.signal = 'user_correction_count')"
    " FROM sessions s LEFT JOIN readings r ON r.host = s.host AND r.session_id = s.session_id"
    " AND r.signal IN ('git_commits_made_during', 'user_correction_count') GROUP BY ALL ORDER BY 1, 2"
)
"""What each session came to: host, session, project, month, first time, tool calls, commits that git showed, corrections."""


def marked(pairs: Collection[tuple[str, str]]) -> list[str]:
    """Return pairs of texts as single parameters of these queries."""
    return [f"{first}{_MARK}{second}" for first, second in sorted(pairs)]


def calls_sql(sessions: Collection[tuple[str, str]]) -> tuple[str, list[Any]]:
    """Return the query for all model calls of these (host, session), copies included, and its parameters.

    A row has the columns of ``model_calls`` with times as microseconds since 1970, and the project and its repository last.
    """
    names = ", ".join(f"epoch_us(c.{c.name})" if c.type == "time" else f'c."{c.name}"' for c in MODEL_CALLS.columns)
    sql = (
        f"SELECT {names}, coalesce(s.project, ''), coalesce(s.repository, '') FROM model_calls c"
        " LEFT JOIN sessions s ON s.host = c.host AND s.session_id = c.session_id"
        f" WHERE concat(c.host, chr({ord(_MARK)}), c.session_id) IN (SELECT unnest(CAST(? AS VARCHAR[])))"
        " ORDER BY c.host, c.session_id, c.call_key"
    )
    return sql, [[f"{h}{_MARK}{s}" for h, s in sorted(sessions)]]


def billed_sql(cost_mode: str) -> str:
    """Return the query for the tokens of every call that counts, by kind, and their cost in nano-dollars: one row."""
    names = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning")
    sums = ", ".join(f"CAST(coalesce(sum(c.{name}), 0) AS BIGINT)" for name in names)
    return f"SELECT {sums}, CAST(coalesce(sum({COST_SQL[cost_mode]}), 0) AS BIGINT) FROM model_calls c WHERE c.owner"


def bounded_sum(expression: str) -> str:
    """Return SQL for a sum that fits into a BIGINT: absurd costs of broken records end at its largest value and break no table."""
    return f"CAST(least(coalesce(sum({expression}), 0), 9223372036854775807) AS BIGINT)"


def all_calls_sql() -> str:
    """Return the query for all model calls, rows as in :func:`calls_sql`."""
    return calls_sql(())[0].partition(" WHERE ")[0] + " ORDER BY c.host, c.session_id, c.call_key"


def _moment(value: date | datetime | None, timezone: str | None, *, end: bool) -> datetime | None:
    """Return a bound as naive UTC; a date that ends a range means the start of the day after it."""
    if value is None:
        return None
    if isinstance(value, datetime):
        offset = value.utcoffset()
        return (value - offset).replace(tzinfo=None) if offset is not None else value
    return day_start(value + timedelta(days=1) if end else value, timezone)

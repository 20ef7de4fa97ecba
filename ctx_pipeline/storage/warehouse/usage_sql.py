"""Queries of usage: which calls count, and the sums of their tokens and costs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.model.bounded_cache import drop_older_half
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import COST_RULE
from ctx_pipeline.storage.lake.queries import relation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ctx_pipeline.storage.lake import Lake
    from ctx_pipeline.storage.lake.manifests import Part

COST_SQL: Mapping[str, str] = {mode: f"coalesce({', '.join(f'c.{name}' for name in names)}, NULL)" for mode, names in COST_RULE.items()}
"""Nano-dollars of one call ``c`` by cost mode"""

_TOKENS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning")
_SIDES = (("recorded_cost", "recorded_nano"), ("cost", "calculated_nano"))

_MARK = chr(31)
"""Between host and session where both are one parameter."""

_QUARTER_HOUR = 900_000_000


def kept_usage_sql() -> str:
    """Return the query for the sums of the calls in ``{rows}`` that count, by session, thread, model, price and quarter of an hour.

    Every sum of calls that this module knows can be taken over these rows in place of the calls themselves.
    """
    tokens = ", ".join(f"CAST(coalesce(sum({name}), 0) AS HUGEINT) AS {name}" for name in (*_TOKENS, "context_tokens", "web_searches"))
    costs = ", ".join(
        f"{_exact_sum(cost)} AS {mode}_nano, count(*) - count({cost}) AS {mode}_unpriced"
        for mode, cost in ((mode, f"coalesce({', '.join(names)}, NULL)") for mode, names in COST_RULE.items())
    )
    sides = ", ".join(f"{_exact_sum(column)} AS {name}" for column, name in _SIDES)
    return (
        f"SELECT host, session_id, thread_id = session_id AS main, model, price,"
        f" make_timestamp(epoch_us(ts) - epoch_us(ts) % {_QUARTER_HOUR}) AS ts, count(*) AS calls, {tokens},"
        f" max(context_tokens) AS peak_context_tokens, count(recorded_cost) AS recorded_calls, {costs}, {sides}"
        " FROM {rows} WHERE owner GROUP BY ALL"
    )


def amounts_sql(cost_mode: str, *, bounded: bool = True, kept: bool = False) -> str:
    """Return the sums of calls ``c``: tokens by kind, calls, cost_nano, unpriced_calls and recorded_calls.

    ``input_tokens`` has no cached tokens, ``reasoning_tokens`` are a part of output. Absurd
    costs of broken records end at the largest BIGINT and break no table, unless ``bounded`` is off.
    With ``kept`` the rows ``c`` are those of :func:`kept_usage_sql`.
    """
    total = bounded_sum if bounded else _exact_sum
    cost = COST_SQL[cost_mode]
    tokens = ", ".join(f"CAST(coalesce(sum(c.{name}), 0) AS BIGINT) AS {name}_tokens" for name in _TOKENS)
    if kept:
        return (
            f"{tokens}, CAST(sum(c.calls) AS BIGINT) AS calls, {total(f'c.{cost_mode}_nano')} AS cost_nano, "
            f"CAST(sum(c.{cost_mode}_unpriced) AS BIGINT) AS unpriced_calls, CAST(sum(c.recorded_calls) AS BIGINT) AS recorded_calls"
        )
    return (
        f"{tokens}, count(*) AS calls, {total(cost)} AS cost_nano, "
        f"count(*) FILTER (WHERE {cost} IS NULL) AS unpriced_calls, count(c.recorded_cost) AS recorded_calls"
    )


def sums_sql(
    *,
    time: bool,
    session: bool,
    thread: bool,
    cost_mode: str = "auto",
    bounds: tuple[int | None, int | None] = (None, None),
    host: str | None = None,
    only: Collection[tuple[str, str]] | None = None,
    without: Iterable[tuple[str, str]] = (),
    kept: bool = False,
) -> tuple[str, list[Any]]:
    """Return the query for the sums of the calls that count, and its parameters.

    Works over the views ``model_calls`` and ``sessions`` of any connection. A row has host,
    model, the microsecond at which the call's quarter of an hour begins (null without
    ``time``, and for calls without one), whether it is of the main thread (true without
    ``thread``), session id, project, repository and branch (empty without ``session``), and
    the sums of :func:`amounts_sql` with recorded_nano and calculated_nano behind them.
    ``bounds`` are the first microsecond of the calls and the first after them. ``only`` and ``without`` choose (host, session).
    With ``kept`` the calls are those of a warehouse's table ``session_usage``, which has their sums.
    """
    moment = f"epoch_us(c.ts) - epoch_us(c.ts) % {_QUARTER_HOUR}" if time else "CAST(NULL AS BIGINT)"
    main = ("c.main" if kept else "c.thread_id = c.session_id") if thread else "true"
    names = ("c.session_id", "coalesce(s.project, '')", "coalesce(s.repository, '')", "coalesce(s.branch, '')") if session else ("''",) * 4
    joined = " LEFT JOIN sessions s ON s.host = c.host AND s.session_id = c.session_id" if session else ""
    conditions, parameters = ["true" if kept else "c.owner"], list[Any]()
    for condition, value in (("epoch_us(c.ts) >= ?", bounds[0]), ("epoch_us(c.ts) < ?", bounds[1]), ("c.host = ?", host)):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    for chosen, negated in ((only, ""), (list(without) or None, "NOT ")):
        if chosen is not None:
            conditions.append(f"concat(c.host, chr({ord(_MARK)}), c.session_id) {negated}IN (SELECT unnest(CAST(? AS VARCHAR[])))")
            parameters.append(marked(chosen))
    sides = ", ".join(f"{_exact_sum(f'c.{name if kept else column}')} AS {name}" for column, name in _SIDES)
    table = "session_usage" if kept else "model_calls"
    sql = (
        f"SELECT c.host, c.model, {moment} AS ts, {main} AS main, {', '.join(f'{name} AS place_{n}' for n, name in enumerate(names))}, "
        f"{amounts_sql(cost_mode, bounded=False, kept=kept)}, {sides} FROM {table} c{joined} WHERE {' AND '.join(conditions)} GROUP BY ALL"
    )
    return sql, parameters


CANDIDATES_SQL = (
    "SELECT n.session_id, c.call_key, c.ts FROM callers n CROSS JOIN calls c ON c.session = n.number WHERE n.host = ? ORDER BY 1, 2"
)
"""Over the ledger: the calls that the sessions of a host may own."""

SESSION_KEYS_SQL = (
    "SELECT n.session_id, c.call_key FROM callers n CROSS JOIN calls c ON c.session = n.number"
    " WHERE n.host = ?1 AND n.session_id IN (SELECT value FROM json_each(?2))"
)
"""Over the ledger: the calls that some sessions of a host, a list as JSON, may own."""

KEY_HOLDERS_SQL = (
    "SELECT DISTINCT n.session_id FROM json_each(?2) asked CROSS JOIN calls c ON c.call_key = asked.value"
    " CROSS JOIN callers n ON n.number = c.session WHERE n.host = ?1"
)
"""Over the ledger: the sessions of a host that have some calls, a list of keys as JSON."""

OWNERS_SQL = "SELECT call_key, owner_session FROM owners WHERE host = ?"
"""Over the ledger: who owns the calls that more than one session of a host has."""

ALL_OWNERS_SQL = "SELECT host, call_key, owner_session, rule FROM owners"

_COPIES = "SELECT n.host, n.session_id FROM calls c JOIN owners o ON o.call_key = c.call_key JOIN callers n ON n.number = c.session"

HOLDERS_SQL = (
    "WITH asked AS (SELECT session, call_key FROM calls WHERE ts >= ? AND ts < ?)"
    " SELECT n.host, n.session_id FROM callers n WHERE n.number IN (SELECT session FROM asked)"
    f" UNION {_COPIES} WHERE c.call_key IN (SELECT call_key FROM asked)"
)
"""Over the ledger: (host, session) with calls in a time, or with copies of these."""

SESSION_HOLDERS_SQL = (
    "WITH asked AS (SELECT c.call_key FROM callers n JOIN calls c ON c.session = n.number WHERE n.session_id = ?1)"
    " SELECT n.host, n.session_id FROM callers n WHERE n.session_id = ?1"
    f" UNION {_COPIES} WHERE c.call_key IN (SELECT call_key FROM asked)"
    " UNION SELECT host, owner_session FROM owners WHERE call_key IN (SELECT call_key FROM asked)"
)
"""Over the ledger: (host, session) of this id, or with copies of its calls, or that its calls count for."""


USES_SQL = (
    "SELECT t.host, t.session_id, e.call_key, t.tool, t.action, t.argv, CASE WHEN lower(t.tool) = 'skill' THEN e.text END"
    " FROM tool_calls t JOIN events e ON e.event_id = t.call_event WHERE e.call_key IS NOT NULL ORDER BY t.session_id, t.thread_id, t.seq"
)
"""What each model call asked for: host, session, call key, tool, action, argv, and the arguments of a skill."""


MISSING_OUTPUT_SQL = "SELECT host, session_id, metadata FROM readings WHERE signal = 'estimated_missing_output' AND value IS NOT NULL"
"""Sessions whose missing output was estimated, with the calls that it concerns as JSON: host, session, details."""

PLACED_CALLS_SQL = (
    "SELECT c.host, c.session_id, c.call_key, epoch_us(c.ts), c.model,"
    " coalesce(s.project, ''), coalesce(s.repository, ''), coalesce(s.branch, '')"
    " FROM model_calls c LEFT JOIN sessions s ON s.host = c.host AND s.session_id = c.session_id"
    " WHERE c.owner AND c.call_key IN (SELECT unnest(CAST(? AS VARCHAR[])))"
)
"""What filters need to know of the calls of these keys."""


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
    "SELECT s.host, s.session_id, s.project, s.repository, s.month, epoch_us(s.first_ts), s.tool_calls,"
    " max(r.value) FILTER (WHERE r.signal = 'git_commits_made_during'), max(r.value) FILTER (WHERE r.signal = 'user_correction_count'),"
    " max(r.evidence) FILTER (WHERE r.signal = 'user_correction_count')"
    " FROM sessions s LEFT JOIN readings r ON r.host = s.host AND r.session_id = s.session_id"
    " AND r.signal IN ('git_commits_made_during', 'user_correction_count') GROUP BY ALL ORDER BY 1, 2"
)
"""What each session came to: host, session, project, repository, month, first time, tool calls, commits that git showed, corrections.

Last the events of the first eight corrections.
"""


def marked(pairs: Collection[tuple[str, str]]) -> list[str]:
    """Return pairs of texts as single parameters of these queries."""
    return [f"{first}{_MARK}{second}" for first, second in sorted(pairs)]


def calls_sql(sessions: Collection[tuple[str, str]]) -> tuple[str, list[Any]]:
    """Return the query for all model calls of these (host, session), copies included, and its parameters.

    A row has the columns of ``model_calls`` with times as microseconds since 1970, and the session's project, repository and branch last.
    """
    names = ", ".join(f"epoch_us(c.{c.name})" if c.type == "time" else f'c."{c.name}"' for c in MODEL_CALLS.columns)
    sql = (
        f"SELECT {names}, coalesce(s.project, ''), coalesce(s.repository, ''), coalesce(s.branch, '') FROM model_calls c"
        " LEFT JOIN sessions s ON s.host = c.host AND s.session_id = c.session_id"
        f" WHERE concat(c.host, chr({ord(_MARK)}), c.session_id) IN (SELECT unnest(CAST(? AS VARCHAR[])))"
        " ORDER BY c.host, c.session_id, c.call_key"
    )
    return sql, [[f"{h}{_MARK}{s}" for h, s in sorted(sessions)]]


PRICED_SQL = "SELECT model, price, max(epoch_us(ts)), max(context_tokens) FROM model_calls WHERE owner AND cache_read > 0 GROUP BY ALL"
"""Each price that calls with cached prompts were billed at: model, price, and the time and size of a call at it."""


def cache_read_cost_sql(
    rates: Collection[tuple[str, str | None, float, float, float, float]],
    cost_mode: str,
    *,
    bounds: tuple[int | None, int | None] = (None, None),
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
) -> tuple[str, list[Any]]:
    """Return the query for the nano-dollars that calls paid for cached prompts, and its parameters.

    ``rates`` are (model, price, nano-dollars a token of input, of both kinds of cache write and of cache read);
    the other streams are paid first, as ``ctx gain`` does.
    """
    before = " + ".join(f"round_even(c.{name} * r.rate_{n}, 0)" for n, name in enumerate(("input", "cache_write_5m", "cache_write_1h")))
    conditions = ["c.owner", "c.cache_read > 0"]
    parameters: list[Any] = [list(column) for column in zip(*rates, strict=True)] or [[]] * 6
    for condition, value in (
        ("epoch_us(c.ts) >= ?", bounds[0]),
        ("epoch_us(c.ts) < ?", bounds[1]),
        ("c.host = ?", host),
        ("c.model = ?", model),
    ):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    if project is not None:
        conditions.append(
            "EXISTS (FROM sessions s WHERE s.host = c.host AND s.session_id = c.session_id"
            " AND (? IN (s.project, s.repository) OR ends_with(s.repository, '/' || ?)))"
        )
        parameters += [project, project]
    paid = f"least(round_even(c.cache_read * r.rate_3, 0), greatest(0, {COST_SQL[cost_mode]} - ({before})))"
    columns = ", ".join(f"unnest(CAST(? AS DOUBLE[])) AS rate_{n}" for n in range(4))
    sql = (
        f"WITH r AS (SELECT unnest(CAST(? AS VARCHAR[])) AS model, unnest(CAST(? AS VARCHAR[])) AS price, {columns})"
        f" SELECT CAST(coalesce(sum({paid}), 0) AS BIGINT) FROM model_calls c"
        f" JOIN r ON r.model = c.model AND r.price IS NOT DISTINCT FROM c.price WHERE {' AND '.join(conditions)}"
    )
    return sql, parameters


_PARTS_AT_ONCE = 64
"""A part with dead sessions is a SELECT of its own, and the time of a query of many grows with their square."""
_MOST_PARTS = 4_096
_billed: dict[tuple[str, str, Part], list[int]] = {}
"""place of a part, cost mode, part -> the sums of its calls that count: a part never changes, and its dead sessions are told in it"""


def billed(lake: Lake, cost_mode: str, *, anew: bool = False) -> list[int]:
    """Return the sums of every call that counts, row by row, as one row of :func:`amounts_sql`.

    Parts whose rows this process added up before are not read again, unless ``anew``. Raises StoreDamaged.
    """
    with closing(lake.connect()) as connection:
        try:
            asked = [(str(lake.local(part.path)), cost_mode, part) for part in lake.parts(MODEL_CALLS.name)]
        except StoreDamaged:  # the view of the table raises with its name
            lake.views(connection, (MODEL_CALLS.name,))
            connection.execute(f"SELECT count(*) FROM {MODEL_CALLS.name}")
            raise
        known = {} if anew else {place: sums for place in asked if (sums := _billed.get(place)) is not None}
        missing = [place for place in asked if place not in known]
        for n in range(0, len(missing), _PARTS_AT_ONCE):
            some = missing[n : n + _PARTS_AT_ONCE]
            sums_of = {path: sums for path, *sums in connection.execute(_billed_sql(some, cost_mode)).fetchall()}
            known |= {place: list(map(int, sums_of.get(place[0], _NOTHING))) for place in some}
    if len(_billed) > _MOST_PARTS:
        drop_older_half(_billed)
    _billed.update(known)
    found = [sum(column) for column in zip(_NOTHING, *known.values(), strict=True)]
    found[_COST] = min(found[_COST], _MOST_NANO)
    return found


_COST = len(_TOKENS) + 1
"""Place of cost_nano in a row of :func:`amounts_sql`."""
_MOST_NANO = (1 << 63) - 1
_NOTHING = (0,) * (len(_TOKENS) + 4)
"""A row of :func:`amounts_sql` of no calls."""


def _billed_sql(places: Iterable[tuple[str, str, Part]], cost_mode: str) -> str:
    """Return the query for the sums of each part that has calls, behind its path."""
    rows = relation(MODEL_CALLS, [(path, part) for path, _, part in places], more=("filename",))
    return f"SELECT c.filename, {amounts_sql(cost_mode, bounded=False)} FROM ({rows}) c WHERE c.owner GROUP BY c.filename"


def _exact_sum(expression: str) -> str:
    return f"CAST(coalesce(sum({expression}), 0) AS HUGEINT)"


def bounded_sum(expression: str) -> str:
    """Return SQL for a sum that fits into a BIGINT: absurd costs of broken records end at its largest value and break no table."""
    return f"CAST(least(coalesce(sum({expression}), 0), {_MOST_NANO}) AS BIGINT)"


def all_calls_sql() -> str:
    """Return the query for all model calls, rows as in :func:`calls_sql`."""
    return calls_sql(())[0].partition(" WHERE ")[0] + " ORDER BY c.host, c.session_id, c.call_key"

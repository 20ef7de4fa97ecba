"""The last seven days by day, against the weeks before them: what bare ``ctx`` and the page's first screen show."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.data import DEAR_SHARE, WEEK_DAYS, Day, DearSession, Spent, Week, known_cost
from ctx_pipeline.storage.own_sessions import holds_sessions
from ctx_pipeline.usage.engine import parse_filters, stored_usages, usage
from ctx_pipeline.usage.groupings import BY_QUARTER, Days

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.settings import Settings

WEEKS = 8
"""Weeks before the shown one that make the usual."""
LEAST_WEEKS = 2
"""Earlier weeks with usage below which there is no usual."""
_TOKENS = ("input_tokens", "output_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TURNS_SQL = """SELECT date_trunc('hour', began) AS hour, CAST(sum(worked) AS BIGINT) FROM turns
    WHERE thread_id = session_id AND worked > 0 GROUP BY ALL"""
_HOURS_SQL = "SELECT hour, CAST(sum(microseconds) AS BIGINT) FROM session_turns GROUP BY ALL"


def week(settings: Settings, today: date, *, warehouse: DuckDBPyConnection | None = None) -> Week | None:
    """Return the seven days up to today; where they have no call, the last seven before that end with one; None without any call.

    Cost, calls and sessions are those of the calls of these days; seconds are those of the
    turns that the store holds, None without a store and where calls were made and no turn has a length. The usual is the mean of the eight
    weeks before, of those with calls; there is none below two such weeks. With a connection
    to a ``warehouse`` all is read from there, and homes and tables are not looked at.
    """
    # a long history is read whole only where all these weeks have no call
    read = timedelta(days=WEEK_DAYS * (WEEKS + 1))
    by_day = _by_day(settings, today - read, warehouse)
    if not any(today - timedelta(days=WEEK_DAYS) < day <= today for day in by_day):
        last = max((day for day in by_day if day <= today), default=None)
        by_day = _by_day(settings, last - read if last else None, warehouse)
    if not by_day:
        return None
    last = max([day for day in by_day if day <= today] or by_day)
    end = today if today - timedelta(days=WEEK_DAYS) < last <= today else last
    seconds = _seconds(settings, warehouse) if holds_sessions(settings.home) else None
    days = _span(end)
    before = [_spent(_span(end - timedelta(days=WEEK_DAYS * back)), by_day, seconds) for back in range(1, WEEKS + 1)]
    used = [one for one in before if one.calls]
    return Week(
        since=days[0],
        until=end,
        days=tuple(Day(day, _spent([day], by_day, seconds)) for day in days),
        spent=_spent(days, by_day, seconds),
        hosts=_hosts(days, by_day),
        recent=end == today,
        usual=_mean(used) if len(used) >= LEAST_WEEKS else None,
        weeks=len(used),
        dear=_dear(days, by_day),
    )


def _hosts(days: Sequence[date], by_day: Mapping[date, list[dict[str, Any]]]) -> dict[str, tuple[int | None, int]]:
    """Return host -> cost and calls of some days, the dearest first; a cost is None where no call of the host has a price."""
    sums: dict[str, tuple[int, int, int]] = {}
    for row in (row for day in days for row in by_day.get(day, ())):
        of_row = (int(row[name]) for name in ("cost_nano", "calls", "unpriced_calls"))
        cost, calls, unpriced = map(sum, zip(sums.get(row["host"], (0, 0, 0)), of_row, strict=True))
        sums[row["host"]] = cost, calls, unpriced
    return {host: (known_cost(*one), one[1]) for host, one in sorted(sums.items(), key=lambda one: -one[1][0])}


def _dear(days: Sequence[date], by_day: Mapping[date, list[dict[str, Any]]]) -> DearSession | None:
    """Return the session that made a large part of the cost of some days."""
    costs: Counter[str] = Counter()
    for row in (row for day in days for row in by_day.get(day, ())):
        costs[row["quarter"][_SESSION:]] += int(row["cost_nano"])
    [(name, cost)] = costs.most_common(1) or [("", 0)]
    host, _, session = name.partition("/")
    return DearSession(host, session, cost, cost / costs.total()) if cost and cost >= DEAR_SHARE * costs.total() else None


_SESSION = len("2026-10-03 17:15 ")
"""Where the session stands in the name of a quarter of an hour."""


def _by_day(settings: Settings, since: date | None, warehouse: DuckDBPyConnection | None) -> dict[date, list[dict[str, Any]]]:
    found: dict[date, list[dict[str, Any]]] = {}
    first = since.isoformat() if since else None
    if warehouse is None:
        told = usage(BY_QUARTER, since=first, settings=settings)
    else:
        told = stored_usages(warehouse, [BY_QUARTER], parse_filters(settings, since=first), warehouse=True)[BY_QUARTER.name]
    for row in told.rows:
        if row["quarter"]:
            found.setdefault(date.fromisoformat(row["quarter"][:10]), []).append(row)
    return found


def _span(end: date) -> list[date]:
    return [end - timedelta(days=n) for n in reversed(range(WEEK_DAYS))]


def _spent(days: Sequence[date], by_day: Mapping[date, list[dict[str, Any]]], seconds: Mapping[date, float] | None) -> Spent:
    rows = [row for day in days for row in by_day.get(day, ())]
    worked = None if seconds is None else sum(seconds.get(day, 0.0) for day in days)
    return Spent(
        cost_nano=sum(int(row["cost_nano"]) for row in rows),
        calls=sum(int(row["calls"]) for row in rows),
        tokens=sum(int(row[name]) for row in rows for name in _TOKENS),
        sessions=len({row["quarter"][_SESSION:] for row in rows}),
        seconds=None if rows and not worked else worked,  # records that hold no time of a turn say nothing of how long it took
        unpriced_calls=sum(int(row["unpriced_calls"]) for row in rows),
    )


def _mean(weeks: Sequence[Spent]) -> Spent:
    seconds = [one.seconds for one in weeks if one.seconds is not None]
    cost, calls, tokens, sessions = (round(sum(values) / len(weeks)) for values in zip(*(one[:4] for one in weeks), strict=True))
    unpriced = (
        calls if all(one.cost is None for one in weeks) else min(calls - 1, round(sum(one.unpriced_calls for one in weeks) / len(weeks)))
    )
    return Spent(cost, calls, tokens, sessions, sum(seconds) / len(weeks) if seconds else None, unpriced)


def _seconds(settings: Settings, warehouse: DuckDBPyConnection | None) -> dict[date, float]:
    """Return day -> seconds of the turns that began on it, without pauses, main threads only."""
    from ctx_pipeline.storage.reader import reading

    if warehouse is not None:
        hours = warehouse.execute(_HOURS_SQL).fetchall()
    else:
        with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
            store.lake.views(connection, ("turns",))
            hours = connection.execute(_TURNS_SQL).fetchall()
    days = Days(settings.timezone)
    found: dict[date, int] = {}
    for hour, spent in hours:
        day = days.day(round((hour.replace(tzinfo=UTC) - _EPOCH).total_seconds() * 1e6))
        found[day] = found.get(day, 0) + spent
    return {day: spent / 1e6 for day, spent in found.items()}

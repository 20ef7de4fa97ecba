"""The last seven days by day, against the weeks before them."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.groupings import BY_QUARTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.settings import Settings

WEEKS = 8
"""Weeks before the shown one that make the usual."""
LEAST_WEEKS = 3
"""Earlier weeks with usage below which there is no usual."""
LEAST_SESSIONS_A_WEEK = 3
"""Sessions a week, then and now, below which nothing is compared."""
_DAYS = 7


class Day(NamedTuple):
    """One day: nano-dollars, calls, and minutes in which an agent worked, to a quarter of an hour."""

    day: date
    cost_nano: int = 0
    calls: int = 0
    minutes: int = 0


class Usual(NamedTuple):
    """The mean week of those before that had usage."""

    weeks: int
    cost_nano: int
    minutes: int


class Week(NamedTuple):
    """Seven days, oldest first, and the usual."""

    since: date
    until: date
    days: tuple[Day, ...]
    hosts: dict[str, tuple[int, int]]
    """host -> (nano-dollars, calls)"""
    recent: bool
    """whether it ends today; else it is the last one with usage"""
    usual: Usual | None
    """None below the minimum of weeks and sessions"""
    sessions: int

    @property
    def cost_nano(self) -> int:
        """Sum of its days."""
        return sum(one.cost_nano for one in self.days)

    @property
    def minutes(self) -> int:
        """Sum of its days."""
        return sum(one.minutes for one in self.days)

    def to_json(self) -> dict[str, Any]:
        """Return days, hosts and the usual, costs in dollars."""
        usual = self.usual
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "recent": self.recent,
            "sessions": self.sessions,
            "cost_usd": self.cost_nano / 1e9,
            "minutes": self.minutes,
            "days": [{"date": d.day.isoformat(), "cost_usd": d.cost_nano / 1e9, "calls": d.calls, "minutes": d.minutes} for d in self.days],
            "hosts": [{"host": host, "cost_usd": cost / 1e9, "calls": calls} for host, (cost, calls) in self.hosts.items()],
            "usual": usual and {"weeks": usual.weeks, "cost_usd": usual.cost_nano / 1e9, "minutes": usual.minutes},
        }


def week(settings: Settings, today: date, *, stored: bool = False) -> Week:
    """Return the seven days up to today; where they have no call, the last seven that end with one.

    The usual is the mean of the eight weeks before, of those with usage; there is none below
    three such weeks, or below three sessions a week.
    """
    rows = [row for row in usage(BY_QUARTER, stored=stored, until=today.isoformat(), settings=settings).rows if row["quarter"]]
    last = max((date.fromisoformat(row["quarter"][:10]) for row in rows), default=today)
    end = today if last > today - timedelta(days=_DAYS) else last
    found = [_span(rows, end - timedelta(days=_DAYS * back)) for back in range(WEEKS + 1)]
    now, *before = found
    hosts: dict[str, tuple[int, int]] = {}
    for row in now:
        cost, calls = hosts.get(row["host"], (0, 0))
        hosts[row["host"]] = cost + int(row["cost_nano"]), calls + int(row["calls"])
    days = tuple(_day(now, end - timedelta(days=_DAYS - 1 - number)) for number in range(_DAYS))
    used = [span for span in before if span]
    sessions = len(_sessions(now))
    enough = (
        len(used) >= LEAST_WEEKS and min(sessions, *(len(_sessions(span)) for span in used)) >= LEAST_SESSIONS_A_WEEK if used else False
    )
    usual = (
        Usual(len(used), sum(_cost(span) for span in used) // len(used), sum(_minutes(span) for span in used) // len(used))
        if enough
        else None
    )
    return Week(
        end - timedelta(days=_DAYS - 1), end, days, dict(sorted(hosts.items(), key=lambda one: -one[1][0])), end == today, usual, sessions
    )


def _span(rows: Iterable[dict[str, Any]], end: date) -> list[dict[str, Any]]:
    first, last = (end - timedelta(days=_DAYS - 1)).isoformat(), end.isoformat()
    return [row for row in rows if first <= row["quarter"][:10] <= last]


def _day(rows: Iterable[dict[str, Any]], day: date) -> Day:
    mine = [row for row in rows if row["quarter"][:10] == day.isoformat()]
    return Day(day, _cost(mine), sum(int(row["calls"]) for row in mine), _minutes(mine))


def _sessions(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["quarter"][17:] for row in rows}


def _cost(rows: Iterable[dict[str, Any]]) -> int:
    return sum(int(row["cost_nano"]) for row in rows)


def _minutes(rows: Iterable[dict[str, Any]]) -> int:
    return 15 * len({row["quarter"][:16] for row in rows})

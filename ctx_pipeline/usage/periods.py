"""Calendar periods of a zone: a day, a week from Monday, a month, everything; and the one before."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from ctx_pipeline.errors import UsageError
from ctx_pipeline.storage.warehouse.days import local_day

PERIODS = ("session", "day", "week", "month", "all")


class Period(NamedTuple):
    """A run of days, both included; None is open."""

    name: str
    since: date | None
    until: date | None

    @property
    def days(self) -> int | None:
        """How many days it has; None where it is open."""
        return (self.until - self.since).days + 1 if self.since and self.until else None


def period(name: str, *, zone: str | None, today: date | None = None) -> Period:
    """Return the period of a name that today lies in. Raises UsageError for an unknown one."""
    if name not in PERIODS:
        raise UsageError(f"{name!r} is no period", hint=f"one of {', '.join(PERIODS)}")
    here = today or local_day(datetime.now(UTC), zone)
    if name == "day":
        return Period(name, here, here)
    if name == "week":
        monday = here - timedelta(days=here.weekday())
        return Period(name, monday, monday + timedelta(days=6))
    if name == "month":
        first = here.replace(day=1)
        following = (first + timedelta(days=32)).replace(day=1)
        return Period(name, first, following - timedelta(days=1))
    return Period(name, None, None)


def before(one: Period) -> Period | None:
    """Return the period right before one; None where there is none."""
    if one.since is None or one.until is None:
        return None
    last = one.since - timedelta(days=1)
    if one.name == "month":
        return Period(one.name, last.replace(day=1), last)
    return Period(one.name, last - (one.until - one.since), last)

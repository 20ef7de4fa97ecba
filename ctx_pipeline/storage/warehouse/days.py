"""Whose day a moment belongs to: zone offsets as SQL, worked out in Python.

DuckDB converts zones with its ICU extension, which not every build carries and which it
would otherwise download. The offsets come from the standard library instead, so that the
machine's own zone (no name known) works in the same way.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ctx_pipeline.errors import SettingsError

FIRST_YEAR = 2020
"""Offsets before this year are those of its first day: no coding agent wrote records then."""

_STEP = timedelta(days=14)


def offset_seconds(moment: datetime, zone: str | None) -> int:
    """Return how many seconds the zone's clock is ahead of UTC at an aware moment; None is the machine's zone."""
    local = moment.astimezone(_zone(zone) if zone else None)
    offset = local.utcoffset()
    return int(offset.total_seconds()) if offset else 0


def day_start(day: date, zone: str | None) -> datetime:
    """Return the first moment of a day in a zone, as naive UTC."""
    wall = datetime(day.year, day.month, day.day, tzinfo=UTC)
    moment = wall - timedelta(seconds=offset_seconds(wall - timedelta(seconds=offset_seconds(wall, zone)), zone))
    return moment.replace(tzinfo=None)


def local_day(moment: datetime, zone: str | None) -> date:
    """Return the day of an aware moment in a zone."""
    return moment.astimezone(timezone(timedelta(seconds=offset_seconds(moment, zone)))).date()


def day_sql(column: str, zone: str | None) -> str:
    """Return a SQL expression for the day (DATE) of a naive UTC timestamp column in a zone; null stays null."""
    steps = offsets(zone, datetime.now(UTC).year + 2)
    *earlier, (_, last) = steps
    if not earlier:
        return f"CAST({column} AS DATE)" if last == 0 else f"CAST({column} + to_seconds({last}) AS DATE)"
    cases = " ".join(
        f"WHEN {column} < TIMESTAMP '{until:%Y-%m-%d %H:%M:%S}' THEN {seconds}" for (_, seconds), (until, _) in pairwise(steps)
    )
    return f"CAST({column} + to_seconds(CASE {cases} ELSE {last} END) AS DATE)"


@lru_cache(maxsize=16)
def offsets(zone: str | None, last_year: int) -> tuple[tuple[datetime, int], ...]:
    """Return (from when in naive UTC, seconds ahead of UTC) for every change of a zone's clock, oldest first."""
    moment = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
    end = datetime(last_year, 1, 1, tzinfo=UTC)
    current = offset_seconds(moment, zone)
    found = [(moment.replace(tzinfo=None), current)]
    while moment < end:
        later = moment + _STEP
        if offset_seconds(later, zone) != current:
            change = _change(moment, later, zone)
            current = offset_seconds(change, zone)
            found.append((change.replace(tzinfo=None), current))
            later = change
        moment = later
    return tuple(found)


def _change(low: datetime, high: datetime, zone: str | None) -> datetime:
    """Return the first second after ``low`` at which the offset differs from the one at ``low``."""
    before = offset_seconds(low, zone)
    seconds = int((high - low).total_seconds())
    first, last = 0, seconds
    while last - first > 1:
        middle = (first + last) // 2
        if offset_seconds(low + timedelta(seconds=middle), zone) == before:
            first = middle
        else:
            last = middle
    return low + timedelta(seconds=last)


def known_zone(name: str) -> str:
    """Return the name of a time zone; raises SettingsError where there is none of that name."""
    return _zone(name).key


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingsError(f"there is no time zone called {name!r}", hint="use an IANA name such as Europe/Berlin", zone=name) from error

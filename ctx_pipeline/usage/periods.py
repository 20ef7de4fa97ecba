"""Calendar periods of a zone: a day, a week from Monday, a month, everything; and the one before."""

from __future__ import annotations

import re
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
        raise UsageError(f"{name!r} is not a period", hint=f"one of {', '.join(PERIODS)}")
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


_SAID = re.compile(r"(this|last) (week|month)")
_PERIOD = re.compile(r"\d{4}-(?:\d\d(?:-\d\d)?|W\d\d)", re.IGNORECASE)


def said_period(text: str, *, zone: str | None, today: date | None = None) -> str | None:
    """Return the day, week or month that words like yesterday, this week and last month mean, as 2026-10-01, 2026-W40 or 2026-10.

    The words are the names of rows of ``ctx cost``. None for other text.
    """
    words = " ".join(text.lower().split())
    if words in {"today", "yesterday"}:
        return f"{day(words, '--since', zone, today=today)}"
    said = _SAID.fullmatch(words)
    if said is None:
        return None
    meant = period(said[2], zone=zone, today=today)
    meant = (before(meant) or meant) if said[1] == "last" else meant
    return f"{meant.since:%G-W%V}" if said[2] == "week" else f"{meant.since:%Y-%m}"


def is_period(text: str) -> bool:
    """Tell whether text is written as a day, week or month of the calendar."""
    return bool(_PERIOD.fullmatch(text))


def before(one: Period) -> Period | None:
    """Return the period right before one; None where there is none."""
    if one.since is None or one.until is None:
        return None
    last = one.since - timedelta(days=1)
    if one.name == "month":
        return Period(one.name, last.replace(day=1), last)
    return Period(one.name, last - (one.until - one.since), last)


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AGO = re.compile(r"(\d{1,4})\s*([dw])")
_MONTH = re.compile(r"\d{4}-\d\d")
_WEEK = re.compile(r"(\d{4})-W(\d\d)", re.IGNORECASE)
_FIRST, _LAST = date(1971, 1, 1), date(9998, 12, 31)
"""Days that the arithmetic of every zone can reach; no record is older or newer."""


def monday_of(text: str) -> date | None:
    """Return the Monday of a week as ISO 8601 writes it (2026-W29), None for other text. Raises ValueError for a week that no year has."""
    week = _WEEK.fullmatch(text)
    return date.fromisocalendar(int(week[1]), int(week[2]), 1) if week else None


def day(text: str | None, option: str, zone: str | None = None, *, today: date | None = None) -> date | None:
    """Return the day that a person's words mean in a zone, nothing for nothing.

    2026-03-31, 2026-03, 2026-W14 and 2026 (their first day; with ``--until`` their last), today,
    yesterday, monday ... sunday (the latest one, today included), and 7d or 2w: with
    ``--since`` the first of the last seven days, else the day before them. Raises
    UsageError for anything else.
    """
    if text is None:
        return None
    word, last = text.strip().lower(), option == "--until"
    here = today or local_day(datetime.now(UTC), zone)
    try:
        if word in {"today", "yesterday"}:
            return here - timedelta(days=word == "yesterday")
        if word in _WEEKDAYS:
            return here - timedelta(days=(here.weekday() - _WEEKDAYS.index(word)) % 7)
        if ago := _AGO.fullmatch(word):
            return here - timedelta(days=int(ago[1]) * (7 if ago[2] == "w" else 1) - (option == "--since"))
        if _MONTH.fullmatch(word):
            first = date.fromisoformat(f"{word}-01")
            found = (first + timedelta(days=32)).replace(day=1) - timedelta(days=1) if last else first
        elif monday := monday_of(word):
            found = monday + timedelta(days=6 * last)
        elif word.isdecimal() and len(word) == 4:
            found = date(int(word), 12, 31) if last else date(int(word), 1, 1)
        else:
            found = date.fromisoformat(word)
    except (ValueError, OverflowError):
        hint = f"write it as {option} 2026-03-31, 2026-03, yesterday, monday or 7d"
        raise UsageError(f"{option} {text!r} is not a day", hint=hint) from None
    return min(max(found, _FIRST), _LAST)

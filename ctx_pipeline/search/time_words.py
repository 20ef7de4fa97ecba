"""Days that the words of a question name: "last week", "yesterday", "in July", "July 2026", "on Monday", "on 2026-07-08"."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import NamedTuple

_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_TIME = re.compile(
    r"(?i)\b(?:(?P<day>today|yesterday)|(?P<which>this|last)\s+(?P<unit>week|month|year)"
    r"|(?:in|during|since|from)\s+(?P<month>" + "|".join(_MONTHS) + r")(?:\s+(?P<year>20\d\d))?"
    r"|(?:on\s+|of\s+)?(?P<named>" + "|".join(_MONTHS) + r")\s+(?P<of_year>20\d\d)"
    r"|(?:on|last)\s+(?P<weekday>" + "|".join(_WEEKDAYS) + r")"
    r"|(?:in|on|during|since|from)\s+(?P<date>20\d\d-\d\d(?:-\d\d)?)(?![-:T\d])"
    r"|(?P<ago>\d{1,3}|a|two|three)\s+(?P<of>day|week|month)s?\s+ago|(?:in\s+the\s+)?last\s+(?P<past>\d{1,3})\s+days)\b"
)
_COUNTS = {"a": 1, "two": 2, "three": 3}


class Named(NamedTuple):
    """A question without its words of time, and the days that they name, both included."""

    question: str
    since: date
    until: date


def named_days(question: str, today: date) -> Named | None:
    """Return the days that a question names; None where it names none, or nothing but them."""
    found = _TIME.search(question)
    if found is None:
        return None
    rest = " ".join(f"{question[: found.start()]} {question[found.end() :]}".split()).strip(" ,.?")
    days = _days(found, today)
    return Named(rest, *days) if re.search(r"\w", rest) and days is not None else None


def _days(found: re.Match[str], today: date) -> tuple[date, date] | None:
    if found["day"]:
        day = today - timedelta(days=found["day"].lower() == "yesterday")
        return day, day
    if found["past"]:
        return today - timedelta(days=int(found["past"])), today
    if found["ago"]:
        number = _COUNTS.get(found["ago"].lower()) or int(found["ago"])
        each = {"day": 1, "week": 7, "month": 30}[found["of"].lower()]
        day, about = today - timedelta(days=number * each), each // 2
        return day - timedelta(days=about), min(today, day + timedelta(days=about))
    if found["weekday"]:
        day = today - timedelta(days=(today.weekday() - _WEEKDAYS.index(found["weekday"].lower())) % 7 or 7)
        return day, day
    if written := _written(found, today):
        return written[0], today if found[0].lower().startswith("since") else written[1]
    if found["which"] is None:
        return None
    last = found["which"].lower() == "last"
    if found["unit"].lower() == "week":
        monday = today - timedelta(days=today.weekday() + 7 * last)
        return monday, monday + timedelta(days=6)
    if found["unit"].lower() == "month":
        first = (today.replace(day=1) - timedelta(days=last)).replace(day=1)
        return first, _end_of_month(first)
    return date(today.year - last, 1, 1), date(today.year - last, 12, 31)


def _written(found: re.Match[str], today: date) -> tuple[date, date] | None:
    """Return the month or the day that is written out."""
    if name := found["month"] or found["named"]:
        month = _MONTHS.index(name.lower()) + 1
        year = found["year"] or found["of_year"]
        first = date(int(year) if year else today.year - (month > today.month), month, 1)
        return first, _end_of_month(first)
    if not found["date"]:
        return None
    year, month, *day = map(int, found["date"].split("-"))
    try:
        first = date(year, month, *(day or [1]))
    except ValueError:
        return None
    return first, first if day else _end_of_month(first)


def _end_of_month(first: date) -> date:
    return (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)

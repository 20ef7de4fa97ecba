"""Days that the words of a question name: "last week", "in July", "before July 2026", "from July to September", "on 2026-07-08"."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import NamedTuple

_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_MONTH, _WEEKDAY = "|".join(_MONTHS), "|".join(_WEEKDAYS)
_DATE = r"20\d\d-\d\d(?:-\d\d)?"
_BEGIN, _END = r"(?i)(?<![\w./@-])(?:", r")(?![\w/\u2013-]|\.+\w)"
"""No part of a path, a name or a host (``monday.com``)."""
_SPAN = re.compile(
    rf"{_BEGIN}(?:(?P<between>between)|from)\s+(?!(?-i:march|may)\s+\w+\s+(?-i:march|may)\b(?!\s+20\d\d))"
    rf"(?P<first>(?:{_MONTH})(?:\s+20\d\d)?|{_DATE})"
    rf"\s+(?(between)and|(?:to|until|till|through))\s+(?P<last>(?:{_MONTH})(?:\s+20\d\d)?|{_DATE}){_END}(?![:\d])"
)
"""Days from one to another; of "march" and "may" alone in small letters it is none."""
_MOMENT = r"(?:(?:early|late|after|mid)[\s-]*)?(?:mornings?|noon|evening|night|midnight|lunch)|release|deploy(?:ment)?|meeting|demo|outage"
"""Words behind a day that name a part of it, or what was on it."""
_BOUND = re.compile(
    rf"{_BEGIN}(?P<side>before|until|till|up\s+to|after)\s+(?=(?-i:[A-Z])|(?!(?:march|may)\b(?!\s+20\d\d)))"
    rf"(?:(?P<written>(?:{_MONTH})(?:\s+20\d\d)?|{_DATE})|(?P<which>this|last)\s+(?P<unit>week|month|year)"
    rf"|(?:(?P<day>today|yesterday)|(?:last\s+)?(?P<weekday>{_WEEKDAY}))(?!\s+(?:{_MOMENT})\b)){_END}(?!['\u2019:]|\s*\d)"
)
"""Words that end or begin the days: "march" and "may" in small letters are mostly no months, "after Monday's release" is no day."""
_TIME = re.compile(
    rf"{_BEGIN}(?:(?:since|from|during)\s+|(?P<start>(?:since|from)\s+(?:the\s+)?(?:start|beginning)\s+of\s+))?"
    rf"(?:(?P<day>today|yesterday)|(?P<which>this|last)\s+(?P<unit>week|month|year))"
    rf"|(?:in|during|since|from)\s+(?P<month>(?:{_MONTH})(?:\s+20\d\d)?)"
    rf"|(?:on\s+|of\s+)?(?P<named>(?:{_MONTH})\s+20\d\d)"
    rf"|(?:on|since|(?:since\s+)?last)\s+(?P<weekday>{_WEEKDAY})"
    rf"|(?:in|on|during|since|from)\s+(?P<date>{_DATE})(?![:\d])"
    r"|(?:since\s+)?(?P<ago>\d{1,3}|a|two|three)\s+(?P<of>day|week|month)s?\s+ago"
    rf"|(?:in\s+the\s+)?last\s+(?P<past>\d{{1,3}})\s+days{_END}"
)
_OTHERWISE_BEFORE = re.compile(
    r"(?i)\b(?:the\s+day|(?:before|after)(?:\s+(?:and|or))?|until|till|by|to|not|than|between(?:\b[^.?!]{0,40}\band)?|except|excluding"
    r"|without|outside|as|(?:before|after|until|till|by|to|and|since|from)\s+(?:the\s+)?"
    r"(?:mid|early|late|(?:\w+\s+)?(?:end|close|start|beginning|middle|half|week)(?:\s+of)?)|(?P<number>\d{1,2})(?:st|nd|rd|th)?)"
    r"\s+(?:(?:the|of)\s+)?$"
)
"""Words in front of words of time that then name other days, or the number of a day in front of a month."""
_DISTANT = re.compile(r"(?i)\b(?:(?:minute|hour|day|week|month|year)s?|just|right|shortly|soon|long|immediately|directly)\s+$")
"""Words in front of a bound that then is a moment beside it: "two days before", "shortly after"."""
_OTHERWISE_BEHIND = re.compile(
    r"(?i)\s+(?:onwards?\b|on\W*$|(?:and|or|to|until|till|through|before|after)\s+(?:\d|(?:now|date|present|then|this|last|next|today|tomorrow"
    rf"|yesterday|later|earlier|before|after|newer|older|{_MONTH}|{_WEEKDAY})\b))"
)
_NUMBER_BEHIND = re.compile(r"(?i)(?:,|\s+of)?\s+(?:\d{1,2}(?:st|nd|rd|th)?|20\d\d)\b")
"""A day or a year behind a month."""
_COUNTS = {"a": 1, "two": 2, "three": 3}


class Named(NamedTuple):
    """A question without its words of time, and the first and last day that they name; ``since`` is None for all days before."""

    question: str
    since: date | None
    until: date


def named_days(question: str, today: date) -> Named | None:
    """Return the days that a question names; None where it names none, nothing but them, or others too ("not in July")."""
    span = _SPAN.search(question)
    bound = None if span else _BOUND.search(question)
    found = span or bound or _TIME.search(question)
    if found is None or _names_others(question, found) or (bound and _DISTANT.search(question[: bound.start()])):
        return None
    rest = " ".join(f"{question[: found.start()]} {question[found.end() :]}".split()).strip(" ,.?")
    days = _span(span, today) if span else _bounded(bound, today) if bound else _days(found, today)
    if days is None or (days[0] and days[0] > days[1]) or not re.search(r"\w", rest) or _TIME.search(rest) or _BOUND.search(rest):
        return None
    return Named(rest, *days)


def _names_others(question: str, found: re.Match[str]) -> bool:
    """Tell whether words beside those of time make them name other days than they do alone."""
    before = _OTHERWISE_BEFORE.search(question[: found.start()])
    month = re.search(rf"(?i)(?:{_MONTH})(?:\s+20\d\d)?$", found[0])
    if before and (month or not before["number"]):
        return True
    behind = question[found.end() :]
    return bool(_OTHERWISE_BEHIND.match(behind) or (month and _NUMBER_BEHIND.match(behind)))


def _span(found: re.Match[str], today: date) -> tuple[date, date] | None:
    first, last = found["first"], found["last"]
    if first.isalpha() and len(parts := last.split()) == 2:
        first = f"{first} {parts[1]}"
    begin, end = _written(first, today), _written(last, today)
    return (begin[0], end[1]) if begin and end else None


def _bounded(found: re.Match[str], today: date) -> tuple[date | None, date] | None:
    """Return the days before, until or after those that the words name."""
    days = _written(found["written"], today) if found["written"] else _spoken(found, today)
    if days is None:
        return None
    first, last = days
    side, one = found["side"].lower(), timedelta(days=1)
    if side == "after":
        return last + one, today
    return None, first - one if side == "before" else last


def _days(found: re.Match[str], today: date) -> tuple[date, date] | None:
    days = _alone(found, today)
    return (days[0], today) if days and (found["start"] or found[0].lower().startswith("since")) else days


def _alone(found: re.Match[str], today: date) -> tuple[date, date] | None:
    """Return the days that words of time name without a "since" or "from the start of" in front."""
    if found["past"]:
        return today - timedelta(days=int(found["past"])), today
    if found["ago"]:
        number = _COUNTS.get(found["ago"].lower()) or int(found["ago"])
        each = {"day": 1, "week": 7, "month": 30}[found["of"].lower()]
        day, about = today - timedelta(days=number * each), each // 2
        return day - timedelta(days=about), min(today, day + timedelta(days=about))
    if written := found["month"] or found["named"] or found["date"]:
        return _written(written, today)
    return _spoken(found, today)


def _spoken(found: re.Match[str], today: date) -> tuple[date, date]:
    """Return the first and last day of "yesterday", of a weekday, or of this or the last week, month or year."""
    if found["day"]:
        day = today - timedelta(days=found["day"].lower() == "yesterday")
        return day, day
    if found["weekday"]:
        day = today - timedelta(days=(today.weekday() - _WEEKDAYS.index(found["weekday"].lower())) % 7 or 7)
        return day, day
    last = found["which"].lower() == "last"
    if found["unit"].lower() == "week":
        monday = today - timedelta(days=today.weekday() + 7 * last)
        return monday, monday + timedelta(days=6)
    if found["unit"].lower() == "month":
        first = (today.replace(day=1) - timedelta(days=last)).replace(day=1)
        return first, _end_of_month(first)
    return date(today.year - last, 1, 1), date(today.year - last, 12, 31)


def _written(text: str, today: date) -> tuple[date, date] | None:
    """Return the first and last day of a month or a date that is written out; None for a date that is none."""
    name, *of_year = text.lower().split()
    if name in _MONTHS:
        month = _MONTHS.index(name) + 1
        first = date(int(of_year[0]) if of_year else today.year - (month > today.month), month, 1)
        return first, _end_of_month(first)
    year, month, *day = map(int, name.split("-"))
    try:
        first = date(year, month, *(day or [1]))
    except ValueError:
        return None
    return first, first if day else _end_of_month(first)


def _end_of_month(first: date) -> date:
    return (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)

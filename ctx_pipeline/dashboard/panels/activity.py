"""Panel: activity and cost over time."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.data import Usage
from ctx_pipeline.dashboard.figures import Column, axis, cost, count, plural, short, stacked
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from markupsafe import Markup

    from ctx_pipeline.dashboard.data import DayLine, HostLine, PageData

MOST_DAYS = 92
MOST_WEEKS = 106


@panel(title="Activity", order=30, page="History")
def build(data: PageData) -> str:
    """Model calls, stacked by agent; a column names its cost. Accounting has the cost by week and month."""
    if not data.days:
        return template("activity.html", charts=(), hosts=(), unit="", rows=())
    first, last = data.days[0].day, data.days[-1].day
    used = [h for h in data.host_titles.values() if any(line.host == h.key for line in data.days)]
    unit = unit_of(first, last)
    recent = gathered(data.days, max(first, last - timedelta(days=MOST_DAYS - 1)), last, "day")
    charts = [_drawn(recent, "day", used, "by day" if unit == "day" else f"by day, the last {len(recent)} days of the record")]
    whole = recent
    if unit != "day":
        whole = gathered(data.days, first, last, unit)
        charts.append(_drawn(whole, unit, used, f"by {unit}, the whole record"))
    rows = [
        (label(start, unit), count(total.calls), short(total.tokens), cost(total.cost))
        for start, by_host in reversed(whole.items())
        if (total := _sum(by_host.values())).calls
    ]
    return template("activity.html", charts=charts, hosts=used, unit=unit, rows=rows)


def gathered(days: Sequence[DayLine], first: date, last: date, unit: str) -> dict[date, dict[str, Usage]]:
    """Return start of each bucket from the first to the last, without gaps -> host -> usage."""
    buckets: dict[date, dict[str, Usage]] = {start: {} for start in starts(first, last, unit)}
    for line in days:
        if line.day >= first:
            bucket = buckets[start_of(line.day, unit)]
            bucket[line.host] = bucket.get(line.host, Usage()).plus(line.usage)
    return buckets


def _drawn(
    buckets: Mapping[date, Mapping[str, Usage]], unit: str, used: Sequence[HostLine], how: str
) -> tuple[tuple[tuple[str, str, Markup], ...], Markup]:
    """Return the charts of the buckets as (title, unit in words, drawing), and their common axis."""
    classes = [h.tone for h in used]
    calls = []
    for start, by_host in buckets.items():
        values = [by_host.get(h.key, Usage()) for h in used]
        words = [f"{h.title}: {plural(u.calls, 'call')}, {cost(u.cost)}" for h, u in zip(used, values, strict=True) if u.calls]
        text = "\n".join([label(start, unit), *(words or ["nothing"])])
        calls.append(Column(tuple(float(u.calls) for u in values), text))
    charts = (("Model calls", how, stacked(calls, classes, whole_number, title=f"Model calls by {unit}, stacked by agent")),)
    return charts, axis([label(start, unit) for start in buckets])


def unit_of(first: date, last: date) -> str:
    """Return the unit that keeps the chart below about a hundred columns."""
    span = (last - first).days + 1
    return "day" if span <= MOST_DAYS else "week" if span <= MOST_WEEKS * 7 else "month"


def start_of(day: date, unit: str) -> date:
    """Return the day itself, its Monday or the first of its month."""
    if unit == "day":
        return day
    return day - timedelta(days=day.weekday()) if unit == "week" else day.replace(day=1)


def starts(first: date, last: date, unit: str) -> list[date]:
    """Return every start from the first to the last, without gaps."""
    found, day = [], start_of(first, unit)
    while day <= last:
        found.append(day)
        day = day + timedelta(days=1) if unit == "day" else start_of(day + timedelta(days=7 if unit == "week" else 32), unit)
    return found


def label(start: date, unit: str) -> str:
    """Return the words for a column."""
    return f"{start:%b %Y}" if unit == "month" else f"{start.day} {start:%b %Y}"


def dollars(value: float) -> str:
    """Return a figure of the cost scale."""
    if value == 0 or value >= 10:
        return f"${value:,.0f}"
    return f"${value:.2f}" if value >= 0.01 else f"${value:.4f}"


def whole_number(value: float) -> str:
    """Return a figure of the scale of calls; half a call is not written."""
    return f"{value:,.0f}" if value.is_integer() else ""


def _sum(usages: Iterable[Usage]) -> Usage:
    total = Usage()
    for usage in usages:
        total = total.plus(usage)
    return total

"""Panel: the last seven days against the usual, day by day, and what to act on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.dashboard.charts import Column, axis, stacked
from ctx_pipeline.dashboard.data import Usage
from ctx_pipeline.dashboard.numbers import count, duration, money, plural, short
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.dashboard.panels.activity import dollars
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from markupsafe import Markup

    from ctx_pipeline.dashboard.data import HostLine, PageData

DAYS, DRAWN_DAYS = 7, 28
"""Days of the period, and days that are drawn."""
USUAL_WEEKS = 8
"""Earlier periods that the usual is the mean of, where there were calls in them."""
LEAST_SESSIONS = 5
"""Sessions of a period from which on it is set against the usual."""
FINDINGS = 3

RECORDS = ("unreadable-records", "unknown-records", "secrets-in-transcripts", "damaged-readings")
"""Rules about records and not about work: one quiet line."""


class Total(NamedTuple):
    """What was done in a period; ``seconds`` from each prompt to the last record of its turn."""

    usage: Usage
    seconds: float
    sessions: int


class Figure(NamedTuple):
    """A number of the period with the usual one."""

    name: str
    value: str
    note: str


def period(data: PageData) -> tuple[date, date] | None:
    """Return the first and last day of the period: up to the page's day, else up to the last day with calls; None without any."""
    if not data.days:
        return None
    today, last = data.today, data.days[-1].day
    end = today if today - timedelta(days=DAYS) < last <= today else last
    return end - timedelta(days=DAYS - 1), end


def between(data: PageData, first: date, last: date) -> Total:
    """Return what was done on the days from the first to the last."""
    usage = Usage()
    for line in data.days:
        if first <= line.day <= last:
            usage = usage.plus(line.usage)
    seconds = sum(spent for day, _, spent in data.working if first <= day <= last)
    sessions = sum(first <= day <= last for day in data.session_days.values())
    return Total(usage, seconds, sessions)


def usual(data: PageData, first: date) -> Total | None:
    """Return the mean of the earlier periods with calls; None with fewer than two."""
    begin = data.days[0].day
    spans = [(first - timedelta(days=DAYS * (n + 1)), first - timedelta(days=DAYS * n + 1)) for n in range(USUAL_WEEKS)]
    found = [total for low, high in spans if high >= begin and (total := between(data, low, high)).usage.calls]
    if len(found) < 2:
        return None
    usage = Usage(*(round(sum(values) / len(found)) for values in zip(*(t.usage for t in found), strict=True)))
    return Total(usage, sum(t.seconds for t in found) / len(found), round(sum(t.sessions for t in found) / len(found)))


def figures(data: PageData) -> list[Figure]:
    """Return cost, time, sessions, calls and tokens of the period, each with the usual."""
    days = period(data)
    if days is None:
        return []
    now, before = between(data, *days), usual(data, days[0])
    compared = before if before is not None and now.sessions >= LEAST_SESSIONS else None
    rows: list[tuple[str, Callable[[Total], float], Callable[[float], str]]] = [
        ("Cost", lambda t: t.usage.cost_nano, lambda v: money(round(v))),
        ("Time in turns", lambda t: t.seconds, duration),
        ("Sessions", lambda t: t.sessions, lambda v: count(round(v))),
        ("Model calls", lambda t: t.usage.calls, lambda v: count(round(v))),
        ("Tokens", lambda t: t.usage.tokens, short),
    ]
    found = []
    for name, of, written in rows:
        note = ""
        if before is not None:
            note = f"usually {written(of(before))}"
            if compared is not None and of(before):
                change = of(now) / of(before) - 1
                note += f", {'as ever' if abs(change) < 0.05 else f'{change:+.0%}'}"
        found.append(Figure(name, written(of(now)), note))
    return found


def note(data: PageData) -> str:
    """Return in words what the period is set against, and why not where it is not."""
    days = period(data)
    if days is None:
        return ""
    if usual(data, days[0]) is None:
        return "There are not yet two earlier weeks to compare with."
    words = f"Usual: the mean of the up to {USUAL_WEEKS} weeks before that had calls."
    if between(data, *days).sessions < LEAST_SESSIONS:
        words += f" With fewer than {LEAST_SESSIONS} sessions a week is not compared."
    return words


def _drawn(data: PageData, last: date) -> tuple[Sequence[HostLine], list[tuple[str, str, Markup]], Markup]:
    days = [last - timedelta(days=n) for n in reversed(range(DRAWN_DAYS))]
    by_day: dict[tuple[date, str], Usage] = {(line.day, line.host): line.usage for line in data.days}
    spent: dict[tuple[date, str], float] = {}
    for day, host, seconds in data.working:
        spent[day, host] = spent.get((day, host), 0.0) + seconds
    used = [h for h in data.host_titles.values() if any((day, h.key) in by_day or (day, h.key) in spent for day in days)]
    classes = [f"c{h.colour % 4}" for h in used]

    def dollars_of(day: date, host: str) -> float:
        return by_day.get((day, host), Usage()).cost_nano / 1e9

    def hours_of(day: date, host: str) -> float:
        return spent.get((day, host), 0.0) / 3600

    cost = [_column(day, used, dollars_of, lambda v: money(round(v * 1e9))) for day in days]
    time = [_column(day, used, hours_of, lambda v: duration(v * 3600)) for day in days]
    charts = [
        ("Cost by day", "", stacked(cost, classes, dollars, title=f"Cost in dollars by day, {DRAWN_DAYS} days, stacked by agent")),
        (
            "Time by day",
            "in turns",
            stacked(time, classes, _hours, title=f"Hours in turns by day, {DRAWN_DAYS} days, stacked by agent"),
        ),
    ]
    return used, charts, axis([f"{d.day} {d:%b}" for d in days], 5)


def _column(day: date, used: Sequence[HostLine], of: Callable[[date, str], float], written: Callable[[float], str]) -> Column:
    values = tuple(of(day, h.key) for h in used)
    parts = [f"{h.title}: {written(v)}" for h, v in zip(used, values, strict=True) if v]
    return Column(values, "\n".join([f"{day:%a} {day.day} {day:%b %Y}", *(parts or ["nothing"])]))


def _hours(value: float) -> str:
    return f"{value:g} h" if value >= 1 else f"{value * 60:.3g} min" if value else "0"


def quiet(data: PageData) -> list[tuple[str, str]]:
    """Return what is to be known of the records, as (text, command)."""
    return [(finding.title, finding.command) for finding in data.findings if finding.rule in RECORDS]


def title_of(data: PageData, days: tuple[date, date]) -> str:
    """Return what the period is called."""
    first, last = days
    span = f"{first.day} {first:%b} to {last.day} {last:%b %Y}"
    return f"The last seven days, {span}" if last == data.today else f"The last week with calls, {span}"


@panel(title="This week", order=5)
def build(data: PageData) -> str:
    """Every model call counted once, at the price of its day."""
    days = period(data)
    if days is None:
        return template("week.html", figures=(), quiet=quiet(data))
    hosts, charts, line = _drawn(data, days[1])
    return template(
        "week.html",
        figures=figures(data),
        span=title_of(data, days),
        note=note(data),
        hosts=hosts,
        charts=charts,
        axis=line,
        findings=[f for f in data.period_findings if f.rule not in RECORDS][:FINDINGS],
        quiet=quiet(data),
        all=plural(len(data.findings), "finding"),
    )

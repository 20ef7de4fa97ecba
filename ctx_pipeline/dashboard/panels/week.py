"""Panel: the last seven days against the usual, day by day, and what to act on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.dashboard.data import LEAST_SESSIONS, Usage
from ctx_pipeline.dashboard.figures import Column, axis, bar, cost, count, duration, plural, short, stacked
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.dashboard.panels.activity import dollars
from ctx_pipeline.model.declared import panel
from ctx_pipeline.model.display import money, percent
from ctx_pipeline.model.readings import at_first, ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from markupsafe import Markup

    from ctx_pipeline.dashboard.data import HostLine, PageData, Spent, Week
    from ctx_pipeline.model.readings import Finding

DRAWN_DAYS = 28
_FEW = 4
"""Days with calls among those drawn below which the newest days with calls are drawn instead, wherever they lie."""


class Figure(NamedTuple):
    """A number of the period with the usual one."""

    name: str
    value: str
    note: str


def figures(week: Week) -> list[Figure]:
    """Return cost, time, sessions, calls and tokens of the week, each with the usual."""
    rows: list[tuple[str, Callable[[Spent], float | None], Callable[[float], str]]] = [
        ("Cost", lambda t: t.cost, lambda v: money(round(v))),
        ("Time in turns", lambda t: t.seconds, duration),
        ("Sessions", lambda t: t.sessions, lambda v: count(round(v))),
        ("Model calls", lambda t: t.calls, lambda v: count(round(v))),
        ("Tokens", lambda t: t.tokens, short),
    ]
    found = []
    for name, of, written in rows:
        now, usual = of(week.spent), None if week.usual is None else of(week.usual)
        if now is None:
            continue
        note = "" if usual is None else f"usually {written(usual)}"
        if usual and week.compared:
            change = now / usual - 1
            note += f", {'about the same' if abs(change) < 0.05 else f'{change:+.0%}'}"
        found.append(Figure(name, written(now), note))
    return found


def note(week: Week) -> str:
    """Return in words what the week is set against, and why not where it is not."""
    if week.usual is None:
        return "Fewer than two of the eight weeks before had a session to compare with."
    words = f"Usual: the mean of the {week.weeks} weeks with calls among the eight before."
    return words if week.compared else f"{words} With fewer than {LEAST_SESSIONS} sessions a week is not compared."


def _of_host(host: HostLine, data: PageData) -> str:
    """Return a host with its part of the week's cost, and whether that is money that was paid."""
    spent, calls = data.week.hosts.get(host.key, (0, 0)) if data.week else (0, 0)
    if not calls:
        return host.title
    plan = data.plans.get(host.key)
    return f"{host.title}: {cost(spent)}" + (f" at list prices, on a flat plan ({plan})" if plan and spent is not None else "")


def _drawn(data: PageData, last: date) -> tuple[Sequence[HostLine], list[tuple[str, str, Markup]], Markup]:
    days = [last - timedelta(days=n) for n in reversed(range(DRAWN_DAYS))]
    by_day: dict[tuple[date, str], Usage] = {(line.day, line.host): line.usage for line in data.days}
    spent: dict[tuple[date, str], float] = {}
    for day, host, seconds in data.working:
        spent[day, host] = spent.get((day, host), 0.0) + seconds
    told, busy = "", sorted({day for day, _ in by_day if day <= last})
    if len(busy) > sum(day in days for day in busy) < _FEW:
        days, told = busy[-DRAWN_DAYS:], f"the newest {min(len(busy), DRAWN_DAYS)} days with calls"
    used = [h for h in data.host_titles.values() if any((day, h.key) in by_day or (day, h.key) in spent for day in days)]
    classes = [h.tone for h in used]

    def dollars_of(day: date, host: str) -> float:
        return by_day.get((day, host), Usage()).cost_nano / 1e9

    longest = max((sum(spent.get((day, h.key), 0.0) for h in used) for day in days), default=0.0)
    unit, seconds, name = next((one for one in _UNITS if longest >= one[1]), _UNITS[-1])

    def time_of(day: date, host: str) -> float:
        return spent.get((day, host), 0.0) / seconds

    costs = [_column(day, used, dollars_of, lambda v: money(round(v * 1e9))) for day in days]
    time = [_column(day, used, time_of, lambda v: duration(v * seconds)) for day in days]
    charts = [
        ("Cost by day", told, stacked(costs, classes, dollars, title=f"Cost in dollars by day, {len(days)} days, stacked by agent")),
        (
            "Time by day",
            f"in turns, {told}" if told else "in turns",
            stacked(
                time,
                classes,
                lambda v: f"{v:g} {unit}" if v else "0",
                title=f"{name} in turns by day, {len(days)} days, stacked by agent",
            ),
        ),
    ]
    far = (days[-1] - days[0]).days > _YEAR
    return used, charts, axis([f"{d.day} {d:%b %Y}" if far else f"{d.day} {d:%b}" for d in days], 3 if far else 5)


def _column(day: date, used: Sequence[HostLine], of: Callable[[date, str], float], written: Callable[[float], str]) -> Column:
    values = tuple(of(day, h.key) for h in used)
    parts = [f"{h.title}: {written(v)}" for h, v in zip(used, values, strict=True) if v]
    return Column(values, "\n".join([f"{day:%a} {day.day} {day:%b %Y}", *(parts or ["nothing"])]))


_YEAR = 300
_UNITS = (("h", 3600, "Hours"), ("min", 60, "Minutes"), ("s", 1, "Seconds"))
"""Units of the scale of time: sign, seconds, name."""


def quiet(data: PageData) -> list[tuple[str, str]]:
    """Return what is to be known of the records, as (texts, the command that shows them)."""
    told: dict[str, list[str]] = {}
    for finding in data.findings:
        if finding.quiet:
            told.setdefault(finding.command, []).append(finding.title)
    return [(", ".join(texts), command) for command, texts in told.items()]


def to_act_on(data: PageData) -> tuple[list[Finding], bool]:
    """Return the findings that the first screen shows, and whether they are of the whole history: nothing stood out in the week.

    What is about to be lost comes first, whenever it was written, as in bare ``ctx``.
    """

    def with_stake(found: Sequence[Finding]) -> list[Finding]:
        return [one for one in found if not one.quiet and one.at_stake]

    urgent = [one for one in data.findings if one.urgent and not one.quiet]
    of_week = with_stake(data.period_findings)
    found = [*urgent, *of_week] or with_stake(data.findings)
    return at_first(ranked(list({one.rule: one for one in found}.values()))), not (urgent or of_week)


def dear(data: PageData) -> tuple[str, str, str] | None:
    """Return (key, title, how much it made) of the session that made a large part of a week's cost; None for a week of that one alone."""
    found = data.week.dear if data.week and data.week.spent.sessions > 1 else None
    line = next((s for s in data.sessions if found and (s.host, s.session_id) == (found.host, found.session_id)), None)
    return (line.key, line.label, f"made {percent(found.share)} of the cost, {money(found.cost_nano)}") if found and line else None


def title_of(week: Week) -> str:
    """Return what the week is called."""
    span = f"{week.since.day} {week.since:%b} to {week.until.day} {week.until:%b %Y}"
    return f"The last seven days, {span}" if week.recent else f"The last week with calls, {span}"


def limits(data: PageData) -> list[tuple[str, str, Markup, str]]:
    """Return each limit of a plan with how much of it was used, drawn against its ceiling, and when it was recorded and resets."""
    found = []
    for line in sorted(data.limits, key=lambda one: (one.host, one.minutes)):
        host = data.host_titles[line.host].title
        length = f"{line.minutes // 1440}-day " if line.minutes % 1440 == 0 else f"{line.minutes / 60:g}-hour "
        at, resets = (f"{one.day} {one:%b %H:%M}" for one in (line.at, line.resets))
        drawn = bar(min(100, round(line.percent)), 100, "bar-fill")
        found.append((f"{host}, {length if line.minutes else ''}limit", f"{line.percent:.0f}%", drawn, f"at {at}; resets {resets}"))
    return found


@panel(title="The week", order=5)
def build(data: PageData) -> str:
    """Every model call counted once, at the price of its day."""
    if data.week is None:
        return template("week.html", figures=(), quiet=quiet(data))
    hosts, charts, line = _drawn(data, data.week.until)
    found, of_all = to_act_on(data)
    return template(
        "week.html",
        figures=figures(data.week),
        span=title_of(data.week),
        note=note(data.week),
        hosts=[(h.tone, _of_host(h, data)) for h in hosts],
        charts=charts,
        axis=line,
        limits=limits(data),
        findings=found,
        of_all=of_all,
        quiet=quiet(data),
        all=plural(len(data.findings), "finding") if data.findings else "",
        dear=dear(data),
    )

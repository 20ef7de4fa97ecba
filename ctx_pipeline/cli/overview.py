"""Bare ``ctx``: the week in one look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import cells, counted, dollars, emit, one_line, paragraph, plain, say, terminal_width, zone_name

if TYPE_CHECKING:
    from ctx_pipeline.findings.report import Overview
    from ctx_pipeline.findings.week import Week

_BAR = 30
_MINUS = 34
"""Cells of a day's line without its bar."""


def overview(*, as_json: bool = False) -> None:
    """Print the last seven days against the usual, three findings of them, and one line for what is not urgent."""
    from ctx_pipeline.findings.report import overview as run
    from ctx_pipeline.usage.plans import plans

    settings = for_reading()
    found = run(settings=settings)
    if as_json:
        emit(
            {
                "usage": found.usage.to_json(),
                "findings": [one.to_json() for one in found.findings],
                "week": found.week.to_json(),
                "quiet": [one.to_json() for one in found.quiet],
            }
        )
        return
    shown = found.week
    _head(shown)
    if shown.hosts:
        _chart(shown)
        flat = plans(set(shown.hosts), recorded=True, settings=settings)
        _hosts(shown, flat)
    for one in found.findings:
        say()
        paragraph(one_line(one.text, 300), "- ", "  ")
        say(f"  {plain(one.command)}", fg="cyan")
    _quiet(found)
    say()
    paragraph(f"more: ctx cost, ctx usage daily, ctx list, ctx open, ctx help (days in {zone_name(settings.timezone)})")


def _head(shown: Week) -> None:
    days = f"{shown.since:%a} {shown.since.isoformat()} to {shown.until:%a} {shown.until.isoformat()}"
    if not shown.hosts:
        say("last seven days: no model calls", bold=True)
        return
    say(f"last seven days{'' if shown.recent else ' with usage'}, {days}", bold=True)
    text = f"{dollars(shown.cost_nano)}, {hours(shown.minutes)} of agent time, {counted(shown.sessions, 'session')}"
    if shown.usual is None:
        paragraph(f"{text}; too few weeks before to say what is usual")
        return
    paragraph(f"{text}; a usual week is {dollars(shown.usual.cost_nano)} and {hours(shown.usual.minutes)} (mean of {shown.usual.weeks})")


def _chart(shown: Week) -> None:
    """Print a line a day: cost as a bar, then agent time; without block elements where the output cannot hold them."""
    most = max((day.cost_nano for day in shown.days), default=0)
    width = max(5, min(_BAR, (terminal_width() or 80) - _MINUS))
    sign = _sign()
    costs = [dollars(day.cost_nano) if day.calls else "" for day in shown.days]
    wide = max(map(cells, costs), default=0)
    for day, cost in zip(shown.days, costs, strict=True):
        length = round(width * day.cost_nano / most) if most else 0
        bar = sign * max(length, 1 if day.calls else 0)
        say(f"  {day.day:%a} {day.day.isoformat()}  {cost:>{wide}}  {bar:<{width}}  {hours(day.minutes) if day.calls else ''}".rstrip())


def _sign() -> str:
    import sys

    try:
        "\N{FULL BLOCK}".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#"
    return "\N{FULL BLOCK}"


def _hosts(shown: Week, flat: dict[str, str]) -> None:
    """Print a line for each host, since a flat plan's list prices are not money that was paid."""
    for host, (cost, calls) in shown.hosts.items():
        plan = f", at list prices: it is used on a flat plan ({plain(flat[host])})" if host in flat else ""
        if plan or len(shown.hosts) > 1:
            say(f"  {plain(host)}: {dollars(cost)} in {counted(calls, 'call')}{plan}")


def _quiet(found: Overview) -> None:
    if found.quiet:
        told = "; ".join(f"{one.title[:1].lower()}{one.title[1:]}" for one in found.quiet)
        say()
        paragraph(f"also: {one_line(told, 300)} (ctx doctor)", dim=True)


def hours(minutes: int) -> str:
    """Return minutes as 45 min, or 3.5 h."""
    return f"{minutes} min" if minutes < 60 else f"{minutes / 60:.3g} h"

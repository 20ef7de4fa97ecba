"""Bare ``ctx``: the week in one look."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import cells, counted, dollars, emit, one_line, paragraph, plain, say, say_command, terminal_width, zone_name
from ctx_pipeline.dashboard.figures import duration
from ctx_pipeline.model.display import percent, session_title

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import DearSession, Spent, Week
    from ctx_pipeline.settings import Settings

_BAR = 30
_MINUS = 34
"""Cells of a day's line without its bar."""


def overview(*, as_json: bool = False) -> None:
    """Print the last seven days against the usual, three findings of them, and one line for what is not urgent."""
    from ctx_pipeline.findings.rules import overview as run
    from ctx_pipeline.storage.lake.queries import shared_database
    from ctx_pipeline.usage.homes.live_usage import plans

    shared_database.keep()  # it is asked several times
    settings = for_reading()
    found = run(settings=settings, daily=as_json)
    if as_json:
        emit(
            {
                "usage": found.usage and found.usage.to_json(),
                "findings": [one.to_json() for one in found.findings],
                "week": found.week and found.week.to_json(),
                "quiet": [one.to_json() for one in found.quiet],
            }
        )
        return
    shown = found.week
    if shown is None:
        say("no model calls", bold=True)
    else:
        _head(shown)
        _chart(shown)
        _hosts(shown, plans(set(shown.hosts), recorded=True, settings=settings))
        if shown.dear and not any(shown.dear.session_id in one.command for one in found.findings if not found.of_all):
            _dear(shown, shown.dear, settings)
    if found.of_all:
        say()
        say(f"nothing stands out in these seven days{'; in the whole history:' if found.findings else ''}")
    for one in found.findings:
        say()
        paragraph(one_line(one.text, 300), "- ", "  ")
        say_command(one.command, "  ")
    if found.quiet:
        say()
        quiet_line([one.title for one in found.quiet], stored=all(one.command != "ctx run" for one in found.quiet))
    say()
    paragraph(f"more: ctx cost, ctx usage daily, ctx list, ctx open, ctx help (days in {zone_name(settings.timezone)})")


def _head(shown: Week) -> None:
    days = f"{shown.since:%a} {shown.since.isoformat()} to {shown.until:%a} {shown.until.isoformat()}"
    say(f"{'last seven days' if shown.recent else 'last week with calls'}, {days}", bold=True)
    text = f"{_of(shown.spent)}, {counted(shown.spent.sessions, 'session')}"
    if shown.usual is None:
        paragraph(f"{text}; no usual week to compare with: fewer than two of the eight weeks before had calls")
    else:
        paragraph(f"{text}; a usual week is {_of(shown.usual)} (mean of {shown.weeks})")


def _of(spent: Spent) -> str:
    return dollars(spent.cost) + ("" if spent.seconds is None else f", {duration(spent.seconds)} in turns")


def _dear(shown: Week, dear: DearSession, settings: Settings) -> None:
    """Print the one session that made a large part of the week's cost."""
    from ctx_pipeline.cli.usage.tables import add_new, session_labels

    labels = session_labels(settings)
    add_new(labels, [{"hosts": [dear.host], "session_id": dear.session_id}], settings)
    known = labels.get((dear.host, dear.session_id))
    title = one_line(session_title(known.title if known else None), 80)
    say()
    told = f"one session made {percent(dear.share)} of the cost" if shown.spent.sessions > 1 else "its one session"
    paragraph(f"{told}: “{title}”, {dollars(dear.cost_nano)}")
    say_command(f"ctx explain {shlex.quote(dear.session_id)}", "  ")


def _chart(shown: Week) -> None:
    """Print a line a day: cost as a bar, then time in turns; without block elements where the output cannot hold them."""
    most = max(one.spent.cost_nano for one in shown.days)
    width = max(5, min(_BAR, (terminal_width() or 80) - _MINUS))
    sign = _sign()
    costs = [dollars(one.spent.cost) if one.spent.calls else "" for one in shown.days]
    wide = max(map(cells, costs))
    for (day, spent), cost in zip(shown.days, costs, strict=True):
        length = round(width * spent.cost_nano / most) if most else 0
        bar = sign * max(length, 1 if spent.calls else 0)
        say(f"  {day:%a} {day.isoformat()}  {cost:>{wide}}  {bar:<{width}}  {duration(spent.seconds) if spent.seconds else ''}".rstrip())


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


def quiet_line(titles: list[str], *, stored: bool = True) -> None:
    """Print in one line what is not urgent: records that could not be read, unknown kinds, secrets; without a store `ctx run` tells."""
    told = "; ".join(f"{title[:1].lower()}{title[1:]}" for title in titles)
    commands = dict.fromkeys(f"ctx doctor{' --redactions' * ('secret' in title)}" if stored else "ctx run" for title in titles)
    paragraph(f"also: {one_line(told, 300)} ({', '.join(commands)})", dim=True)

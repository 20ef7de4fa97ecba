"""``ctx dashboard``: build, open and serve the page."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import emit, flush, json_option, local_time, one_line, say, table, zone_name
from ctx_pipeline.dashboard.figures import cost, plural, reading, share, short
from ctx_pipeline.dashboard.panels.numbers import cost_note, figures
from ctx_pipeline.model.readings import Month, compared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctx_pipeline.dashboard.data import PageData, Usage
    from ctx_pipeline.settings import Settings


@click.group()
def dashboard() -> None:
    """Build, open and serve the page; it opens from disk, without a server."""


_mode = click.option(
    "--cost-mode",
    "--mode",
    type=click.Choice(["auto", "calculate", "display"]),
    help="Cost: auto (what the agent recorded, else list prices), calculate (list prices) or display (what the agents recorded).",
)


@dashboard.command()
@_mode
@click.option("--complete", is_flag=True, help="Draw every transcript now, not only the newest.")
@json_option
def build(cost_mode: str | None, complete: bool, as_json: bool) -> None:
    """Build the page from the tables as they are; it says which costs it shows."""
    from ctx_pipeline.pipeline.render import render, site_index
    from ctx_pipeline.storage import open_store

    settings = _settings(cost_mode)
    with open_store(settings) as store:
        report = render(store, settings, complete=complete)
        path = site_index(store)
    if as_json:
        seconds = round(report.seconds, 3)
        emit({"site": str(path), "status": report.cells[""].status, "seconds": seconds, "cost_mode": settings.cost_mode})
    else:
        say(f"page: {path}")


@dashboard.command()
@_mode
@json_option
def view(cost_mode: str | None, as_json: bool) -> None:
    """Show what the page shows in the terminal, as it is now: findings, figures, money, signals, memories, sessions."""
    from ctx_pipeline.pipeline.page.page_records import current

    data = current(_settings(cost_mode))
    if as_json:
        emit(plain(data))
    else:
        dashboard_view_show(data)


def _settings(cost_mode: str | None) -> Settings:
    """Return the settings of the person's store, or of the samples, with another cost mode where one is named."""
    from dataclasses import replace

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    return settings if cost_mode is None else replace(settings, cost_mode=cost_mode)


@dashboard.command("open")
@json_option
def open_page(as_json: bool) -> None:
    """Open the page in the browser."""
    show(as_json=as_json)


def show(*, at: str | None = None, as_json: bool = False) -> None:
    """Open the page in the browser, at the session with a key where one is given; raises StoreError where none was built.

    Transcripts that the page does not have yet are drawn behind it.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    path = _page(settings)
    import webbrowser

    address = path.absolute().as_uri() + (f"#session-{at}" if at else "")
    opened = webbrowser.open(address)
    if as_json:
        emit({"site": str(path), "opened": opened, "address": address})
        return
    if not opened:
        say(f"no browser found; open {address if at else path}", whole=True)
    _draw_the_rest(settings)


def _draw_the_rest(settings: Settings) -> None:
    """Draw what the page has no transcript of yet, and say how far that is; Ctrl-C leaves the rest for later.

    Tables of an older program, or of a store that was moved, are made anew first.
    """
    from ctx_pipeline.pipeline.render import draw, render, undrawn
    from ctx_pipeline.storage import open_store
    from ctx_pipeline.storage.warehouse import database

    waiting = len(undrawn(_page(settings).parent))
    if not waiting:
        return
    with open_store(settings) as store, suppress(KeyboardInterrupt):
        say(f"drawing {plural(waiting, 'older transcript')}; Ctrl-C leaves them for later", err=True)
        if not database.is_current(store.warehouse_path):
            render(store, settings)
        for left in draw(store, settings):
            if left:
                say(f"{left:,} left", err=True)
        if left := len(undrawn(_page(settings).parent)):
            say(f"{plural(left, 'transcript')} not drawn: ctx dashboard build --complete draws the page anew", err=True)


port_option = click.option(
    "--port", default=8765, show_default=True, type=click.IntRange(0, 65_535), help="Port on loopback; 0 takes any free one."
)


@dashboard.command()
@port_option
@click.option("--watch", is_flag=True, help="Bring the page up to date while agents work.")
@json_option
def serve(port: int, watch: bool, as_json: bool) -> None:
    """Serve the page on loopback until Ctrl-C; only the printed address, with its token, leads to it."""
    serve_page(port, watch=watch, browser=False, as_json=as_json)


def serve_page(port: int, *, watch: bool, browser: bool, as_json: bool = False) -> None:
    """Serve the page until it is interrupted; ``watch`` brings it up to date meanwhile, ``browser`` opens its address."""
    from ctx_pipeline import loopback
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.cli.page.page_server import POST_ONLY, Refresher, application, behind

    settings, note = choose(settings_module.load(), demo=False)
    site = _page(settings).parent
    app = application(settings, site)
    if missing := behind(settings, site):
        say(missing, err=True)
    token = loopback.new_token()
    listener = loopback.listen(port)
    address = loopback.address(listener, "/index.html", token)
    if as_json:
        emit({"url": address})
    else:
        say(f"{address}\nend it with Ctrl-C")
    flush()
    refresher = Refresher() if watch and not note else None
    if browser:
        import webbrowser

        webbrowser.open(address)
    with suppress(KeyboardInterrupt):
        loopback.server(app, listener, token, post_only=POST_ONLY).run(sockets=[listener])
    if refresher:
        refresher.stop()


def _page(settings: Settings) -> Path:
    """Return the page's file; raises StoreError where none was built."""
    from ctx_pipeline.errors import StoreError
    from ctx_pipeline.storage import to_capture

    path = settings.home / "site" / "index.html"
    if not path.is_file():
        raise StoreError("there is no page yet", hint=to_capture(settings))
    return path


# ctx dashboard view: the page's overview as text, from the same records.


DAYS = 14
MOST = 8
_BAR = 24
_IDLE = 3
"""Days without a call, one after the other, that have a line each; more of them have one together."""


def plain(data: PageData) -> dict[str, Any]:
    """Return the overview as plain values; money in nano-dollars."""
    return {
        "cost_mode": data.cost_mode,
        "timezone": data.timezone,
        "figures": [{"name": name, "value": value, "note": note} for name, value, note in figures(data)],
        "findings": [f.to_json() for f in data.findings],
        "days": [{"day": d, **_sums(u)} for d, u in _days(data)[-DAYS:]],
        "models": [{"host": m.host, "model": m.model, **_sums(m.usage)} for m in data.models],
        "projects": [{"project": p.project, "sessions": p.sessions, **_sums(p.usage)} for p in data.projects],
        "changed": changed(data),
        "memories": {"total": data.memory_total, "by_status": dict(data.memory_status)},
        "sessions": [
            {"host": s.host, "session_id": s.session_id, "title": s.title, "project": s.project, "started": s.first_ts, **_sums(s.usage)}
            for s in data.sessions[:MOST]
        ],
    }


def dashboard_view_show(data: PageData) -> None:
    """Print the overview; nothing is cut but titles, so that a pipe gets whole lines."""
    if not data.sessions:
        say("No session has been captured yet: ctx run reads the homes of your agents.")
        return
    span = f", {data.days[0].day} to {data.days[-1].day}" if data.days else ""
    say(f"{plural(len(data.sessions), 'session')}, {cost(data.usage.cost)} ({cost_note(data)}){span}", bold=True)
    _head("Needs a look")
    for finding in data.findings:
        say(f"{'!' if finding.weight == 3 else '-'} {one_line(finding.title, 100)}")
        say(f"    {finding.command}")
    _head("In numbers")
    table([{"name": name, "value": value, "note": note} for name, value, note in figures(data)], {"name": "", "value": "", "note": ""})
    _days_shown(data)
    _head("By model")
    table(
        [{"model": m.model or "not recorded", **_texts(m.usage, data)} for m in data.models[:MOST] if m.usage.tokens or m.usage.cost_nano],
        {"model": "model", "calls": "calls", "tokens": "tokens", "cost": "cost", "share": "share"},
    )
    _head("By project")
    table(
        [{"project": p.project or "no project", "sessions": p.sessions, **_texts(p.usage, data)} for p in data.projects[:MOST]],
        {"project": "project", "sessions": "sessions", "calls": "calls", "tokens": "tokens", "cost": "cost", "share": "share"},
    )
    _head("Signals that changed")
    moved = changed(data)[:MOST]
    if moved:
        table([_moved(r) for r in moved], {"signal": "signal", "now": "now", "before": "before", "way": ""})
    else:
        say("None moved by more than a tenth from one month to the next.")
    _head("Memories")
    states = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in sorted(data.memory_status.items()))
    say(states or "Nothing has been learned yet.")
    _head("Newest sessions")
    table(
        [
            {"started": local_time(s.first_ts.isoformat() if s.first_ts else None, data.timezone), "host": s.host, "project": s.project}
            | {"title": one_line(s.label, 60), "cost": cost(s.usage.cost)}
            for s in data.sessions[:MOST]
        ],
        {"started": "started", "host": "agent", "project": "project", "title": "title", "cost": "cost"},
    )
    say(f"times in {zone_name(data.timezone)}")
    say()
    say("more: ctx dashboard open, ctx show AGENT SESSION, ctx usage daily, ctx signal summary, ctx memory list")


def _moved(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is printed of a signal that changed: each mean with the month or months that it is of."""
    now, before = (reading(row[name], row["unit"]) for name in ("mean", "before"))
    return {**row, "now": f"{now} in {row['month']}", "before": f"{before} in {', '.join(row['months_before'])}"}


def changed(data: PageData) -> list[dict[str, Any]]:
    """Return the signals that got worse or better in their last month, what got worse most first; the share of true is a ratio."""
    rows = [
        {"signal": r["signal"], "unit": "ratio" if r["kind"] == "boolean" else r["unit"], **r["trend"]}
        | {"months_before": [month for month, *_ in compared(Month(*one) for one in r["months"])[:-1]]}
        for r in data.aggregates
        if r["trend"] and r["trend"]["verdict"]
    ]
    rows.sort(key=lambda r: (r["verdict"] != "worse", -abs(r["change"] or 0.0), r["signal"]))
    return [{**r, "way": f"{r['direction']}, {r['verdict']}"} for r in rows]


def _days(data: PageData) -> list[tuple[Any, Usage]]:
    found = []
    for when, lines in groupby(data.days, key=lambda line: line.day):
        first, *others = [line.usage for line in lines]
        for other in others:
            first = first.plus(other)
        found.append((when, first))
    return found


def _days_shown(data: PageData) -> None:
    days: Sequence[tuple[Any, Usage]] = _days(data)[-DAYS:]
    if not days:
        return
    _head(f"The last {plural(len(days), 'active day')}, with the days without a call between them")
    top = max(u.cost_nano for _, u in days) or 1
    rows: list[dict[str, Any]] = []
    before = days[0][0]
    for day, usage in days:
        idle = [before + timedelta(days=n) for n in range(1, (day - before).days)]
        names = [one.isoformat() for one in idle] if len(idle) <= _IDLE else [f"{len(idle)} days"]
        rows += [{"day": name, "calls": 0} for name in names]
        rows.append({"day": day.isoformat(), **_texts(usage, data), "bar": "#" * round(_BAR * usage.cost_nano / top)})
        before = day
    table(rows, {"day": "day", "calls": "calls", "tokens": "tokens", "cost": "cost", "bar": ""})


def _texts(usage: Usage, data: PageData) -> dict[str, Any]:
    return {
        "calls": usage.calls,
        "tokens": short(usage.tokens),
        "cost": cost(usage.cost),
        "share": share(usage.cost_nano, data.usage.cost_nano),
    }


def _sums(usage: Usage) -> dict[str, int]:
    return {"calls": usage.calls, "tokens": usage.tokens, "cost_nano": usage.cost_nano, "unpriced_calls": usage.unpriced_calls}


def _head(title: str) -> None:
    say()
    say(title, bold=True)

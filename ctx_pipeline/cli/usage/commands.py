"""``ctx usage``: tokens and cost."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import (
    branch_option,
    host_option,
    model_option,
    project_option,
    require_project,
    since_option,
    since_options,
    timezone_option,
    until_option,
)
from ctx_pipeline.cli.output import (
    age,
    counted,
    dollars,
    emit,
    json_option,
    local_time,
    more_rows,
    one_line,
    paragraph,
    plain,
    say,
    table,
    terminal_width,
    tokens,
    unrecorded_agents,
    zone_name,
)
from ctx_pipeline.cli.session_names import short_names
from ctx_pipeline.cli.usage.tables import SORTS, in_order, limited, session_labels, show
from ctx_pipeline.errors import StoreDamaged, UsageError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.display import money, session_title
from ctx_pipeline.model.process.gc_pause import without_collector
from ctx_pipeline.model.usage_rules import UNNAMED
from ctx_pipeline.storage import own_sessions
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.known_names import known_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.engine import Usage
    from ctx_pipeline.usage.groupings import Grouping
    from ctx_pipeline.usage.limits import Outcomes


# ctx usage limits and ctx usage outcomes: what stood in the way, and what the money came to.


_LIMIT = click.option("--limit", default=40, show_default=True, type=click.IntRange(1), help="At most N rows.")


def _key(host: str | None) -> str | None:
    from ctx_pipeline import discovery

    return discovery.host(host).key if host else None


@click.command()
@since_option
@until_option
@timezone_option
@host_option
@project_option
@_LIMIT
@json_option
def limits(host: str | None, limit: int, as_json: bool, **chosen: Any) -> None:
    """How often and when limits were reached, as the agents themselves wrote it down.

    What a person or a tool says about rate limits is not counted. The pause is the longest
    time without a model call of the agent until the limit reset.
    """
    from ctx_pipeline.usage.limits import by_limit, reached

    settings = for_reading()
    zone = chosen.get("timezone") or settings.timezone
    found = reached(host=_key(host), settings=settings, **chosen)
    if not found:
        require_project(settings, chosen.get("project"))
    if as_json:
        emit({"limits": by_limit(found), "reached": [r.to_json() for r in found]})
        return
    if not found:
        say("no record says that a limit was reached")
        return
    summed = {
        "host": "host",
        "kind": "of",
        "name": "limit",
        "times": "times",
        "last": "last",
        "calls": "calls after",
        "waited": "pauses",
    }
    table([_local(line, zone) for line in by_limit(found)], summed)
    say()
    shown = found[-limit:] if limit else found
    rows = [_local({**r.to_json(), "projects": one_line(", ".join(r.projects), 60)}, zone) for r in shown]
    table(
        rows,
        {
            "first": "reached",
            "host": "host",
            "name": "limit",
            "resets_at": "resets",
            "calls": "calls after",
            "waited": "longest pause",
            "projects": "in",
        },
    )
    more_rows(len(found), len(rows))
    say(f"calls and pause between reaching a limit and its reset; times in {zone_name(zone)}")


def _local(row: dict[str, Any], zone: str | None) -> dict[str, Any]:
    """Return a row with its times on the clock of a zone, its wait in the largest unit, and nothing in place of None."""
    waited = row["waited_minutes"]
    row |= {"waited": None if waited is None else age(60 * waited)}
    times = {"first", "last", "resets_at"}
    return {name: local_time(value, zone) if name in times else "" if value is None else value for name, value in row.items()}


@click.command()
@click.option(
    "--by",
    default="project",
    show_default=True,
    type=click.Choice(["project", "host", "month", "session", "model"]),
    help="A row for each.",
)
@since_options("Sessions that began on this day or later: 2026-03-01, 2026-03, yesterday, 7d.")
@click.option("--until", metavar="DAY", help="Sessions that began on this day or earlier.")
@click.option("--cost-mode", metavar="MODE", help="Cost: auto, calculate (list prices) or display (what the host wrote down).")
@timezone_option
@host_option
@project_option
@_LIMIT
@json_option
def outcomes(by: str, host: str | None, limit: int, as_json: bool, **chosen: Any) -> None:
    """Tokens and cost per session, per commit, per correction and per tool call.

    Commits are those that git showed, else the git commit commands that succeeded. Of
    several models in a session, --by model takes the one that cost most. A terminal of
    fewer than 100 columns leaves out totals first and gives dollars per unit alone.
    """
    from ctx_pipeline.usage.known_names import known_names
    from ctx_pipeline.usage.limits import outcomes as run

    settings = for_reading()
    found, everything = run(by, host=_key(host), settings=settings, **chosen)
    if as_json:
        emit({"rows": [one.to_json(by) for one in found], "totals": everything.to_json(by)})
        return
    if not found:
        known_names(settings, project=chosen.get("project"), stored=True)
        say("no model calls in this range")
        return
    names = {by: by, **({"host": "host"} if by == "model" else {}), "sessions": "sessions", "tokens": "tokens", "cost": "cost"}
    names |= {"session": "per session"} if by != "session" else {}
    names |= {"commits": "commits", "commit": "per commit"}
    narrow = (terminal_width() or _WHOLE) < _WHOLE
    enough = [one for one in found if by != "model" or one.sessions >= _FEW]
    few, found = len(found) - len(enough), enough or found
    rows = [_shown(one, by, narrow=narrow) for one in found[:limit]]
    if by == "session":
        known = {session: shown for (_, session), shown in session_labels(settings).items()}
        short = short_names([row[by] for row in rows], settings) if terminal_width() is not None else {}
        rows = [
            {**row, by: short.get(row[by], row[by]), "title": session_title(known[row[by]].title) if row[by] in known else ""}
            for row in rows
        ]
        names = {by: by, "title": "title", **{name: names[name] for name in names if name not in {by, "sessions"}}}
    names |= {"corrections": "corrections", "correction": "per correction", "tool_calls": "tool calls", "tool_call": "per tool call"}
    if narrow:
        names = {name: heading.replace("per ", "$/") for name, heading in names.items()}
    # totals say how much was done, not what is cheap
    drop = ("tokens", *(["cost"] if by != "session" else []), "tool_calls", "corrections", "commits", "correction", "host", "sessions")
    table(rows, names, total=_shown(everything, by, narrow=narrow), drop=(*drop, "tool_call"), keep=("model",))
    more_rows(len(found), min(len(found), limit))
    if by == "model":
        left = f"{counted(few, 'model')} of fewer than {_FEW} sessions left out: --json" if enough else f"no model has {_FEW} sessions yet"
        say(f"a session counts for the model that most of its cost is of{f'; {left}' if few else ''}")
    sessions, calls = everything.left_out
    if sessions:
        say(f"{counted(sessions, 'session')} without a counted model call left out, with {counted(calls, 'tool call')}")
    say("sessions whose corrections were not measured yet are left out of that figure")
    if by == "model":
        cheapest = _cheapest(found[:limit]) if enough else ""
        say(f"{f'lowest cost per session: {cheapest}; ' if cheapest else ''}models may have had different work")


_FEW = 5
"""Sessions below which a model is compared with no other: one long session would decide."""
_WHOLE = 100
"""Cells of a terminal from which a figure per unit is dollars and tokens, not dollars alone."""


def _cheapest(models: Sequence[Outcomes]) -> str:
    """Return the model of the lowest cost per session, for each host with several; one with a call that has no price is none."""
    told = []
    for host in dict.fromkeys(one.host for one in models):
        priced = [(one.per_session, one) for one in models if one.host == host and one.per_session is not None and not one.unpriced_calls]
        if len(priced) > 1:
            each, least = min(priced, key=lambda pair: pair[0])
            told.append(f"{host} {plain(least.key)}, {dollars(each)} (of {len(priced)} models)")
    return "; ".join(told)


def _shown(one: Outcomes, by: str, *, narrow: bool) -> dict[str, Any]:
    row = {"session": dollars(one.per_session), "host": one.host, by: one.key, "sessions": one.sessions}
    row |= {"tokens": tokens(one.tokens), "cost": dollars(one.cost)}
    for unit, count in one.units.items():
        each = one.per(unit)
        row[unit] = count if one.known[unit][0] else ""
        spent = "" if each is None else dollars(each[1] if each[1] is None else round(each[1]))
        row[unit.removesuffix("s")] = spent if narrow or each is None else f"{spent}, {tokens(round(each[0]))}"
    return row


_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes for the begin of a formula."""

_OPTIONS = (
    json_option,
    click.option("--csv", "as_csv", is_flag=True, help="Print rows as CSV."),
    click.option("--breakdown", is_flag=True, help="A row for each host and model."),
    click.option("--stored", is_flag=True, help="Only captured calls: skip what is newer in the homes."),
    click.option("--cost-mode", metavar="MODE", help="Cost: auto, calculate (list prices) or display (what the host wrote down)."),
    branch_option,
    model_option,
    project_option,
    host_option,
    timezone_option,
    until_option,
    since_option,
)


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filters that every usage report takes."""
    for option in _OPTIONS:
        command = option(command)
    return command


class _ByName(click.Group):
    """``ctx usage --by NAME`` is ``ctx usage NAME``; without a name it is ``ctx usage daily``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments with the name of the grouping first."""
        if not args or (args[0].startswith("-") and args[0] not in {"-h", "--help"}):
            at = next((n for n, word in enumerate(args) if word == "--by" or word.startswith("--by=")), None)
            if at is None:
                args = ["daily", *args]
            elif args[at] != "--by":
                args = [args[at].removeprefix("--by="), *args[:at], *args[at + 1 :]]
            else:
                args = [*args[at + 1 : at + 2], *args[:at], *args[at + 2 :]]
        return super().parse_args(ctx, args)


@click.group(cls=_ByName)
def usage() -> None:
    """Tokens and cost; every model call is counted once, forks and copies left out.

    Without a command it is ctx usage daily; ctx usage --by branch is ctx usage branch. Calls
    in these tables are model calls; tool calls are counted by ctx work.
    """


def _resolve_filters(chosen: dict[str, Any]) -> dict[str, Any]:
    from ctx_pipeline import discovery

    if chosen.get("host"):
        chosen["host"] = discovery.host(str(chosen["host"])).key
    if chosen.get("model") == UNNAMED:
        chosen["model"] = ""
    if chosen.get("branch") == GROUPINGS["branch"].none:
        chosen["branch"] = ""
    return chosen


def _one_form(*, as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        raise UsageError("--json and --csv are two forms of one answer", hint="choose one of them")


def _report(
    by: str, as_json: bool, as_csv: bool, breakdown: bool, sort: str | None, limit: int | None, cache: bool = False, **chosen: Any
) -> None:
    from dataclasses import replace

    from ctx_pipeline.usage.engine import usage as run
    from ctx_pipeline.usage.missing_output import missing_output
    from ctx_pipeline.usage.other_units import other_units

    _one_form(as_json=as_json, as_csv=as_csv)
    if sort == "rebuilds" and not cache:
        raise UsageError("--sort rebuilds needs the figures of the cache", hint="ctx usage session --cache --sort rebuilds")
    chosen, settings = _resolve_filters(chosen), for_reading()
    report, key = _on_plans(run(by, **chosen, cache=cache, settings=settings), settings), GROUPINGS[by].column
    report = replace(report, other_units=other_units(settings, report.filters, stored=bool(chosen.get("stored"))))
    if not report.rows:
        known_names(settings, **{name: chosen.get(name) for name in ("project", "model", "branch")}, stored=bool(chosen.get("stored")))
    if (as_json or as_csv) and (sort or limit):
        ordered = in_order(report.by_key(), key, sort, session_labels(settings) if key == "session_id" else None)
        keys = [row[key] for row in limited(ordered, limit, newest_last=key == "date" and sort is None)]
        report = replace(report, rows=sorted((row for row in report.rows if row[key] in keys), key=lambda row: keys.index(row[key])))
    if not as_csv:
        # a table says what it counts though measurements beside it are damaged
        with nullcontext() if as_json else suppress(StoreDamaged):
            report = replace(report, estimated_missing_output=missing_output(settings, report.filters))
    if as_json:
        told = report.to_json()
        emit(told | {"rows": _named(told["rows"], key, settings)})
    elif as_csv:
        _csv(_named(report.to_json()["rows"], key, settings), key)
    else:
        meant = {name: value for name, value in chosen.items() if name not in ("since", "until")}
        show(report, key, settings, breakdown=breakdown, sort=sort, limit=limit, meant=meant)
        if by == "thread":
            from ctx_pipeline.usage.unrecorded_agents import unrecorded

            lost = unrecorded(settings, report.filters)
            if lost.agents:
                paragraph(unrecorded_agents(*lost))


def _named(rows: list[dict[str, Any]], key: str, settings: Settings) -> list[dict[str, Any]]:
    """Return rows by session with the title, project and begin of each; others as they are."""
    if key != "session_id":
        return rows
    known = session_labels(settings)
    shown = [known.get((row["host"], row["session_id"]), own_sessions.UNNAMED) for row in rows]
    return [{**row, "title": one.title, "project": one.project, "began": iso(one.began)} for row, one in zip(rows, shown, strict=True)]


def _on_plans(report: Usage, settings: Settings) -> Usage:
    """Return the report with the flat plans that its hosts are used on."""
    from dataclasses import replace

    from ctx_pipeline.usage.homes.live_usage import plans

    found = plans({row["host"] for row in report.rows}, recorded=report.source != "stored", settings=settings)
    return replace(report, plans=found) if found else report


def _csv(rows: list[dict[str, Any]], key: str) -> None:
    """Print rows under the names of their JSON; the first row has all of them."""
    import csv

    names = list(rows[0]) if rows else [key]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)


def _harmless(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula: text comes from transcripts."""
    text = plain(value) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and text.lstrip()[:1] in _FORMULA else text


def _command(grouping: Grouping) -> None:
    """Add one report of ``ctx usage``."""

    def run(as_json: bool, as_csv: bool, breakdown: bool, sort: str | None, limit: int | None, **chosen: Any) -> None:
        with without_collector():
            _report(grouping.name, as_json, as_csv, breakdown, sort, limit, **chosen)

    run.__doc__ = grouping.help
    made = click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N rows.")(filters(run))
    made = click.option("--sort", type=click.Choice(SORTS), help="Most or newest first; names in alphabetical order.")(made)
    if grouping.names is None:  # no cache figure is shared among what a call asked for
        made = click.option("--cache", is_flag=True, help="With the share of cache hits, rebuilds and what the cache saved.")(made)
    usage.command(grouping.name)(made)


for _grouping in GROUPINGS.values():
    _command(_grouping)


def _length(minutes: int | None) -> str:
    """Return how long the window of a limit is, as 5 h or 7 d; empty where it is not told."""
    return age(60 * minutes) if minutes else ""


@usage.command()
@filters
@click.option("--active", is_flag=True, help="Only the open window.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most the newest N windows.")
def blocks(as_json: bool, as_csv: bool, breakdown: bool, active: bool, limit: int | None, **chosen: Any) -> None:
    """By five-hour window, with burn rate, projection and the host's own percentages."""
    import time

    from ctx_pipeline import discovery
    from ctx_pipeline.usage import blocks as api

    del breakdown
    _one_form(as_json=as_json, as_csv=as_csv)
    now = int(time.time() * 1e6)
    chosen, settings = _resolve_filters(chosen), for_reading()
    zone = chosen.get("timezone") or settings.timezone
    everything = api.blocks(**chosen, settings=settings, now=now)
    if not everything:
        known_names(settings, **{name: chosen.get(name) for name in ("project", "model", "branch")}, stored=bool(chosen.get("stored")))
    fit = [b for b in everything if b.active or not active]
    found = fit[-limit:] if limit else fit
    if as_json:
        emit({"blocks": [b.to_json(now) for b in found]})
        return
    if as_csv:
        _csv([_flat(b.to_json(now)) for b in found], "start")
        return
    rows = []
    for block in found:
        burn, ahead = block.burn(), block.projection(now)
        rows.append(
            {
                "start": local_time(block.start, zone),
                "host": block.host,
                "state": f"open, {ahead['minutes_left']} min left" if ahead else "open" if block.active else "",
                "calls": block.sums["calls"],
                "tokens": tokens(block.tokens) if terminal_width() else block.tokens,
                "cost": dollars(block.cost),
                "rate": ", ".join([f"{burn['tokens_per_minute']:,.0f}/min", *_at(burn["usd_per_hour"], "/h")]) if burn else "",
                "ahead": ", ".join([tokens(ahead["tokens"]), *_at(ahead["cost_usd"])]) if ahead else "",
                "limits": ", ".join(
                    f"{_length(limit['window_minutes']) or name} {limit['used_percent']:.0f}%"
                    for name, limit in sorted(block.limits.items())
                ),
            }
        )
    names = {"start": "start", "host": "host", "state": "", "calls": "calls", "tokens": "tokens", "cost": "cost"}
    names |= {"rate": "burn rate", "ahead": "at its end", "limits": "limits, official"}
    if rows:
        table(rows, {k: v for k, v in names.items() if any(r[k] for r in rows)}, drop=("rate", "calls", "ahead", "tokens", "host"))
        more_rows(len(fit), len(found))
        if silent := [h.title for key, h in discovery.hosts().items() if h.usage.limits is None and key in {b.host for b in found}]:
            say(f"no percentages of limits in the records of {', '.join(silent)}")
        say(f"five-hour windows; times in {zone_name(zone)}; calls without a time are in none")
    else:
        newest = everything[-1] if everything else None
        with_windows = [h.title for h in discovery.hosts().values() if h.usage.five_hour_windows]
        none = f"no model calls of {' or '.join(with_windows)} in this range; only their plans count in five-hour windows"
        say("no five-hour window is open" if active and newest else none)
        if active and newest:
            used = f"{tokens(newest.tokens)} tokens, {dollars(newest.cost)}"
            say(f"the last one began {local_time(newest.start, zone)}: {newest.host}, {used}; all: ctx usage blocks", dim=True)


def _at(usd: float | None, unit: str = "") -> list[str]:
    """Return dollars with their unit; nothing where no call has a price, which the cost says."""
    return [] if usd is None else [f"{money(round(usd * 1e9))}{unit}"]


def _flat(told: dict[str, Any]) -> dict[str, Any]:
    """Return a window's JSON as one row: what stands inside a field is named behind it."""
    flat = {name: told[name] for name in told if name not in {"models", "burn_rate", "projection", "limits"}}
    flat["models"] = " ".join(told["models"])
    for outer, names in (("burn_rate", ("tokens_per_minute", "usd_per_hour")), ("projection", ("minutes_left", "tokens", "cost_usd"))):
        flat |= {f"{outer}_{name}": (told[outer] or {}).get(name) for name in names}
    for limit in ("primary", "secondary"):
        flat |= {f"{limit}_{name}": told["limits"].get(limit, {}).get(name) for name in ("used_percent", "window_minutes", "resets_at")}
    return flat


@usage.command()
def statusline() -> None:
    """One line for an agent's status bar; reads the agent's JSON on standard input, if any."""
    from ctx_pipeline.usage.blocks import statusline as line

    told = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read(1 << 20)
    say(line(told), whole=True)


usage.add_command(limits)
usage.add_command(outcomes)

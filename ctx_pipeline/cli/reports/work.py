"""``ctx work`` and ``ctx hints``: what the agents did, and what of it costs more than it needs to."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import (
    DAYS,
    FIRST_DAY,
    LAST_DAYS,
    first_day,
    host_option,
    project_option,
    require_captured,
    require_project,
    scope,
    since_option,
    timezone_option,
    until_option,
)
from ctx_pipeline.cli.output import counted, dollars, emit, json_option, local_time, one_line, plain, say, table, zone_name
from ctx_pipeline.cli.session_names import complete_hosts, short_names
from ctx_pipeline.dashboard.figures import duration
from ctx_pipeline.errors import UsageError
from ctx_pipeline.facts.pauses import PAUSE_MINUTES
from ctx_pipeline.model.display import percent, session_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.model.readings import Finding
    from ctx_pipeline.sessions.reports.time_spent import Time
    from ctx_pipeline.sessions.reports.work import Met, Work
    from ctx_pipeline.sessions.reports.working_time import WorkedDay
    from ctx_pipeline.settings import Settings

_TOP = 10
_MOST_ERRORS = 20
_MOST_FLAKY = 10
_MOST_WAITS = 4
_PARALLEL = 60
"""Seconds more of all turns than of the day from which on both are shown."""
_LONGEST = 5
_PARTS = {"model": "model", "tools": "tools", "approval": "to allow", "still": "still", "prompt": "next prompt"}
_TIMES = {"total": "total", "median": "median time"}


def _key(host: str | None) -> str | None:
    from ctx_pipeline import discovery

    return discovery.host(host).key if host else None


def _agent(argument: str | None, option: str | None) -> str | None:
    """Return the agent that HOST or ``--host`` names; raises UsageError where they name two."""
    if argument and option and _key(argument) != _key(option):
        raise UsageError(f"HOST is {argument} and --host is {option}", hint=f"ctx work --host {option}")
    return argument or option


class _DaysOrHost(click.ParamType):
    """A number of days, or text that does not begin like one."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number, or the text; raises BadParameter."""
        return DAYS.convert(value, param, ctx) if str(value)[:1].isdecimal() else str(value)


@click.command()
@click.argument("host", required=False)
@click.option(
    "--sort",
    default="times",
    show_default=True,
    type=click.Choice(("times", "failed", "time")),
    help="Most often, most failures or most time first.",
)
@click.option("--errors", is_flag=True, help="Instead: the errors that failed calls printed, the most frequent first.")
@click.option("--time", "time_spent", is_flag=True, help="Instead: where the time went: the model, tools, waits for you.")
@click.option("--by-day", is_flag=True, help="Instead: how long turns went on, by day; with --time, where that time went.")
@click.option("--flaky", is_flag=True, help="Instead: tests that failed and passed though nothing changed a file in between.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the whole report as Markdown to this file.")
@click.option("--since", metavar="DAY", help=FIRST_DAY)
@click.option("--days", metavar="N", type=_DaysOrHost(), is_flag=False, flag_value="", help=f"{LAST_DAYS} Without N it is --by-day.")
@until_option
@project_option
@timezone_option
@click.option("--host", "only", help="Only this host, as HOST.", shell_complete=complete_hosts)
@json_option
def work(
    host: str | None,
    sort: str,
    errors: bool,
    time_spent: bool,
    by_day: bool,
    days: int | str | None,
    flaky: bool,
    out: str | None,
    only: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Report what agents did: commands, tools, how often they failed, and what followed what.

    Of all agents together, or of one HOST; --json and --out have both. A search that found
    nothing did not fail. Times are those of commands and calls that were waited for, and of
    programs that ran alone. What a call took beyond its time limit is a wait for your
    permission, and left out: ctx work --time tells of it. What a copy of a session repeats
    under another id (ctx list marks it) is left out too.
    """
    from ctx_pipeline.sessions.reports import work as api

    if isinstance(days, str):
        # --days was the name of --by-day, and what stands behind it may be the HOST
        by_day, host, days = True, _agent(host, days or None), None
    chosen["since"] = first_day(chosen["since"], days)
    host = _agent(host, only)
    instead = [name for name, said in (("--errors", errors), ("--flaky", flaky), ("--time", time_spent), ("--by-day", by_day)) if said]
    if len(instead) > 1 and instead != ["--time", "--by-day"]:
        raise UsageError(f"{' and '.join(instead)} are reports of their own", hint=f"one at a time: ctx work {instead[0]}")
    settings = for_reading()
    if errors:
        met = api.errors(_key(host), settings=settings, **chosen)
        if not met:
            require_captured(settings)
            require_project(settings, chosen.get("project"))
        _errors(met, scope(host=_key(host), **chosen), as_json=as_json)
        return
    if time_spent:
        _time(host, settings, by_day=by_day, as_json=as_json, **chosen)
        return
    if flaky:
        _flaky(host, settings, as_json=as_json, **chosen)
        return
    if by_day:
        _days(host, settings, as_json=as_json, **chosen)
        return
    found = api.work(_key(host), settings=settings, **chosen)
    if not found:
        require_captured(settings)
        require_project(settings, chosen.get("project"))
    if out:
        from pathlib import Path

        from ctx_pipeline.storage.files import PrivateFolder

        path = Path(out).absolute()
        PrivateFolder(path.parent).text(path.name, api.report(found))
    if as_json:
        emit({"hosts": [one.to_json(by=sort) for one in found]})
        return
    if not found:
        _nothing("tool calls", host, settings, chosen)
    else:
        say(scope(host=_key(host), **chosen))
    for one in found[:1]:
        say()
        _show(one, sort)
    if len(found) > 2:
        say(f"one agent's own: ctx work HOST ({', '.join(one.host for one in found[1:])})", dim=True)
    if out:
        say(f"the whole report: {plain(out)}")


def _nothing(what: str, host: str | None, settings: Settings, chosen: Mapping[str, Any]) -> None:
    """Say that a range has none, and when the newest turn outside of it began."""
    from ctx_pipeline.sessions.reports.working_time import worked_days

    newest = worked_days(host, settings=settings, **{**chosen, "since": None, "until": None})
    say(f"no {what} in this range{f'; the newest turn is from {newest[0].day}' if newest else ''}")


def _time(host: str | None, settings: Settings, *, by_day: bool, as_json: bool, **chosen: Any) -> None:
    from ctx_pipeline.sessions.reports.time_spent import PARTS, time_spent

    found = time_spent(_key(host), settings=settings, **chosen)
    if not found.sessions:
        require_captured(settings)
        require_project(settings, chosen.get("project"))
    if as_json:
        emit(found.to_json())
        return
    if not found.sessions:
        _nothing("turns", host, settings, chosen)
        return
    say(scope(host=_key(host), **chosen))
    say()
    say(f"{duration(found.whole.total)} in {counted(found.whole.turns, 'turn')} of {counted(len(found.sessions), 'session')}", bold=True)
    rows = [
        {"time": duration(spent), "share": percent(spent / found.whole.total), "what": what}
        for part, what in PARTS.items()
        if (spent := found.whole.seconds[part]) >= 1
    ]
    table(rows, {"time": "time", "share": "", "what": "in which"}, keep=("time",), drop=("share",))
    if by_day:
        say()
        table(
            [{"day": f"{day:%Y-%m-%d %a}", **_parts(one), "turns": one.turns} for day, one in found.days.items()],
            {"day": "day", "total": "time", **_PARTS, "turns": "turns"},
            drop=("turns", "still"),
            keep=("day",),
        )
        say(f"a turn counts for the day on which it began; {zone_name(chosen.get('timezone') or settings.timezone)}", dim=True)
        return
    ids = short_names([name for _, name in found.sessions], settings)
    sessions = [
        {"session": ids[key[1]], **_parts(one), "title": one_line(session_title(found.titles.get(key)), 60)}
        for key, one in list(found.sessions.items())[:_LONGEST]
    ]
    say()
    table(sessions, {"session": "session", "total": "time", **_PARTS, "title": "title"}, drop=("still",), keep=("session",))
    for name, longest in (("ran longest", found.ran), ("waited longest for you", found.waited), ("stood still longest", found.stood)):
        if longest:
            say()
            calls = [{"time": duration(one.seconds), "session": ids[one.session_id], "what": one.what} for one in longest[:_LONGEST]]
            table(calls, {"time": "time", "session": "session", "what": name}, keep=("time", "session"))
    say()
    if found.whole.away:
        away = found.whole.away
        say(f"left out: {counted(len(away), 'break')} over {PAUSE_MINUTES} min between turns, {duration(sum(away))} in all", dim=True)
    if found.whole.unknown:
        say(f"left out: {counted(found.whole.unknown, 'turn')} of which the records carry the time at which they were copied", dim=True)
    say(
        "a call waited for you for what it took beyond its time limit (a command), beyond seconds (an edit), or in all (a question)",
        dim=True,
    )
    say("a moment counts once in a session, and in each of several that went on at once; turns of subagents are part of the call", dim=True)
    say("by day: ctx work --time --by-day; a session: ctx show SESSION --turns", dim=True)


def _parts(one: Time) -> dict[str, str]:
    return {"total": duration(one.total)} | {part: duration(one.seconds[part]) if one.seconds[part] >= 1 else "" for part in _PARTS}


def _days(host: str | None, settings: Settings, *, as_json: bool, **chosen: Any) -> None:
    from ctx_pipeline.sessions.reports.working_time import worked_days

    found = worked_days(host, settings=settings, **chosen)
    if not found:
        require_captured(settings)
        require_project(settings, chosen.get("project"))
    if as_json:
        emit({"days": [one.to_json() for one in found]})
        return
    if not found:
        _nothing("turns", host, settings, chosen)
        return
    zone = chosen.get("timezone") or settings.timezone
    say(scope(host=_key(host), **chosen))
    parallel = any(one.turn_seconds - one.seconds >= _PARALLEL for one in found)
    rows = [
        {
            "day": f"{one.day:%Y-%m-%d %a}",
            "time": duration(one.seconds),
            "turns' time": duration(one.turn_seconds) if parallel else "",
            "first": (local_time(one.first, zone) or "")[11:16],
            "last": _ended(one, zone),
            "turns": one.turns,
            "sessions": len(one.sessions),
        }
        for one in found
    ]
    columns = {"day": "day", "time": "time"} | ({"turns' time": "of all turns"} if parallel else {})
    table(rows, columns | {"first": "from", "last": "to", "turns": "turns", "sessions": "sessions"})
    whole = sum(one.seconds for one in found)
    all_of_it = f"{whole / 3600:,.0f} h" if whole >= 86_400 else duration(whole)
    say(f"{counted(len(found), 'day')} with a turn, {all_of_it} in all, {duration(whole / len(found))} a day; {zone_name(zone)}")
    say(f"a turn is from a prompt to the last thing done for it, without pauses above {PAUSE_MINUTES} min in which no tool ran", dim=True)
    say("where that time went: ctx work --by-day --time; days on which models were called outside of turns: ctx usage daily", dim=True)


def _ended(one: WorkedDay, zone: str | None) -> str:
    """Return when the last turn of a day ended, with the days after it."""
    there = local_time(one.last, zone) or ""
    later = (date.fromisoformat(there[:10]) - one.day).days if there else 0
    return there[11:16] + (f" +{later}" if later else "")


def _flaky(host: str | None, settings: Settings, *, as_json: bool, **chosen: Any) -> None:
    from ctx_pipeline.sessions.reports.flaky_tests import APART_HOURS, flaky_tests

    found = flaky_tests(_key(host), settings=settings, **chosen)
    if not found.all_runs:
        require_captured(settings)
        require_project(settings, chosen.get("project"))
    if as_json:
        emit(found.to_json())
        return
    say(scope(host=_key(host), **chosen))
    say()
    looked = f"{counted(found.looked_at, 'test')} looked at"
    say(f"{counted(len(found.tests), 'flaky test') if found.tests else 'no flaky test'}: {looked}", bold=bool(found.tests))
    named = f"{found.runs:,} of {counted(found.all_runs, 'run')} of tests in {counted(found.sessions, 'session')}"
    say(f"tests are named by the output of {named}; the others print sums alone", dim=True)
    shown = found.tests[:_MOST_FLAKY]
    zone = chosen.get("timezone") or settings.timezone
    ids = short_names([name for one in shown for _, name in one.sessions], settings)
    rows = [
        {
            "test": one_line(one.test, 100),
            "failed": one.failed,
            "passed": one.passed,
            "last": (local_time(one.last, zone) or "")[:10],
            "sessions": " ".join(ids[name] for _, name in list(one.sessions)[:_LONGEST]),
        }
        for one in shown
    ]
    if rows:
        table(rows, {name: name for name in rows[0]}, keep=("test", "failed", "passed"))
    for one in shown:
        say()
        say(one_line(one.test, 150), bold=True)
        for what, run in zip(("failed", "passed"), one.proofs[0], strict=True):
            told = f"{local_time(run.at, zone, seconds=True)} in {ids[run.session_id]}, event {run.event}"
            say(f"  {what} {told}: {one_line(run.command, 80)}")
    if len(found.tests) > len(shown):
        say(f"{len(found.tests) - len(shown):,} more: --json", dim=True)
    say()
    say(
        "the same files: in the folder of the runs no command or edit changed one in between, or may have; runs of two turns, up to"
        f" {APART_HOURS} h apart, count where a test turned twice, since what you change by hand is not recorded",
        dim=True,
    )


def _errors(found: list[Met], told: str, *, as_json: bool) -> None:
    rows = [one.to_json() for one in found]
    if as_json:
        emit({"errors": rows})
        return
    say(told)
    say()
    if not rows:
        say("no call failed in this range")
        return
    shown = [
        {**row, "what": one_line(row["what"], 40), "error": one_line(row["error"] or "(no line says why)", 160)}
        for row in rows[:_MOST_ERRORS]
    ]
    table(shown, {"times": "times", "sessions": "sessions", "what": "what", "error": "error", "session_id": "last in"})
    if len(rows) > _MOST_ERRORS:
        say(f"{len(rows) - _MOST_ERRORS:,} more: --json", dim=True)


def _show(one: Work, sort: str) -> None:
    told = one.to_json(_TOP, by=sort)
    say("all agents" if one.host == "all" else one.host, bold=True)
    calls, timed = one.tool_calls, False
    say(f"{one.commands.times:,} commands, {percent(one.commands.rate)} failed; {calls.times:,} tool calls, {percent(calls.rate)} failed")
    for name, rows in (
        ("check", told["checks"]),
        ("program", told["top_programs"]),
        ("command", told["top_commands"]),
        ("tool", told["top_tools"]),
    ):
        if rows:
            shown = [
                {
                    **row,
                    name: one_line(row[name], 80),
                    "failure_rate": percent(row["failure_rate"]),
                    "total": _seconds(row["total_seconds"]),
                    "median": _seconds(row.get("median_seconds")),
                }
                for row in rows
            ]
            took = {key: heading for key, heading in _TIMES.items() if any(row[key] for row in shown)}
            table(shown, {name: name, "times": "times", "failed": "failed", "failure_rate": "", **took})
            timed = timed or bool(took)
    if timed:
        say(
            "times are of commands that ran one program alone; what they took beyond their limit is a wait for you",
            dim=True,
        )
    waits = sorted(((sum(ran.waits) / 1e6, len(ran.waits), name) for name, ran in one.programs.items() if ran.waits), reverse=True)
    if waits:
        told_waits = ", ".join(f"{runs:,} of {one_line(name, 40)} ({duration(took)})" for took, runs, name in waits[:_MOST_WAITS])
        say(f"such waits: {told_waits}", dim=True)
    if timed:
        say("where the time went, with waits and the sessions that took most: ctx work --time", dim=True)
    if told["transitions"]:
        say("most often: " + ", ".join(f"{t['from']} then {t['to']} {t['times']:,}" for t in told["transitions"][:6]))


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.1f} s"


@click.command()
@host_option
@since_option
@until_option
@project_option
@timezone_option
@json_option
def hints(host: str | None, as_json: bool, **chosen: Any) -> None:
    """What to look at: findings by what is at stake, with what helps and the sessions that show them.

    A habit is a threshold on one signal, in two sessions or more; nothing is asked of a
    model. ctx signal list NAME says what a signal measures.
    """
    from ctx_pipeline.findings.rules import find

    settings = for_reading()
    found = find(host=_key(host), settings=settings, **chosen)
    if not found:
        require_project(settings, chosen.get("project"))
    if as_json:
        emit({"schema": 2, "findings": [one.to_json() for one in found], "habits": [_habit(one) for one in found if one.signal and one.of]})
        return
    if not found:
        say("no finding: no habit is shown by two sessions or more; what was not measured yet shows none: ctx run")
    else:
        say(f"{scope(host=_key(host), **chosen)}\n")
    for one in found:
        cost = f", {dollars(round(one.usd * 1e9))}" if one.usd and one.signal else ""
        habit = one.rule == one.signal.replace("_", "-") and one.of
        of = f" ({one.detail[:1].lower()}{one.detail[1:].rstrip('.')})" if habit else ""
        say(f"{plain(one.title)}{of}{cost}", bold=True)
        for text in ("" if habit else one.detail, one.advice):
            if text:
                say(f"  {plain(text)}")
        for shown in one.examples if one.signal else ():
            value = f"{shown.value:,.0f}" if shown.value.is_integer() else f"{shown.value:.2f}"
            say(f"  {value}  {shown.host} {plain(shown.session_id)}  {one_line(shown.title, 70)}")
        say(f"  measured by {one.signal}; {plain(one.command)}" if one.signal else f"  {plain(one.command)}")
        say()


def _habit(one: Finding) -> dict[str, Any]:
    """Return a finding under the names that version 1 of this output had."""
    examples = [shown._asdict() for shown in one.examples]
    names = {"signal": one.signal, "text": one.title, "advice": one.advice, "sessions": one.cases, "of": one.of}
    return {**names, "dollars": one.usd, "examples": examples, "command": one.command}

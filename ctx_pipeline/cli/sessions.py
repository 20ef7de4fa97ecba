"""``ctx list``, ``import`` and ``show``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline import discovery
from ctx_pipeline.cli.homes import for_reading, looked
from ctx_pipeline.cli.options import branch_option, host_option, model_option, project_option, require_project, since_options
from ctx_pipeline.cli.output import (
    counted,
    dollars,
    emit,
    fill,
    first_counts,
    json_option,
    local_time,
    more_rows,
    one_line,
    plain,
    reading_text,
    say,
    table,
    terminal_width,
    unrecorded_agents,
    zone_name,
)
from ctx_pipeline.cli.session_names import reading_session, session_argument, short_names
from ctx_pipeline.cli.signal import complete_signals
from ctx_pipeline.dashboard.figures import duration
from ctx_pipeline.model.display import session_title, signal_words, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.integrations.import_sessions import Listed, Listing
    from ctx_pipeline.settings import Settings

_SORTS = ("date", "cost", "calls", "size", "time", "name", "signal")

_READING = 40
"""Characters of what a signal read, or of the file that changed last."""

_FAR = 3_650
"""Days from which on a deletion is not worth a column: an agent was told to keep everything."""
_NEVER = "never"


@click.command("list")
@host_option
@project_option
@model_option
@branch_option
@since_options("Last active on this day or later: 2026-03-01, 2026-03, yesterday, monday, 7d.")
@click.option("--until", metavar="DAY", help="Last active on this day or earlier.")
@click.option(
    "--signal", metavar="NAME[=TEXT]", shell_complete=complete_signals, help="Only sessions that this signal says something of, most first."
)
@click.option("--at-least", type=float, metavar="N", help="With --signal: only readings of N and more.")
@click.option("--file", metavar="NAME", help="Only sessions that read or changed this file, folder or glob.")
@click.option("--unchecked", is_flag=True, help="Only sessions whose last change of a file nothing checked.")
@click.option("--not-passed", is_flag=True, help="Only sessions that ended without passing tests, the unknown ones too.")
@click.option("--uncommitted", is_flag=True, help="Only sessions whose last git status showed files that are not committed.")
@click.option("--sort", type=click.Choice(_SORTS), help="Newest, most, largest or longest first; names in order.  [default: date]")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), metavar="N", help="At most N sessions.")
@click.option("--all", "empty", is_flag=True, help="Also sessions in which nothing happened.")
@json_option
def list_sessions(as_json: bool, unchecked: bool, not_passed: bool, uncommitted: bool, **chosen: Any) -> None:
    """List sessions, the last active first, captured or not.

    STATE says what is not as it should be: grown (more of it lies in the home), new (not captured yet) or
    gone (only in the store); then whether it is archived, active now, or a copy of another session, for which its model
    calls count. Printed into a file or a pipe it also says captured. DELETED IN: days until the agent deletes its
    own transcript; what was captured stays.

    --not-passed looks at sessions that ran tests or edited files: failed first, unknown last. Where commands failed ten
    times and more: ctx list --signal failed_command_count --at-least 10
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.integrations.import_sessions import list_sessions as stage
    from ctx_pipeline.storage import may_write, open_store

    if chosen["at_least"] is not None and not chosen["signal"]:
        raise UsageError("--at-least goes with --signal", hint="ctx list --help")
    if sum(map(bool, (unchecked, not_passed, uncommitted, chosen["signal"], chosen["file"]))) > 1:
        raise UsageError("--signal, --file, --unchecked, --not-passed and --uncommitted go one at a time", hint="ctx list --help")
    settings = _chosen_home(settings_module.load())
    with open_store(settings, read_only=not may_write(settings.home)) as store:
        listing = stage(store, settings, unchecked=unchecked, not_passed=not_passed, left=uncommitted, **chosen)
    if not listing.total:
        require_project(settings, chosen["project"])
    if as_json:
        emit(listing.to_json())
        return
    zone, whole = settings.timezone, terminal_width() is None
    signal = (chosen["signal"] or "").partition("=")[0]
    headings = {"changed, not checked": unchecked, "tests at the end": not_passed, "not committed": uncommitted}
    readings = signal or next((heading for heading, asked in headings.items() if asked), "accesses")
    unit, kind = (discovery.signals()[signal].unit, discovery.signals()[signal].kind) if signal else ("", "")
    listed = [name for one in listing.sessions for name in (one.session_id, one.copy_of) if name]
    names = short_names(listed, settings) if terminal_width() is not None else {}

    def shown(reading: float | str | None) -> str:
        if unchecked:
            names = " ".join(plain(", ".join(re.split(r"[/\\]", path)[-1] for path in str(reading or "unknown").split(", "))).split())
            return names if len(names) <= _READING else f"…{names[1 - _READING :]}"
        return one_line(reading, _READING) if isinstance(reading, str) else reading_text(reading, unit, kind)

    rows = [
        {
            "session": names.get(one.session_id, one.session_id),
            "last": local_time(int(one.last * 1e6), zone) if one.last else "",
            "project": one.project or "",
            # a terminal may have no room for the state
            "title": ("copy: " if one.copy_of and terminal_width() is not None else "") + one_line(session_title(one.title), 70),
            "cost": "" if one.cost_usd is None else dollars(round(one.cost_usd * 1e9)),
            "host": one.host,
            "size": size(one.bytes),
            "calls": one.calls,
            "time": "" if one.seconds is None else duration(one.seconds),
            "captured": ", ".join(_state(one, names, whole=whole)),
            "reading": shown(one.reading),
            "left": "" if one.state == "gone" else _NEVER if one.days_left is None or one.days_left > _FAR else f"{one.days_left} d",
        }
        for one in listing.sessions
    ]
    columns = {"session": "session", "last": "last active", "project": "project", "title": "title", "cost": "cost", "host": "host"}
    columns |= {name: heading for name, heading in (("size", "size"), ("calls", "model calls"), ("time", "time")) if name == chosen["sort"]}
    columns |= {"reading": readings} if any(row["reading"] not in {"", "yes"} for row in rows) else {}
    columns |= {"captured": "state"} if whole or any(row["captured"] for row in rows) else {}
    columns |= {"left": "deleted in"} if whole or any(row["left"] not in {"", _NEVER} for row in rows) else {}
    if rows:
        _say_outcomes(listing)
        table(rows, columns, drop=("captured", "left", "host", "project", "last", "cost"), paths=("reading",) if unchecked else ())
        _say_counts(listing, zone)
        more_rows(listing.total, len(rows))
    elif (
        not listing.empty
        and not any(chosen[name] for name in ("project", "model", "branch", "since", "until", "signal", "file"))
        and not (unchecked or not_passed or uncommitted)
    ):
        say(f"no sessions found; {looked(settings, [discovery.hosts()[key] for key in listing.hosts])}")
    elif signal:
        from ctx_pipeline.sessions.signals import measured_count

        say(f"no session fits; {signal} was measured in {counted(measured_count(signal, settings=settings), 'session')} in all")
    else:
        say("no session fits")
    if listing.empty:
        say(f"{counted(listing.empty, 'session')} in which nothing happened left out: --all")
    for warning in listing.warnings:
        say(warning, fg="yellow")


def _chosen_home(loaded: Settings) -> Settings:
    """Return the settings of the home that is listed, and say where those are samples."""
    from ctx_pipeline.cli.homes import choose, tell_samples

    settings, note = choose(loaded, demo=False)
    if note:
        tell_samples()
    return settings


def _state(one: Listed, names: Mapping[str, str], *, whole: bool) -> Iterator[str]:
    """Yield what there is to say of where a session lies; that it is captured, as it should be, only where ``whole``."""
    if whole or one.state != "captured":
        yield one.state
    if one.status == "archived":
        yield "archived"
    if one.active:
        yield "active"
    if one.copy_of:
        yield f"copy of {names.get(one.copy_of, one.copy_of)}"


def _say_outcomes(listing: Listing) -> None:
    if listing.outcomes:
        told = ", ".join(f"{outcome} {count:,}" for outcome, count in listing.outcomes.items())
        say(f"{counted(listing.total, 'session')} ended without passing tests: {told}", bold=True)


def _say_counts(listing: Listing, zone: str | None) -> None:
    counts = ", ".join(f"{count:,} {key}" for key, count in listing.counts.items() if count)
    say(f"{counts}; times in {zone_name(zone)}")
    if by_file := sum(one.last_of_file for one in listing.sessions):
        say(f"the last activity of {counted(by_file, 'session')} not captured yet is the time of the file: no record that was read has one")


@click.command("import")
@click.argument("host")
@click.option("--session-id", "--thread-id", "session_ids", multiple=True, help="A session, or a thread in it; may be repeated.")
@click.option("--latest", is_flag=True, help="The newest session.")
@click.option("--all", "everything", is_flag=True, help="Every session.")
@click.option("--limit", type=click.IntRange(1), help="At most N, newest first.")
@click.option("--limit-per-host", type=click.IntRange(1), help="At most N for each host.")
@click.option("--force", is_flag=True, help="Record a new generation even when nothing changed; nothing is overwritten.")
@click.option("--no-render", is_flag=True, help="Leave the page as it is.")
@json_option
def import_sessions(
    host: str,
    session_ids: tuple[str, ...],
    latest: bool,
    everything: bool,
    limit: int | None,
    limit_per_host: int | None,
    force: bool,
    no_render: bool,
    as_json: bool,
) -> None:
    """Capture and normalize chosen sessions of HOST; HOST `all` means every host, and every session unless some are chosen."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.integrations.import_sessions import import_selected
    from ctx_pipeline.storage import open_store

    everything = everything or (host == "all" and not session_ids and not latest)
    if sum((bool(session_ids), latest, everything)) != 1:
        raise UsageError("say which sessions to import", hint="one of --session-id ID, --latest, --all")
    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        report = import_selected(
            store,
            settings,
            host=None if host == "all" else host,
            session_ids=session_ids,
            limit=1 if latest and host != "all" else limit,
            limit_per_host=1 if latest else limit_per_host,
            force=force,
            render_page=not no_render,
        )
    if as_json:
        emit(report.to_json())
        return
    for line in report.sessions:
        note = line.error or f"{line.events:,} events" + (f", {line.unknown} unknown" if line.unknown else "")
        say(f"{line.status:<10} {line.host} {line.session_id}  {note}")
    say(f"{report.imported} imported, {report.unchanged} unchanged, {report.failed} failed")
    if report.failed:
        raise SystemExit(1)


@click.command()
@session_argument()
@click.option("--turns", is_flag=True, help="Instead: each prompt, how its turn ended, and with which answer.")
@click.option("--all", "everything", is_flag=True, help="Every signal, thread and kind of event.")
@json_option
def show(host: str, session_id: str, turns: bool, everything: bool, as_json: bool) -> None:
    """Show one session: what it was, what stands out, what could not be read.

    Signals stand out where nine tenths of the agent's other sessions are better.

    SESSION is the beginning of an id, latest, latest~2, yesterday, words of a title, a project (its
    newest session), a transcript file or HOST/ID; without it the newest session.
    """
    from ctx_pipeline.sessions import session_details as api

    settings = for_reading()
    with reading_session(settings, host, session_id) as (its_own, key, full):
        if turns:
            _turns(api.turns(key, full, settings=its_own), settings.timezone, as_json=as_json)
            return
        detail = api.show(key, full, settings=its_own)
    if as_json:
        emit(detail)
        return
    s = detail["session"]
    say(one_line(session_title(s["title"]), 120), bold=True)
    place = s["repository"] if s["repository"] and s["project"] != s["repository"] else s["project"]
    say("  ".join(filter(None, (f"{s['host']} {s['session_id']}", place, s["branch"]))))
    began, ended = (local_time(s[name], settings.timezone) or "no time" for name in ("first_ts", "last_ts"))
    say(f"{began} to {ended}, {zone_name(settings.timezone)}  models: {', '.join(s['models']) or 'none'}")
    if copied := detail["restamped"]:
        moment = local_time(copied["first_ts"], settings.timezone, seconds=True)
        say(f"{copied['events']:,} of its events carry the same time, {moment}: it is that of a copy, and so are durations between them")
    if detail["resume"]:
        say(f"resume: {detail['resume']}", whole=True)
    say()
    if everything or len(detail["threads"]) > 1:
        threads = [
            {**row, "cost": dollars(row["cost_nano"]), "id": row["thread_id"].removeprefix(f"{s['session_id']}/")}
            for row in detail["threads"]
        ]
        columns = {"kind": "thread", "id": "id", "agent": "agent", "events": "events", "model_calls": "model calls", "cost": "cost"}
        columns |= {"tool_calls": "tool calls", "task": "asked to", "answer": "answered"}
        columns = {name: heading for name, heading in columns.items() if name == "id" or any(row[name] for row in threads)}
        table(threads, columns, drop=("events", "agent", "model_calls", "tool_calls", "answer"))
        if any(row["kind"] == "subagent" for row in threads):
            say(f"what a subagent was told and found, event by event: ctx history {s['session_id']} --thread ID")
        say()
    if everything:
        table([{"kind": k, "events": n} for k, n in detail["kinds"].items()], {"kind": "kind", "events": "events"})
        say()
    _counts(detail)
    _window(detail["readings"])
    if s["unknown"] or s["quarantined"]:
        say(f"{counted(s['unknown'], 'record')} of an unknown kind, {counted(s['quarantined'], 'record')} that could not be read")
    for label, count in detail["unknown"].items():
        say(f"  unknown {label}: {count}")
    for record in detail["quarantined"][:20]:
        say(f"  quarantined {record['stream']} line {record['line']}: {record['reason']}")
    if not detail["readings"]:
        return
    say()
    _findings(detail["readings"])
    _signals(detail["readings"], s, everything=everything)


def _window(readings: list[dict[str, Any]]) -> None:
    """Print how full the window was at most, where that is known."""
    known = {r["signal"]: r for r in readings if r["value"] is not None}
    if most := known.get("context_peak_tokens"):
        told = json.loads(known["context_peak_share"]["metadata"] or "{}") if "context_peak_share" in known else {}
        used = told.get("tokens") or round(most["value"])
        cuts = int(known["compaction_count"]["value"]) if "compaction_count" in known else 0
        say(f"{fill(used, told.get('window'), told.get('window_source'))}, {counted(cuts, 'compaction')}")


def _findings(readings: list[dict[str, Any]]) -> None:
    """Print the habits that a session shows by itself, and what helps."""
    from ctx_pipeline.findings.rules import HABITS

    values = {r["signal"]: r["value"] for r in readings if r["value"] is not None}
    shown = [h for h in HABITS if values.get(h.signal, -1) >= h.at_least and (not h.needs[0] or values.get(h.needs[0], -1) >= h.needs[1])]
    for habit in shown:
        say(habit.title.format(sum=values[habit.signal]), bold=True)
        say(f"  {habit.advice}")
    if shown:
        say()


def _counts(detail: dict[str, Any]) -> None:
    """Print what a session used and did, and what of it is counted elsewhere or nowhere."""
    usage, session = detail["usage"], detail["session"]
    say(
        f"{counted(usage['calls'], 'model call')}: {usage['input_tokens']:,} in, {usage['output_tokens']:,} out, "
        f"{usage['cache_read_tokens']:,} from the cache, {dollars(usage['cost_nano'])}"
    )
    missing = next((r for r in detail["readings"] if r["signal"] == "estimated_missing_output" and r["value"]), None)
    if missing is not None:
        say(first_counts(len(json.loads(missing["metadata"])["calls"]), round(missing["value"])))
    say(f"{counted(session['prompts'], 'prompt')}, {counted(session['tool_calls'], 'tool call')}, {session['failed_tool_calls']:,} failed")
    if copies := detail["counted_elsewhere"]["calls"]:
        others = ", ".join(map(plain, detail["counted_elsewhere"]["sessions"]))
        say(f"{copies:,} of the model calls recorded here count{'s' * (copies == 1)} for {others}")
    if lost := detail["unrecorded_subagents"]["agents"]:
        say(unrecorded_agents(lost, detail["unrecorded_subagents"]["tokens"]))


def _signals(readings: list[dict[str, Any]], session: dict[str, Any], *, everything: bool) -> None:
    from ctx_pipeline.model.readings import first_place
    from ctx_pipeline.rot.analysis import SCALE
    from ctx_pipeline.sessions.signals import OTHERS_AT_LEAST, catalogue, notable, rank
    from ctx_pipeline.signals.outcomes import GRADES

    groups = {s["signal"]: s["group"] for s in catalogue()}
    chosen = [(groups.get(r["signal"], ""), r, rank(r)) for r in readings] if everything else notable(readings)
    rows = []
    for group, r, place in sorted(chosen, key=lambda one: (first_place(one[1]["signal"]), one[0])) if everything else chosen:
        known = r.get("others", 0) >= OTHERS_AT_LEAST and r["label"] is None
        rows.append(
            {
                "signal": signal_words(r["signal"]) if not everything else r["signal"],
                "value": reading_text(r["value"], r["unit"], r["kind"]) if r["label"] is None else r["label"],
                "usual": reading_text(r["median"], r["unit"], r["kind"]) if known else "",
                "rank": "" if place is None or place < 0.5 else f"worse than {'all others' if place == 1 else f'{place:.0%} of sessions'}",
                "group": group,
                "reason": r["reason"],
            }
        )
    columns = {"signal": "signal", "value": "value", "usual": f"usual of {session['host']}", "rank": "", "group": "group"}
    table(rows, columns | ({"reason": "reason"} if everything else {}), drop=("group", "rank", "usual"), keep=("signal",))
    if not everything:
        if any(row["usual"] for row in rows):
            say(f"usual: the median of the other sessions of {session['host']}; another agent has its own", dim=True)
        shown = {r["signal"] for _, r, _ in chosen}
        if "session_grade" in shown:
            least = ", ".join(f"{letter} from {points}" for points, letter in GRADES)
            say(f"session grade: 100 points less what went wrong: {least}, F below; what it took off: ctx signal show", dim=True)
        if "context_rot_verdict" in shown:
            say(f"context rot verdict: {SCALE}; which: ctx rot analyze {session['session_id']}", dim=True)
        say(f"all {len(readings)} signals: --all; with what they rest on: ctx signal show {session['session_id']}")


_TOOLS, _CHANGED, _CHECKED = 4, 6, 4
"""Tools, files and checks that a turn is printed with."""


def _first(tools: dict[str, int]) -> str:
    """Return the tools that a turn called most, each with its calls."""
    most = list(tools.items())[:_TOOLS]
    told = ", ".join(f"{count:,} {tool}" for tool, count in most)
    return f": {told}{_more(sum(tools.values()) - sum(count for _, count in most))}" if most else ""


def _more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


def _turns(found: list[dict[str, Any]], zone: str | None, *, as_json: bool) -> None:
    if as_json:
        emit({"turns": found})
        return
    if commands := sum(turn["prompt"]["command"] for turn in found):
        say(f"{counted(len(found), 'turn')}: {counted(len(found) - commands, 'prompt')}, {counted(commands, 'slash command')}")
    for turn in found:
        cut = f", {counted(len(turn['compactions']), 'compaction')}" if turn["compactions"] else ""
        say(f"{local_time(turn['prompt']['ts'], zone) or '?'}  {one_line(turn['prompt']['text'], 150)}", bold=True)
        say(f"  {turn['ended']}, {counted(turn['tool_calls'], 'tool call')}{_first(turn['tools'])}{cut}")
        if turn["changed"]:
            say(f"  changed {', '.join(turn['changed'][:_CHANGED])}{_more(len(turn['changed']) - _CHANGED)}")
        if turn["checks"]:
            ended = [f"`{one_line(check['program'], 60)}` {check['result']}" for check in turn["checks"][-_CHECKED:]]
            earlier = len(turn["checks"]) - _CHECKED
            say(f"  checked {f'{earlier:,} earlier, ' if earlier > 0 else ''}{', '.join(ended)}")
        if turn["answer"]:
            say(f"  {one_line(turn['answer']['text'], 200)}")
    if not found:
        say("the session has no prompt")

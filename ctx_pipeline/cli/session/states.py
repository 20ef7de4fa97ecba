"""The actions of ``ctx session`` that show a state, note what somebody says, list and clean up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import host_option, require_project
from ctx_pipeline.cli.output import (
    counted,
    dollars,
    emit,
    json_option,
    local_time,
    more_rows,
    one_line,
    plain,
    say,
    table,
    tokens,
    zone_name,
)
from ctx_pipeline.cli.session import at_option, session_option
from ctx_pipeline.cli.session_names import session_name, short_names
from ctx_pipeline.model.display import title_text

_FILES, _FINDINGS = 10, 5

if TYPE_CHECKING:
    from ctx_pipeline.context.session_state.state import SessionState
    from ctx_pipeline.sessions.states.state import Found
    from ctx_pipeline.settings import Settings


@click.command()
@session_name()
@at_option
@json_option
def status(name: str | None, at: str | None, as_json: bool) -> None:
    """Show the state of a session, at its end or at any moment."""
    from ctx_pipeline.sessions.states.state import session_state

    settings = for_reading()
    found = session_state(name, at=at, settings=settings)
    if as_json:
        emit(found.to_json())
        return
    _view(found)
    if at is None and found.choice.captured:
        from ctx_pipeline.sessions.states.playbook import playbook_of, shown_lines
        from ctx_pipeline.sessions.states.profiles import active, warnings

        entries = shown_lines(playbook_of(f"{found.state.host}:{found.state.session_id}", settings=settings))
        if entries:
            say(f"Playbook ({len(entries)}):")
        for entry in entries:
            say(f"  {one_line(entry, 160)}")
        for warning in warnings(active(settings).name, host=found.state.host, session_id=found.state.session_id, settings=settings):
            say(plain(warning), fg="yellow")


@click.command()
@session_name()
@json_option
def load(name: str | None, as_json: bool) -> None:
    """Print what the last other session of this repository knew, for a new chat.

    Says what came back, and how much smaller it is than reading everything again.
    """
    from ctx_pipeline.context.session_state.view import task_line
    from ctx_pipeline.model.display import cut
    from ctx_pipeline.sessions.states.profiles import active
    from ctx_pipeline.sessions.states.state import loaded

    told = loaded(name, profile=active(for_reading()), settings=for_reading())
    if as_json:
        emit(told.to_json())
        return
    state = told.found.state
    last = local_time(state.as_of, for_reading().timezone) or "not captured yet"
    imported = ", imported" if state.as_of and not told.found.choice.captured else ""
    say(f"Restored session ({last}{imported}), {state.host} {plain(state.session_id)}", bold=True)
    _lines(told.found)
    about = state.current_task
    task = f"“{cut(about.text, 300)}”".removesuffix("…”") if about else ""  # the block may tell more of it
    told_above = task_line(state)
    for line in told.block.lines:
        again = task and (
            task in line.text
            or line.text.endswith(f": {task[1:].removesuffix('”')}")
            or ("; last asked: " in told_above and "Asked last" in line.text)
        )
        if line.about not in ("files", "read", "next_steps", "beside") and not (again and line.about == "task"):
            say(plain(line.text))
    if told.command:
        say(f"Resume it with: {plain(told.command)}")
    if told.cold_tokens > told.tokens:
        say(f"(~{tokens(told.tokens)} tokens vs at least {tokens(told.cold_tokens)} that its reads brought in)")


@click.command()
@json_option
def save(as_json: bool) -> None:
    """Capture what the agents wrote up to now.

    Nothing has to be saved by hand: hooks and `ctx run` capture, and notes are kept at
    once. This does it right now.
    """
    from ctx_pipeline.cli.session.writing import act

    told = act("save")
    if as_json:
        emit(told)
    else:
        say(f"{counted(told['sessions_parsed'], 'session')} read" if told["sessions_parsed"] else "nothing is newer than what was captured")


@click.command()
@click.argument("text")
@session_option
@json_option
def task(text: str, name: str | None, as_json: bool) -> None:
    """Say what the session is about."""
    _note("task", text, name, as_json)


@click.command()
@click.argument("text")
@session_option
@json_option
def finding(text: str, name: str | None, as_json: bool) -> None:
    """Note something that was found.

    "auth.ts:45 - expiry is not checked" keeps file and line.
    """
    _note("finding", text, name, as_json)


@click.command()
@click.argument("text")
@click.option("--because", "reason", metavar="WHY", help="The reason.")
@click.option("--replaces", metavar="TEXT", help="The earlier decision that this one replaces, as it was noted.")
@session_option
@json_option
def decision(text: str, reason: str | None, replaces: str | None, name: str | None, as_json: bool) -> None:
    """Note a decision, with its reason and what it replaces."""
    _note("decision", text, name, as_json, reason=reason, replaces=replaces)


def _note(what: str, text: str, name: str | None, as_json: bool, **more: Any) -> None:
    from ctx_pipeline.cli.session.writing import act

    kept = act(what, name=name, text=text, **more)
    if as_json:
        emit(kept)
        return
    place = f"{kept['path']}{':' + str(kept['line']) if kept.get('line') else ''}: " if kept.get("path") else ""
    say(f"{what} noted for {kept['host']} {kept['session_id'][:12]}: {one_line(place + kept['text'], 160)}")


@click.command("list")
@host_option
@click.option("--project", help="Only projects with this in their name or path.")
@click.option("--here", is_flag=True, help="Only sessions of this folder's repository.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 10_000), help="At most N sessions.")
@json_option
def list_states(host: str | None, project: str | None, here: bool, limit: int, as_json: bool) -> None:
    """List sessions of every agent with task, calls, tokens and cost, the last active first."""
    from ctx_pipeline.sessions.listing import listed

    settings = for_reading()
    zone = settings.timezone
    rows, total = listed(host=host, project=project, here=here, limit=limit, settings=settings)
    if not total:
        require_project(settings, project)
    if as_json:
        emit({"sessions": rows, "total": total})
        return
    if not rows:
        say("no session was captured or imported that fits")
        return
    names = short_names([row["session_id"] for row in rows], settings)
    shown = [
        {
            **row,
            "session": names[row["session_id"]],
            "last": local_time(row["last"], zone),
            "task": one_line(f"{'(imported) ' if row['imported'] else ''}{title_text(row['task'] or '')}", 60),
            "tokens": tokens(row["tokens"]),
            "cost": dollars(row["cost_nano"]),
        }
        for row in rows
    ]
    heads = {n: n for n in ("host", "session", "last", "project", "task")}
    table(shown, {**heads, "tool_calls": "calls", "tokens": "tokens", "cost": "cost", "notes": "notes"})
    say(f"times in {zone_name(zone)}")
    more_rows(total, len(rows))


@click.command()
@click.option(
    "--days",
    default=7,
    show_default=True,
    type=click.IntRange(0, 36_500),
    help="Delete older artifacts, but for the newest of each kind and session.",
)
@click.option("--yes", "-y", "really", is_flag=True, help="Delete them; without it they are only shown.")
@json_option
def cleanup(days: int, really: bool, as_json: bool) -> None:
    """Show old snapshots and other artifacts, and delete them with --yes.

    What was captured and what you noted stay; `ctx forget` removes sessions.
    """
    from ctx_pipeline.cli.session.writing import act

    told = act("cleanup", days=days, really=really)
    if as_json:
        emit(told)
        return
    for row in told["artifacts"]:
        day = local_time(row["at"], for_reading().timezone)[:10]
        say(f"{row['artifact_id']:<14} {day}  {row['host']} {one_line(row['session_id'], 40)}")
    count = len(told["artifacts"]) + told["orphans"]
    say(
        f"{counted(told['removed'], 'artifact')} removed"
        if really
        else f"{counted(count, 'artifact')} would go" + (": --yes" if count else "")
    )


def _view(found: Found) -> None:
    from ctx_pipeline.context.session_state.view import view_lines

    state = found.state
    stats = state.stats
    head = [f"{state.host} {plain(state.session_id)}"]
    head += [local_time(state.as_of, for_reading().timezone)] if state.as_of else ["not captured yet"]
    head += ["imported"] if state.as_of and not found.choice.captured else []
    # model calls that are copies count for the session that they are copies of
    billed = f", {tokens(stats['prompt_tokens'])} prompt tokens" if stats and stats["model_calls"] else ""
    head += [f"{counted(stats['tool_calls'], 'tool call')}{billed}"] if stats else []
    say(" | ".join(head), bold=True)
    if found.moment != "end":
        say(f"as of {plain(found.moment)} (event {state.seq})")
    for line in view_lines(state):
        say(line)


def _lines(found: Found) -> None:
    from ctx_pipeline.context.session_state.view import task_line
    from ctx_pipeline.model.display import cut

    state = found.state
    say(task_line(state))
    again = {check.event for check in state.checks if not check.ok}  # the lines of checks say it too
    # who goes on needs no failure that was mended
    findings = [one for one in state.findings if not one.passed_later and (one.event is None or one.event not in again)]
    if findings:
        say(f"Findings: {len(findings)}")
    for finding in findings[:_FINDINGS]:
        say(f"  {one_line(finding.text, 240)}")
    _files(state)
    if state.next_steps:
        say(f"Next: {'; '.join(cut(i.text, 100) for i in state.next_steps[:5])}")


def _files(state: SessionState) -> None:
    """Print the changed files, the last first; where none was changed, those that were read."""
    from ctx_pipeline.context.session_state.snapshot import worked_on

    files, said = [f"{plain(f.path)}{' (deleted)' if f.deleted else ''}" for f in worked_on(state.modified)], "Files touched"
    if not files and state.read:
        # what was read beside the project, such as an agent's own skills, tells nothing about the work
        files = [plain(f.path) for f in [f for f in state.read if not f.path.startswith(("/", "~"))] or state.read]
        said = "No changed file is recorded; read"
    if not files and state.committed:
        return  # a commit holds what no record names
    more = f" and {len(files) - _FILES} more" if len(files) > _FILES else ""
    say(f"{said}: {', '.join(files[:_FILES]) or 'none is recorded'}{more}{state.unseen_changes}")


# ctx session profile: which profile is in force, which there are, and what one would have meant.


@click.command()
@click.argument("name", required=False)
@click.option("--try", "trial", is_flag=True, help="Do not switch: show what it would have meant for the sessions of this repository.")
@json_option
def profile(name: str | None, trial: bool, as_json: bool) -> None:
    """Show the profiles, switch to one, or try one on recorded sessions.

    A profile says how large snapshots and resume blocks are, what they keep first and leave
    out, how far a session may go (largest prompt, tool calls, dollars), from which share of
    that on it is warned, and how many tool calls lie between checkpoints. Your own are files
    profiles/NAME.toml in the store: extends = "coder", and what differs.
    """
    from ctx_pipeline.sessions.states import profiles as api

    settings = for_reading()
    if trial:
        _print_trial(name or api.active(settings).name, settings, as_json)
        return
    if name is not None:
        from ctx_pipeline.cli.session.writing import act

        api.profile(name, settings)
        act("profile", profile=name)
    known, active = api.listed(settings)
    if as_json:
        emit({"active": active, "profiles": [p.to_json() for p in known]})
        return
    if name is not None:
        say(f"switched to {active}")
        return
    rows = [
        {
            **p.to_json(),
            "name": f"{'*' if p.name == active else ' '} {p.name}",
            "cost_usd": float(p.cost_usd),
            "description": one_line(p.description, 60),
        }
        for p in known
    ]
    heads = {"name": "profile", "source": "source", "snapshot_bytes": "snapshot", "resume_tokens": "resume", "context_tokens": "context"}
    table(rows, {**heads, "tool_calls": "calls", "cost_usd": "dollars", "description": "for"})


def _print_trial(name: str, settings: Settings, as_json: bool) -> None:
    from ctx_pipeline.sessions.states.profiles import evaluate_profile

    found = evaluate_profile(name, settings=settings)
    if as_json:
        emit(found.to_json())
        return
    say(f"{plain(name)} over {counted(found.sessions, 'session')} of this repository:", bold=True)
    for limit, over in found.over.items():
        most = getattr(found.profile, limit)
        say(f"  {limit} above {f'${most:,.2f}' if limit == 'cost_usd' else f'{most:,}'}: {counted(over, 'session')}")
    used = counted(found.used, "file")
    say(f"  a snapshot of {found.profile.snapshot_bytes:,} bytes held {found.held} of {used} used again behind compactions")

"""``ctx session snapshot``, ``restore``, ``resume`` and ``diff``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, local_time, one_line, plain, say, table, zone_name
from ctx_pipeline.cli.session import at_option, session_option
from ctx_pipeline.cli.session_names import session_name


@click.command()
@session_name()
@at_option
@click.option("--bytes", "asked", type=click.IntRange(512, 100_000), help="Bytes at most; without it as the active profile says.")
@click.option("--recall", is_flag=True, help="Measure instead: how much of what was used after each compaction a snapshot there held.")
@json_option
def snapshot(name: str | None, at: str | None, asked: int | None, recall: bool, as_json: bool) -> None:
    """Keep what matters of a session as XML of at most 2,048 bytes.

    Task and changed files first, then decisions, findings and done steps, then the last
    test run and what is left to do, then figures. What does not fit is named, with commands that
    bring it back. `ctx session restore` prints it again.
    """
    from ctx_pipeline.sessions.states import state as api
    from ctx_pipeline.sessions.states.profiles import active

    settings = for_reading()
    profile = active(settings)
    budget = asked or profile.snapshot_bytes
    if recall:
        rows = [{**r._asdict(), "share": r.share} for r in api.snapshot_recall(name, budget=budget, settings=settings)]
        if as_json:
            emit({"boundaries": rows})
        for row in () if as_json else rows:
            missed = f"; missed: {', '.join(map(plain, row['missed'][:5]))}" if row["missed"] else ""
            say(f"{row['moment']}: {row['held']} of {counted(row['used'], 'file')} used again{missed}")
        if not rows and not as_json:
            say("the session was never compacted")
        return
    from ctx_pipeline.cli.session.writing import act

    made = api.make_snapshot(name, at=at, budget=budget, profile=profile, settings=settings)
    about = {"dropped": made.dropped, "queries": made.queries, "moment": at or "end", "budget": budget, "seq": made.seq}
    title = f"snapshot of {made.session_id[:12]}"
    kept = act("keep", kind=api.SNAPSHOT, host=made.host, session_id=made.session_id, content=made.xml, name=title, about=about)
    if as_json:
        emit({**made.to_json(), **kept})
        return
    say(f"Snapshot saved ({len(made.xml.encode()):,} bytes) - {kept['artifact_id']}", bold=True)
    say(made.xml, nl=False)


@click.command()
@session_name()
@json_option
def checkpoints(name: str | None, as_json: bool) -> None:
    """List the moments of a session that are worth going back to, which nobody has to save.

    One after every 15 tool calls (or as the profile or LEAN_CTX_CHECKPOINT_INTERVAL says; 0
    is none), before each compaction and before a pause of 15 minutes, with how many of the
    files that were used afterwards a snapshot there holds. `ctx session snapshot --at
    MOMENT` makes it.
    """
    from ctx_pipeline.sessions.states import state as api
    from ctx_pipeline.sessions.states.profiles import active

    settings = for_reading()
    profile = active(settings)
    found = api.checkpoints(name, budget=profile.snapshot_bytes, interval=profile.checkpoint_calls, settings=settings)
    used, held = sum(c.used or 0 for c in found), sum(c.held or 0 for c in found)
    if as_json:
        emit({"checkpoints": [c._asdict() for c in found], "used": used, "held": held})
        return
    if not found:
        off = api.checkpoint_interval(settings, profile.checkpoint_calls) == 0
        say(
            "no checkpoint: none is wanted after tool calls, and nothing else asks for one"
            if off
            else "no checkpoint: the session is too short"
        )
        return
    rows = [{**c._asdict(), "at": local_time(c.at, settings.timezone) or "unknown", "held": f"{c.held} of {c.used}"} for c in found]
    table(rows, {"moment": "moment", "why": "why", "at": "time", "tool_calls": "calls", "held": "files used again that it holds"})
    say(f"{held} of {used} together" if used else "nothing in it was used again")
    say(f"times in {zone_name(settings.timezone)}")


@click.command()
@session_name()
@json_option
def playbook(name: str | None, as_json: bool) -> None:
    """Show what a session taught: rules of the person, calls that fail with those that work, commands that check.

    Each entry is confirmed by what happened later. It retires where the opposite was said
    or happened, or where nothing confirmed it for 50 prompts.
    """
    from ctx_pipeline.sessions.states.playbook import playbook_of

    found = playbook_of(name, settings=for_reading())
    if as_json:
        emit({"entries": [e._asdict() for e in found]})
        return
    if not found:
        say("nothing was learned that a later call or word could confirm")
        return
    rows = [{"text": one_line(e.text, 160), "kind": e.kind, "confirmed": e.confirmed, "retired": one_line(e.retired, 80)} for e in found]
    heads = {"kind": "kind", "confirmed": "confirmed", "text": "entry"}
    table(rows, heads | ({"retired": "retired because"} if any(e.retired for e in found) else {}))


@click.command()
@session_name()
@json_option
def restore(name: str | None, as_json: bool) -> None:
    """Print the newest snapshot of this repository.

    Where none was kept since, one is made of the last other session that did something.
    """
    from ctx_pipeline.sessions.states.state import restored

    found = restored(name, settings=for_reading())
    if as_json:
        emit(found.to_json())
        return
    kept = f"kept {local_time(found.at, for_reading().timezone)}" if found.at else "made now, none was kept"
    say(f"Snapshot of {found.host} {plain(found.session_id)}, {kept}", bold=True)
    say(found.xml, nl=False)


@click.command()
@session_name()
@click.option("--budget", type=click.IntRange(60, 20_000), help="Tokens at most (o200k_base); without it as the active profile says.")
@click.option("--effect", is_flag=True, help="Measure instead: calls between a compaction and the next change, with a block and without.")
@json_option
def resume(name: str | None, budget: int | None, effect: bool, as_json: bool) -> None:
    """Print what a new chat needs of the last one: what was asked, decided, changed and checked, and what is left to do.

    Without --session it is the last other session of this repository that did something,
    of any agent. The last line resumes it.
    """
    if effect:
        _effect(as_json)
        return
    from ctx_pipeline.sessions.states.profiles import active
    from ctx_pipeline.sessions.states.state import resume_block

    settings = for_reading()
    profile = active(settings)
    made = resume_block(name, budget=budget or profile.resume_tokens, profile=profile, settings=settings)
    if as_json:
        emit(made._asdict())
        return
    say(made.text, nl=False)
    left = f", {counted(len(made.dropped), 'line')} left out" if made.dropped else ""
    say(f"({made.tokens} of {made.budget} tokens{left})", err=True)


def _effect(as_json: bool) -> None:
    from ctx_pipeline.sessions.reports.work import resume_effect

    found = resume_effect(settings=for_reading())
    if as_json:
        emit({side: figures._asdict() for side, figures in found.items()})
        return
    for side, f in found.items():
        medians = f"median {f.median_calls:g} calls, {f.median_reads:g} of them reads" if f.median_calls is not None else "no data"
        say(f"{side} a block: {counted(f.compactions, 'compaction')}, {f.changed} followed by a change; {medians}")


@click.command()
@click.argument("first", required=False)
@click.argument("second", required=False)
@click.option("--from", "start", metavar="MOMENT", help="With one session: the earlier moment, start without it.")
@click.option("--to", "end", metavar="MOMENT", help="With one session: the later moment, end without it.")
@json_option
def diff(first: str | None, second: str | None, start: str | None, end: str | None, as_json: bool) -> None:
    """Show what two sessions differ by, or one session at two moments.

    FIRST and SECOND are ids; with one of them, or none, give --from and --to.
    """
    from ctx_pipeline.context.session_state.difference import LISTS, differs
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.sessions.states.state import compared

    if second is None and start is None and end is None:
        raise UsageError("one session differs from itself at another moment only", hint="--from before-compaction:1, or name two sessions")
    moments = (start, end) if second is not None else (start or "start", end)
    found = compared(first, second, moments=moments, settings=for_reading())
    if as_json:
        emit(found)
        return
    for word in ("from", "to"):
        one = found[word]
        say(f"{word:<5}{one['host']} {plain(one['session_id'])} at {plain(one['moment'])}")
    if not differs(found):
        say("nothing differs")
    for word in ("task", "tests"):
        if found[word]:
            say(f"{word}: {one_line(found[word]['from'] or 'none', 100)} → {one_line(found[word]['to'] or 'none', 100)}")
    for title in LISTS:
        _list(title.replace("_", " "), found[title])
    files = found["files"]
    _list("files", {"added": files["added"], "removed": files["removed"]})
    for path, more in files["changed_more"].items():
        say(f"  ~ {plain(path)}: {counted(more, 'change')} more")
    if found["stats"]:
        say("figures: " + ", ".join(f"{name} {count:+,}" for name, count in found["stats"].items()))


def _list(title: str, found: dict[str, Any]) -> None:
    if found["added"] or found["removed"]:
        say(f"{title}:", bold=True)
    for mark, word in (("-", "removed"), ("+", "added")):
        for text in found[word][:30]:
            say(f"  {mark} {one_line(text, 160)}")
        if len(found[word]) > 30:
            say(f"  {mark} and {len(found[word]) - 30} more (--json has all)")


# ctx session export and import.


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@session_option
@at_option
@json_option
def export(file: Path, name: str | None, at: str | None, as_json: bool) -> None:
    """Write a session's state into FILE, secrets out, and say what was taken out."""
    from ctx_pipeline.cli.session.writing import act
    from ctx_pipeline.context.session_state.state import BUNDLE
    from ctx_pipeline.sessions.states.bundles import exported
    from ctx_pipeline.storage.files import PrivateFolder

    made = exported(name, at=at, settings=for_reading())
    PrivateFolder(file.absolute().parent).json(file.name, made)
    host, session_id = made["state"]["host"], made["state"]["session_id"]
    about = {"redacted": made["redacted"], "repository": made["repository"]}
    content = json.dumps(made["state"], ensure_ascii=False)
    kept = act("keep", kind=BUNDLE, host=host, session_id=session_id, content=content, name=f"bundle of {session_id[:12]}", about=about)
    if as_json:
        emit({"file": str(file), "host": host, "session_id": session_id, "redacted": made["redacted"], "artifact_id": kept["artifact_id"]})
        return
    say(f"{plain(file)}: {host} {plain(session_id)}")
    say(_redacted(made["redacted"]))


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_bundle(file: Path, as_json: bool) -> None:
    """Import the state of a session from FILE; `ctx session load` in its repository, or with its id, shows it.

    A session that is captured here keeps its own state.
    """
    from ctx_pipeline.cli.session.writing import act
    from ctx_pipeline.context.session_state.state import BUNDLE
    from ctx_pipeline.sessions.states.bundles import LARGEST, read

    with file.open("rb") as opened:
        state, redacted, repository = read(opened.read(LARGEST + 1))
    content = json.dumps(state.to_json(), ensure_ascii=False)
    title = f"bundle of {state.session_id[:12]}"
    about = {"redacted": redacted, "repository": repository}
    kept = act("keep", kind=BUNDLE, host=state.host, session_id=state.session_id, content=content, name=title, about=about)
    if as_json:
        told = {"host": state.host, "session_id": state.session_id, "repository": repository, "redacted": redacted}
        emit({**told, "artifact_id": kept["artifact_id"]})
        return
    say(f"{state.host} {plain(state.session_id)}: {counted(len(state.findings), 'finding')}, {counted(len(state.files), 'file')}")
    say(f"repository: {', '.join(map(plain, repository)) or 'none is known; ctx session load finds it by its id'}")
    say(_redacted(redacted))


def _redacted(found: dict[str, int]) -> str:
    return "redacted: " + ", ".join(f"{plain(name)} {count}x" for name, count in found.items()) if found else "nothing had to be redacted"

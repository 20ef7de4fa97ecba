"""``ctx learn``: the few lessons worth a judgment, and the block of a rules file that they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctx_pipeline import discovery
from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.learning.lesson_review import Proposal
    from ctx_pipeline.settings import Settings


def _rules_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each rules file that hosts read, named after it."""
    for name in dict.fromkeys(host.agent.rules_file for host in discovery.hosts().values() if host.agent.rules_file):
        option = f"--{name.lower().replace('.', '-')}"
        command = click.option(option, "files", flag_value=name, multiple=True, help=f"Print the block for {name}.")(command)
    return command


@click.command()
@click.option("--cwd", type=click.Path(file_okay=False), help="Where the work is done, else here.")
@click.option("--everywhere", is_flag=True, help="The lessons of all repositories.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option("--ask", is_flag=True, help="Judge one lesson after the other: accept, reject, edit or leave it.")
@_rules_file_options
@click.option("--write", is_flag=True, help="Write the block into the file, after a backup.")
@click.option("--pr", "as_patch", is_flag=True, help="Print the change of the file as a patch.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before writing.")
@json_option
def learn(
    cwd: str | None,
    everywhere: bool,
    limit: int,
    ask: bool,
    files: tuple[str, ...],
    write: bool,
    as_patch: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the few lessons that would have saved most, to accept, reject or write into a rules file.

    Each with the sessions that taught it and the minutes that were lost to it. A rules file
    gets the accepted lessons, or the proposed ones where none is accepted.
    """
    from ctx_pipeline.cli.memory.commands import asked_at
    from ctx_pipeline.learning.lesson_review import plain_proposal, proposals

    settings = for_reading()
    place = asked_at(cwd, everywhere)
    if files:
        _rules_files(files, place, settings, write=write, patch=as_patch, yes=yes, as_json=as_json)
        return
    if write or as_patch:
        raise UsageError("--write and --pr need a rules file", hint="ctx learn --help names them")
    found = proposals(cwd=place, limit=limit, settings=settings)
    if as_json:
        emit({"proposals": [plain_proposal(p) for p in found]})
        return
    for number, proposal in enumerate(found, 1):
        _print(number, proposal, everywhere=everywhere)
        if ask:
            _judge(proposal)
    if not found:
        say("no lesson waits for a judgment" if everywhere else "no lesson waits for a judgment here (--everywhere asks all repositories)")
    elif not ask:
        say("accept one: ctx memory accept ID   one after the other: ctx learn --ask   into a rules file: ctx learn --help")


def _print(number: int, proposal: Proposal, *, everywhere: bool) -> None:
    memory = proposal.memory
    lost = f", {proposal.minutes:g} minutes lost" if proposal.minutes else ""
    times = f"{proposal.sessions} session{'s' if proposal.sessions != 1 else ''}"
    where = f"; {plain(memory.repository or memory.cwd or 'everywhere')}" if everywhere else ""
    say(f"{number}. {plain(proposal.line)}", bold=True)
    say(f"   {memory.kind}, {times}{lost}, confidence {memory.confidence:.2f}; {memory.memory_id}{where}")
    for quote in [q for q in memory.body.get("quotes", []) if q != memory.text][:2]:
        say(f"   “{one_line(str(quote), 160)}”")


def _judge(proposal: Proposal) -> None:
    from ctx_pipeline.cli.memory.commands import _judge as journaled
    from ctx_pipeline.cli.memory.commands import written_down

    answer = click.prompt("   accept, reject, edit, leave", type=click.Choice(["a", "r", "e", "l"]), default="l", show_choices=True)
    if answer == "a":
        journaled("memory.accepted", proposal.memory.memory_id)
    elif answer == "r":
        journaled("memory.rejected", proposal.memory.memory_id)
    elif answer == "e":
        written_down(proposal.memory, click.prompt("   in your words", default=proposal.line))
        journaled("memory.rejected", proposal.memory.memory_id)


def _rules_files(
    names: Sequence[str], place: str | None, settings: Settings, *, write: bool, patch: bool, yes: bool, as_json: bool
) -> None:
    from ctx_pipeline.cli.output import confirm
    from ctx_pipeline.integrations.config_patch import put, read
    from ctx_pipeline.learning.lesson_review import MOST_LINES, as_diff, has_lessons, plain_proposal, proposals, with_lessons
    from ctx_pipeline.memory.scope import place_of

    found = proposals(cwd=place, limit=MOST_LINES, accepted=True, settings=settings)
    found = found or [p for p in proposals(cwd=place, limit=MOST_LINES, settings=settings) if not p.memory.body.get("once")]
    here = place_of(place or Path.cwd())
    root = Path(here.roots[0] if here.roots else here.cwd)
    done = []
    for name in names:
        path = root / name
        before = read(path) or ""
        after = with_lessons(before, found)
        row = {"path": str(path), "changed": after != before, "block": with_lessons("", found), "diff": as_diff(path, before, after)}
        if write and after != before:
            say(str(row["diff"]), err=True)
            if not yes:
                confirm(f"Write this into {path}?")
            change = put(settings, path, lambda text: with_lessons(text, found), own=has_lessons)
            row["backup"] = str(change.backup) if change.backup else None
        done.append(row)
    if as_json:
        emit({"files": done, "proposals": [plain_proposal(p) for p in found]})
        return
    for row in done:
        if write:
            say(f"{row['path']}: {'written' if row['changed'] else 'says all of it already'}")
        else:
            say(str(row["diff"] if patch else row["block"]).rstrip("\n") or "no lesson to write: accept one with ctx learn")

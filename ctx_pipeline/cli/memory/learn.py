"""``ctx learn``: the few lessons worth a judgment, and the block of a rules file that they make."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctx_pipeline import discovery
from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say
from ctx_pipeline.cli.session_names import complete_projects
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.repository_names import project_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.learning.lesson_review import Proposal
    from ctx_pipeline.settings import Settings


_SHOWN = 5
"""Lessons that are shown unless a limit is given."""
_NONE = "no lesson to write here (another project: --project NAME; all: --all)"


def _rules_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each rules file of the hosts, named after it."""
    for name in dict.fromkeys(host.agent.rules_file for host in discovery.hosts().values()):
        if name:
            option = "--" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            command = click.option(option, "files", flag_value=name, multiple=True, help=f"Print the block for {name}.")(command)
    return command


@click.command()
@click.option("--cwd", type=click.Path(file_okay=False), help="Where the work is done, else here.")
@click.option("--project", help="The lessons of this project, wherever you are.", shell_complete=complete_projects)
@click.option("--all", "--everywhere", "everywhere", is_flag=True, help="The lessons of all repositories.")
@click.option("--limit", type=click.IntRange(1, 100), metavar="N", help="At most N lessons.  [default: 5, in a rules file 12]")
@click.option("--ask", is_flag=True, help="Judge one lesson after the other: accept, reject, edit or leave it.")
@_rules_file_options
@click.option("--write", is_flag=True, help="Write the block into the file, after a backup.")
@click.option("--pr", "as_patch", is_flag=True, help="Print the change of the file as a patch.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before writing.")
@click.option(
    "--optimize",
    type=click.IntRange(4, 1000),
    metavar="CALLS",
    help="Improve how a model is asked, on judged lessons, with at most CALLS requests.",
)
@json_option
def learn(
    cwd: str | None,
    project: str | None,
    everywhere: bool,
    limit: int | None,
    ask: bool,
    files: tuple[str, ...],
    write: bool,
    as_patch: bool,
    yes: bool,
    optimize: int | None,
    as_json: bool,
) -> None:
    """Show the few lessons that would have saved most, to accept, reject or write into a rules file.

    Of this folder's repository unless --project or --all says otherwise. Each with the
    sessions that taught it and the minutes lost to it. A rules file gets the accepted
    lessons, or the proposed ones where none is accepted.
    """
    from ctx_pipeline.cli.memory.commands import asked_at
    from ctx_pipeline.learning.lesson_review import only_once_accepted, plain_proposal, proposals

    if project and (cwd or everywhere):
        raise UsageError("--project, --cwd and --all exclude each other", hint="choose one of them")
    settings = for_reading()
    if optimize:
        _optimize(settings, optimize, yes=yes, as_json=as_json)
        return
    place = None if project else asked_at(cwd, everywhere)
    files = files or (_rules_files_there(place) if place and (write or as_patch) else ())
    if files:
        if (write or as_patch) and (everywhere or project):
            raise UsageError(
                "--write and --pr are for the rules file of one folder",
                hint="name its folder: --cwd FOLDER",
            )
        _rules_files(files, place, project, settings, limit=limit, write=write, patch=as_patch, yes=yes, as_json=as_json)
        return
    if write or as_patch:
        raise UsageError("--write and --pr need a rules file", hint="ctx learn --help names them")
    found = proposals(cwd=place, project=project, limit=limit or _SHOWN, settings=settings)
    if as_json:
        emit({"proposals": [plain_proposal(p) for p in found], "only_once_accepted": only_once_accepted(settings)})
        return
    places = _places(found)
    for number, proposal in enumerate(found, 1):
        _print(number, proposal, places.get(proposal.memory.repository or proposal.memory.cwd, "everywhere") if everywhere else "")
        if ask:
            _judge(proposal)
    if not found:
        say("no lesson waits for a judgment" if everywhere else "no lesson waits for a judgment here (all repositories: --all)")
    elif not ask:
        say("accept one: ctx memory accept ID   one after the other: ctx learn --ask   into a rules file: ctx learn --help")
        if quiet := only_once_accepted(settings):
            say("hooks tell these only once accepted, by the newest backtest (ctx memory backtest):", dim=True)
            for line in quiet:
                say(f"  {line}", dim=True)


def _rules_files_there(place: str) -> tuple[str, ...]:
    """Return the names of the rules files that a folder's repository has."""
    from ctx_pipeline.memory.scope import place_of

    here = place_of(place)
    root = Path(here.roots[0] if here.roots else here.cwd)
    names = dict.fromkeys(host.agent.rules_file for host in discovery.hosts().values())
    return tuple(name for name in names if name and (root / name).is_file())


def _optimize(settings: Settings, calls: int, *, yes: bool, as_json: bool) -> None:
    """Improve the instructions of the method ``dspy`` and keep them if the person takes them."""
    from ctx_pipeline.pipeline.models import lesson_program
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store:
        wanted = lesson_program.plan(store, settings, calls=calls)
        over = counted(len(wanted.sessions), "session")
        price = "its price is not known" if wanted.cost is None else f"${wanted.cost:.2f} with the longest answers"
        say(
            f"at most {calls} requests to {wanted.model} over {over} with judged lessons: about {wanted.tokens:,} tokens, {price}", err=True
        )
        if not (yes or as_json):
            click.confirm("send their redacted records to the configured model?", abort=True)
        made = lesson_program.optimize(store, settings, calls=calls)
        better = made.after > made.before
        if as_json:
            emit(made._asdict() | {"taken": yes and better})
        else:
            paid = "price not known" if made.cost is None else f"${made.cost:.4f}"
            tokens = f"{made.tokens_in:,} tokens sent, {made.tokens_out:,} answered"
            say(f"score {made.before:.2f} before, {made.after:.2f} after; {made.calls} of {calls} requests, {tokens}, {paid}", bold=True)
            say(plain(made.instructions) if better else "no better instructions were found: nothing is changed")
        if better and (yes or (not as_json and click.confirm("ask by these instructions from now on?"))):
            lesson_program.take(store.journal, made)


def _places(found: Sequence[Proposal]) -> dict[str | None, str]:
    """Return repository or folder -> its project's name; the whole folder where several have one name."""
    folders = {at for p in found if (at := p.memory.repository or p.memory.cwd)}
    named = Counter(map(project_of, folders))
    return {at: plain(name if named[name := project_of(at)] == 1 else at) for at in folders}


def _print(number: int, proposal: Proposal, where: str) -> None:
    memory = proposal.memory
    lost = f", {proposal.minutes:g} minutes lost" if proposal.minutes else ""
    times = f"{proposal.sessions} session{'s' if proposal.sessions != 1 else ''}"
    say(f"{number}. {plain(proposal.line)}", bold=True)
    say(f"   {memory.kind}, {times}{lost}, confidence {memory.confidence:.2f}; {memory.memory_id}{f'; {where}' if where else ''}")
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
    names: Sequence[str],
    place: str | None,
    project: str | None,
    settings: Settings,
    *,
    limit: int | None,
    write: bool,
    patch: bool,
    yes: bool,
    as_json: bool,
) -> None:
    from ctx_pipeline.learning.lesson_review import MOST_LINES, for_rules_file, plain_proposal, proposals

    found = proposals(cwd=place, project=project, limit=None, accepted=True, settings=settings)
    found = found or [p for p in proposals(cwd=place, project=project, limit=None, settings=settings) if not p.memory.body.get("once")]
    if place is None:
        _print_blocks(found, names, limit or MOST_LINES, as_json=as_json)
        return
    found = for_rules_file(found, limit or MOST_LINES)
    done = [_rules_file(name, found, place, settings, write=write, yes=yes) for name in names]
    if as_json:
        emit({"files": done, "proposals": [plain_proposal(p) for p in found]})
        return
    for row in done:
        if write:
            say(f"{row['path']}: {'written' if row['changed'] else 'says all of it already'}")
        else:
            say(str(row["diff"] if patch else row["block"]).rstrip("\n") or _NONE)


def _rules_file(name: str, found: list[Proposal], place: str, settings: Settings, *, write: bool, yes: bool) -> dict[str, object]:
    """Return what the lessons of a folder change in its rules file, after writing it where that is asked for."""
    from ctx_pipeline.cli.output import confirm
    from ctx_pipeline.integrations.config_patch import put, read
    from ctx_pipeline.learning.lesson_review import as_diff, has_lessons, with_lessons
    from ctx_pipeline.memory.scope import place_of

    here = place_of(place)
    path = Path(here.roots[0] if here.roots else here.cwd) / name
    before = read(path) or ""
    after = with_lessons(before, found)
    row: dict[str, object] = {"path": str(path), "changed": after != before, "block": with_lessons("", found)}
    row["diff"] = as_diff(path, before, after)
    if write and after != before:
        say(str(row["diff"]), err=True)
        if not yes:
            confirm(f"Write this into {path}?")
        change = put(settings, path, lambda text: with_lessons(text, found), own=has_lessons)
        row["backup"] = str(change.backup) if change.backup else None
    return row


def _print_blocks(found: list[Proposal], names: Sequence[str], limit: int, *, as_json: bool) -> None:
    """Print a block for each repository: the lessons of one are none of another's."""
    from ctx_pipeline.learning.lesson_review import for_rules_file, plain_proposal, with_lessons

    groups: dict[str, list[Proposal]] = {}
    for one in found:
        groups.setdefault(one.memory.repository or one.memory.cwd or "", []).append(one)
    chosen = {name: fitting for name, group in groups.items() if (fitting := for_rules_file(group, limit))}
    if as_json:
        files = [
            {"path": f"{name}/{file}", "changed": True, "block": with_lessons("", group), "diff": ""}
            for name, group in chosen.items()
            for file in names
        ]
        emit({"files": files, "proposals": [plain_proposal(p) for group in chosen.values() for p in group]})
        return
    for name, group in chosen.items():
        say(plain(name or "everywhere"), bold=True)
        say(with_lessons("", group))
    if not chosen:
        say("no lesson to write: accept one with ctx learn")

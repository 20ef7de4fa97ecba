"""``ctx export``: the tables for other programs, and sessions for people and other tools."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import host_option, project_option, require_project, since_options
from ctx_pipeline.cli.output import confirm, counted, emit, json_option, one_line, say, table
from ctx_pipeline.cli.session_names import complete_sessions
from ctx_pipeline.model.display import size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.integrations.adopt import Entry
    from ctx_pipeline.integrations.export import Chosen


def _selected(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--until", metavar="DAY", help="Sessions that began on this day or earlier."),
        since_options("Sessions that began on this day or later."),
        project_option,
        click.option("--session-id", "--session", "-s", metavar="SESSION", help="Only this session.", shell_complete=complete_sessions),
        host_option,
    ):
        command = option(command)
    return command


share_option = click.option("--share", is_flag=True, help="Take out private paths, user names, addresses and hosts too, and say how many.")
"""Of every command that writes a session for others to read."""


def shared_note(replaced: Counter[str], *, share: bool) -> str:
    """Return what a person should know before passing a session on."""
    from ctx_pipeline.redaction.sharing import KEPT, in_words

    if share:
        return f"replaced: {in_words(replaced)}; look it over before you share it\n{KEPT}"
    return "secrets were replaced; --share takes out private paths, names and addresses too"


def _selection(words: dict[str, Any]) -> Chosen:
    from ctx_pipeline.integrations.export import Chosen

    return Chosen(**words)


@click.group()
def export() -> None:
    """Write what the store holds as files for other programs."""


@export.command()
@click.argument("folder", type=click.Path(file_okay=False))
@json_option
def parquet(folder: str, as_json: bool) -> None:
    """Write one Parquet file a table into FOLDER."""
    from ctx_pipeline.integrations.export import parquet as run

    counts = run(folder, settings=for_reading())
    if as_json:
        emit({"folder": folder, "rows": counts})
    else:
        table([{"table": name, "rows": rows} for name, rows in counts.items()], {"table": "table", "rows": "rows"})


@export.command()
@click.argument("folder", type=click.Path(file_okay=False))
@host_option
@click.option("--session-id", "--session", "-s", metavar="SESSION", help="Only this session.", shell_complete=complete_sessions)
@click.option("--no-raw", is_flag=True, help="Leave out the exact copies, which may hold secrets; all other files are redacted.")
@json_option
def retro(folder: str, host: str | None, session_id: str | None, no_raw: bool, as_json: bool) -> None:
    """Write the flat-file archive into FOLDER: raw, normalized, rendered, mined, signals, memories."""
    from ctx_pipeline.integrations.archive import archive as run

    done = run(folder, host=host, session_id=session_id, raw=not no_raw, settings=for_reading())
    if as_json:
        emit(done.to_json())
        return
    say(
        f"{done.sessions:,} sessions, {done.events:,} events, {done.raw_files:,} raw files, {done.candidates:,} candidates,"
        f" {done.readings:,} readings, {done.memories:,} memories in {folder}"
    )
    say("raw/ is exact and may hold secrets; all other files are redacted" if not no_raw else "everything is redacted; raw is left out")
    for name in done.withheld:
        say(f"raw of it cannot be read: {name}", err=True, fg="red")


@export.command()
@click.argument("folder", type=click.Path(file_okay=False))
@_selected
@share_option
@json_option
def markdown(folder: str, share: bool, as_json: bool, **words: Any) -> None:
    """Write each session as a Markdown file into FOLDER, redacted: prompts, answers, tool output and diffs."""
    from ctx_pipeline.integrations.export import markdown as run

    settings = for_reading()
    require_project(settings, words["project"])
    replaced = Counter[str]()
    names = run(folder, _selection(words), replaced=replaced if share else None, settings=settings)
    if as_json:
        emit({"folder": folder, "files": names, "replaced": replaced})
    else:
        say(f"{counted(len(names), 'session')} in {folder}")
        say(shared_note(replaced, share=share))


@export.command()
@click.argument("file", type=click.Path(dir_okay=False))
@_selected
@share_option
@json_option
def opentraces(file: str, share: bool, as_json: bool, **words: Any) -> None:
    """Write sessions of every agent as traces of opentraces-schema into FILE, one JSON object a line, redacted."""
    from ctx_pipeline.integrations.export import opentraces as run

    settings = for_reading()
    require_project(settings, words["project"])
    replaced = Counter[str]()
    sessions, traces = run(file, _selection(words), replaced=replaced if share else None, settings=settings)
    if as_json:
        emit({"file": file, "sessions": sessions, "traces": traces, "replaced": replaced})
    else:
        say(f"{counted(sessions, 'session')} as {counted(traces, 'trace')} in {file}")
        say(shared_note(replaced, share=share))


# ctx adopt: take over what another archive or store holds.


_LISTED = 20
_KEPT = ("take", "newer", "held")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be taken and change nothing.")
@click.option("--take-conflicts", is_flag=True, help="Take both sides where the store has other bytes of the same session.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def adopt(folder: Path, dry_run: bool, take_conflicts: bool, yes: bool, as_json: bool) -> None:
    """Import the sessions of FOLDER: a flat-file archive (raw/<host>/<session>/) or another store of ctx.

    FOLDER is only read. What the store already has is skipped, conflicts are listed; files are
    checked by their checksums before anything is captured, and raw is compared with them
    after. Run again, it continues where it stopped.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import adopt as stage
    from ctx_pipeline.storage import open_store

    settings = settings_module.load()
    with open_store(settings) as store:
        found = None
        if dry_run or not yes:
            found = stage.plan(store, settings, folder)
            if not as_json:
                _show(found)
            if dry_run:
                if as_json:
                    emit(stage.Adopted(found).to_json())
                return
            if not yes:
                confirm("Take them over?")
        done = stage.adopt(store, settings, folder, found=found, conflicts=take_conflicts)
    if as_json:
        emit(done.to_json())
    else:
        say(", ".join(f"{does}: {count:,}" for does, count in done.counts().items()) or "nothing was there")
        say(f"{done.sessions:,} sessions are new; {done.verified:,} files were captured and compared with their checksums")
        for name in done.unverified[:_LISTED]:
            say(f"not captured as it is: {one_line(name, 160)}", err=True, fg="red")
        say("now: ctx run")
    if done.unverified:
        raise SystemExit(1)


def _show(found: list[Entry]) -> None:
    by: dict[tuple[str, str], list[Entry]] = {}
    for entry in found:
        by.setdefault((entry.host, entry.does), []).append(entry)
    rows = [{"host": h, "does": d, "files": len(own), "size": size(sum(e.size for e in own))} for (h, d), own in sorted(by.items())]
    table(rows, {"host": "host", "does": "", "files": "files", "size": "size"})
    for entry in [e for e in found if e.does not in _KEPT][:_LISTED]:
        say(f"{entry.does}: {one_line(entry.name, 160)}")

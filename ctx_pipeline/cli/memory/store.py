"""``ctx memory init``, ``reindex``, ``doctor``, ``import-authored``, ``export`` and ``export-skill``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import choose, for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_SHOWN = 20


def _settings() -> Settings:
    from ctx_pipeline import settings as settings_module

    return choose(settings_module.load(), demo=False, samples=False)[0]


def _brought_up_to_date(store: Store, settings: Settings, *, force: bool = False) -> dict[str, Any]:
    from ctx_pipeline.pipeline.consolidate import consolidate
    from ctx_pipeline.pipeline.index import index_memory
    from ctx_pipeline.pipeline.lessons.lesson_outcomes import score_lesson_use

    score_lesson_use(store, settings, force=force)
    merged = consolidate(store, settings, force=force)
    index_memory(store, settings, force=force)
    return {"path": str(store.memories.path), "memories": sum(store.memories.counts().values()), **merged.totals}


@click.command()
@json_option
def init(as_json: bool) -> None:
    """Make the store of memories; one there stays."""
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        made = _brought_up_to_date(store, settings)
    if as_json:
        emit(made)
    else:
        say(f"{plain(made['path'])}: {counted(made['memories'], 'memory', 'memories')}")


@click.command()
@json_option
def reindex(as_json: bool) -> None:
    """Make the memories and their index anew.

    From the mined candidates, the notes and the journal.
    """
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        made = _brought_up_to_date(store, settings, force=True)
    if as_json:
        emit(made)
    else:
        held = made.get("needs_review", 0)
        lost = f"; {counted(made['errors'], 'method')} raised an error" if made.get("errors") else ""
        of = f"{counted(made['memories'], 'memory', 'memories')} of {counted(made.get('candidates', 0), 'candidate')}"
        say(f"{of}, {held:,} held back for review{lost}")


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Count the memories and show what is wrong with them.

    Links to nothing, what is held back, contradictions, files gone or changed.
    """
    from ctx_pipeline.learning import memories as api

    found = api.condition(settings=for_reading())
    if as_json:
        emit(found)
        return
    say(f"{counted(found['memories'], 'memory', 'memories')} in {plain(found['path'])}")
    for name in ("status", "scope", "kind", "source"):
        if found[f"by_{name}"]:
            say(f"  {name}: " + ", ".join(f"{plain(key)} {count:,}" for key, count in found[f"by_{name}"].items()))
    for title, rows in (("links to nothing", found["dangling"]), ("held back", found["held_back"]), ("to be minded", found["marks"])):
        if rows:
            say(f"{title}: {len(rows):,}", bold=True)
        for memory_id, what in list(rows.items())[:_SHOWN]:
            say(f"  {plain(memory_id)}: {one_line(', '.join(what), 200)}")
        if len(rows) > _SHOWN:
            say(f"  and {len(rows) - _SHOWN:,} more (--json has all)")


@click.command("import-authored")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
def import_authored(folder: Path, as_json: bool) -> None:
    """Bring Markdown notes below FOLDER in as memories.

    A note that did not change is left alone, one that did keeps its id and what it has
    been worth. Front matter may say id, kind, scope, status, when_to_use, repository,
    confidence, priority, risk, tags, title and aliases; what is not understood is named
    with the words that would be. A note with a repository and no scope holds there only.
    """
    from ctx_pipeline.pipeline.lessons.notes import import_authored as stage
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        report = stage(store, settings, folder)
        made = _brought_up_to_date(store, settings)
    if as_json:
        emit({**vars(report), "memories": made["memories"]})
        return
    say(f"{counted(report.notes, 'note')}: {report.added:,} new, {report.changed:,} changed, {report.unchanged:,} as they were")
    told = [f"{path}: left out, {why}" for path, why in report.skipped.items()]
    told += [f"{path}: {'; '.join(what)}" for path, what in report.problems.items()]
    for line in told[:_SHOWN]:
        say(f"  {one_line(line, 200)}")
    if len(told) > _SHOWN:
        say(f"  and {len(told) - _SHOWN:,} more (--json has all)")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@json_option
def export(folder: Path, as_json: bool) -> None:
    """Write the memories as JSON lines into FOLDER.

    items.jsonl has the memories, events.jsonl all that was said of them.
    """
    from ctx_pipeline.pipeline.lessons.memory_files import export as stage
    from ctx_pipeline.storage import open_store

    settings = _settings()
    with open_store(settings) as store:
        _brought_up_to_date(store, settings)
        written = stage(store, folder)
    if as_json:
        emit(written)
    else:
        say(f"{plain(folder)}: items.jsonl {written['items']:,}, events.jsonl {written['events']:,}")


@click.command("export-skill")
@click.argument("memory_id")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of skills, such as .agents/skills.")
@click.option("--name", help="Name of the skill; made of its title or text without it.")
@json_option
def export_skill(memory_id: str, out: Path | None, name: str | None, as_json: bool) -> None:
    """Write a memory as a skill, or print it.

    NAME/SKILL.md below --out; printed without --out.
    """
    from ctx_pipeline.learning import memories as api

    text, named, path = api.export_skill(memory_id, out=out, name=name, settings=for_reading())
    if as_json:
        emit({"name": named, "path": str(path) if path else None, "text": text})
    elif path is None:
        say(text, nl=False)
    else:
        say(plain(path))

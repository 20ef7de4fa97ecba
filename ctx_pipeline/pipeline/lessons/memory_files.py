"""The memories and all that was said of them as JSON lines."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.consolidation import AUTHORED
from ctx_pipeline.memory.lesson_files import LARGEST, NotANote, Note, memory_name, read_note
from ctx_pipeline.memory.scope import place_of
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.redaction.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


_SOURCE = "memory/consolidated"
ITEMS, EVENTS = "items.jsonl", "events.jsonl"


def export(store: Store, folder: Path) -> dict[str, int]:
    """Write ``items.jsonl`` (a line a memory, by id) and ``events.jsonl`` (a line a fact of the journal, in order) into a folder.

    Returns how many lines each has. The same store gives the same bytes; the items
    alone rebuild the index, see :func:`items`.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    memories = (Memory._make(r)._asdict() for r in store.lake.read_rows("memories", WHOLE, _SOURCE))
    facts = ({"at": f.at, "actor": f.actor, "event": f.kind, **f.payload} for f in store.journal.facts() if f.kind.startswith("memory."))
    return {"items": _write(folder / ITEMS, memories), "events": _write(folder / EVENTS, facts)}


def items(folder: Path) -> Iterator[Memory]:
    """Yield the memories of an exported folder."""
    with (folder / ITEMS).open(encoding="utf-8") as lines:
        for line in lines:
            yield Memory(**json.loads(line))


def _line(row: dict[str, Any]) -> str:
    """Return a row as a line of JSON; a number that JSON has no word for, from an older journal, is null."""

    def written(value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"

    try:
        return written(row)
    except ValueError:
        return written(json.loads(json.dumps(row), parse_constant=lambda _: None))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            for count, row in enumerate(rows, 1):  # noqa: B007 - the count outlives the loop
                file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return count


# Brings notes that a person wrote in Markdown into the store, each new or changed one as a fact of the journal.


_BESIDE = ("ts",)
"""Fields of a fact that do not make it another note."""


@dataclass
class ImportReport:
    """What became of the files of a folder."""

    notes: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    """path -> why it is no memory"""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """path -> what of its front matter was left aside"""
    ids: dict[str, str] = field(default_factory=dict)
    """path -> id of the memory"""


def import_authored(store: Store, settings: Settings, folder: Path) -> ImportReport:
    """Write a fact for each note (``*.md``) below a folder that is new or changed, and say what became of every file.

    A note keeps the id that it got when it was imported first. Its id is what its front
    matter says, else its file name, else (where another note has that name) its path.
    Hidden folders and symbolic links are not followed; secrets are redacted.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are kept as the person named them
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name the folder that holds the notes")
    redactor = Redactor(settings.patterns)
    last = _last_facts(store)
    of_path = {(p.get("folder"), p.get("note")): memory_id for memory_id, p in last.items()}
    report = ImportReport()
    read: list[tuple[Note, int]] = []
    for path in _files(folder):
        rel = path.relative_to(folder).as_posix()
        try:
            note = read_note(rel, _bytes(path))
        except (NotANote, OSError) as error:
            report.skipped[rel] = error.message if isinstance(error, NotANote) else error.strerror or "cannot be read"
            continue
        report.notes += 1
        if note.problems:
            report.problems[rel] = note.problems
        read.append((note, path.stat().st_mtime_ns // 1000))
    place = place_of(folder)
    home = (*place.identities, *place.roots, str(folder))[0]
    taken = {memory_id: (p.get("folder"), p.get("note")) for memory_id, p in last.items()}
    facts: list[dict[str, Any]] = []
    wanted = Counter(str(note.fields.get("id")) for note, _ in read if "id" in note.fields)
    for note, changed in read:
        key = (str(folder), note.path)
        memory_id = _id(note, key, of_path, taken, wanted)
        if memory_id is None:
            report.skipped[note.path] = f"another note has the id {note.fields['id']}"
            report.notes -= 1
            continue
        taken[memory_id] = key
        wanted[memory_id] = 0
        report.ids[note.path] = memory_id
        payload = _payload(note, memory_id, str(folder), home, redactor) | {"ts": changed}
        held = [*note.held, *([note.unplaced] if note.unplaced and not place.roots else [])]
        if held:
            payload["held"] = held
            report.problems[note.path] = [*report.problems.get(note.path, []), f"held back for review: {'; '.join(held)}"]
        before = last.get(memory_id)
        if before is not None and _body(before) == _body(payload):
            report.unchanged += 1
            continue
        report.added += before is None
        report.changed += before is not None
        facts.append(payload)
    store.journal.append_all(AUTHORED, facts, actor="person")
    return report


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(".md") and not name.startswith("."):
                yield Path(here) / name


def _bytes(path: Path) -> bytes:
    if path.is_symlink():
        raise NotANote("a symbolic link")
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def _last_facts(store: Store) -> dict[str, Mapping[str, Any]]:
    return {str(f.payload.get("memory_id")): f.payload for f in store.journal.facts(AUTHORED)}


def _id(
    note: Note,
    key: tuple[str, str],
    of_path: Mapping[tuple[Any, Any], str],
    taken: Mapping[str, tuple[Any, Any]],
    wanted: Counter[str],
) -> str | None:
    """Return the id of a note; None where its front matter asks for one that another note has."""
    said = note.fields.get("id")
    if said is not None:
        return said if taken.get(said, key) == key else None
    if key in of_path:
        return of_path[key]
    path = memory_name(note.path.removesuffix(".md"))
    for name in (memory_name(note.stem), path, *(f"{path}-{n}" for n in range(2, 1000))):
        if name and name not in taken and not wanted[name]:
            return name
    return None


def _payload(note: Note, memory_id: str, folder: str, home: str, redactor: Redactor) -> dict[str, Any]:
    fields = {k: redactor.redact(v) if isinstance(v, str) else v for k, v in note.fields.items() if k != "id"}
    if fields.get("scope") in ("repo", "task"):
        fields.setdefault("repository", home)
    return {**fields, "memory_id": memory_id, "names": [redactor.redact(n) for n in note.names], "note": note.path, "folder": folder}


def _body(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in payload.items() if k not in _BESIDE}

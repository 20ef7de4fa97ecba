"""The memories and all that was said of them as JSON lines."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.plan import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

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

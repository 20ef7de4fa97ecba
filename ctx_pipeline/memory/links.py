"""Wiki links between memories: ``[[id]]``, ``[[id|shown]]``, ``[[id#part]]``, and by the name of a note."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.memories import Memory

_LINK = re.compile(r"\[\[([^\]\[|#\n]{1,200})(?:[|#][^\]\[\n]{0,200})?\]\]")


def links_of(*texts: str | None) -> list[str]:
    """Return the ids that the texts name, each once, in order."""
    return list(dict.fromkeys(target.strip() for text in texts if text for target in _LINK.findall(text) if target.strip()))


def dangling(links: dict[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return memory id -> ids that it names and that do not exist."""
    found = {source: [t for t in targets if t not in links] for source, targets in links.items()}
    return {source: missing for source, missing in found.items() if missing}


def resolve(memories: dict[str, Memory]) -> None:
    """Replace in ``memories`` the links that name a note (its file, path, title or alias, in any case) by the id of its memory.

    A note in the folder of the one that names it comes first, then an id, then the note
    whose path is shortest; a name that nobody has stays as it is.
    """
    called: dict[str, list[tuple[str, str]]] = {}
    lies: dict[str, str] = {}
    for memory_id, memory in memories.items():
        if memory.source == "authored" and memory.structured:
            body = json.loads(memory.structured)
            lies[memory_id] = f"{body.get('folder', '')}/{body.get('note', '')}"
            for name in body.get("names", ()):
                called.setdefault(name.casefold(), []).append((lies[memory_id], memory_id))
    for memory_id, memory in memories.items():
        if memory.links:
            here = lies.get(memory_id, "").rpartition("/")[0]
            links = [_meant(target, called.get(_name(target), []), here, memories) for target in memory.links]
            memories[memory_id] = memory._replace(links=list(dict.fromkeys(links)))


def _name(target: str) -> str:
    return " ".join(target.split()).removesuffix(".md").casefold()


def _meant(target: str, notes: list[tuple[str, str]], folder: str, memories: dict[str, Memory]) -> str:
    near = [memory_id for path, memory_id in notes if folder and path.rpartition("/")[0] == folder]
    if near or target in memories:
        return min(near, default=target)
    return min(notes, key=lambda n: (len(n[0]), n), default=("", target))[1]

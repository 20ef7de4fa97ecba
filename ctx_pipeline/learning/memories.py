"""Memories: looked up, woven into a prompt, judged and rewarded.

Retrieval runs at every prompt of an agent: plain SQLite and the standard library.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import AmbiguousName, UnknownName, UsageError
from ctx_pipeline.learning.repository_identity import known_place
from ctx_pipeline.memory.links import dangling
from ctx_pipeline.memory.query import error_words, words_of
from ctx_pipeline.memory.ranking import CLOSE, LEAST_COVERED, Recalled, rank
from ctx_pipeline.memory.scope import place_of, visible
from ctx_pipeline.memory.weave import DEFAULT_BUDGET
from ctx_pipeline.memory.weave import weave as woven
from ctx_pipeline.model.memories import CASE
from ctx_pipeline.storage import wait_for_forget
from ctx_pipeline.storage.memory_index.index import MemoryIndex

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory, Scored
    from ctx_pipeline.settings import Settings


_SHORTEST = 4
"""Characters from which on the inside of an id is looked at."""


def _index(settings: Settings | None, name: str = "memory.db") -> MemoryIndex:
    chosen = settings or settings_module.load()
    wait_for_forget(chosen.home)
    return MemoryIndex(chosen.home / name)


def retrieve(
    query: str,
    *,
    cwd: str | None = None,
    limit: int = 10,
    accepted_only: bool = False,
    threshold: float = 0.0,
    settings: Settings | None = None,
) -> list[Scored]:
    """Return the memories that answer a query at a place, best first, with the parts of their scores.

    With a ``threshold`` they hold at least that share of the query's weight, as what hooks inject does.

    Without ``cwd`` everything may be seen; with it only what holds everywhere or was
    learnt in its repository; a folder that is not on this machine has the repository that
    sessions in it recorded. What is held back for review is never among them. The
    list is empty when nothing covers the query or there is no index yet. Where the
    settings name an embedding function, memories close to the query in meaning are found
    too; raises SettingsError where that cannot be loaded.
    """
    settings = settings or settings_module.load()
    index = _index(settings)
    place = known_place(cwd, index, settings.home) if cwd else None

    def allowed(scope: str, repository: str | None, where: str | None) -> bool:
        return place is None or visible(scope, repository, where, place)

    try:
        recalled = index.recall(
            words_of(query), error=error_line(query, cwd), allowed=allowed, least=LEAST_COVERED, accepted_only=accepted_only
        )
        found = [Recalled(r.memory, r.score, r.covered) for r in recalled]
        if settings.embedder:
            found = _with_closeness(index, settings.embedder, query, cwd, found, allowed=allowed, accepted_only=accepted_only)
        return rank(
            [r for r in found if r.covered >= threshold],
            place=place,
            limit=limit,
            now=time.time_ns() // 1000,
            linked=None if threshold else index.get,
            everywhere=place is None,
            accepted_only=accepted_only,
        )
    finally:
        index.close()


def here() -> str | None:
    """Return the current folder where it lies in a repository, else None."""
    try:
        place = place_of(Path.cwd())
    except OSError:
        return None
    return place.cwd if place.roots else None


def _with_closeness(
    index: MemoryIndex, embedder: str, query: str, cwd: str | None, found: list[Recalled], **narrowed: Any
) -> list[Recalled]:
    """Return what words found with its cosine to the query, and what else is close to it; of a pasted output its error counts."""
    if not words_of(query):
        return found
    from ctx_pipeline.context.retrieval.chosen import load_embedding

    near = index.near(load_embedding(embedder)([_error_line(query, cwd) or query])[0], embedder, **narrowed)
    known = {r.memory.memory_id for r in found}
    others = index.get([m for m, cosine in near.items() if cosine >= CLOSE and m not in known])
    return [r._replace(close=near.get(r.memory.memory_id, 0.0)) for r in found] + [Recalled(m, 0.0, 0.0, near[m.memory_id]) for m in others]


def error_line(text: str, cwd: str | None = None) -> list[str]:
    """Return the words of the line of a pasted output that says what went wrong; none of a single line."""
    return error_words(text, lambda page: _error_line(page, cwd))


def _error_line(text: str, cwd: str | None) -> str:
    if "\n" not in text.strip():
        return ""
    # its patterns take milliseconds to compile
    from ctx_pipeline.mining.lessons.failures import salient_line

    return salient_line(text, cwd, of_any_form=True)


def weave(
    query: str,
    *,
    cwd: str | None = None,
    limit: int = 6,
    budget: int | None = None,
    accepted_only: bool = False,
    settings: Settings | None = None,
) -> str:
    """Return the note for a prompt, at most ``budget`` (else 800) tokens; empty when no memory answers.

    Raises BudgetTooSmall when the budget cannot hold a note at all.
    """
    found = retrieve(query, cwd=cwd, limit=limit, accepted_only=accepted_only, settings=settings)
    return woven(found, budget=budget or DEFAULT_BUDGET, here=place_of(cwd or os.curdir))


def memories(*, status: str | None = None, settings: Settings | None = None) -> list[Memory]:
    """Return every memory, or those of one status, by id."""
    index = _index(settings)
    try:
        return list(index.memories(status=status))
    finally:
        index.close()


def memory(memory_id: str, *, settings: Settings | None = None) -> Memory:
    """Return one memory or case by its id, or by characters that only its id begins or ends with; raises UnknownName or AmbiguousName."""
    index = _index(settings, "cases.db" if memory_id.startswith(CASE) else "memory.db")
    try:
        exact = index.get([memory_id])
        if exact:
            return exact[0]
        known = list(index.memories())
    finally:
        index.close()
    begun = [m for m in known if m.memory_id.startswith(memory_id)] if memory_id else []
    fitting = begun or ([m for m in known if _part_of(memory_id, m.memory_id)] if len(memory_id) >= _SHORTEST else [])
    if len(fitting) > 1:
        raise AmbiguousName("memory", memory_id, [m.memory_id for m in fitting])
    if not fitting:
        unknown = UnknownName("memory", memory_id, [m.memory_id for m in known])
        if known and not unknown.fields["near"]:  # ids of other projects help nobody
            unknown.hint = "ctx memory list shows what there is"
        raise unknown
    return fitting[0]


def _part_of(asked: str, memory_id: str) -> bool:
    return memory_id.endswith(asked) or memory_id.startswith(f"mem-{asked}")


def quotes(found: Memory, *, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return the events that a memory rests on: event_id, host, session_id, ts (ISO 8601), kind and text.

    The text is what decides, at most 200 characters on one line. Empty for a note, and for events that are no longer in the store.
    """
    if not found.evidence:
        return []
    from ctx_pipeline.memory.excerpts import excerpt
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.session_queries import event_quotes

    with reading(settings) as (store, _):
        rows = event_quotes(store.lake, list(found.sessions), list(found.evidence))
    return [{**row, "text": excerpt(row["text"], row["kind"], found.body)} for row in rows]


def plain_memory(found: Memory) -> dict[str, Any]:
    """Return a memory as plain values, its structured body as an object."""
    return {**found._asdict(), "structured": found.body or None}


def condition(*, settings: Settings | None = None) -> dict[str, Any]:
    """Return how many memories there are by status, scope, kind and source, the links that lead nowhere, what is held back, and marks.

    ``marks`` says by memory what a reader must know of it: see :func:`ctx_pipeline.learning.lesson_flags.marks`.
    """
    from ctx_pipeline.learning.lesson_flags import marks

    chosen = settings or settings_module.load()
    known = memories(settings=chosen)
    counts = {
        f"by_{name}": dict(sorted(Counter(str(getattr(m, name)) for m in known).items())) for name in ("status", "scope", "kind", "source")
    }
    return {
        "path": str(chosen.home / "memory.db"),
        "memories": len(known),
        **counts,
        "superseded": sum(m.superseded_by is not None for m in known),
        "links": sum(len(m.links) for m in known),
        "dangling": dangling({m.memory_id: m.links for m in known}),
        "held_back": {m.memory_id: list(m.flags) for m in known if m.flags},
        "marks": marks(known),
    }


def export_skill(
    memory_id: str, *, out: Path | None = None, name: str | None = None, settings: Settings | None = None
) -> tuple[str, str, Path | None]:
    """Return the text and name of a memory as a skill, and the file it was written to, ``<out>/<name>/SKILL.md``.

    Raises UnknownName, and UsageError for a memory that is held back, rejected or retired,
    for a name that is none, and for a file that is there already with other words.
    """
    from ctx_pipeline.memory.skill_file import skill_name, skill_text

    found = memory(memory_id, settings=settings)
    named = name or skill_name(found)
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", named) or len(named) > 64:
        raise UsageError(f"{named!r} is no name of a skill", hint="small letters, digits and hyphens, at most 64")
    text = skill_text(found, named)
    if out is None:
        return text, named, None
    path = out / named / "SKILL.md"
    if path.exists() and path.read_text("utf-8", "replace") != text:
        raise UsageError(f"{path} is there already", hint="give another --name, or move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return text, named, path


def plain(scored: Scored) -> dict[str, Any]:
    """Return a scored memory as plain values."""
    return {**plain_memory(scored.memory), "score": scored.score, "parts": scored.parts, "linked_from": scored.linked_from}

"""Memories: looked up, woven into a prompt, judged and rewarded.

Retrieval runs at every prompt of an agent: plain SQLite and the standard library.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.memory.query import words_of
from ctx_pipeline.memory.ranking import Recalled, rank
from ctx_pipeline.memory.scope import place_of, visible
from ctx_pipeline.memory.weave import DEFAULT_BUDGET
from ctx_pipeline.memory.weave import weave as woven
from ctx_pipeline.storage.memory_index import MemoryIndex

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory, Scored
    from ctx_pipeline.settings import Settings


def _index(settings: Settings | None) -> MemoryIndex:
    chosen = settings or settings_module.load()
    return MemoryIndex(chosen.home / "memory.db")


def retrieve(
    query: str, *, cwd: str | None = None, limit: int = 10, accepted_only: bool = False, settings: Settings | None = None
) -> list[Scored]:
    """Return the memories that answer a query at a place, best first, with the parts of their scores.

    Without ``cwd`` everything may be seen; with it only what holds everywhere or was
    learnt in its repository. What is held back for review is never among them. The
    list is empty when nothing covers the query or there is no index yet.
    """
    place = place_of(cwd) if cwd else None
    index = _index(settings)

    def allowed(scope: str, repository: str | None, where: str | None) -> bool:
        return place is None or visible(scope, repository, where, place)

    try:
        recalled = index.recall(words_of(query), allowed=allowed, accepted_only=accepted_only)
        return rank(
            [Recalled(r.memory, r.score, r.covered) for r in recalled],
            place=place,
            limit=limit,
            now=time.time_ns() // 1000,
            linked=index.get,
            everywhere=place is None,
            accepted_only=accepted_only,
        )
    finally:
        index.close()


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
    return woven(retrieve(query, cwd=cwd, limit=limit, accepted_only=accepted_only, settings=settings), budget=budget or DEFAULT_BUDGET)


def memories(*, status: str | None = None, settings: Settings | None = None) -> list[Memory]:
    """Return every memory, or those of one status, by id."""
    index = _index(settings)
    try:
        return list(index.memories(status=status))
    finally:
        index.close()


def memory(memory_id: str, *, settings: Settings | None = None) -> Memory:
    """Return one memory by its id or the first characters of it; raises UnknownName."""
    index = _index(settings)
    try:
        exact = index.get([memory_id])
        if exact:
            return exact[0]
        known = list(index.memories())
    finally:
        index.close()
    fitting = [m for m in known if m.memory_id.startswith(memory_id)] if memory_id else []
    if len(fitting) != 1:
        raise UnknownName("memory", memory_id, [m.memory_id for m in fitting or known])
    return fitting[0]


def plain(scored: Scored) -> dict[str, Any]:
    """Return a scored memory as plain values."""
    return {**scored.memory._asdict(), "score": scored.score, "parts": scored.parts, "linked_from": scored.linked_from}

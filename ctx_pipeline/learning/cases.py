"""Tasks that were solved before and are like one that is to be done."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.learning.repository_identity import known_place
from ctx_pipeline.memory.query import words_of
from ctx_pipeline.memory.ranking import LEAST_COVERED, Recalled, rank
from ctx_pipeline.memory.scope import visible
from ctx_pipeline.storage import wait_for_forget
from ctx_pipeline.storage.memory_index.index import MemoryIndex

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Scored
    from ctx_pipeline.settings import Settings


def cases(query: str, *, cwd: str | None = None, limit: int = 5, settings: Settings | None = None) -> list[Scored]:
    """Return the solved tasks that are like the one in words, best first; empty where none is.

    With ``cwd`` only those of its repository are looked at. A case is a memory of kind
    ``case``: ``task``, ``steps``, ``files`` and ``verification`` stand in its body, and its
    evidence names the prompt, the changes and the check.
    """
    settings = settings or settings_module.load()
    wait_for_forget(settings.home)
    with closing(MemoryIndex(settings.home / "cases.db")) as index:
        place = known_place(cwd, index, settings.home) if cwd else None

        def allowed(scope: str, repository: str | None, where: str | None) -> bool:
            return place is None or visible(scope, repository, where, place)

        recalled = index.recall(words_of(query), allowed=allowed, least=LEAST_COVERED)
        found = [Recalled(r.memory, r.score, r.covered) for r in recalled]
        return rank(found, place=place, limit=limit, now=time.time_ns() // 1000, linked=index.get, everywhere=place is None)

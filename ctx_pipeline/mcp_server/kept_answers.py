"""Answers over the whole history, kept while nothing new was captured or said: the next page of one is not worked out again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ctx_pipeline.settings import Settings

SECONDS = 60.0
"""An answer that is older is worked out anew: homes of agents, and what a run derived, may have changed."""

MOST = 16
"""Answers that are kept; the one that was asked for longest ago goes."""

_WATCHED = ("ledger.db", "ledger.db-wal", "journal.db", "journal.db-wal")

Made = TypeVar("Made")


class KeptAnswers:
    """Answers of one server over one store."""

    def __init__(self, settings: Settings, *, seconds: float = SECONDS) -> None:
        self._settings = settings
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Hashable, ...], tuple[float, tuple[Any, ...], Any]] = OrderedDict()

    def of(self, asked: tuple[Hashable, ...], make: Callable[[], Made]) -> Made:
        """Return ``make()``, or what it returned for the same question a moment ago; nobody may change it."""
        seen = self._state()
        with self._lock:
            at, state, made = self._kept.get(asked, (0.0, (), None))
            if state == seen and time.monotonic() - at < self._seconds:
                self._kept.move_to_end(asked)
                kept: Made = made
                return kept
        answer = make()
        with self._lock:
            self._kept[asked] = (time.monotonic(), seen, answer)
            self._kept.move_to_end(asked)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return answer

    def _state(self) -> tuple[Any, ...]:
        """Return what changes when something is captured, said or judged."""
        found = []
        for name in _WATCHED:
            try:
                known = (self._settings.home / name).stat()
                # a reader makes an empty log beside a database, and takes it away
                found.append((known.st_mtime_ns, known.st_size, known.st_ino) if known.st_size else (0, 0, 0))
            except FileNotFoundError:
                found.append((0, 0, 0))
        return tuple(found)

"""Several callback stores watched together, those that are made later included."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from ctx_pipeline.errors import StoreError
from ctx_pipeline.rot.store import CtxRotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

LOOK_SECONDS = 2.0
"""How often it is asked which stores there are; at every look while there are none."""


class Watched:
    """The stores that ``paths`` names, each opened for reading; one that cannot be read is left out and named in ``refused``."""

    def __init__(self, paths: Callable[[], Sequence[Path]]) -> None:
        self._paths = paths
        self._stores: dict[Path, CtxRotStore] = {}
        self._seen: dict[Path, int] = {}
        self._looked = float("-inf")
        self.refused: dict[Path, StoreError] = {}

    @property
    def stores(self) -> list[CtxRotStore]:
        """The stores that are open now."""
        now = time.monotonic()
        if not self._stores or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            wanted = list(self._paths())
            for path in [p for p in self._stores if p not in wanted or not p.exists()]:
                self._drop(path)
            for path in wanted:
                if path not in self._stores:
                    self._open(path)
        return list(self._stores.values())

    def change_mark(self) -> tuple[Any, ...]:
        """Return what changes when a program has written, or a store has come or gone."""
        return tuple((str(store.path), mark) for store in self.stores if (mark := self._asked(store, CtxRotStore.change_mark)))

    def get_feed_sessions(self, limit: int = 200) -> list[dict[str, Any]]:
        """Return the sessions of all stores, the newest first; each row names its store."""
        rows: list[dict[str, Any]] = []
        for store in self.stores:
            found = self._asked(store, lambda s: s.get_feed_sessions(limit)) or []
            rows += [{**row, "store": str(store.path)} for row in found]
        return sorted(rows, key=lambda r: r["started_at"] or "", reverse=True)[:limit]

    def store_of(self, path: str) -> CtxRotStore | None:
        """Return the open store of a row."""
        return next((s for s in self.stores if str(s.path) == path), None)

    def latest(self, count: int, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the last log rows of all stores in the order of their time; ``fresh`` goes on behind them."""
        rows: list[dict[str, Any]] = []
        for store in self.stores:
            last = self._asked(store, CtxRotStore.get_last_log_seq) or 0
            begin = 0 if session_id is not None else max(0, last - 20 * count)
            rows += self._after(store, begin, session_id) if count else []
            self._seen[store.path] = last
        return sorted(rows, key=_at)[-count:] if count else []

    def fresh(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the log rows that no call has returned, in the order of their time; all of a store that has just come."""
        rows: list[dict[str, Any]] = []
        for store in self.stores:
            found = self._after(store, self._seen.setdefault(store.path, 0), session_id)
            if found:
                self._seen[store.path] = found[-1]["seq"]
            rows += found
        return sorted(rows, key=_at)

    def close(self) -> None:
        """Close every store."""
        for path in list(self._stores):
            self._drop(path)

    def _after(self, store: CtxRotStore, seq: int, session_id: str | None) -> list[dict[str, Any]]:
        rows = self._asked(store, lambda s: s.get_log_after(seq, session_id)) or []
        return [row for row in rows if row["kind"] != "module_end"]

    def _asked(self, store: CtxRotStore, question: Callable[[CtxRotStore], T]) -> T | None:
        """Return what a store says; one that has become unreadable is dropped."""
        try:
            return question(store)
        except StoreError as error:
            self.refused[store.path] = error
            self._drop(store.path)
            return None

    def _open(self, path: Path) -> None:
        try:
            self._stores[path] = CtxRotStore(path, read_only=True)
            self.refused.pop(path, None)
        except StoreError as error:
            self.refused[path] = error

    def _drop(self, path: Path) -> None:
        store = self._stores.pop(path, None)
        if store is not None:
            store.close()
        if not path.exists():
            self._seen.pop(path, None)


def _at(row: dict[str, Any]) -> int:
    return int(row["at"])

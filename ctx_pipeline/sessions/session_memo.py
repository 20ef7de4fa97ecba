"""What this process worked out of sessions, given again while their rows are the same: a server is asked for several things of each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.session_figures import Key

Made = TypeVar("Made")


class SessionMemo(Generic[Made]):
    """A value of each of the sessions that were asked for last; nobody may change one.

    It holds at most ``room`` of what the values are said to be large, and the newest one.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._held = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Path, Key], tuple[str, Made, int]] = OrderedDict()

    def get(self, store: Store, key: Key, rows: str) -> Made | None:
        """Return the value of a session, where it was made of these rows."""
        with self._lock:
            kept = self._kept.get((store.home, key))
            if kept is None or not rows or kept[0] != rows:
                return None
            self._kept.move_to_end((store.home, key))
            return kept[1]

    def put(self, store: Store, key: Key, rows: str, made: Made, size: int = 1) -> None:
        """Keep the value of a session; ``rows`` stands for the rows it was made of, as they were before these were read."""
        if not rows:
            return
        with self._lock:
            before = self._kept.pop((store.home, key), None)
            self._kept[store.home, key] = (rows, made, size)
            self._held += size - (before[2] if before else 0)
            while self._held > self._room and len(self._kept) > 1:
                self._held -= self._kept.popitem(last=False)[1][2]


def rows_of(store: Store, host: str, session_id: str) -> str:
    """Return what stands for the rows of a session as they are now; empty where that is not known."""
    row = store.ledger.session(host, session_id)
    if row is None or row.dirty or not row.content_hash:
        return ""
    manifest = store.lake.manifest("normalized", row.partition)
    own = manifest.hashes.get(session_id, "") if manifest is not None else ""
    return f"{own} {row.code_version} {row.normalized_fp} {row.content_hash} {row.rows}" if manifest is not None else ""

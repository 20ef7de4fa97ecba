"""Leases: one writer a cell or tail asset, over processes; a dead owner holds nothing."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreLocked
from ctx_pipeline.model.process_identity import Owner
from ctx_pipeline.storage.ledger.connection import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT = 3600.0
"""Seconds for which a stage waits for another writer; it then finds the work done."""

_PAUSE = 0.02
_LONGEST_PAUSE = 0.25


class Leases(Database):
    """The part of the ledger that keeps two writers apart."""

    @contextmanager
    def lease(self, name: str, *, wait: float = WAIT, ttl: float = 3600.0) -> Iterator[None]:
        """Hold the lease of a name inside the block; StoreLocked after ``wait`` seconds.

        A living owner on this machine keeps it however long it takes; one on another
        machine for ``ttl`` seconds. Not reentrant.
        """
        mine = Owner.here()
        text = str(mine)
        deadline = time.monotonic() + wait
        pause = _PAUSE
        while not self._take(name, text, ttl):
            if time.monotonic() >= deadline:
                raise StoreLocked(
                    f"{name} is being written by another process{self._who(name)}",
                    hint="wait for it to end and run again",
                    lease=name,
                )
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        try:
            yield
        finally:
            with self.transaction() as connection:
                connection.execute("DELETE FROM leases WHERE name = ? AND owner = ?", (name, text))

    def live_leases(self) -> dict[str, str]:
        """Return name -> pid and machine of the leases that living owners hold."""
        found = {}
        for name, text, expires in self.query("SELECT name, owner, expires_at FROM leases ORDER BY name"):
            owner = Owner.of(text)
            if owner is not None and not _free(owner, expires):
                found[name] = f"process {owner.pid} on {owner.machine}"
        return found

    def _take(self, name: str, text: str, ttl: float) -> bool:
        with self.transaction() as connection:
            row = connection.execute("SELECT owner, expires_at FROM leases WHERE name = ?", (name,)).fetchone()
            if row is not None and not _free(Owner.of(row[0]), row[1]):
                return False
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (name, text, time.time() + ttl))
            return True

    def _who(self, name: str) -> str:
        held = self.live_leases().get(name)
        return f" ({held})" if held else ""


def _free(owner: Owner | None, expires_at: float) -> bool:
    if owner is None or owner.dead:
        return True
    return not owner.local and expires_at < time.time()

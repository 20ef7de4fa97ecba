"""The one thread of a writer that touches its store: whatever SQLite does to it, nobody waits for it without a bound."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctx_pipeline.errors import StoreError
from ctx_pipeline.rot import database, store_locations
from ctx_pipeline.rot import overflow as spill

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.rot.database import Entry

LOCK_SECONDS = 0.1
"""How long SQLite waits for a store that another program has locked."""

RETRY_SECONDS = 0.5

LOOK_SECONDS = 30.0
"""How often a program that writes looks for what others have left, its forked children among them."""

PATIENCE_SECONDS = 5.0
"""How long one visit of the store may last before another thread keeps the rows aside."""

SLOW_BYTES = 4_000_000
"""Bytes that even a slow disk writes in a second: a long row is given its time."""

ROW_BYTES = 2_000
"""Bytes that take as long to write as a row does beside its text."""

FIRST_PATIENCE_SECONDS = 1.0
"""The same for the first visit in a forked child: a lock of SQLite that was held while the program forked is never released there."""


class Batch(NamedTuple):
    """Rows on their way into the store; the name tells whether they arrived."""

    name: str
    entries: list[Entry]


class Owner(Protocol):
    """What a worker asks of its writer."""

    path: Path
    home: Path
    spill: spill.Spill
    forked: bool

    def arrived(self, rows: int) -> None:
        """Rows are in the store."""

    def failed(self, worker: Worker, batch: Batch, why: str) -> None:
        """A batch is not in the store."""

    def work(self, worker: Worker) -> None:
        """Give the worker its tasks until it is not needed."""

    def released(self, worker: Worker) -> None:
        """A worker that was given up has come back from the store."""


class Worker:
    """A thread with a connection of its own."""

    def __init__(self, owner: Owner) -> None:
        self.idle = threading.Event()
        """set while it holds no connection and does nothing: a fork leaves no lock of SQLite behind"""
        self.retired = False
        """another worker has taken over"""
        self.batch: Batch | None = None
        self.in_hand = 0
        """rows that it was given and had not brought to the store when it retired"""
        self._owner = owner
        self._connection: sqlite3.Connection | None = None
        self._since: float | None = None
        self._last: str | None = None
        self._patience = FIRST_PATIENCE_SECONDS if owner.forked else PATIENCE_SECONDS
        self._weight = 0
        self._next_try = 0.0
        self._next_look = 0.0
        self.thread = threading.Thread(target=self._run, name="ctx-callback-writer", daemon=True)

    @property
    def stuck(self) -> bool:
        """Whether its visit of the store has lasted too long."""
        since = self._since
        return since is not None and time.monotonic() - since > self._patience + self._weight / SLOW_BYTES

    @property
    def at_store(self) -> bool:
        """Whether it holds a connection, or is on its way to one or back."""
        return self._since is not None or self._connection is not None

    def _run(self) -> None:
        try:
            self._owner.work(self)
        finally:
            self.close()
            if self.retired:
                self._owner.released(self)

    def hurry(self) -> None:
        """Try the store at the next write, whenever it failed last."""
        self._next_try = 0.0

    def write(self, entries: list[Entry]) -> None:
        """Put entries and what was spilled into the store, or aside when it takes none."""
        owner = self._owner
        if not entries and not owner.spill.rows and not owner.spill.left:
            return
        batch = Batch(spill.token(), entries)
        self.batch = batch if entries else None
        self._weight = sum(len(e[5]) + ROW_BYTES for e in entries)
        now = time.monotonic()
        if now < self._next_try:
            owner.failed(self, batch, "")
            return
        try:
            self._since = now
            connection = self._connected()
            if owner.spill.rows:
                owner.arrived(owner.spill.take_in(connection))
            if entries:
                new = database.append(connection, entries, batch=batch.name, after=self._last)
                self._last = batch.name
                self.batch = None
                owner.arrived(len(entries) if new else 0)
            self._patience = PATIENCE_SECONDS
            self._look(connection, now)
        except Exception as error:  # noqa: BLE001 - the thread must live as long as the program
            self._next_try = now + RETRY_SECONDS
            owner.failed(self, batch, _why(error, owner.path))
        finally:
            self._since = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._since = time.monotonic()
            try:
                self._connection.close()
            finally:
                self._connection = self._since = None

    def _connected(self) -> sqlite3.Connection:
        owner = self._owner
        if self._connection is not None and not owner.path.exists():
            # the file was moved away under us: what is written now would go with it
            self.close()
            self._since = time.monotonic()
        if self._connection is None:
            self._connection = database.connect(owner.path, wait=LOCK_SECONDS)
            store_locations.announce(owner.path, owner.home)
            self._next_look = 0.0
        return self._connection

    def _look(self, connection: sqlite3.Connection, now: float) -> None:
        """Take in what others left, and end the sessions of processes that are gone; the program's own rows go first."""
        if now < self._next_look:
            return
        owner = self._owner
        left = owner.spill.left
        try:
            spill.take_in_others(connection, owner.path, owner.home)
            database.mark_abandoned(connection)
            self._next_look = now + LOOK_SECONDS
        except (sqlite3.Error, OSError):
            self._next_look = now + RETRY_SECONDS
        owner.arrived(left - owner.spill.left)


def _why(error: Exception, path: Path) -> str:
    if isinstance(error, sqlite3.Error | OSError):
        error = database.named(error, path)
    return error.message if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"

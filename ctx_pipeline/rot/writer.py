"""One thread that writes what a program's calls left in a queue; the program never waits for it.

The store cannot take rows (locked, full, damaged, read-only): they go to a spill file;
no spill file can be written either: they stay in memory up to a bound, and what is beyond
it is counted as lost. The first of these warns once.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.callback_log import encode
from ctx_pipeline.rot import database, places, spill
from ctx_pipeline.rot.content import decoded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctx_pipeline.model.callback_log import LogRow
    from ctx_pipeline.rot.database import Entry

GATHER_SECONDS = 0.05
"""How long rows gather before they are written together: what a kill may cost, with the write itself."""

LOCK_SECONDS = 0.1
RETRY_SECONDS = 0.5
EXIT_SECONDS = 10.0
SPILLED_SECONDS = 1.0
"""How long an exit waits for a store while the rows are safe in a spill file."""

WAITING_BYTES = 256 * 1024 * 1024
WAITING_ROWS = 100_000

_log = logging.getLogger("ctx_pipeline.rot")
_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_abandoned_by_fork: list[Any] = []


class Counts(NamedTuple):
    """What became of the rows of one writer."""

    written: int
    """in the store, those that were spilled first included"""
    spilled: int
    """in spill files that wait to be taken in"""
    waiting: int
    """in memory"""
    lost: int
    """nowhere: neither the store nor a spill file could take them and memory was full"""


class Writer:
    """Takes rows at once and writes them soon; safe to use from any thread and in a forked child."""

    def __init__(self, path: Path, home: Path, *, redact: Callable[[str], str] | None = None) -> None:
        self.path = path
        self._home = home
        self._redact = redact
        self.at_close: Callable[[], None] = _nothing
        """called before the last flush: what is left to say"""
        self.at_fork: Callable[[], None] = _nothing
        """called in a forked child"""
        self._written = self._lost = 0
        self._warned = False
        self._begin()
        _writers.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        self._rows: list[LogRow] = []
        self._bytes = 0
        self._kept: list[Entry] = []
        self._flying = 0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._spill = spill.Spill(self.path, self._home)
        self._next_try = 0.0

    def put(self, row: LogRow, size: int = 200) -> None:
        """Queue a row of about ``size`` bytes; a row that finds the queue full goes to the spill file at once."""
        with self._lock:
            if self._rows and (self._bytes + size > WAITING_BYTES or len(self._rows) >= WAITING_ROWS):
                full = True
            else:
                full = False
                self._rows.append(row)
                self._bytes += size
            if self._thread is None:
                self._start()
        if full:
            with self._writing:
                self._put_aside([self._entry(row)], "its queue is full")
        elif not self._wake.is_set():
            self._wake.set()

    @property
    def counts(self) -> Counts:
        """What became of the rows so far."""
        return Counts(self._written, self._spill.rows, len(self._rows) + len(self._kept) + self._flying, self._lost)

    def flush(self, timeout: float = EXIT_SECONDS) -> bool:
        """Write everything that is queued; True when it is in the store before ``timeout`` seconds have passed."""
        deadline = time.monotonic() + timeout
        while True:
            if self._writing.acquire(timeout=max(0.0, deadline - time.monotonic())):
                try:
                    self._next_try = 0.0
                    self._write(self._taken())
                    self._flying = 0
                    counts = self.counts
                finally:
                    self._writing.release()
                if not (counts.spilled or counts.waiting):
                    return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)

    def close(self, timeout: float = EXIT_SECONDS) -> None:
        """Flush and end the thread; rows that come later start it again."""
        self.at_close()
        if self._thread is None and not self._rows:
            return
        whole = self.flush(min(timeout, SPILLED_SECONDS))
        if not whole and self.counts.waiting:
            whole = self.flush(timeout)
        with self._lock:
            thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
        if self._writing.acquire(timeout=1.0):
            try:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                self._spill.forget()
            finally:
                self._writing.release()
        if not whole and self.counts.waiting:
            self._warn(f"{self.counts.waiting} rows could be written nowhere")

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="ctx-callback-writer", daemon=True)
        self._thread.start()
        _at_process_end()

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            pending = bool(self._spill.rows or self._kept)
            if not self._wake.wait(RETRY_SECONDS if pending else None) and not pending:
                continue
            if self._thread is not me:
                return
            time.sleep(GATHER_SECONDS)
            with self._writing:
                try:
                    self._write(self._taken())
                except Exception as error:  # noqa: BLE001 - the thread must live as long as the program
                    self._warn(f"{type(error).__name__}: {error}")
                self._flying = 0

    def _taken(self) -> list[Entry]:
        self._wake.clear()
        with self._lock:
            rows, self._rows, self._bytes = self._rows, [], 0
            self._flying = len(rows)
        return [self._entry(row) for row in rows]

    def _entry(self, row: LogRow) -> Entry:
        text = encode(row.payload)
        if self._redact is not None:
            try:
                text = redacted(text, self._redact)
            except Exception as error:  # noqa: BLE001 - a text that cannot be checked is not stored
                text = encode({"error": f"not stored: redaction failed with {type(error).__name__}"})
        return (row.at, row.session_id, row.kind, row.call_id, row.parent_call_id, text)

    def _write(self, entries: list[Entry]) -> None:
        if self._kept:
            entries, self._kept = [*self._kept, *entries], []
        if not entries and not self._spill.rows:
            return
        now = time.monotonic()
        if now < self._next_try:
            self._put_aside(entries, "")
            return
        try:
            connection = self._connected()
            if self._spill.rows:
                spilled = self._spill.rows
                self._spill.take_in(connection)
                self._written += spilled
            if entries:
                database.append(connection, entries)
                self._written += len(entries)
        except (sqlite3.Error, OSError, StoreError) as error:
            self._next_try = now + RETRY_SECONDS
            named = error if isinstance(error, StoreError) else database.named(error, self.path)
            self._put_aside(entries, named.message)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and not self.path.exists():
            # the file was moved away under us: what is written now would go with it
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = database.connect(self.path, wait=LOCK_SECONDS)
            places.announce(self.path, self._home)
            spill.take_in_others(self._connection, self.path, self._home)
            database.mark_abandoned(self._connection)
        return self._connection

    def _put_aside(self, entries: list[Entry], why: str) -> None:
        if not entries:
            return
        try:
            self._spill.add(entries)
        except OSError as error:
            self._keep(entries)
            why = f"{why}, and no spill file can be written ({error})" if why else str(error)
        if why:
            self._warn(why)

    def _keep(self, entries: list[Entry]) -> None:
        self._kept += entries
        held = sum(len(e[5]) for e in self._kept)
        while self._kept and (held > WAITING_BYTES or len(self._kept) > WAITING_ROWS):
            held -= len(self._kept.pop(0)[5])
            self._lost += 1

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s; the program goes on, its calls are kept aside in %s", self.path, why, self._spill.name or "memory")

    def after_fork(self) -> None:
        """Begin anew in a forked child: queue, thread and connection belong to the parent."""
        # closing an inherited SQLite connection would disturb the parent's locks
        _abandoned_by_fork.append((self._connection, self._spill))
        self._written = self._lost = 0
        self._begin()
        self.at_fork()


def _nothing() -> None:
    """Do nothing."""


def redacted(text: str, redact: Callable[[str], str]) -> str:
    """Return JSON with every string redacted; the text itself when nothing in it is a secret."""
    if redact(text) == text:
        return text
    clean = msgspec.json.encode(_walked(decoded(text), redact), order="sorted").decode()
    again = redact(clean)
    if again == clean:
        return clean
    try:
        msgspec.json.decode(again)
    except (msgspec.MsgspecError, UnicodeError):
        return clean
    return again


def _walked(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_walked(v, redact) for v in value]
    if isinstance(value, dict):
        return {redact(k) if isinstance(k, str) else k: _walked(v, redact) for k, v in value.items()}
    return value


def close_all() -> None:
    """Flush and close every writer of this process."""
    for writer in list(_writers):
        writer.close()


def _at_process_end() -> None:
    """See to it that the process flushes at its end; one of multiprocessing runs no atexit functions."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, close_all, exitpriority=100)


def _in_child() -> None:
    for writer in list(_writers):
        writer.after_fork()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

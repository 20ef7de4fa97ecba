"""A program's rows on their way into a store: queued at once, written soon, and never waited for.

The store cannot take rows (locked, full, damaged, read-only, or SQLite does not come
back): they go to a spill file; no spill file can be written either: they stay in memory
up to a bound, and what is beyond it is counted as lost. The first of these warns once.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctx_pipeline.model.callback_log import encode
from ctx_pipeline.rot import database
from ctx_pipeline.rot.content import encoded, redacted
from ctx_pipeline.rot.worker import RETRY_SECONDS, Spill, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctx_pipeline.model.callback_log import LogRow
    from ctx_pipeline.rot.database import Entry
    from ctx_pipeline.rot.worker import Batch


# What becomes of the writers of a program when it forks or ends.


FORK_SECONDS = 1.0
"""How long a fork waits for the writers to come to rest."""

_POOLS = ("multiprocessing.util", "billiard.util")

_ended_by: list[int] = []


class Follower(Protocol):
    """Something that writes from a thread of its own."""

    def park(self) -> None:
        """Ask the thread to let go of SQLite and rest."""

    def rest(self, deadline: float) -> None:
        """Wait until it rests, at most until a time of the monotonic clock."""

    def resume(self) -> None:
        """Let it go on."""

    def begin_in_child(self, held: set[Path]) -> None:
        """Begin anew in a forked child; ``held`` are the stores that were open in the parent."""

    def close(self) -> None:
        """Flush and end."""


_followers: weakref.WeakSet[Follower] = weakref.WeakSet()


def follow(follower: Follower) -> None:
    """Tell a writer of every fork, and close it when the process ends."""
    _followers.add(follower)


def at_process_end() -> None:
    """See to it that a process of multiprocessing, or of Celery's pool, flushes at its end; they run no atexit functions."""
    if _ended_by == [os.getpid()]:
        return
    for name in _POOLS:
        util = sys.modules.get(name)
        if util is not None:
            _ended_by[:] = [os.getpid()]
            util.Finalize(None, close_all, exitpriority=100)


def close_all() -> None:
    """Flush and close every writer of this process."""
    for follower in list(_followers):
        follower.close()


def _before() -> None:
    followers = list(_followers)
    for follower in followers:
        follower.park()
    deadline = time.monotonic() + FORK_SECONDS
    for follower in followers:
        follower.rest(deadline)


def _in_parent() -> None:
    for follower in list(_followers):
        follower.resume()


def _in_child() -> None:
    held = database.connected_stores()
    for follower in list(_followers):
        follower.begin_in_child(held)


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


LONGEST = 400_000_000
"""Characters of a row's JSON; a longer one is stored without its texts. SQLite takes 1,000,000,000 bytes."""

_BARE = frozenset({"model", "started", "ended", "usage", "cost", "number", "tool", "after_number", "output_tokens_est", "finish_reason"})


def entry(row: LogRow, redact: Callable[[str], str] | None) -> Entry:
    """Return a row as it is stored, secrets replaced. Nothing raises: what cannot be stored is said in ``error``."""
    try:
        text = _text(row, redact)
    except Exception as error:  # noqa: BLE001 - a text that cannot be encoded or checked is not stored
        text = encode({"error": f"not stored: {type(error).__name__}"})
    return (row.at, row.session_id, row.kind, row.call_id, row.parent_call_id, text.encode())


def _text(row: LogRow, redact: Callable[[str], str] | None) -> str:
    try:
        text = encode(row.payload)
    except Exception:  # noqa: BLE001 - a value of somebody's class may raise anything
        text = bytes(encoded(row.payload)).decode()
    if len(text) > LONGEST:
        kept = {name: value for name, value in row.payload.items() if name in _BARE}
        text = encode({**kept, "error": f"texts not stored: {len(text):,} characters"})
    row.payload.clear()  # a long text is held once from here on
    return text if redact is None else redacted(text, redact)


GATHER_SECONDS = 0.05
"""How long rows gather before they are written together: what a kill may cost, with the write itself."""

EXIT_SECONDS = 10.0
SPILLED_SECONDS = 1.0
"""How long an exit waits for a store while the rows are safe in a spill file."""

HANDOVER_SECONDS = 30.0
"""How long rows stay in one spill file of a process that leaves the store to others."""

WAITING_BYTES = 256 * 1024 * 1024
WAITING_ROWS = 100_000

_SILENT = "its store does not answer"

_log = logging.getLogger("ctx_pipeline.rot")


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
        self.home = home
        self.at_close: Callable[[], None] = _nothing
        """called before the last flush: what is left to say"""
        self.at_fork: Callable[[], None] = _nothing
        """called in a forked child"""
        self.forked = False
        self._leaving = False
        self._redact = redact
        self._aside = False
        self._warned = False
        self._left_open: tuple[Worker | None, ...] = ()
        self._begin()
        follow(self)

    def _begin(self) -> None:
        # a signal handler, or a finalizer that the collector runs, may come while its own thread holds the lock
        self._changed = threading.Condition(threading.RLock())
        self._rows: list[LogRow] = []
        self._bytes = 0
        self._taken = self._adrift = 0
        self._kept: list[Entry] = []
        self._orphans: list[Batch] = []
        self._asleep = self._closing = False
        self._parked = self._wanted = self._done = 0
        self._worker: Worker | None = None
        self._stuck: Worker | None = None
        self._handed = time.monotonic()
        self._written = self._lost = 0
        self.spill = Spill(self.path, self.home)

    def put(self, row: LogRow, size: int = 200) -> None:
        """Queue a row of about ``size`` bytes; a row that finds the queue full goes to the spill file at once."""
        with self._changed:
            full = bool(self._rows) and (self._bytes + size > WAITING_BYTES or len(self._rows) >= WAITING_ROWS)
            if not full:
                self._rows.append(row)
                self._bytes += size
                if self._asleep:
                    self._asleep = False
                    self._changed.notify_all()
            worker = self._worker
            if worker is None:
                self._start()
            elif worker.stuck:
                self._replace(worker)
        if full:
            self._put_aside([entry(row, self._redact)], None, "its queue is full")

    @property
    def counts(self) -> Counts:
        """What became of the rows so far."""
        with self._changed:
            return self._counts()

    def flush(self, timeout: float = EXIT_SECONDS) -> bool:
        """Write everything that is queued; True when it is in the store before ``timeout`` seconds have passed."""
        deadline = time.monotonic() + timeout
        while True:
            with self._changed:
                counts = self._counts()
                if not (counts.spilled or counts.waiting):
                    return True
                if time.monotonic() >= deadline or (self._aside and not counts.waiting):
                    return False
                self._pass(deadline)
                counts = self._counts()
                if self._worker is None:
                    return not (counts.spilled or counts.waiting)
            if counts.spilled or counts.waiting:
                time.sleep(0.02)

    def close(self, timeout: float = EXIT_SECONDS) -> None:
        """Flush and end the thread; rows that come later start it again. No wait in it is without a bound."""
        self.at_close()
        if self._worker is None and not self._rows:
            return
        whole = self.flush(min(timeout, SPILLED_SECONDS))
        if not whole and self.counts.waiting:
            whole = self.flush(timeout)
        with self._changed:
            self._closing = True
            worker = self._worker
            self._changed.notify_all()
            if worker is not None:
                self._changed.wait_for(lambda: self._worker is not worker or worker.stuck, 1.0)
            self._closing = False
            if worker is not None and self._worker is worker:
                self._give_up(worker)
        self._put_orphans_aside()
        self._put_aside(self._take(), None, _SILENT)
        with self._changed:
            self._taken = 0
        self.spill.release()
        if not whole and self.counts.waiting:
            self._warn(f"{self.counts.waiting} rows could be written nowhere")

    def leave(self) -> None:
        """End the thread and close the store as soon as everything is written: nobody has the writer any more."""
        self.at_close()
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def work(self, worker: Worker) -> None:
        """Give a worker its tasks until it is not needed."""
        try:
            while self._next(worker):
                self._do(worker)
        finally:
            worker.close()
            worker.idle.set()
            if self._leaving:
                self.spill.release()
            with self._changed:
                self._lost += worker.in_hand
                self._adrift -= worker.in_hand
                worker.in_hand = 0
                if self._worker is worker:
                    self._lost += self._taken
                    self._taken = 0
                    self._worker = None
                    self._changed.notify_all()
                    if self._rows:
                        self._start()

    def _do(self, worker: Worker) -> None:
        with self._changed:
            ticket = self._wanted
            if self._done < ticket:
                worker.hurry()
        self._put_orphans_aside()
        entries = self._take()
        if self._aside or self._stuck is not None:
            self._put_aside(entries, None, "" if self._aside else _SILENT)
            self._hand_over()
        else:
            worker.write(entries)
        with self._changed:
            self._adrift -= worker.in_hand
            worker.in_hand = 0
            if not worker.retired:
                self._taken = 0
                self._done = max(self._done, ticket)
                self._changed.notify_all()

    def arrived(self, rows: int) -> None:
        """Rows are in the store."""
        with self._changed:
            self._written += rows

    def failed(self, worker: Worker, batch: Batch, why: str) -> None:
        """A batch is not in the store: it is put aside, unless that was done while the worker was away."""
        with self._changed:
            own = worker.batch is batch
            if own:
                worker.batch = None
        if own:
            self._put_aside(batch.entries, None, why)

    def released(self, worker: Worker) -> None:
        """A worker that was given up has come back: the store can be tried again."""
        with self._changed:
            if self._stuck is worker:
                self._stuck = None
                self._changed.notify_all()

    def park(self) -> None:
        """Ask the worker to close its connection and rest: the program is about to fork."""
        with self._changed:
            self._parked += 1
            self._changed.notify_all()

    def rest(self, deadline: float) -> None:
        """Wait until the worker rests, at most until a time of the monotonic clock."""
        worker = self._worker
        if worker is not None and worker.thread is not threading.current_thread():
            worker.idle.wait(max(0.0, deadline - time.monotonic()))

    def resume(self) -> None:
        """Let the worker go on."""
        with self._changed:
            self._parked -= 1
            self._changed.notify_all()

    def begin_in_child(self, held: set[Path]) -> None:
        """Begin anew in a forked child: queue and thread belong to the parent.

        Where a connection to the store was open at the fork, or SQLite was at work, the child
        never opens it: it would share locks that are not its own, or wait for one that nobody
        releases. Its rows go to spill files, for others to take in.
        """
        before = (self._worker, self._stuck)
        self._aside = self._aside or self.path.resolve() in held or any(w.at_store for w in before if w is not None)
        # what SQLite had opened for the parent stays open: closing it would disturb the parent's locks
        self._left_open += before
        spilled, self.forked = self.spill, True
        self._begin()
        spilled.leave()
        self.at_fork()

    def _start(self) -> None:
        worker = Worker(self)
        try:
            worker.thread.start()
        except RuntimeError:
            # no thread can be started while the interpreter ends: close() puts the rows aside
            return
        self._worker = worker
        at_process_end()

    def _replace(self, worker: Worker) -> None:
        """Have another thread keep the rows aside while one does not come back from the store; called with the lock."""
        self._give_up(worker)
        self._start()

    def _give_up(self, worker: Worker) -> None:
        worker.retired = True
        self._stuck, self._worker = worker, None
        if worker.batch is not None:
            self._orphans.append(worker.batch)
            worker.batch = None
        else:
            worker.in_hand = self._taken
            self._adrift += self._taken
        self._taken = 0

    def _next(self, worker: Worker) -> bool:
        """Wait for the next task of a worker; False when there will be none."""
        due: float | None = None
        with self._changed:
            while not worker.retired:
                if self._rows:
                    due = due or time.monotonic() + GATHER_SECONDS
                    if time.monotonic() >= due:
                        return True
                if self._parked:
                    self._rest(worker)
                elif self._orphans or self._done < self._wanted:
                    return True
                elif due is not None:
                    if self._closing:
                        return True
                    self._changed.wait(max(0.0, due - time.monotonic()))
                elif self._closing or (self._leaving and not self._kept):
                    return False
                else:
                    pending = bool(self.spill.rows or self._kept) and not self._aside
                    self._asleep = True
                    woken = self._changed.wait(RETRY_SECONDS if pending else None)
                    self._asleep = False
                    if pending and not woken:
                        return True
        return False

    def _rest(self, worker: Worker) -> None:
        self._changed.release()
        try:
            worker.close()
        finally:
            self._changed.acquire()
        worker.idle.set()
        self._changed.wait_for(lambda: not self._parked)
        worker.idle.clear()

    def _pass(self, deadline: float) -> None:
        """Have the worker write what there is, and wait for it; called with the lock."""
        self._wanted += 1
        ticket = self._wanted
        if self._worker is None:
            self._start()
        self._changed.notify_all()
        while self._done < ticket and self._worker is not None and time.monotonic() < deadline:
            self._changed.wait(min(0.05, max(0.0, deadline - time.monotonic())))
            if self._worker is not None and self._worker.stuck:
                self._replace(self._worker)

    def _counts(self) -> Counts:
        waiting = len(self._rows) + len(self._kept) + self._taken + self._adrift + sum(len(b.entries) for b in self._orphans)
        return Counts(self._written, self.spill.rows + self.spill.left, waiting, self._lost)

    def _take(self) -> list[Entry]:
        with self._changed:
            rows, self._rows, self._bytes = self._rows, [], 0
            kept, self._kept = self._kept, []
            self._taken = len(rows) + len(kept)
        return [*kept, *(entry(row, self._redact) for row in rows)]

    def _put_orphans_aside(self) -> None:
        """Put aside what workers had with them that did not come back from the store."""
        while self._orphans:
            batch = self._orphans[0]
            self._put_aside(batch.entries, batch, _SILENT)
            with self._changed:
                self._orphans = [b for b in self._orphans if b is not batch]

    def _put_aside(self, entries: list[Entry], batch: Batch | None, why: str) -> None:
        if not entries:
            return
        try:
            self.spill.add(entries, None if batch is None else batch.name)
        except (OSError, MemoryError) as error:
            self._keep(entries)
            why = f"{why}, and no spill file can be written ({error})" if why else str(error)
        if why:
            self._warn(why)

    def _keep(self, entries: list[Entry]) -> None:
        with self._changed:
            self._kept += entries
            held = sum(len(e[5]) for e in self._kept)
            while self._kept and (held > WAITING_BYTES or len(self._kept) > WAITING_ROWS):
                held -= len(self._kept.pop(0)[5])
                self._lost += 1

    def _hand_over(self) -> None:
        """Leave what is in spill files to others now and then, where this process never takes it in."""
        now = time.monotonic()
        if self._aside and now - self._handed > HANDOVER_SECONDS:
            self._handed = now
            self.spill.release()

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s; the program goes on, its calls are kept aside in %s", self.path, why, self.spill.name or "memory")


def _nothing() -> None:
    """Do nothing."""

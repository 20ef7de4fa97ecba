"""The one thread of a writer that touches its store: whatever SQLite does to it, nobody waits for it without a bound."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.rot import database
from ctx_pipeline.rot.database import Entry, append

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


# Rows that the store could not take: files of JSON lines beside it, taken in when it can again.


try:
    import fcntl
except ImportError:  # only POSIX has it; without it a file belongs to whoever renames it first
    fcntl = None  # type: ignore[assignment]


_entry = msgspec.json.Decoder(tuple[int, str, str, str | None, str | None, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def folders(path: Path, home: Path) -> tuple[tuple[Path, str], tuple[Path, str]]:
    """Return where spill files of a store may lie, with the beginning of their names: beside it, else in the home."""
    return (path.parent, f"{path.name}.spill-"), (home / "spill", f"{digest(str(path), size=16)}.spill-")


def token() -> str:
    """Return what tells one spill file, or one batch that may become one, from every other."""
    return f"{os.getpid()}-{token_hex(6)}"


class _File(NamedTuple):
    descriptor: int
    name: Path
    rows: int


class Spill:
    """The spill files of one process, locked as long as it holds them; safe to use from several threads."""

    def __init__(self, path: Path, home: Path) -> None:
        self._places = folders(path, home)
        self._lock = threading.RLock()
        self._open: _File | None = None
        self._whole: list[_File] = []
        self._left: list[_File] = []
        self.name: Path | None = None
        """the file that was written last"""

    @property
    def rows(self) -> int:
        """How many rows wait in files that this process holds."""
        return sum(f.rows for f in (*self._whole, self._open) if f is not None)

    @property
    def left(self) -> int:
        """How many rows wait in files that this process has left to whoever opens the store next."""
        return sum(f.rows for f in list(self._left) if f.name.exists())

    def add(self, entries: Sequence[Entry], batch: str | None = None) -> None:
        """Write entries behind the others; those of a named batch into a file of its own, which is taken in once.

        Raises OSError when no place takes them; the files hold whole lines then.
        """
        with self._lock:
            file = self._open if batch is None else None
            if file is None:
                file = self._new(batch or token())
            size = os.lseek(file.descriptor, 0, os.SEEK_END)
            try:
                for entry in entries:
                    _write(file.descriptor, _line(entry))
            except OSError:
                os.ftruncate(file.descriptor, size)
                raise
            file = file._replace(rows=file.rows + len(entries))
            if batch is None:
                self._open = file
            else:
                self._whole.append(file)

    def take_in(self, connection: sqlite3.Connection) -> int:
        """Put the files into the store, remove them and return how many rows were new there.

        Raises sqlite3.Error and keeps the rest.
        """
        count = 0
        with self._lock:
            if self._open is not None:
                self._whole.append(self._open)
                self._open = None
            files = list(self._whole)
        for file in files:
            if append(connection, _entries(file.name), batch=_batch(file.name)):
                count += file.rows
            file.name.unlink(missing_ok=True)
            with self._lock:
                self._whole.remove(file)
            os.close(file.descriptor)
        return count

    def release(self) -> None:
        """Leave the files to whoever opens the store next; what is written later goes into new ones."""
        with self._lock:
            files = [*self._whole, *([self._open] if self._open is not None else [])]
            self._left = [f for f in (*self._left, *files) if f.name.exists()]
            self._whole, self._open = [], None
            for file in files:
                os.close(file.descriptor)

    def leave(self) -> None:
        """Close the files in a forked child; the parent holds them still."""
        for file in (*self._whole, self._open):
            if file is not None:
                os.close(file.descriptor)

    def _new(self, name: str) -> _File:
        last: OSError | None = None
        for folder, begin in self._places:
            path = folder / f"{begin}{name}.jsonl"
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = _locked_file(path)
            except OSError as error:
                last = error
                continue
            self.name = path
            return _File(descriptor, path, 0)
        raise last or OSError("no place for a spill file")


def _locked_file(path: Path) -> int:
    """Make a file that is locked before it has its name: another process would take in an empty one, and unlink it."""
    made = path.with_suffix(".new")
    descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor)
        made.rename(path)
    except OSError:
        os.close(descriptor)
        made.unlink(missing_ok=True)
        raise
    return descriptor


def waiting(path: Path, home: Path) -> list[Path]:
    """Return the spill files of a store, those of running processes included."""
    found: list[Path] = []
    for folder, begin in folders(path, home):
        try:
            found += sorted(p for p in folder.iterdir() if p.name.startswith(begin) and p.name.endswith(".jsonl"))
        except OSError:
            continue
    return found


def take_in_others(connection: sqlite3.Connection, path: Path, home: Path) -> int:
    """Put the spill files that no process holds into the store and return how many. Raises sqlite3.Error."""
    count = 0
    for name in waiting(path, home):
        try:
            file = os.open(name, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if _lock(file):
                append(connection, _entries(name), batch=_batch(name))
                name.unlink(missing_ok=True)
                count += 1
        finally:
            os.close(file)
    return count


def _batch(name: Path) -> str:
    """Return the name by which a file is taken in once: the same in whichever place it lies."""
    return name.name.rpartition(".spill-")[2].removesuffix(".jsonl")


def _lock(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _line(entry: Entry) -> bytes:
    """Return an entry as a line: a list that ends with the payload itself, or its text in files of older versions."""
    payload = entry[5].encode() if isinstance(entry[5], str) else entry[5]
    return b"%b,%b]\n" % (_encode(entry[:5])[:-1], payload)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _entries(name: Path) -> Iterator[Entry]:
    """Yield the whole, decodable lines; a line that a kill cut short is none."""
    with name.open("rb") as lines:
        for line in lines:
            try:
                at, session, kind, call, parent, payload = _entry.decode(line)
                text = bytes(payload)
                if text.startswith(b'"'):
                    text = msgspec.json.decode(text, type=str).encode()
            except (msgspec.MsgspecError, UnicodeError):
                continue
            yield (at, session, kind, call, parent, text)


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
    spill: Spill
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
        batch = Batch(token(), entries)
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
            database.announce(owner.path, owner.home)
            self._next_look = 0.0
        return self._connection

    def _look(self, connection: sqlite3.Connection, now: float) -> None:
        """Take in what others left, and end the sessions of processes that are gone; the program's own rows go first."""
        if now < self._next_look:
            return
        owner = self._owner
        left = owner.spill.left
        try:
            take_in_others(connection, owner.path, owner.home)
            database.mark_abandoned(connection)
            self._next_look = now + LOOK_SECONDS
        except (sqlite3.Error, OSError):
            self._next_look = now + RETRY_SECONDS
        owner.arrived(left - owner.spill.left)


def _why(error: Exception, path: Path) -> str:
    if isinstance(error, sqlite3.Error | OSError):
        error = database.named(error, path)
    return error.message if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"

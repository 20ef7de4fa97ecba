"""Rows that the store could not take: files of JSON lines beside it, taken in when it can again."""

from __future__ import annotations

import os
import threading
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ctx_pipeline.model.codec import digest
from ctx_pipeline.rot.database import Entry, append

try:
    import fcntl
except ImportError:  # only POSIX has it; without it a file belongs to whoever renames it first
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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

"""Rows that the store could not take: a file of JSON lines beside it, taken in when it can again."""

from __future__ import annotations

import os
from secrets import token_hex
from typing import TYPE_CHECKING

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

_entry = msgspec.json.Decoder(tuple[int, str, str, str | None, str | None, str])
_encode = msgspec.json.Encoder().encode


def folders(path: Path, home: Path) -> tuple[tuple[Path, str], tuple[Path, str]]:
    """Return where spill files of a store may lie, with the beginning of their names: beside it, else in the home."""
    return (path.parent, f"{path.name}.spill-"), (home / "spill", f"{digest(str(path), size=16)}.spill-")


class Spill:
    """One open spill file of one process; locked as long as the process lives."""

    def __init__(self, path: Path, home: Path) -> None:
        self._places = folders(path, home)
        self._file: int | None = None
        self.name: Path | None = None
        self.rows = 0

    def add(self, entries: Sequence[Entry]) -> None:
        """Write entries behind the others. Raises OSError when no place takes them; the file holds whole lines then."""
        data = b"".join(_encode(entry) + b"\n" for entry in entries)
        if self._file is None:
            self._open()
        assert self._file is not None  # noqa: S101 - opened above or raised
        size = os.lseek(self._file, 0, os.SEEK_END)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, size)
            raise
        self.rows += len(entries)

    def take_in(self, connection: sqlite3.Connection) -> None:
        """Put everything into the store and remove the file. Raises sqlite3.Error and keeps it."""
        if self.name is not None:
            append(connection, _entries(self.name), spill=self.name.name)
            self.name.unlink(missing_ok=True)
            self.forget()

    def forget(self) -> None:
        """Let go of the file and leave it where it is."""
        if self._file is not None:
            os.close(self._file)
        self._file, self.name, self.rows = None, None, 0

    def _open(self) -> None:
        last: OSError | None = None
        for folder, begin in self._places:
            name = folder / f"{begin}{os.getpid()}-{token_hex(6)}.jsonl"
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except OSError as error:
                last = error
                continue
            _lock(self._file)
            self.name = name
            return
        raise last or OSError("no place for a spill file")


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
    """Put the spill files of ended processes into the store and return how many. Raises sqlite3.Error."""
    count = 0
    for name in waiting(path, home):
        try:
            file = os.open(name, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if _lock(file):
                append(connection, _entries(name), spill=name.name)
                name.unlink(missing_ok=True)
                count += 1
        finally:
            os.close(file)
    return count


def _lock(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _entries(name: Path) -> Iterator[Entry]:
    """Yield the whole, decodable lines; a line that a kill cut short is none."""
    with name.open("rb") as lines:
        for line in lines:
            try:
                yield _entry.decode(line)
            except (msgspec.MsgspecError, UnicodeError):
                continue

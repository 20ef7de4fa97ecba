"""What a store still holds of forgotten sessions: every file is read, unpacked by its kind, and looked through for their ids and paths."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import zlib
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import Plain
from ctx_pipeline.storage.connections import beside, reading
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.session_figures import SEAL, ZIPPED, unzipped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

LEAST = 8
"""Characters; a shorter id may be any word."""

_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPED = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_CHUNK = 1 << 22
_FEW = 48
_ID = re.compile(rb"[0-9A-Za-z]{8}-[0-9A-Za-z]{4}-[0-9A-Za-z]{4}-[0-9A-Za-z]{4}-[0-9A-Za-z]{12}")
"""The shape of nearly every id; many are looked for by it, a few one by one."""


@dataclass(slots=True)
class Searched(Plain):
    """What was looked through, and what came of it."""

    files: Counter[str] = field(default_factory=Counter)
    """kind of file -> how many were read: raw, tables, databases, other"""
    bytes: int = 0
    """bytes on disk"""
    found: list[str] = field(default_factory=list)
    """files below the store that hold an id, a path or the text"""
    unreadable: list[str] = field(default_factory=list)
    """files that could not be read whole"""


class Wanted:
    """Byte strings that must not be anywhere."""

    def __init__(self, texts: Collection[bytes]) -> None:
        shaped = {t for t in texts if _ID.fullmatch(t)}
        self._shaped = shaped if len(shaped) > _FEW else set()
        self._others = sorted(set(texts) - self._shaped)
        self.longest = max(map(len, texts), default=1)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._shaped or self._others)

    def within(self, data: bytes) -> bool:
        """Tell whether one of them is in the data."""
        return any(text in data for text in self._others) or (bool(self._shaped) and not self._shaped.isdisjoint(_ID.findall(data)))


def search(home: Path, wanted: Wanted, *, leave_out: Collection[str] = ()) -> Searched:
    """Read every file below a store and return which hold one of the texts; ``leave_out`` are names below the store.

    Besides its bytes as they lie, of a raw object all that is packed in it is looked at, of
    a table every value and every entry of its dictionaries, of a database every row.
    Folders and files that lie elsewhere, with a link to them in the store, are read like the others.
    """
    report = Searched()
    files = Files(home)
    for path in _files(home):
        rel = path.relative_to(home).as_posix()
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or rel in leave_out:
                continue
            kind, pieces = _kind(path, files)
            report.files[kind] += 1
            report.bytes += status.st_size
            if wanted and (wanted.within(rel.encode("utf-8", "surrogateescape")) or _holds(pieces, path, wanted)):
                report.found.append(rel)
        except FileNotFoundError:
            continue
        except Exception:  # noqa: BLE001 - whatever is wrong with a file, it is told, and the others are looked at
            report.unreadable.append(rel)
    return report


def _files(home: Path) -> Iterator[Path]:
    """Yield all files below a folder and below what links in it lead to, each folder once."""
    seen: set[tuple[int, int]] = set()
    for folder, below, names in os.walk(home, followlinks=True):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in seen:
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below.sort()
        yield from (Path(folder, name) for name in sorted(names))


def _holds(pieces: Callable[[Path], Iterator[bytes]], path: Path, wanted: Wanted) -> bool:
    """Tell whether a file holds one of the texts as its bytes lie, else in what they mean."""
    return any(wanted.within(piece) for read in dict.fromkeys((_plain, pieces)) for piece in _joined(read(path), wanted.longest))


def _joined(pieces: Iterator[bytes], longest: int) -> Iterator[bytes]:
    """Yield pieces with the end of the one before, so that a text over their border is seen."""
    end = b""
    for piece in pieces:
        whole = end + piece
        yield whole
        end = whole[-longest:]


def _kind(path: Path, files: Files) -> tuple[str, Callable[[Path], Iterator[bytes]]]:
    with path.open("rb") as file:
        head = file.read(16)
    if head[:4] == b"PAR1":
        return "tables", _parquet
    if head == b"SQLite format 3\0":
        return "databases", _sqlite
    if head[8:12] == b"DUCK":
        return "databases", _duckdb
    if head[:4] == _ZSTD or _SKIPPED.match(head):
        return "raw", partial(_zstd, files)
    return "other", _plain


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _zstd(files: Files, path: Path) -> Iterator[bytes]:
    import zstandard

    from ctx_pipeline.storage.raw import encryption

    with path.open("rb") as file:
        while _SKIPPED.match(head := file.read(8)):
            file.seek(int.from_bytes(head[4:8], "little"), 1)
        file.seek(-len(head), 1)
        sealed = encryption.is_sealed(file.peek(64))
        source: Any = encryption.unsealed(files, file.read(), path.name) if sealed else file
        yield from _unpacked(zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True))


def _unpacked(reader: Any) -> Iterator[bytes]:
    """Yield what a packed stream holds; a host may have packed its file itself."""
    import zstandard

    first = reader.read(_CHUNK)
    yield first
    if first[:4] == _ZSTD:
        rest = [first, *iter(lambda: reader.read(_CHUNK), b"")]
        yield from _unpacked(zstandard.ZstdDecompressor().stream_reader(b"".join(rest), read_across_frames=True))
        return
    while piece := reader.read(_CHUNK):
        yield piece


def _parquet(path: Path) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        texts = [c.path for c in (file.schema.column(n) for n in range(len(file.schema))) if c.physical_type == "BYTE_ARRAY"]
    # a dictionary may hold more than the rows use
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for group in range(file.num_row_groups):
            for column in file.read_row_group(group, use_threads=False).columns:
                for chunk in column.chunks:
                    for array in (chunk, getattr(chunk, "dictionary", None)):
                        yield from (b.to_pybytes() for b in (array.buffers() if array is not None else ()) if b is not None)


def _sqlite(path: Path) -> Iterator[bytes]:
    before = beside(path)
    if before[1:] != (None, None):
        yield from _rows(reading(path))
        return
    try:  # an ordinary reader would leave a log and its index beside it
        yield from _rows(reading(path, as_it_lies=True))
    except sqlite3.DatabaseError:
        if beside(path) == before:
            raise
    if beside(path) != before:
        yield from _rows(reading(path))


def _rows(connection: sqlite3.Connection) -> Iterator[bytes]:
    with closing(connection) as db:
        db.text_factory = bytes
        # the tables behind a virtual one are listed too
        stored = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (name,) in db.execute(stored).fetchall():
            table = name.decode().replace('"', '""')
            for row in db.execute(f'SELECT * FROM "{table}"'):
                yield b"\0".join(value for value in row if isinstance(value, bytes))
                # what is kept of sessions lies compressed in it
                for value in (v[SEAL:] for v in row if isinstance(v, bytes) and v[SEAL : SEAL + 1] == ZIPPED):
                    with suppress(zlib.error):
                        yield unzipped(value)


def _duckdb(path: Path) -> Iterator[bytes]:
    from ctx_pipeline.storage.warehouse import database

    with database.connect(path, read_only=True) as connection:
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            rows = connection.execute(f'SELECT * FROM "{name}"')
            while some := rows.fetchmany(1_000):
                yield repr(some).encode("utf-8", "replace")

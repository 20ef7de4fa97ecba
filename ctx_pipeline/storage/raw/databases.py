"""Reads databases of hosts as canonical JSON lines, without writing a byte beside them.

A line is ``{"row": {column: value}, "table": name}`` with sorted keys; a blob is
base64 text. Only the declared tables are read, with whatever columns they have.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from ctx_pipeline.errors import SourceError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.connections import is_locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.declared import Database

WAIT_SECONDS = 2.0
"""How long a locked database is waited for."""

_MOST_COPIED = 16 << 20
"""Bytes of a database in use that is copied to be read; a larger one is opened beside its program."""
_TRIES = 3

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_DIGEST = re.compile(r"x[0-9a-f]{32}")
_encode = msgspec.json.Encoder(order="sorted").encode


def streams(path: str | Path, database: Database) -> dict[str, str]:
    """Return a marker for each stream of a database: it changes when, and only when, the stream's rows may have.

    Without ``split_by`` a stream is a table; with it a value of that column. Raises
    SourceError for a file that is locked, damaged or no database.
    """
    with _opened(path) as connection:
        markers: dict[str, str] = {}
        first: set[str] = set()
        for table in _tables(connection, database):
            for name, value in table.values():
                if name in first and not table.leading:
                    continue
                mark = table.count_mark(value) if database.append_only and table.leading else table.content_mark(value)
                if table.leading and database.prefer_first:
                    first.add(name)
                markers[name] = f"{markers[name]},{mark}" if name in markers else mark
        return markers


def read(path: str | Path, database: Database, name: str) -> bytes:
    """Return the rows of one stream as JSON lines in a fixed order, empty when there are none.

    Raises SourceError like :func:`streams`.
    """
    with _opened(path) as connection:
        out: list[bytes] = []
        for table in _tables(connection, database):
            for value in table.named(name):
                out.extend(table.lines(value))
            if out and table.leading and database.prefer_first:
                break
        return b"".join(out)


@contextmanager
def _opened(path: str | Path) -> Iterator[sqlite3.Connection]:
    path = Path(path)
    try:
        with _unwritten(path) as uri, closing(sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)) as connection:
            connection.text_factory = _text
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")
            yield connection
    except (sqlite3.Error, OSError) as error:
        hint = "close the program that holds it, or wait for the next run" if is_locked(error) else ""
        raise SourceError(f"{path.name} cannot be read as a database: {error}", hint=hint, path=str(path)) from error


@contextmanager
def _unwritten(path: Path) -> Iterator[str]:
    """Yield a URI that opens the database, newest rows included, so that SQLite creates no file beside it."""
    with path.open("rb") as file:
        header = file.read(20)
    wal, shm = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    logged = header[18:19] == b"\x02"
    pending = logged and wal.exists() and wal.stat().st_size > 0
    if not logged:
        yield _uri(path, "mode=ro")
    elif not pending:
        # A WAL database without its log: an ordinary read-only open would create the log and its index here.
        before = path.stat()
        yield _uri(path, "mode=ro&immutable=1")
        after = path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise SourceError(f"{path.name} was written to while it was read", hint="the next run reads it again", path=str(path))
    else:
        with tempfile.TemporaryDirectory(prefix="ctx-") as folder:
            copy = Path(folder) / "copy.db"
            # a program that closes a database which is open here too leaves its log beside it
            live = shm.exists()
            copied = (not live or path.stat().st_size <= _MOST_COPIED) and any(_copied(path, wal, copy) for _ in range(_TRIES))
            yield _uri(copy, "mode=rw") if copied or not live else _uri(path, "mode=ro")


def _copied(path: Path, wal: Path, copy: Path) -> bool:
    """Copy a database and its log; tell whether no checkpoint came between them, behind which they do not fit together."""
    before = _unlogged(path, wal)
    shutil.copyfile(path, copy)
    shutil.copyfile(wal, copy.with_name(f"{copy.name}-wal"))
    return before == _unlogged(path, wal)


def _unlogged(path: Path, wal: Path) -> tuple[int, int, bytes]:
    """Return what stays as it is while rows are only added to the log: size and time of the database, the head of its log."""
    status = path.stat()
    with wal.open("rb") as file:
        return status.st_size, status.st_mtime_ns, file.read(32)


def _uri(path: Path, options: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{options}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Table:
    """A declared table that exists; queries of its own rows, for one value of the splitting column or for all."""

    connection: sqlite3.Connection
    name: str
    order: str
    split: str | None
    columns: tuple[str, ...]
    leading: bool
    """the first declared table"""
    prefixes: tuple[str, ...] = ()
    """beginnings of the keys that are read; empty: all rows"""

    def values(self) -> list[tuple[str, Any]]:
        """Return the streams of the table: safe name and the column's value, or the part of the key."""
        if self.prefixes:
            return sorted({(_safe(value), value) for prefix in self.prefixes for value in self._parts(prefix)})
        if self.split is None:
            return [(self.name, None)]
        rows = self.connection.execute(f"SELECT DISTINCT {_quoted(self.split)} FROM {_quoted(self.name)} ORDER BY 1")
        return [(_safe(value), value) for (value,) in rows]

    def _parts(self, prefix: str) -> Iterator[str]:
        """Yield the part of each key behind a prefix, up to the next colon."""
        order, rest = _quoted(self.order), f"substr({_quoted(self.order)}, {len(prefix) + 1})"
        query = (
            f"SELECT DISTINCT substr({rest}, 1, instr({rest} || ':', ':') - 1) FROM {_quoted(self.name)} WHERE {order} >= ? AND {order} < ?"
        )
        for (part,) in self.connection.execute(query, (prefix, _after(prefix))):
            if isinstance(part, str) and part:
                yield part

    def named(self, name: str) -> list[Any]:
        """Return the values that go by a name; a name that is no digest is the value itself."""
        if (self.prefixes or self.split is not None) and not _DIGEST.fullmatch(name):
            return [name]
        return [value for found, value in self.values() if found == name]

    def count_mark(self, value: Any) -> str:
        """Return number and last key of the rows."""
        count, last = self._select(f"count(*), max({_quoted(self.order)})", value).fetchone()
        return f"{count}:{last}"

    def content_mark(self, value: Any) -> str:
        """Return a hash of the rows."""
        if self.prefixes:
            return self._size_mark(value)
        state = hashlib.sha256()
        for line in self.lines(value):
            state.update(line)
        return state.hexdigest()[:32]

    def _size_mark(self, value: Any) -> str:
        """Return number, last row and size of the rows, which SQLite tells without reading the values, and a hash of the last ones."""
        sizes = "+".join(f"ifnull(length({_quoted(column)}), 0)" for column in self.columns)
        found = self._select(f"count(*), max(rowid), sum({sizes})", value).fetchone()
        last = self._select(", ".join(map(_quoted, self.columns)), value, " ORDER BY rowid DESC LIMIT 2").fetchall()
        return f"{':'.join(map(str, found))}:{digest(repr(last))}"

    def lines(self, value: Any) -> Iterator[bytes]:
        """Yield the rows as JSON lines."""
        cursor = self._select(", ".join(map(_quoted, self.columns)), value, f" ORDER BY {_quoted(self.order)}")
        for row in cursor:
            yield _encode({"row": dict(zip(self.columns, map(_plain, row), strict=True)), "table": self.name}) + b"\n"

    def _select(self, what: str, value: Any, order_by: str = "") -> sqlite3.Cursor:
        if self.prefixes:
            order = _quoted(self.order)
            one = f"{order} = ? OR ({order} >= ? AND {order} < ?)"
            keys = [text for prefix in self.prefixes for text in (f"{prefix}{value}", f"{prefix}{value}:", _after(f"{prefix}{value}:"))]
            query = f"SELECT {what} FROM {_quoted(self.name)} WHERE {' OR '.join([one] * len(self.prefixes))}{order_by}"
            return self.connection.execute(query, keys)
        where = "" if self.split is None else f" WHERE {_quoted(self.split)} IS ?"
        query = f"SELECT {what} FROM {_quoted(self.name)}{where}{order_by}"
        return self.connection.execute(query, () if self.split is None else (value,))


def _tables(connection: sqlite3.Connection, database: Database) -> Iterator[_Table]:
    """Yield each declared table that exists and has the splitting column."""
    for table, order in database.tables:
        columns = tuple(row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})"))
        split = database.split_as.get(table, database.split_by) or None
        if not columns or not (split is None or split in columns):
            continue
        wanted = database.columns.get(table)
        read_columns = tuple(c for c in columns if wanted is None or c in wanted)
        by = order if order in columns else _by_position(connection, table, columns)
        prefixes = database.key_prefixes.get(table, ())
        if prefixes and by != order:
            continue
        yield _Table(connection, table, by, split, read_columns or columns, table == database.tables[0][0], prefixes)


def _by_position(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> str:
    """Return the row number, or the first column of a table that has none."""
    try:
        connection.execute(f"SELECT rowid FROM {_quoted(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return columns[0]
    return "rowid"


def _after(prefix: str) -> str:
    """Return the text behind all that begin with a prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _safe(value: Any) -> str:
    text = str(value)
    return text if isinstance(value, str) and _NAME.fullmatch(text) else "x" + digest(repr(value))


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

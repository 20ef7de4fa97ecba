"""The file of the search index: its tables, its settings, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreDamaged, StoreError, StoreFull

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = """
CREATE TABLE parts(base INTEGER PRIMARY KEY, rows INTEGER NOT NULL, host TEXT NOT NULL, month TEXT NOT NULL,
                   part TEXT NOT NULL, first_row INTEGER NOT NULL);
CREATE INDEX parts_by_path ON parts(part);
CREATE TABLE spans(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, host TEXT NOT NULL, session_id TEXT NOT NULL, part TEXT NOT NULL);
CREATE INDEX spans_by_session ON spans(host, session_id);
CREATE TABLE dead(first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE marks(base INTEGER PRIMARY KEY, rows INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE TABLE pages(part TEXT PRIMARY KEY, places BLOB NOT NULL);
CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE history USING fts5(done, said, content='', tokenize='unicode61');
"""
VERSION = 2
HASH_BYTES = 32 * 1024 * 1024
_ANEW = "run `ctx run`: it is made anew"


def create(path: Path) -> sqlite3.Connection:
    """Return a connection to a new, empty index that nobody else sees yet: it is not durable before :func:`sync`."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.executescript(_SCHEMA)
    connection.execute(f"PRAGMA user_version={VERSION}")
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to an index that exists; StoreDamaged when it is no index of this version."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        version = scalar(connection, "PRAGMA user_version")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.OperationalError as error:
        connection.close()
        raise StoreError(f"the search index cannot be opened: {error}", hint="ctx doctor", path=str(path)) from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise StoreDamaged("the search index search.db is damaged", hint=_ANEW, path=str(path)) from error
    if version != VERSION:
        connection.close()
        raise StoreDamaged(f"the search index search.db has version {version}, not {VERSION}", hint=_ANEW, path=str(path))
    return connection


def tune(connection: sqlite3.Connection) -> None:
    """Make the index ready for small additions."""
    # automerge 4 and crisismerge 16 would merge the bulk segment again: commits of a second, a doubled file
    connection.execute("INSERT INTO history(history, rank) VALUES('automerge', 8)")
    connection.execute("INSERT INTO history(history, rank) VALUES('crisismerge', 64)")


def scalar(connection: sqlite3.Connection, sql: str) -> int:
    """Return the first value of the first row as a number."""
    return int(connection.execute(sql).fetchone()[0])


def rows_of(connection: sqlite3.Connection, ranges: str) -> int:
    """Return how many rows the ranges in ``dead`` or ``spans`` cover."""
    return scalar(connection, f"SELECT coalesce(sum(last - first + 1), 0) FROM {ranges}")


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from another one of its name; zeros where there is none."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def sync(path: Path) -> None:
    """Make a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def full(error: sqlite3.OperationalError) -> StoreFull | None:
    """Return the error to raise instead when there is no room, else None."""
    return StoreFull("no room for the search index", hint="free some space and run again") if "full" in str(error) else None

"""Whether a store holds anything of the person's own: a question that every command asks before it shows samples."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.storage import connections

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_TABLES, _RAW = "lake/_manifests/normalized", "raw"
_OF_MACHINES = ("hook.", "measured.", "observation")
"""Beginnings of the kinds of facts that nobody said."""


def holds_sessions(home: Path) -> bool:
    """Tell whether a store has captured a session, also where its tables are gone or its ledger cannot be read."""
    try:
        if any(name.endswith(".json") for name in os.listdir(home / _TABLES)):  # noqa: PTH208 - asked by every command
            return True
    except OSError:
        pass
    if not (home / _RAW).is_dir():
        return False
    from ctx_pipeline.storage.ledger import Ledger

    if not (home / "ledger.db").is_file():
        return _has_raw(home)
    try:
        with closing(Ledger(home / "ledger.db", read_only=True)) as ledger:
            return bool(ledger.cells())
    except StoreError:
        return _has_raw(home)


def holds_words(home: Path) -> bool:
    """Tell whether a store keeps what a person or an agent said (a note, a judgment, a document), or what was learned."""
    if _holds_memories(home):
        return True
    if not (home / "journal.db").is_file():
        return False
    from ctx_pipeline.storage.journal import Journal

    try:
        with closing(Journal(home / "journal.db", read_only=True)) as journal:
            return any(not fact.kind.startswith(_OF_MACHINES) for fact in journal.facts())
    except StoreError:
        return True


def _holds_memories(home: Path) -> bool:
    from ctx_pipeline.storage.memory_index import MemoryIndex

    for name in ("memory.db", "cases.db"):
        if (home / name).is_file():
            try:
                with closing(MemoryIndex(home / name)) as index:
                    if index.counts():
                        return True
            except StoreError:
                return True
    return False


def _has_raw(home: Path) -> bool:
    return any(files for _, _, files in os.walk(home / _RAW))


# Titles and projects of sessions for a list of hits, read without the rest of the ledger, whose import takes a tenth
# of a search.


_SHOWN = (
    "SELECT host, session_id, coalesce(given_title, rows ->> '$.title'), rows ->> '$.project', rows ->> '$.cwd', first_own_ts FROM sessions"
)


class Shown(NamedTuple):
    """What is shown of a session."""

    title: str | None
    project: str | None
    cwd: str | None = None
    """folder in which it began; None where that is not known"""
    began: int | None = None
    """time of its first own record, microseconds since 1970"""
    last: int | None = None
    """time of its last record, likewise; told of sessions that are not captured yet"""
    archived: bool = False
    """its agent put it away; told of sessions that are not captured yet"""


UNNAMED = Shown(None, None)


_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
"""What SQLite tells of a database that is whole and cannot be read now or here."""


class ShownSessions:
    """Reads what is shown of sessions; the ledger is opened when first asked, and again where the file was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = (0, 0)
        self._connection: sqlite3.Connection | None = None

    def of(self, sessions: Iterable[tuple[str, str]] | None = None) -> dict[tuple[str, str], Shown]:
        """Return title, project and folder by host and session id of some sessions or of all; raises StoreError for no ledger."""
        chosen = None if sessions is None else json.dumps([list(place) for place in sessions])
        only = " WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))" if chosen is not None else ""
        rows = self._asked(_SHOWN + only, (chosen,) if chosen is not None else ())
        return {(host, session): Shown(*shown) for host, session, *shown in rows}

    def ids(self) -> set[str]:
        """Return the id of every captured session; raises StoreError for no ledger."""
        return {session for (session,) in self._asked("SELECT session_id FROM sessions")}

    def _asked(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._opened().execute(sql, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            self.close()
            passing = connections.sqlite_code(error) in _PASSING
            kind, hint = (StoreError, "ctx doctor") if passing else (StoreDamaged, "ctx doctor --rebuild-ledger")
            raise kind(f"{self._path} cannot be read: {error}", hint=hint, path=str(self._path)) from error

    def close(self) -> None:
        """Close the ledger."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _opened(self) -> sqlite3.Connection:
        status = self._path.stat()
        if self._connection is not None and self._file != (status.st_dev, status.st_ino):
            self.close()
        if self._connection is None:
            self._file = status.st_dev, status.st_ino
            self._connection = connections.reading(self._path, check_same_thread=False)
        return self._connection

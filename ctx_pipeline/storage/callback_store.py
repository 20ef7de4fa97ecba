"""Creates callback stores and appends to their log; the schema is :mod:`ctx_pipeline.model.callback_log`."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreFull, StoreLocked
from ctx_pipeline.model.callback_log import INSERT, KINDS, SCHEMA, VERSION, LogRow, encode
from ctx_pipeline.storage.connections import is_full, is_locked

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["KINDS", "VERSION", "WAIT_SECONDS", "LogRow", "append", "open_log"]

WAIT_SECONDS = 5.0


def open_log(path: str | Path) -> sqlite3.Connection:
    """Return a connection to the store at ``path``, created (0600) or extended by the log where it has none.

    Raises SchemaTooNew, StoreLocked, StoreFull, or StoreDamaged for a file that is no database.
    """
    path = Path(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        _extend(connection, path)
    except SchemaTooNew:
        connection.close()
        raise
    except sqlite3.Error as error:
        connection.close()
        raise _named(error, path) from error
    return connection


def _extend(connection: sqlite3.Connection, path: Path) -> None:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        message = f"{path.name} has schema {version}, this version knows {VERSION}"
        raise SchemaTooNew(message, hint="update ctx_pipeline", path=str(path), version=version)
    connection.execute("PRAGMA journal_mode = WAL")
    if version < VERSION:
        connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")


def append(connection: sqlite3.Connection, rows: Iterable[LogRow]) -> int:
    """Append rows in one transaction and return how many; none is kept when one fails.

    Raises StoreLocked, StoreFull or StoreDamaged.
    """
    values = [(r.at, r.session_id, r.kind, r.call_id, r.parent_call_id, encode(r.payload)) for r in rows]
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(INSERT, values)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise _named(error, None) from error
    return len(values)


def _named(error: sqlite3.Error, path: Path | None) -> StoreLocked | StoreFull | StoreDamaged:
    name = path.name if path else "the callback store"
    if is_locked(error):
        return StoreLocked(f"{name} is locked by another program", hint="try again when it has finished")
    if is_full(error):
        return StoreFull(f"no room left to write {name}", hint="free some space")
    return StoreDamaged(f"{name} cannot be used as a callback store: {error}", hint="move the file away; a new one is made")

"""How databases are opened: SQLite with write-ahead logging, DuckDB with nothing downloaded and no native code loaded."""

from __future__ import annotations

import sqlite3
import time
import zlib
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError, scarce

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import duckdb


# Write-ahead logging, switched on although another process may be doing the same.


_PAUSE = 0.01


def reading(path: Path, seconds: float = 30.0, *, as_it_lies: bool = False, **options: Any) -> sqlite3.Connection:
    """Open a database without writing; on a full medium, or one that takes no files, as it lies there, unless its log holds newer rows.

    ``as_it_lies`` makes no file beside it anywhere: for one without a log, and whoever writes to it meanwhile is not noticed.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    for text in (f"{uri}&immutable=1",) if as_it_lies else (uri, f"{uri}&immutable=1"):
        connection: sqlite3.Connection = sqlite3.connect(text, uri=True, timeout=seconds, isolation_level=None, **options)
        try:
            connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            full = is_full(error)
            if text != uri or not (full or is_unwritable(error)) or (scarce(error) and not full) or _has_log(path):
                raise
        else:
            return connection
    raise StoreError(f"{path} cannot be opened", hint="ctx doctor")


def beside(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return size and time of a database, of its log and of its journal, None for what holds nothing: what changes with a write."""
    found: list[tuple[int, int] | None] = []
    for name in (path.name, f"{path.name}-wal", f"{path.name}-journal"):
        try:
            status = path.with_name(name).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns) if status.st_size else None)
    return tuple(found)


def _has_log(path: Path) -> bool:
    """Tell whether rows stand in the log of a database, which is not read as it lies there."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def row_digest(values: object) -> int:
    """Return what a row, or a list of rows, is known by as it was written: SQLite notices a broken page, and no changed value."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogateescape"))


def readable_text(data: bytes) -> str:
    """Return a text of a database as Python has it, also where a changed byte made it no UTF-8."""
    return data.decode("utf-8", "surrogateescape")


def is_unwritable(error: Exception) -> bool:
    """Tell whether SQLite could not write beside a database, as it does also to read one with a log."""
    return sqlite_code(error) in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


def is_locked(error: Exception) -> bool:
    """Tell whether another connection keeps this one out."""
    return sqlite_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_full(error: Exception) -> bool:
    """Tell whether the disk has no room for a database, or for the index of its log, without which it is not read either."""
    index = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE and scarce(error) is None
    return index or sqlite_code(error) == sqlite3.SQLITE_FULL


def sqlite_code(error: Exception) -> int:
    """Return SQLite's code without its details; 0 of an error that is not SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def use_wal(connection: sqlite3.Connection, seconds: float = 30.0) -> None:
    """Put a database into WAL mode.

    SQLite does not wait for its busy timeout here (3.40 and before), so we do; the last
    "database is locked" is raised after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


# Opens DuckDB, for every purpose of the package: nothing is downloaded, no native code is loaded, no foreign file is
# read.


CONFIG: Mapping[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "threads": "2",
    "enable_external_file_cache": "false",
}
"""Settings of every connection from its start: two threads, no extension but those that are built in, no bytes of files kept in memory."""


def connect(database: str, *, reads: Path, scratch: Path, memory: str, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a connection to a file or to ``:memory:`` that reads files below one folder only; raises duckdb.Error.

    ``memory`` is the most that it may hold, such as ``400MB``; what is more goes to files below ``scratch``.
    """
    import duckdb

    connection = duckdb.connect(database, read_only=read_only, config={**CONFIG, "memory_limit": memory})
    confine(connection, reads=reads, scratch=scratch)
    return connection


def confine(connection: duckdb.DuckDBPyConnection, *, reads: Path, scratch: Path) -> None:
    """Let a connection reach nothing outside its database but the files below a folder, and no statement change that."""
    # connections of one process to one file share one set of settings, which the first has locked
    locked = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
    if locked and locked[0]:
        return
    for setting in (
        f"temp_directory = {quoted(str(scratch))}",
        f"allowed_directories = [{quoted(f'{reads}/')}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"

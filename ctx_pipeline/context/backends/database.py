"""One SQLite file, shared by threads, event loops and processes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreError, StoreFull, StoreLocked, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
WAIT_SECONDS = 60.0
"""How long a writer waits for the others before it gives up."""


class Database:
    """A connection that opens when it is first used, again after a fork, and turns SQLite's errors into ours."""

    def __init__(self, path: str | Path, schema: str, version: int, *, create: bool = True) -> None:
        self._path = str(path)
        self._schema = schema
        self._version = version
        self._create = create
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0

    async def call(self, work: Callable[[sqlite3.Connection], T], *, write: bool = False) -> T:
        """Return what ``work`` returns for the connection, in one transaction, off the event loop."""
        return await asyncio.to_thread(self.transaction, work, write=write)

    def transaction(self, work: Callable[[sqlite3.Connection], T], *, write: bool = False) -> T:
        """Return what ``work`` returns for the connection; nothing is kept when it raises."""
        with self._lock, self._translated():
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                result = work(connection)
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
            return result

    async def compact(self) -> None:
        """Rewrite the file so that it holds no trace of removed rows."""

        def rewrite() -> None:
            with self._lock, self._translated():
                connection = self._opened()
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        await asyncio.to_thread(rewrite)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        if self._path != ":memory:":
            self._make_file(Path(self._path))
        connection = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._pid = connection, os.getpid()
        return connection

    def _make_file(self, path: Path) -> None:
        if path.exists():
            return
        if not self._create:
            raise StoreError(f"there is no database at {path}", hint="leave out create_db=False to make it")
        if path.parent.is_dir():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        else:
            raise StoreError(f"there is no folder {path.parent}", hint="make it first, or give another path")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while True:  # the switch to WAL does not wait for other openers by itself
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)
        connection.execute("PRAGMA synchronous = NORMAL")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > self._version:
            raise SchemaTooNew(f"{self._path} was written by a newer version of this package", hint="upgrade ctx-pipeline")
        if found < self._version:
            connection.execute("BEGIN IMMEDIATE")
            for statement in self._schema.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {self._version:d}")
            connection.commit()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise StoreFull(f"no room left for {self._path}") from error
            if "locked" in str(error) or "busy" in str(error):
                raise StoreLocked(f"{self._path} is held by another process", hint="try again") from error
            raise StoreError(f"{self._path}: {error}", hint="check that the path can be read and written") from error
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, UnicodeEncodeError) as error:
            raise UsageError(f"{self._path} cannot hold this: {error}", hint="ids are text that UTF-8 can write") from error
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(
                f"{self._path} is damaged: {error}", hint="nothing was written; move the file away and restore a copy"
            ) from error

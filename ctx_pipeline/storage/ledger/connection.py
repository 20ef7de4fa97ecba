"""One SQLite file, opened once a thread and process, whose errors are the package's own."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreError, StoreFull, StoreLocked
from ctx_pipeline.storage.ledger import schema
from ctx_pipeline.storage.wal import use_wal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_DAMAGED = ("malformed", "not a database", "disk image", "no such table", "no such column")


class Database:
    """Connections to ``ledger.db`` and the one place where driver errors are translated."""

    def __init__(self, path: Path, *, first_month: str = "2025-01", read_only: bool = False, busy_seconds: float = 30.0) -> None:
        self.path = path
        self.first_month = first_month
        self.read_only = read_only
        self.busy_seconds = busy_seconds
        self._open = threading.local()
        self._inherited: list[sqlite3.Connection] = []
        with self._translated():
            self._prepare()

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of this thread; a forked child gets its own, and one to a file that was replaced is left for a new one."""
        found: tuple[int, sqlite3.Connection, object] | None = getattr(self._open, "pair", None)
        if found and found[0] == os.getpid():
            if found[1].in_transaction or self._file() in {found[2], None}:
                return found[1]
        elif found:
            self._inherited.append(found[1])
        file = self._file()
        made = self._connect()
        self._open.pair = (os.getpid(), made, file or self._file())
        return made

    def close(self) -> None:
        """Close this thread's connection."""
        found = getattr(self._open, "pair", None)
        if found and found[0] == os.getpid():
            found[1].close()
        self._open.pair = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one write transaction: all of it or nothing."""
        with self._translated():
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def query(self, sql: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        with self._translated():
            return self.connection.execute(sql, tuple(parameters)).fetchall()

    def _file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)  # noqa: PTH116 - asked for every query
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _connect(self) -> sqlite3.Connection:
        connection = self._reader() if self.read_only else self._writer()
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection

    def _writer(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=self.busy_seconds, isolation_level=None)

    def _reader(self) -> sqlite3.Connection:
        """Open without writing; on a medium that takes no files beside the database, as it lies there."""
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        for text in (uri, f"{uri}&immutable=1"):
            connection = sqlite3.connect(text, uri=True, timeout=self.busy_seconds, isolation_level=None)
            try:
                connection.execute("PRAGMA user_version").fetchone()
            except sqlite3.OperationalError as error:
                connection.close()
                if "unable to open" not in str(error) or text != uri:
                    raise
            else:
                return connection
        raise StoreError(f"{self.path} cannot be opened", hint="ctx doctor")

    def _prepare(self) -> None:
        if not self.read_only:
            # POSIX: to close any descriptor of a file drops all locks of this process on it, those of its other connections
            # too; whoever then closes last deletes a log that is in use. A database that is there is opened by SQLite alone.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = self.connection
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > schema.VERSION:
            raise SchemaTooNew(
                f"{self.path} has version {version}, this package knows {schema.VERSION}", hint="install the newer ctx-pipeline again"
            )
        if version == schema.VERSION:
            return
        if self.read_only:
            raise StoreError(f"{self.path} is of an older version", hint="ctx run")
        use_wal(connection, self.busy_seconds)
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        try:
            scripts = [schema.TABLES] if version == 0 else [schema.STEPS[n] for n in range(version + 1, schema.VERSION + 1)]
            for statement in ";".join(scripts if version < schema.VERSION else ()).split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={schema.VERSION}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise StoreLocked(
                    f"{self.path} is locked by another process", hint="wait for the other ctx process to end", path=str(self.path)
                ) from error
            if "full" in text:
                raise StoreFull(f"no room left for {self.path}", hint="free some disk space and run again", path=str(self.path)) from error
            if isinstance(error, sqlite3.DatabaseError) and any(word in text for word in _DAMAGED):
                raise StoreDamaged(f"{self.path} is damaged: {text}", hint="ctx doctor --rebuild-ledger", path=str(self.path)) from error
            raise StoreError(f"{self.path} cannot be used: {text}", hint="ctx doctor", path=str(self.path)) from error


def json_list(values: Iterable[Any]) -> str:
    """Return a JSON array for ``IN (SELECT value FROM json_each(?))``."""
    import json

    return json.dumps(list(values))

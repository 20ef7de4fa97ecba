"""One SQLite file, opened once a thread and process, whose errors are the package's own."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import LeaseLost, SchemaTooNew, StoreDamaged, StoreError, StoreFull, StoreLocked, scarce
from ctx_pipeline.model.process.process_identity import Owner
from ctx_pipeline.model.process.waiting import Wait
from ctx_pipeline.storage.connections import is_full, is_locked, is_unwritable, reading, use_wal
from ctx_pipeline.storage.ledger import digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


# The tables of ledger.db and the steps from one version to the next.


VERSION = 5

TABLES = (
    """
CREATE TABLE sources (
    stream TEXT PRIMARY KEY, host TEXT NOT NULL, root TEXT NOT NULL, rel TEXT NOT NULL, kind TEXT NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    generation INTEGER NOT NULL, captured INTEGER NOT NULL,
    head_hash TEXT NOT NULL, tail_hash TEXT NOT NULL, marker TEXT NOT NULL, state TEXT NOT NULL,
    thread_id TEXT, parent_thread_id TEXT, relation TEXT, root_session_id TEXT, first_ts INTEGER,
    session_id TEXT, month TEXT, ctime_ns INTEGER
) WITHOUT ROWID;
CREATE INDEX sources_by_place ON sources(root, rel);
CREATE INDEX sources_by_thread ON sources(host, thread_id);
CREATE INDEX sources_by_parent ON sources(host, parent_thread_id) WHERE parent_thread_id IS NOT NULL;
CREATE INDEX sources_by_root ON sources(host, root_session_id) WHERE root_session_id IS NOT NULL;
CREATE INDEX sources_by_session ON sources(host, session_id);

CREATE TABLE segments (
    stream TEXT NOT NULL, generation INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    sha256 TEXT NOT NULL, stored_bytes INTEGER NOT NULL, path TEXT NOT NULL, recorded_at TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    PRIMARY KEY (stream, generation, start)
) WITHOUT ROWID;

CREATE TABLE sessions (
    host TEXT NOT NULL, session_id TEXT NOT NULL, month TEXT NOT NULL, captured_fp TEXT NOT NULL,
    normalized_fp TEXT, code_version TEXT, content_hash TEXT, parent_session TEXT, first_own_ts INTEGER,
    rows TEXT NOT NULL DEFAULT '{}', part TEXT,
    linked_parent TEXT, told_parent TEXT, decoded_fp TEXT, decoded_version TEXT, given_title TEXT,
    PRIMARY KEY (host, session_id)
) WITHOUT ROWID;
CREATE INDEX sessions_by_month ON sessions(host, month);
CREATE INDEX sessions_by_linked ON sessions(host, linked_parent) WHERE linked_parent IS NOT NULL;
CREATE INDEX sessions_by_told ON sessions(host, told_parent) WHERE told_parent IS NOT NULL;

CREATE TABLE session_lines (host TEXT NOT NULL, session_id TEXT NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (host, session_id));

CREATE TABLE branch_titles (
    host TEXT NOT NULL, leaf BLOB NOT NULL, teller TEXT NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (host, leaf, teller)
) WITHOUT ROWID;

CREATE TABLE hints (
    host TEXT NOT NULL, thread_id TEXT NOT NULL, field TEXT NOT NULL, stream TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (host, thread_id, field, stream)
) WITHOUT ROWID;
CREATE INDEX hints_by_stream ON hints(stream);

CREATE TABLE quarantine (
    host TEXT NOT NULL, session_id TEXT NOT NULL, stream TEXT NOT NULL, generation INTEGER NOT NULL,
    line INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX quarantine_by_session ON quarantine(host, session_id);

CREATE TABLE unknowns (
    host TEXT NOT NULL, session_id TEXT NOT NULL, label TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (host, session_id, label)
) WITHOUT ROWID;

CREATE TABLE callers (
    number INTEGER PRIMARY KEY, host TEXT NOT NULL, session_id TEXT NOT NULL, calls INTEGER, UNIQUE (host, session_id)
);

CREATE TABLE calls (
    session INTEGER NOT NULL, call_key TEXT NOT NULL, ts INTEGER,
    PRIMARY KEY (session, call_key)
) WITHOUT ROWID;
CREATE INDEX calls_by_key ON calls(call_key);

CREATE TABLE owners (
    host TEXT NOT NULL, call_key TEXT NOT NULL, owner_session TEXT NOT NULL, rule TEXT NOT NULL,
    PRIMARY KEY (host, call_key)
) WITHOUT ROWID;

CREATE TABLE asset_cells (
    asset TEXT NOT NULL, host TEXT NOT NULL, month TEXT NOT NULL, input_fp TEXT NOT NULL, code_version TEXT NOT NULL,
    content_hash TEXT NOT NULL, rows INTEGER NOT NULL, updated_at TEXT NOT NULL,
    PRIMARY KEY (asset, host, month)
) WITHOUT ROWID;

CREATE TABLE leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE tombstones (
    host TEXT NOT NULL, kind TEXT NOT NULL, hash TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (host, kind, hash)
) WITHOUT ROWID;

"""
    + digests.TABLE
)

STEPS: dict[int, str] = {
    2: """
ALTER TABLE calls RENAME TO calls_1;
CREATE TABLE callers (number INTEGER PRIMARY KEY, host TEXT NOT NULL, session_id TEXT NOT NULL, UNIQUE (host, session_id));
CREATE TABLE calls (
    session INTEGER NOT NULL, call_key TEXT NOT NULL, ts INTEGER,
    PRIMARY KEY (session, call_key)
) WITHOUT ROWID;
INSERT INTO callers (host, session_id) SELECT DISTINCT host, session_id FROM calls_1;
INSERT INTO calls SELECT n.number, c.call_key, c.ts FROM calls_1 c JOIN callers n ON n.host = c.host AND n.session_id = c.session_id;
DROP TABLE calls_1;
CREATE INDEX calls_by_key ON calls(call_key);
""",
    3: """
ALTER TABLE sessions ADD COLUMN given_title TEXT;
CREATE TABLE session_lines (host TEXT NOT NULL, session_id TEXT NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (host, session_id));
CREATE TABLE branch_titles (
    host TEXT NOT NULL, leaf BLOB NOT NULL, teller TEXT NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (host, leaf, teller)
) WITHOUT ROWID;
""",
    4: "ALTER TABLE sources ADD COLUMN ctime_ns INTEGER",
    5: f"{digests.TABLE}; ALTER TABLE callers ADD COLUMN calls INTEGER",
}
"""version -> the script that leads from the version before it to this one"""


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
            stays = self.read_only or isinstance(found[1], digests.Writer)  # of a disk that was full there may be room by now
            if found[1].in_transaction or (stays and self._file() in {found[2], None}):
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
    def transaction(self, *, watched: bool = True) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one write transaction: all of it or nothing; one that writes leases alone need not be watched."""
        with self._translated():
            connection = self.connection
            if not self.read_only and not isinstance(connection, digests.Writer):
                raise self._full()
            if watched and isinstance(connection, digests.Writer):
                connection.watch()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                if watched and isinstance(connection, digests.Writer):
                    connection.commit_digests()
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def contradicting(self) -> list[str]:
        """Return the tables that hold something else than what was written into them; every row is read."""
        with self._translated(), closing(reading(self.path, self.busy_seconds)) as connection:
            return digests.contradicting(connection)

    def query(self, sql: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        with self._translated():
            return self.connection.execute(sql, tuple(parameters)).fetchall()

    def _full(self) -> StoreFull:
        return StoreFull(f"no room left for {self.path}", hint="free some disk space and run again", path=str(self.path))

    def _file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)  # noqa: PTH116 - asked for every query
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _connect(self) -> sqlite3.Connection:
        connection = reading(self.path, self.busy_seconds) if self.read_only else self._writer_or_reader()
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection

    def _writer_or_reader(self) -> sqlite3.Connection:
        """Return a connection that writes; on a full disk one that reads what is there."""
        made = self._writer()
        try:
            made.execute("PRAGMA user_version").fetchone()
        except sqlite3.OperationalError as error:
            made.close()
            if not is_full(error):
                raise
            return reading(self.path, self.busy_seconds)
        return made

    def _writer(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=self.busy_seconds, isolation_level=None, factory=digests.Writer)

    def _prepare(self) -> None:
        if not self.read_only:
            # POSIX: to close any descriptor of a file drops all locks of this process on it, those of its other connections
            # too; whoever then closes last deletes a log that is in use. A database that is there is opened by SQLite alone.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = self.connection
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise SchemaTooNew(
                f"{self.path} has version {version}, this package knows {VERSION}", hint="install the newer ctx-pipeline again"
            )
        if version == VERSION:
            return
        if self.read_only:
            raise StoreError(f"{self.path} was written by an older version", hint="ctx run")
        if not isinstance(connection, digests.Writer):
            raise self._full()
        use_wal(connection, self.busy_seconds)
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        try:
            scripts = [TABLES] if version == 0 else [STEPS[n] for n in range(version + 1, VERSION + 1)]
            for statement in ";".join(scripts if version < VERSION else ()).split(";"):
                if statement.strip():
                    connection.execute(statement)
            if version < VERSION:
                digests.renew(connection)
            connection.execute(f"PRAGMA user_version={VERSION}")
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
            if is_locked(error):
                raise StoreLocked(
                    f"{self.path} is locked by another process", hint="wait for the other ctx process to end", path=str(self.path)
                ) from error
            if is_full(error):
                raise self._full() from error
            if isinstance(error, sqlite3.DatabaseError) and any(word in text for word in _DAMAGED):
                raise StoreDamaged(f"{self.path} is damaged: {text}", hint="ctx doctor --rebuild-ledger", path=str(self.path)) from error
            if (refused := scarce(error)) is not None:
                raise refused from error
            raise StoreError(
                f"{self.path} cannot be used: {text}",
                hint="check CTX_HOME and its permissions" if is_unwritable(error) else "ctx doctor",
                path=str(self.path),
            ) from error


def json_list(values: Iterable[Any]) -> str:
    """Return a JSON array for ``IN (SELECT value FROM json_each(?))``."""
    import json

    return json.dumps(list(values))


# Leases: one writer a partition or unpartitioned asset, over processes, containers and machines that share the store. A lease is
# short and renewed while its owner works; one that was taken over fails whatever its former owner still wants to commit.


WAIT = 3600.0
"""Seconds for which a stage waits for another writer; it then finds the work done."""

TTL = 30.0
"""Seconds after which a lease that nobody renews is free, unless its owner is seen to work on this machine."""

_BEAT = TTL / 4
_PAUSE = 0.02
_LONGEST_PAUSE = 0.25


class Leases(Database):
    """The part of the ledger that keeps two writers apart."""

    def __init__(self, path: Path, *, first_month: str = "2025-01", read_only: bool = False, busy_seconds: float = 30.0) -> None:
        self._held: dict[str, str] = {}
        self._renewed = 0.0
        super().__init__(path, first_month=first_month, read_only=read_only, busy_seconds=busy_seconds)

    @contextmanager
    def lease(self, name: str, *, wait: float = WAIT, ttl: float = TTL, forks: bool = False) -> Iterator[None]:
        """Hold the lease of a name inside the block; StoreLocked after ``wait`` seconds. Not reentrant.

        A living owner on this machine keeps it however long it takes, unless it was stopped;
        one elsewhere for ``ttl`` seconds after it last renewed it, which a thread does, or
        where the block ``forks`` whatever it asks the ledger. Who lost it commits nothing any more.
        """
        text = str(Owner.here())
        deadline = time.monotonic() + wait
        pause = _PAUSE
        waiting = Wait(time.monotonic())
        while not self._take(name, text, ttl):
            if time.monotonic() >= deadline:
                raise StoreLocked(
                    f"{name} is being written by another process{self._who(name)}",
                    hint="wait for it to end and run again",
                    lease=name,
                )
            waiting.tell(lambda: f"waiting{self._who(name, 'for ')}, which writes {name}")
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        self._held[name] = text
        self._renewed = time.monotonic()
        beating = None
        try:
            # no memory for a thread: the lease would stay with a process that lives and works under no lease
            beating = None if forks else self._begin_beat()
            yield
        finally:
            if beating is not None:
                beating.set()
            self._held.pop(name, None)
            # not fenced by what is held beside it: a ledger that was made anew meanwhile knows of neither
            with super().transaction(watched=False) as connection:
                connection.execute("DELETE FROM leases WHERE name = ? AND owner = ?", (name, text))

    @contextmanager
    def transaction(self, *, watched: bool = True) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one write transaction: all of it or nothing, and nothing where a lease was lost."""
        with super().transaction(watched=watched) as connection:
            self._fence(connection)
            yield connection

    def demand_leases(self) -> None:
        """Raise LeaseLost where another process took over a lease that is held here."""
        if self._held:
            self._compare(self.query(_OWNERS, [json_list(self._held)]))

    def _fence(self, connection: sqlite3.Connection) -> None:
        if not self._held:
            return
        names = json_list(self._held)
        self._compare(connection.execute(_OWNERS, [names]).fetchall())
        if time.monotonic() - self._renewed > _BEAT:
            connection.execute(_RENEW, [time.time() + TTL, names])
            self._renewed = time.monotonic()

    def _compare(self, rows: Iterable[tuple[str, str]]) -> None:
        owners = dict(rows)
        for name, text in list(self._held.items()):
            if owners.get(name) != text:
                raise LeaseLost(
                    f"this process stood still for more than {TTL:.0f} seconds and another one took {name} over; nothing was committed",
                    hint="run again: it goes on from what the other one did",
                    lease=name,
                )

    def _begin_beat(self) -> threading.Event:
        """Renew what is held until the returned event is set, from a thread with a connection of its own."""
        ended = threading.Event()
        threading.Thread(target=self._beat, args=(ended, os.getpid()), daemon=True, name="ctx-leases").start()
        return ended

    def _beat(self, ended: threading.Event, process: int) -> None:
        while not ended.wait(_BEAT):
            if os.getpid() != process:
                return
            # what is lost is found out by whoever commits; a locked or full database is tried again
            with suppress(StoreError, sqlite3.Error):
                with super().transaction(watched=False) as connection:
                    for name, text in list(self._held.items()):
                        connection.execute(f"{_RENEW_ONE} AND owner = ?", [time.time() + TTL, name, text])
                self.close()

    def drop_leases(self) -> None:
        """Forget who holds what: of a copy that was put in the place of a store nobody holds anything."""
        with self.transaction(watched=False) as connection:
            connection.execute("DELETE FROM leases")

    def live_leases(self) -> dict[str, str]:
        """Return name -> pid and machine of the leases that living owners hold, and until when, where that is not seen here."""
        return {name: _named(owner, expires) for name, (owner, expires) in self._living().items()}

    def _living(self) -> dict[str, tuple[Owner, float]]:
        found = {}
        for name, text, expires in self.query("SELECT name, owner, expires_at FROM leases ORDER BY name"):
            owner = Owner.of(text)
            if owner is not None and not _free(owner, expires):
                found[name] = (owner, expires)
        return found

    def _take(self, name: str, text: str, ttl: float) -> bool:
        with super().transaction(watched=False) as connection:
            row = connection.execute("SELECT owner, expires_at FROM leases WHERE name = ?", (name,)).fetchone()
            if row is not None and not _free(Owner.of(row[0]), row[1]):
                return False
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (name, text, time.time() + ttl))
            return True

    def _who(self, name: str, before: str = "") -> str:
        found = self._living().get(name)
        if found is None:
            return ""
        return f" {before}{_named(*found)}" if before else f" ({_named(*found)})"


_OWNERS = "SELECT name, owner FROM leases WHERE name IN (SELECT value FROM json_each(?))"
_RENEW = "UPDATE leases SET expires_at = ? WHERE name IN (SELECT value FROM json_each(?))"
_RENEW_ONE = "UPDATE leases SET expires_at = ? WHERE name = ?"


def _free(owner: Owner | None, expires_at: float) -> bool:
    if owner is None or owner.dead:
        return True
    # one that waits for nothing but to be woken is taken over like one that cannot be seen
    return expires_at < time.time() and not (owner.local and not owner.stopped)


def _named(owner: Owner, expires_at: float) -> str:
    name = f"process {owner.pid} on {owner.machine}"
    if owner.local and not owner.stopped:
        return name
    left = max(0, round(expires_at - time.time()))
    return f"{name} ({'stopped' if owner.local else 'elsewhere'}: it is taken over in {left} s unless it goes on)"

"""Conversations in one SQLite file: a row a message, appended in constant time."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import struct
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ctx_pipeline.context.backends.memory_backend import MemoryBackend
from ctx_pipeline.context.errors import InvalidVector, NoSuchInteraction, NoSuchSession
from ctx_pipeline.context.interactions import check_count, check_session, encoded, now
from ctx_pipeline.context.retrieval.embedding import vector_of
from ctx_pipeline.context.retrieval.store import InMemoryEmbeddingStore, unit
from ctx_pipeline.context.sync_adapter import HasSync
from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreError, StoreFull, StoreLocked, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.context.interactions import Message
    from ctx_pipeline.context.retrieval.store import RetrievedItem


# One SQLite file, shared by threads, event loops and processes.


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


TABLE = "tb_context"

_FIELDS = ("role", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "type", "metadata")
"""Fields that contextstore moves from the message into its content."""


def read_row(text: str | bytes) -> list[dict[str, Any]] | None:
    """Return the messages of a row as they were before contextstore moved their fields, or None when it is no JSON list."""
    try:
        entries = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(entries, list):
        return None
    return [_message(entry) if isinstance(entry, dict) else {"content": {"data": entry}} for entry in entries]


def _message(entry: dict[str, Any]) -> dict[str, Any]:
    content = entry.get("content")
    if not isinstance(content, dict):
        return entry
    inner = dict(content)
    outer = {name: inner.pop(name) for name in _FIELDS if name in inner}
    if "data" in inner:
        data = inner.pop("data")
        if outer or inner:
            return {**entry, **outer, **inner, "content": data}
        return {**entry, "content": {"data": data}}
    return {**entry, **outer, "content": inner}


_log = logging.getLogger(__name__)

OWN_STORE = "contexts.db"
"""Where conversations that a person saved lie in ``$CTX_HOME``."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ctx_sessions (
    session_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ctx_messages (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, interaction_id TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ctx_messages_by_id ON ctx_messages (session_id, interaction_id);
CREATE TABLE IF NOT EXISTS ctx_quarantine (
    session_id TEXT NOT NULL, found_at TEXT NOT NULL, reason TEXT NOT NULL, body TEXT NOT NULL,
    UNIQUE (session_id, body)
);
"""


class SQLiteMemory(MemoryBackend):
    """Keeps sessions in a SQLite file that many processes may use at once; ``":memory:"`` keeps them in this object.

    A file of contextstore is read as it is: its sessions are taken over when they are
    first used, and its table is left untouched. Text that is not JSON is set aside in the
    table ``ctx_quarantine``, reported in the log and by :meth:`quarantined`, and never
    overwritten. Raises StoreDamaged for a file that is no SQLite database.
    """

    def __init__(self, db_path: str | Path, create_db: bool = True) -> None:
        self._db = Database(db_path, _SCHEMA, 1, create=create_db)

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the messages, oldest first; the last ``k`` cost no more than ``k``."""
        check_session(session_id)
        check_count(k)
        if k is not None and k <= 0:
            return []
        rows, known = await self._db.call(lambda db: _rows(db, session_id, k))
        if not known and await self._db.call(lambda db: _adopt(db, session_id), write=True):
            rows, _ = await self._db.call(lambda db: _rows(db, session_id, k))
        messages, damaged = _decoded(rows)
        if damaged:
            await self._db.call(lambda db: _quarantine(db, session_id, damaged), write=True)
        return messages

    async def save_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Make a session, or replace all of its messages, in one transaction."""
        check_session(session_id)
        rows = encoded(context)

        def save(db: sqlite3.Connection) -> None:
            _adopt(db, session_id)
            _rescue(db, session_id)
            db.execute("DELETE FROM ctx_messages WHERE session_id = ?", (session_id,))
            _touch(db, session_id)
            _insert(db, session_id, 0, rows)

        await self._db.call(save, write=True)

    async def append_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Add messages at the end; the cost does not depend on how many there are."""
        check_session(session_id)
        rows = encoded(context)

        def append(db: sqlite3.Connection) -> None:
            _demand(db, session_id, " Use save_context to create a new session.")
            found = db.execute("SELECT max(seq) FROM ctx_messages WHERE session_id = ?", (session_id,)).fetchone()[0]
            _touch(db, session_id)
            _insert(db, session_id, 0 if found is None else found + 1, rows)

        await self._db.call(append, write=True)

    async def delete_session(self, session_id: str) -> None:
        """Remove a session."""
        check_session(session_id)

        def delete(db: sqlite3.Connection) -> None:
            _demand(db, session_id)
            db.execute("DELETE FROM ctx_messages WHERE session_id = ?", (session_id,))
            db.execute("DELETE FROM ctx_sessions WHERE session_id = ?", (session_id,))
            if _has_contextstore(db):
                db.execute(f"DELETE FROM {TABLE} WHERE session_id = ?", (session_id,))  # noqa: S608 - a constant name

        await self._db.call(delete, write=True)

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Remove a message and every message after it."""
        check_session(session_id)

        def delete(db: sqlite3.Connection) -> None:
            _demand(db, session_id)
            first = db.execute(
                "SELECT min(seq) FROM ctx_messages WHERE session_id = ? AND interaction_id = ?", (session_id, str(interaction_id))
            ).fetchone()[0]
            if first is None:
                raise NoSuchInteraction(session_id, interaction_id)
            db.execute("DELETE FROM ctx_messages WHERE session_id = ? AND seq >= ?", (session_id, first))

        await self._db.call(delete, write=True)

    async def sessions(self) -> list[str]:
        """Return the ids of the sessions, in order of their names; those of contextstore that were not taken over yet are among them."""

        def names(db: sqlite3.Connection) -> list[str]:
            found = {row[0] for row in db.execute("SELECT session_id FROM ctx_sessions")}
            if _has_contextstore(db):
                found |= {row[0] for row in db.execute(f"SELECT DISTINCT session_id FROM {TABLE}")}  # noqa: S608 - a constant name
            return sorted(found)

        return await self._db.call(names)

    async def quarantined(self, session_id: str) -> list[tuple[str, str]]:
        """Return (reason, text) of what could not be read of a session, with hexadecimal escapes for bytes that are no UTF-8."""
        sql = "SELECT reason, CAST(body AS BLOB) FROM ctx_quarantine WHERE session_id = ? ORDER BY rowid"
        rows = await self._db.call(lambda db: db.execute(sql, (session_id,)).fetchall())
        return [(reason, body.decode(errors="backslashreplace")) for reason, body in rows]

    async def discard(self, unwanted: Callable[[str, str | None, bytes], bool]) -> int:
        """Remove messages from all sessions, and the sessions that this leaves empty; return how many messages went.

        ``unwanted`` is asked with the session, the message's id and its JSON, for what was
        set aside with None for the id. No trace of what was removed stays in the file.
        """

        def discard(db: sqlite3.Connection) -> int:
            kept = db.execute("SELECT session_id, seq, interaction_id, CAST(body AS BLOB) FROM ctx_messages")
            gone = [(session, seq) for session, seq, key, body in kept if unwanted(session, key, body)]
            aside = db.execute("SELECT rowid, session_id, CAST(body AS BLOB) FROM ctx_quarantine")
            rowids = [(rowid,) for rowid, session, body in aside if unwanted(session, None, body)]
            db.executemany("DELETE FROM ctx_messages WHERE session_id = ? AND seq = ?", gone)
            db.executemany("DELETE FROM ctx_quarantine WHERE rowid = ?", rowids)
            db.executemany(
                "DELETE FROM ctx_sessions WHERE session_id = ? AND session_id NOT IN (SELECT session_id FROM ctx_messages)",
                [(session,) for session in {session for session, _ in gone}],
            )
            return len(gone) + len(rowids)

        count = await self._db.call(discard, write=True)
        if count:
            await self._db.compact()
        return count

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._db.close()


def _rows(db: sqlite3.Connection, session_id: str, k: int | None) -> tuple[list[tuple[int, bytes]], bool]:
    limit = -1 if k is None else k
    # as bytes: text that is no UTF-8 would make SQLite's module refuse the whole session
    sql = "SELECT seq, CAST(body AS BLOB) FROM ctx_messages WHERE session_id = ? ORDER BY seq DESC LIMIT ?"
    rows = db.execute(sql, (session_id, limit)).fetchall()[::-1]
    return rows, bool(rows) or _known(db, session_id)


def _decoded(rows: Iterable[tuple[int, bytes]]) -> tuple[list[Message], list[bytes]]:
    messages: list[Message] = []
    damaged: list[bytes] = []
    for _, body in rows:
        try:
            messages.append(msgspec.json.decode(body, type=dict))
        except (msgspec.DecodeError, UnicodeDecodeError):
            damaged.append(body)
    return messages, damaged


def _rescue(db: sqlite3.Connection, session_id: str) -> None:
    """Set the unreadable rows of a session aside before they are replaced."""
    _, damaged = _decoded(_rows(db, session_id, None)[0])
    _quarantine(db, session_id, damaged)


def _quarantine(db: sqlite3.Connection, session_id: str, bodies: list[bytes], reason: str = "not a JSON object") -> None:
    for body in bodies:
        try:
            kept: str | bytes = body.decode()
        except UnicodeDecodeError:
            kept = body
        found = db.execute("INSERT OR IGNORE INTO ctx_quarantine VALUES (?, ?, ?, ?)", (session_id, now(), reason, kept))
        if found.rowcount:
            _log.warning("session %r: a stored message cannot be read (%s) and was set aside", session_id, reason)


def _insert(db: sqlite3.Connection, session_id: str, first: int, rows: list[tuple[str, str]]) -> None:
    db.executemany(
        "INSERT INTO ctx_messages VALUES (?, ?, ?, ?)", [(session_id, first + n, key, body) for n, (key, body) in enumerate(rows)]
    )


def _touch(db: sqlite3.Connection, session_id: str) -> None:
    at = now()
    db.execute(
        "INSERT INTO ctx_sessions VALUES (?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET updated_at = excluded.updated_at",
        (session_id, at, at),
    )


def _known(db: sqlite3.Connection, session_id: str) -> bool:
    return db.execute("SELECT 1 FROM ctx_sessions WHERE session_id = ?", (session_id,)).fetchone() is not None


def _demand(db: sqlite3.Connection, session_id: str, advice: str = "") -> None:
    if not _known(db, session_id) and not _adopt(db, session_id):
        raise NoSuchSession(session_id, advice)


def _has_contextstore(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)).fetchone() is not None


def _adopt(db: sqlite3.Connection, session_id: str) -> bool:
    """Take a session over from contextstore's table; False when it has none or ours exists already."""
    if _known(db, session_id) or not _has_contextstore(db):
        return False
    # the newest row wins: contextstore can hold several rows of one session after concurrent first saves
    sql = f"SELECT CAST(context_json AS BLOB) FROM {TABLE} WHERE session_id = ? ORDER BY id DESC LIMIT 1"  # noqa: S608 - a constant name
    row = db.execute(sql, (session_id,)).fetchone()
    if row is None:
        return False
    messages = read_row(row[0])
    _touch(db, session_id)
    if messages is None:
        _quarantine(db, session_id, [row[0]], "contextstore's JSON is damaged")
    else:
        _insert(db, session_id, 0, encoded(messages))
    return True


# Vectors in one SQLite file, searched in memory.


_SQLITE_EMBEDDINGS_SCHEMA = """
CREATE TABLE IF NOT EXISTS ctx_embeddings (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_id TEXT NOT NULL,
    vector BLOB NOT NULL, metadata TEXT NOT NULL, UNIQUE (session_id, message_id)
);
CREATE TABLE IF NOT EXISTS ctx_embedding_sessions (
    session_id TEXT PRIMARY KEY, dimensions INTEGER NOT NULL, change INTEGER NOT NULL
) WITHOUT ROWID;
"""


class SQLiteEmbeddingStore(HasSync):
    """Keeps vectors in a SQLite file of its own; a session is read once and again after another process changed it."""

    def __init__(self, db_path: str | Path, create_db: bool = True) -> None:
        self._db = Database(db_path, _SQLITE_EMBEDDINGS_SCHEMA, 1, create=create_db)
        self._read = InMemoryEmbeddingStore()
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    async def add(self, session_id: str, message_id: str, vector: Any, metadata: dict[str, Any] | None = None) -> None:
        """Keep the vector of a message, in place of an older one. Raises InvalidVector like the store in memory."""
        values = vector_of(vector)
        # of unit length, which the cosine does not see: as they came they may lie outside the range of four bytes
        blob = unit(values).astype("<f4").tobytes()
        text = msgspec.json.encode(metadata or {}).decode()

        def write(db: sqlite3.Connection) -> tuple[int, int]:
            found = db.execute("SELECT dimensions, change FROM ctx_embedding_sessions WHERE session_id = ?", (session_id,)).fetchone()
            if found and found[0] != len(values):
                raise InvalidVector(f"Expected embedding dimension {found[0]}, {message_id!r} has {len(values)}")
            db.execute(
                "INSERT INTO ctx_embeddings (session_id, message_id, vector, metadata) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (session_id, message_id) DO UPDATE SET vector = excluded.vector, metadata = excluded.metadata",
                (session_id, message_id, blob, text),
            )
            # a session that was deleted and made again never counts from where it did before
            change = found[1] + 1 if found else time.time_ns()
            db.execute(
                "INSERT INTO ctx_embedding_sessions VALUES (?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET change = excluded.change",
                (session_id, len(values), change),
            )
            return found[1] if found else 0, change

        before, change = await self._db.call(write, write=True)
        with self._lock:
            if self._seen.get(session_id) == before:  # nobody else wrote since the session was read
                self._read.put(session_id, message_id, values, msgspec.json.decode(text))
                self._seen[session_id] = change

    async def search(self, session_id: str, query_vector: Any, k: int = 5, **options: Any) -> list[RetrievedItem]:
        """Return up to ``k`` messages, most similar first; options as for the store in memory."""
        await self._refresh(session_id)
        return await self._read.search(session_id, query_vector, k, **options)

    async def has_embedding(self, session_id: str, message_id: str) -> bool:
        """Return whether a message has a vector."""
        return await self.metadata_of(session_id, message_id) is not None

    async def metadata_of(self, session_id: str, message_id: str) -> dict[str, Any] | None:
        """Return what was kept with a vector, or None when there is none."""
        row = await self._db.call(
            lambda db: db.execute(
                "SELECT metadata FROM ctx_embeddings WHERE session_id = ? AND message_id = ?", (session_id, message_id)
            ).fetchone()
        )
        return msgspec.json.decode(row[0], type=dict) if row else None

    async def delete(self, session_id: str, message_ids: Iterable[str] | None = None) -> int:
        """Forget vectors: of these messages, or of the whole session. Return how many there were."""
        ids = None if message_ids is None else [(session_id, key) for key in message_ids]

        def write(db: sqlite3.Connection) -> int:
            before = db.total_changes
            if ids is None:
                db.execute("DELETE FROM ctx_embeddings WHERE session_id = ?", (session_id,))
            else:
                db.executemany("DELETE FROM ctx_embeddings WHERE session_id = ? AND message_id = ?", ids)
            gone = db.total_changes - before
            if not db.execute("SELECT 1 FROM ctx_embeddings WHERE session_id = ? LIMIT 1", (session_id,)).fetchone():
                db.execute("DELETE FROM ctx_embedding_sessions WHERE session_id = ?", (session_id,))
            else:
                db.execute("UPDATE ctx_embedding_sessions SET change = change + 1 WHERE session_id = ?", (session_id,))
            return gone

        gone = await self._db.call(write, write=True)
        self._seen.pop(session_id, None)
        return gone

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._db.close()

    async def _refresh(self, session_id: str) -> None:
        def changes(db: sqlite3.Connection) -> int:
            row = db.execute("SELECT change FROM ctx_embedding_sessions WHERE session_id = ?", (session_id,)).fetchone()
            return row[0] if row else 0

        if self._seen.get(session_id) == await self._db.call(changes):
            return
        sql = "SELECT message_id, vector, metadata FROM ctx_embeddings WHERE session_id = ? ORDER BY seq"
        change, rows = await self._db.call(lambda db: (changes(db), db.execute(sql, (session_id,)).fetchall()))
        fresh = InMemoryEmbeddingStore()
        for message_id, blob, text in rows:
            try:
                fresh.put(session_id, message_id, vector_of(struct.unpack(f"<{len(blob) // 4}f", blob)), msgspec.json.decode(text))
            except (struct.error, msgspec.DecodeError, InvalidVector):
                _log.warning("session %r: the vector of %r cannot be read and is left out", session_id, message_id)
        with self._lock:
            self._read.take(session_id, fresh)
            self._seen[session_id] = change

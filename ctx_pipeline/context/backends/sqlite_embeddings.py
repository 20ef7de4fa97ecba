"""Vectors in one SQLite file, searched in memory."""

from __future__ import annotations

import logging
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.context.backends.database import Database
from ctx_pipeline.context.errors import InvalidVector
from ctx_pipeline.context.retrieval.embedding import vector_of
from ctx_pipeline.context.retrieval.store import InMemoryEmbeddingStore, unit
from ctx_pipeline.context.sync_adapter import HasSync

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from pathlib import Path

    from ctx_pipeline.context.retrieval.store import RetrievedItem

_log = logging.getLogger(__name__)
_SCHEMA = """
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
        self._db = Database(db_path, _SCHEMA, 1, create=create_db)
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

"""Forgetting: rows go, a hash stays, so that the next scan does not capture it again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.ledger.connection import json_list
from ctx_pipeline.storage.ledger.rows import Tombstone
from ctx_pipeline.storage.ledger.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.raw import Cell


def thread_hash(host: str, thread_id: str) -> str:
    """Return the tombstone's name of a thread: it cannot be read back."""
    return digest("thread", host, thread_id)


class Forgetting(Sessions):
    """The part of the ledger that knows what must not come back."""

    def forget(self, streams: Iterable[str], *, keep_threads: bool = False) -> set[Cell]:
        """Remove streams with all that hangs on them, leave tombstones, and return the cells that change.

        The threads of the streams are never captured again either, wherever their files
        move, unless ``keep_threads``. The file is compacted, so nothing of the rows
        stays in it. Raw objects are the caller's to remove first.
        """
        gone = sorted(set(streams))
        ids = json_list(gone)
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with self.transaction() as connection:
            rows = connection.execute(
                "SELECT stream, host, thread_id, session_id FROM sources WHERE stream IN (SELECT value FROM json_each(?))", (ids,)
            ).fetchall()
            stones = {(host, "stream", stream, at) for stream, host, _, _ in rows}
            if not keep_threads:
                stones |= {(host, "thread", thread_hash(host, thread), at) for _, host, thread, _ in rows if thread}
            connection.executemany("INSERT OR IGNORE INTO tombstones VALUES (?, ?, ?, ?)", sorted(stones))
            threads = set(
                connection.execute(
                    "SELECT DISTINCT host, thread_id FROM hints WHERE stream IN (SELECT value FROM json_each(?))", (ids,)
                ).fetchall()
            )
            for table in ("segments", "hints", "quarantine", "sources"):
                connection.execute(f"DELETE FROM {table} WHERE stream IN (SELECT value FROM json_each(?))", (ids,))
            if not keep_threads:
                connection.executemany(
                    "DELETE FROM hints WHERE host = ? AND thread_id = ?", [(host, thread) for _, host, thread, _ in rows if thread]
                )
            sessions = {(host, session) for _, host, _, session in rows if session}
            left = {
                stream
                for host, session in sessions
                for (stream,) in connection.execute("SELECT stream FROM sources WHERE host = ? AND session_id = ?", (host, session))
            }
            dirty = self._resolve(connection, left, threads)
            dirty |= self._resolve_sessions(connection, sessions)
        self.compact()
        return dirty

    def remember_forgotten(self, stones: Iterable[Tombstone]) -> None:
        """Add tombstones, for example those of the journal after a rebuild, or the hash of a text."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO tombstones VALUES (?, ?, ?, ?)", list(stones))

    def tombstones(self, kind: str | None = None) -> list[Tombstone]:
        """Return what was forgotten, of one kind if given: stream, thread or text."""
        where, values = ("WHERE kind = ?", [kind]) if kind else ("", [])
        return [Tombstone._make(row) for row in self.query(f"SELECT host, kind, hash, at FROM tombstones {where} ORDER BY 1, 2, 3", values)]

    def compact(self) -> None:
        """Rewrite the file so that it holds no trace of removed rows."""
        with self._translated():
            self.connection.execute("VACUUM")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

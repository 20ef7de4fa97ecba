"""Sources, segments and hints: what raw holds, and of which file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.storage.ledger.connection import Database, json_list
from ctx_pipeline.storage.ledger.links import PARENT
from ctx_pipeline.storage.ledger.rows import Hint, Segment, Source

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

COLUMNS = ", ".join(Source._fields)
_KEPT = {"stream", "session_id", "month"}
SAVE = f"INSERT INTO sources ({COLUMNS}) VALUES ({', '.join('?' * len(Source._fields))}) ON CONFLICT(stream) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in Source._fields if name not in _KEPT
)
_SEGMENT = 'stream, generation, start, "end", sha256, stored_bytes, path, recorded_at, mtime_ns'


class Sources(Database):
    """The part of the ledger that says what was captured."""

    def sources(self) -> dict[tuple[str, str], Source]:
        """Return every source by (root, rel)."""
        return {(row[2], row[3]): Source._make(row) for row in self.query(f"SELECT {COLUMNS} FROM sources ORDER BY stream")}

    def sources_of(self, streams: Iterable[str]) -> dict[str, Source]:
        """Return the sources of these streams by stream."""
        rows = self.query(f"SELECT {COLUMNS} FROM sources WHERE stream IN (SELECT value FROM json_each(?))", [json_list(streams)])
        return {row[0]: Source._make(row) for row in rows}

    def stamps(self) -> dict[tuple[str, str], dict[str, tuple]]:
        """Return (host, root) -> rel -> the fields of a :class:`Stamp`: what a look at the file is compared with."""
        found: dict[tuple[str, str], dict[str, tuple]] = {}
        with self._translated():
            for row in self.connection.execute("SELECT rel, stream, size, mtime_ns, captured, state, marker, host, root FROM sources"):
                folder = found.get(row[7:])
                if folder is None:
                    folder = found[row[7:]] = {}
                folder[row[0]] = row
        return found

    def save_sources(self, rows: Iterable[Source]) -> None:
        """Write sources; session and month of known ones stay."""
        with self.transaction() as connection:
            connection.executemany(SAVE, rows)

    def mark_vanished(self, streams: Iterable[str], state: str = "vanished") -> None:
        """Note that the files of these streams are gone (or ignored from now on); nothing else changes."""
        with self.transaction() as connection:
            connection.executemany("UPDATE sources SET state = ? WHERE stream = ?", [(state, stream) for stream in streams])

    def session_streams(self, host: str, session_id: str) -> list[Source]:
        """Return all streams of a session, live or not, in order of thread and stream."""
        rows = self.query(
            f"SELECT {COLUMNS} FROM sources WHERE host = ? AND session_id = ? ORDER BY thread_id, stream",
            [host, session_id],
        )
        return [Source._make(row) for row in rows]

    def streams_of(self, sessions: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[Source]]:
        """Return (host, session_id) -> its streams, like :meth:`session_streams` for many at once."""
        wanted = set(sessions)
        found: dict[tuple[str, str], list[Source]] = {key: [] for key in wanted}
        for host in sorted({host for host, _ in wanted}):
            ids = json_list(session for h, session in wanted if h == host)
            for row in self.query(
                f"SELECT {COLUMNS} FROM sources WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))"
                " ORDER BY thread_id, stream",
                [host, ids],
            ):
                source = Source._make(row)
                found[host, source.session_id or ""].append(source)
        return found

    def segments_of(self, streams: Iterable[str]) -> dict[str, list[Segment]]:
        """Return stream -> its segments of all generations, in order of generation and byte."""
        found: dict[str, list[Segment]] = {}
        for row in self.query(
            f"SELECT {_SEGMENT} FROM segments WHERE stream IN (SELECT value FROM json_each(?)) ORDER BY stream, generation, start",
            [json_list(streams)],
        ):
            found.setdefault(row[0], []).append(Segment._make(row))
        return found

    def segments(self) -> list[Segment]:
        """Return every segment, in order of stream, generation and byte."""
        return [Segment._make(row) for row in self.query(f"SELECT {_SEGMENT} FROM segments ORDER BY stream, generation, start")]

    def scattered(self, objects: int, before: str) -> list[tuple[str, int]]:
        """Return (stream, generation) of those that lie in so many raw objects or more, none recorded since a time (ISO 8601)."""
        return [
            (stream, generation)
            for stream, generation in self.query(
                "SELECT stream, generation FROM segments GROUP BY stream, generation"
                " HAVING count(*) >= ? AND max(recorded_at) < ? AND count(DISTINCT path) >= ?",
                [objects, before, objects],
            )
        ]

    def repack(self, segments: Iterable[Segment]) -> None:
        """Note where segments lie now; all else of them stays."""
        with self.transaction() as connection:
            connection.executemany(
                "UPDATE segments SET path = ?, stored_bytes = ? WHERE stream = ? AND generation = ? AND start = ?",
                [(s.path, s.stored_bytes, s.stream, s.generation, s.start) for s in segments],
            )

    def hints_of(self, host: str, thread_ids: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return thread_id -> field -> value for the threads that other streams say something of."""
        found: dict[str, dict[str, str]] = {}
        for thread, field, value in self.query(
            "SELECT thread_id, field, value FROM hints WHERE host = ? AND thread_id IN (SELECT value FROM json_each(?))"
            " ORDER BY thread_id, field, stream",
            [host, json_list(thread_ids)],
        ):
            found.setdefault(thread, {})[field] = value
        return found

    def parents(self, host: str) -> dict[str, str]:
        """Return thread_id -> the thread that started it, as indexes of the host say."""
        return parents(self.connection, host)

    def hints(self) -> list[Hint]:
        """Return every hint."""
        return [Hint._make(row) for row in self.query("SELECT host, thread_id, field, value, stream FROM hints ORDER BY 1, 2, 3, 5")]


def parents(connection: sqlite3.Connection, host: str) -> dict[str, str]:
    """Return thread_id -> the thread that started it, as indexes of a host say; the last stream's word counts."""
    rows = connection.execute("SELECT thread_id, value FROM hints WHERE host = ? AND field = ? ORDER BY thread_id, stream", (host, PARENT))
    return dict(rows.fetchall())


def save_segments(connection: sqlite3.Connection, segments: Iterable[Segment]) -> None:
    """Write segment rows; one that is known already stays as it is."""
    marks = ", ".join("?" * len(Segment._fields))
    connection.executemany(f"INSERT INTO segments ({_SEGMENT}) VALUES ({marks}) ON CONFLICT DO NOTHING", segments)


def save_hints(connection: sqlite3.Connection, hints: Iterable[Hint], renewed: Iterable[str]) -> set[tuple[str, str]]:
    """Write hints, after dropping those of renewed streams; return the (host, thread_id) whose facts changed.

    The last value of a field stays, of one whose name begins with ``first_`` the first.
    """
    rows = list(hints)
    dropped = list(renewed)
    threads = {(row.host, row.thread_id) for row in rows}
    for stream in dropped:
        threads.update(connection.execute("SELECT host, thread_id FROM hints WHERE stream = ?", (stream,)).fetchall())
    before = _facts(connection, threads)
    connection.executemany("DELETE FROM hints WHERE stream = ?", [(stream,) for stream in dropped])
    connection.executemany(
        "INSERT INTO hints (host, thread_id, field, value, stream) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT(host, thread_id, field, stream) DO UPDATE SET value = excluded.value WHERE substr(hints.field, 1, 6) <> 'first_'",
        rows,
    )
    after = _facts(connection, threads)
    return {thread for thread in threads if before.get(thread) != after.get(thread)}


def _facts(connection: sqlite3.Connection, threads: set[tuple[str, str]]) -> dict[tuple[str, str], list[tuple]]:
    found: dict[tuple[str, str], list[tuple]] = {}
    for host in {host for host, _ in threads}:
        for row in connection.execute(
            "SELECT thread_id, field, stream, value FROM hints WHERE host = ? AND thread_id IN (SELECT value FROM json_each(?))"
            " ORDER BY 1, 2, 3",
            (host, json_list(thread for h, thread in threads if h == host)),
        ):
            found.setdefault((host, row[0]), []).append(row)
    return found

"""Sessions: resolved from the streams that a capture touched, with a fingerprint of what raw holds of each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage.ledger import links, owners
from ctx_pipeline.storage.ledger.connection import Database, json_list
from ctx_pipeline.storage.ledger.links import PARENT
from ctx_pipeline.storage.ledger.rows import RAW_LOST, Hint, Segment, SessionRow, Source, Stamp, Tombstone
from ctx_pipeline.storage.written_sessions import ARCHIVED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping


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
            for row in self.connection.execute(f"SELECT {', '.join(Stamp._fields)} FROM sources"):
                folder = found.get(row[7:9])
                if folder is None:
                    folder = found[row[7:9]] = {}
                folder[row[0]] = row
        return found

    def move_roots(self, roots: Mapping[tuple[str, str], str]) -> None:
        """Say that the files of homes, as (host, root), lie below other roots now."""
        with self.transaction() as connection:
            moved = [(now, host, root) for (host, root), now in roots.items() if now != root]
            connection.executemany("UPDATE sources SET root = ? WHERE host = ? AND root = ?", moved)

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

    def of_subagents_alone(self, host: str, session_id: str) -> bool:
        """Tell whether the transcripts of a session are those of its subagents."""
        threads, own = self.query(
            "SELECT count(*), count(CASE WHEN substr(thread_id, 1, length(session_id) + 1) <> session_id || '/' THEN 1 END)"
            " FROM sources WHERE host = ? AND session_id = ? AND thread_id <> ''",
            [host, session_id],
        )[0]
        return bool(threads and not own)

    def archived(self, host: str, session_id: str) -> bool | None:
        """Tell whether a session's tables say that it is archived; None for a row of an earlier version, which does not repeat it."""
        rows = self.query("SELECT rows ->> '$.status' FROM sessions WHERE host = ? AND session_id = ?", [host, session_id])
        status = rows[0][0] if rows else ""
        return None if status is None else status == ARCHIVED

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

    def recorded_before(self, before: str, after: tuple[str, str], smallest: int) -> list[tuple[str, str, int]]:
        """Return (recorded at, raw object, bytes of its source) of objects recorded before a time and no smaller on disk, in that order.

        Only those that come ``after`` such a time and object are meant.
        """
        return self.query(
            'SELECT max(recorded_at) AS newest, path, sum("end" - start) FROM segments GROUP BY path'
            " HAVING newest < ? AND (newest, path) > (?, ?) AND sum(stored_bytes) >= ? ORDER BY 1, 2",
            [before, *after, smallest],
        )

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


_COLUMNS = (
    "host, session_id, month, captured_fp, normalized_fp, code_version, content_hash,"
    " coalesce(linked_parent, told_parent), first_own_ts,"
    " iif(given_title IS NULL, rows, json_set(rows, '$.title', given_title, '$.title_source', 'summary')), part"
)
_LINK = "stream, thread_id, parent_thread_id, relation, root_session_id, first_ts, mtime_ns"
_HELD = "s.thread_id IS NOT NULL AND (s.captured > 0 OR s.generation > 0)"
"""Of ``sources s``: streams that make a session: an identity, and at least one captured byte."""

UNDECODABLE = (
    f"EXISTS (SELECT 1 FROM json_each(sessions.rows, '$.{RAW_LOST}') l WHERE"
    " coalesce((SELECT max(g.\"end\") FROM segments g WHERE g.stream = json_extract(l.value, '$[0]')"
    " AND g.generation = json_extract(l.value, '$[1]')), 0) < json_extract(l.value, '$[2]'))"
)
"""Of ``sessions``: raw does not hold all that the kept rows were made of."""

_BULK = 2_000
"""More touched streams than this: the whole host is resolved, not the families of the streams."""


class Sessions(Sources):
    """The part of the ledger that says which session a stream belongs to."""

    def commit_capture(
        self, sources: Iterable[Source], segments: Iterable[Segment] = (), hints: Iterable[Hint] = (), *, anew: bool = False
    ) -> set[Cell]:
        """Record what was captured, in one transaction, and return the cells that became dirty.

        The objects must be on disk. ``hints`` of a stream add to what it said before,
        unless its generation rose: then they replace it. With ``anew`` nothing stays of what
        the streams had; their bytes are in the file until it is compacted.
        """
        rows = list(sources)
        with self.transaction() as connection:
            known = {
                stream: (generation, host, session)
                for stream, generation, host, session in connection.execute(
                    "SELECT stream, generation, host, session_id FROM sources WHERE stream IN (SELECT value FROM json_each(?))",
                    (json_list(row.stream for row in rows),),
                )
            }
            for table in ("segments", "quarantine") if anew else ():
                connection.executemany(f"DELETE FROM {table} WHERE stream = ?", [(row.stream,) for row in rows])
            connection.executemany(SAVE, rows)
            save_segments(connection, segments)
            renewed = [row.stream for row in rows if anew or (row.stream in known and known[row.stream][0] < row.generation)]
            threads = save_hints(connection, hints, renewed)
            return self._resolve(connection, {row.stream for row in rows}, threads)

    def reassign_partitions(self) -> set[Cell]:
        """Give every stream its session and month anew, as the first month says now; return the cells that became dirty."""
        with self.transaction() as connection:
            return self._resolve(connection, {row[0] for row in connection.execute("SELECT stream FROM sources")}, set())

    def sessions(self, *, cells: Iterable[Cell] | None = None, host: str | None = None) -> list[SessionRow]:
        """Return the sessions in order of host and id."""
        return self._select("host = ?" if host else "", [host] if host else [], cells)

    def session(self, host: str, session_id: str) -> SessionRow | None:
        """Return one session, None when it is not known."""
        rows = self.query(f"SELECT {_COLUMNS} FROM sessions WHERE host = ? AND session_id = ?", [host, session_id])
        return SessionRow._make((*rows[0][:9], json.loads(rows[0][9]), rows[0][10])) if rows else None

    def dirty_sessions(self, cells: Iterable[Cell] | None = None, *, versions: Mapping[str, str] = {}) -> list[SessionRow]:
        """Return the sessions whose tables are not made of what raw holds, or by another version than ``versions`` has for their host."""
        old = "".join(" OR (host = ? AND code_version IS NOT ?)" for _ in versions)
        condition = f"(captured_fp IS NOT normalized_fp{old}) AND NOT {UNDECODABLE}"
        return self._select(condition, [text for pair in versions.items() for text in pair], cells)

    def undecodable_sessions(self) -> list[SessionRow]:
        """Return the sessions whose rows are kept since raw does not hold all that they were made of."""
        return self._select(UNDECODABLE, [], None)

    def cells(self) -> list[Cell]:
        """Return the cells that hold a session, sorted."""
        return [Cell(*row) for row in self.query("SELECT DISTINCT host, month FROM sessions ORDER BY host, month")]

    def _select(self, condition: str, values: list[str], cells: Iterable[Cell] | None) -> list[SessionRow]:
        """Return the sessions for which a condition holds, of these cells where some are given."""
        wanted = None if cells is None else set(cells)
        conditions = [f"({condition})"] if condition else []
        if wanted is not None:
            conditions.append("host || '|' || month IN (SELECT value FROM json_each(?))")
            values = [*values, json_list(sorted(cell.key for cell in wanted))]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self.query(f"SELECT {_COLUMNS} FROM sessions {where} ORDER BY host, session_id", values)
        # read as one text, which takes a third less: every report over all sessions begins here
        found = json.loads(f"[{','.join(row[9] for row in rows)}]")
        return [SessionRow._make((*row[:9], one, row[10])) for row, one in zip(rows, found, strict=True)]

    def _resolve(self, connection: sqlite3.Connection, touched: set[str], threads: set[tuple[str, str]]) -> set[Cell]:
        """Give touched streams and their families a session; return the cells whose content changed."""
        changed: set[tuple[str, str]] = set()
        now = links.now_micros()
        for host, streams in _by_host(connection, touched | _streams_of(connection, threads)).items():
            told = parents(connection, host)
            family = _family(connection, host, streams, told)
            places = links.resolve(family, first_month=self.first_month, now=now, parents=told)
            held = _stored_places(connection, [link.stream for link in family])
            moves = []
            for stream, before in held.items():
                place = places.get(stream)
                after = (place.session_id, place.month) if place else (None, None)
                if before != after:
                    moves.append((*after, stream))
                    changed.update((host, session) for session in (before[0], after[0]) if session)
                elif place and stream in streams:
                    changed.add((host, place.session_id))
            connection.executemany("UPDATE sources SET session_id = ?, month = ? WHERE stream = ?", moves)
            changed |= _introduce(connection, host, {p.session_id: p for p in places.values()})
        changed |= _sessions_of_threads(connection, threads)
        return self._resolve_sessions(connection, changed)

    def _resolve_sessions(self, connection: sqlite3.Connection, changed: set[tuple[str, str]]) -> set[Cell]:
        """Write month and captured_fp of changed sessions; drop the empty ones; return dirty cells."""
        dirty: set[Cell] = set()
        gone: list[tuple[str, str]] = []
        for host in sorted({host for host, _ in changed}):
            ids = json_list(sorted(session for h, session in changed if h == host))
            prints = fingerprints(connection, host, ids)
            updates = []
            for session, month, fp, kept in connection.execute(
                f"SELECT session_id, month, captured_fp, rows ->> '$.{RAW_LOST}' FROM sessions"
                " WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))",
                (host, ids),
            ).fetchall():
                if session not in prints:
                    if kept is not None:
                        continue
                    gone.append((host, session))
                    dirty.add(Cell(host, month))
                    continue
                new_month, new_fp = prints[session]
                if (new_month, new_fp) != (month, fp):
                    updates.append((new_month, new_fp, host, session))
                    dirty.add(Cell(host, new_month))
                    if fp:
                        dirty.add(Cell(host, month))
            connection.executemany("UPDATE sessions SET month = ?, captured_fp = ? WHERE host = ? AND session_id = ?", updates)
        if gone:
            dirty |= owners.drop_sessions(connection, gone)
        return dirty


def fingerprints(connection: sqlite3.Connection, host: str, ids: str) -> dict[str, tuple[str, str]]:
    """Return session_id -> (month, captured_fp) of the sessions in a JSON list that hold a stream.

    The fingerprint covers the streams with their relations, all their segments, what
    other streams say of the threads, the declared parent and the month.
    """
    streams: dict[str, list[tuple]] = {}
    months: dict[str, str] = {}
    chosen = f"WHERE s.host = ? AND s.session_id IN (SELECT value FROM json_each(?)) AND {_HELD}"
    for session, month, *row in connection.execute(
        "SELECT s.session_id, s.month, s.stream, s.generation, s.captured, s.thread_id, s.parent_thread_id, s.relation, s.root_session_id"
        f" FROM sources s {chosen} ORDER BY s.session_id, s.stream",
        (host, ids),
    ):
        streams.setdefault(session, []).append(tuple(row))
        months[session] = month
    pieces: dict[str, list[tuple]] = {}
    for session, *row in connection.execute(
        'SELECT s.session_id, g.stream, g.generation, g.start, g."end", g.sha256 FROM sources s JOIN segments g ON g.stream = s.stream'
        f" {chosen} ORDER BY s.session_id, g.stream, g.generation, g.start",
        (host, ids),
    ):
        pieces.setdefault(session, []).append(tuple(row))
    told: dict[str, list[tuple]] = {}
    for session, *row in connection.execute(
        "SELECT DISTINCT s.session_id, h.thread_id, h.field, h.stream, h.value FROM sources s"
        f" JOIN hints h ON h.host = s.host AND h.thread_id = s.thread_id {chosen}"
        " ORDER BY s.session_id, h.thread_id, h.field, h.stream",
        (host, ids),
    ):
        told.setdefault(session, []).append(tuple(row))
    parents = dict(
        connection.execute(
            "SELECT session_id, linked_parent FROM sessions WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))", (host, ids)
        ).fetchall()
    )
    return {
        session: (months[session], digest(months[session], parents.get(session), rows, pieces.get(session, []), told.get(session, [])))
        for session, rows in streams.items()
    }


def _introduce(connection: sqlite3.Connection, host: str, places: dict[str, links.Place]) -> set[tuple[str, str]]:
    """Make the rows of new sessions and write declared parents; return the sessions that are new or got another parent."""
    known = dict(
        connection.execute(
            "SELECT session_id, linked_parent FROM sessions WHERE host = ? AND session_id IN (SELECT value FROM json_each(?))",
            (host, json_list(places)),
        ).fetchall()
    )
    fresh = [(host, session, place.month, "", place.parent_session) for session, place in places.items() if session not in known]
    moved = [(p.parent_session, host, session) for session, p in places.items() if session in known and known[session] != p.parent_session]
    connection.executemany("INSERT INTO sessions (host, session_id, month, captured_fp, linked_parent) VALUES (?, ?, ?, ?, ?)", fresh)
    connection.executemany("UPDATE sessions SET linked_parent = ? WHERE host = ? AND session_id = ?", moved)
    return {(host, row[1]) for row in fresh} | {(host, row[2]) for row in moved}


def _by_host(connection: sqlite3.Connection, streams: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for stream, host in connection.execute(
        "SELECT stream, host FROM sources WHERE stream IN (SELECT value FROM json_each(?))", (json_list(sorted(streams)),)
    ):
        found.setdefault(host, set()).add(stream)
    return found


def _family(connection: sqlite3.Connection, host: str, streams: set[str], told: Mapping[str, str]) -> list[links.Link]:
    """Return the streams that can share or name a session with the given ones, themselves included."""
    if len(streams) > _BULK:
        rows = connection.execute(f"SELECT {_LINK} FROM sources s WHERE host = ? AND {_HELD}", (host,)).fetchall()
        return [links.Link._make(row) for row in rows]
    rows = connection.execute(
        f"SELECT {_LINK}, session_id FROM sources s WHERE stream IN (SELECT value FROM json_each(?)) AND {_HELD}",
        (json_list(sorted(streams)),),
    ).fetchall()
    found = {row[0]: row for row in rows}
    asked: set[str] = set()
    below: dict[str, set[str]] = {}
    for thread, parent in told.items():
        below.setdefault(parent, set()).add(thread)
    while ids := {each for row in found.values() for each in (row[1], row[2], row[4], row[7], told.get(row[1])) if each} - asked:
        ids |= {thread for each in ids for thread in below.get(each, ())}
        asked |= ids
        text = json_list(sorted(ids))
        for column in ("thread_id", "parent_thread_id", "root_session_id", "session_id"):
            present = "" if column in {"thread_id", "session_id"} else f" AND {column} IS NOT NULL"
            for row in connection.execute(
                f"SELECT {_LINK}, session_id FROM sources s WHERE host = ? AND {column} IN (SELECT value FROM json_each(?))"
                f"{present} AND {_HELD}",
                (host, text),
            ):
                found[row[0]] = row
    return [links.Link._make(row[:7]) for row in found.values()]


def _stored_places(connection: sqlite3.Connection, streams: list[str]) -> dict[str, tuple[str | None, str | None]]:
    rows = connection.execute(
        "SELECT stream, session_id, month FROM sources WHERE stream IN (SELECT value FROM json_each(?))", (json_list(streams),)
    )
    return {stream: (session, month) for stream, session, month in rows}


def _streams_of(connection: sqlite3.Connection, threads: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    for host in {host for host, _ in threads}:
        found.update(
            row[0]
            for row in connection.execute(
                f"SELECT s.stream FROM sources s WHERE s.host = ? AND s.thread_id IN (SELECT value FROM json_each(?)) AND {_HELD}",
                (host, json_list(sorted(thread for h, thread in threads if h == host))),
            )
        )
    return found


def _sessions_of_threads(connection: sqlite3.Connection, threads: set[tuple[str, str]]) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for host in {host for host, _ in threads}:
        found.update(
            connection.execute(
                "SELECT DISTINCT host, session_id FROM sources WHERE host = ? AND session_id IS NOT NULL"
                " AND thread_id IN (SELECT value FROM json_each(?))",
                (host, json_list(sorted(thread for h, thread in threads if h == host))),
            ).fetchall()
        )
    return found


# Forgetting: rows go, a hash stays, so that the next scan does not capture it again.


def thread_hash(host: str, thread_id: str) -> str:
    """Return the tombstone's name of a thread: it cannot be read back."""
    return digest("thread", host, thread_id)


class Forgetting(Sessions):
    """The part of the ledger that knows what must not come back."""

    def forget(self, streams: Iterable[str]) -> set[Cell]:
        """Remove streams with all that hangs on them, leave tombstones, and return the cells that change.

        The threads of the streams are never captured again either, wherever their files
        move. The file is compacted, so nothing of the rows stays in it. Raw objects are the
        caller's to remove first.
        """
        gone = sorted(set(streams))
        ids = json_list(gone)
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with self.transaction() as connection:
            rows = connection.execute(
                "SELECT stream, host, thread_id, session_id FROM sources WHERE stream IN (SELECT value FROM json_each(?))", (ids,)
            ).fetchall()
            stones = {(host, "stream", stream, at) for stream, host, _, _ in rows}
            stones |= {(host, "thread", thread_hash(host, thread), at) for _, host, thread, _ in rows if thread}
            connection.executemany("INSERT OR IGNORE INTO tombstones VALUES (?, ?, ?, ?)", sorted(stones))
            threads = set(
                connection.execute(
                    "SELECT DISTINCT host, thread_id FROM hints WHERE stream IN (SELECT value FROM json_each(?))", (ids,)
                ).fetchall()
            )
            for table in ("segments", "hints", "quarantine", "sources"):
                connection.execute(f"DELETE FROM {table} WHERE stream IN (SELECT value FROM json_each(?))", (ids,))
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
        """Return what was forgotten, of one kind if given: stream, thread, text or content."""
        where, values = ("WHERE kind = ?", [kind]) if kind else ("", [])
        return [Tombstone._make(row) for row in self.query(f"SELECT host, kind, hash, at FROM tombstones {where} ORDER BY 1, 2, 3", values)]

    def compact(self) -> None:
        """Rewrite the file so that it holds no trace of removed rows."""
        with self._translated():
            self.connection.execute("VACUUM")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

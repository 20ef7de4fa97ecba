"""Full-text search over the history: a contentless FTS5 index whose row ids point into the lake.

A row id is the base of an events part plus the row number in it. Rows are never
deleted: the ranges of replaced sessions are listed as dead and filtered out, until
they outnumber the live ones and the index is made anew.
"""

from __future__ import annotations

import sqlite3
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.search_index import row_lookup
from ctx_pipeline.storage.search_index.query import Answer, Asked, Counting, Found, Hit, Reading
from ctx_pipeline.storage.search_index.row_attributes import MarkWriter
from ctx_pipeline.storage.search_index.row_lookup import Wanted
from ctx_pipeline.storage.search_index.tokenize import documents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage.lake import Lake, Manifest, Move

__all__ = ["Answer", "Asked", "Counting", "Found", "Hit", "SearchIndex", "Wanted"]


# What the index holds of a part, read from the lake: how an index is made anew.


_READ = ("session_id", "thread_id", "kind", "ts", "text", "call_id")


class Indexed(NamedTuple):
    """What is indexed of a part: (row, said, done) in order, (session, first row, last row), and the records of marks and pages."""

    documents: Collection[tuple[int, str | None, str | None]]
    spans: Iterable[tuple[str, int, int]]
    marks: bytes = b""
    pages: bytes = b""


def rows_of(lake: Lake, path: str, live: set[str], manifest: Manifest) -> Indexed:
    """Return what is indexed of a part of the lake: the documents of its live sessions, the marks of all its rows."""
    calls = _calls_of(lake, manifest, live)
    columns = [list(column) for column in zip(*lake.scan(path, "events", _READ), strict=True)]
    events = dict(zip((name for name in EVENTS.names if name in _READ), columns, strict=True))
    spans: dict[str, tuple[int, int]] = {}
    texts: list[str | None] = []
    for row, (session, text) in enumerate(zip(events["session_id"], events["text"], strict=True)):
        alive = session in live
        texts.append(text if alive else None)
        if alive:
            spans[session] = (spans.get(session, (row, row))[0], row)
    marks = MarkWriter()
    first = 0
    for session, members in groupby(events["session_id"]):
        end = first + sum(1 for _ in members)
        piece = [events[name][first:end] if name in events else [] for name in EVENTS.names]
        marks.add(piece, list(zip(*calls.get(session, []), strict=True)) or [[] for _ in TOOL_CALLS.names])
        first = end
    return Indexed(
        documents(events["kind"], texts), [(s, first, last) for s, (first, last) in spans.items()], marks.packed(), lake.pages(path)
    )


def _calls_of(lake: Lake, manifest: Manifest, live: set[str]) -> dict[str, list[tuple]]:
    """Return the tool calls of some sessions of a cell, with the columns that marks are made of."""
    names = ("call_id", "session_id", "tool", "is_error", "result_event")
    places = [TOOL_CALLS.names.index(name) for name in TOOL_CALLS.names if name in names]
    found: dict[str, list[tuple]] = {}
    for part in manifest.of_table("tool_calls"):
        if live.isdisjoint(part.live):
            continue
        for told in lake.scan(part.path, "tool_calls", names):
            row: list[object] = [None] * len(TOOL_CALLS.names)
            for place, value in zip(places, told, strict=True):
                row[place] = value
            session = str(row[TOOL_CALLS.names.index("session_id")])
            if session in live and session in part.live:
                found.setdefault(session, []).append(tuple(row))
    return found


_CROWDED = 5_000
"""Dead rows from which on they are counted against the live ones."""


class SearchIndex(Reading):
    """The index file; opened when first used. One writer at a time, any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._building: Path | None = None
        self._next = 0

    # writing

    def begin_bulk(self, lake: Lake | None = None) -> None:
        """Open one transaction for many parts.

        An index that is missing, empty or damaged, or whose dead rows outnumber the live
        ones, is built in a file beside it and swapped in by :meth:`finish`. With the lake
        given, what it has committed is in the new index; so is what a writer that died
        before the lake was committed left out, and what it left over is not.
        """
        self.close()
        if self._needs_rebuild(lake):
            self._building = self.path.with_name(temporary.name())
            self._connection = row_lookup.create(self._building)
        else:
            self._connection = self._open()
        self._connection.execute("PRAGMA secure_delete=0")
        self._connection.execute("BEGIN IMMEDIATE")
        self._next = row_lookup.scalar(self._connection, "SELECT coalesce(max(base + rows), 1) FROM parts")
        if self._building:
            self._connection.execute("INSERT INTO history(history, rank) VALUES('hashsize', ?)", (row_lookup.HASH_BYTES,))
        if lake is not None and (self._building or self._connection.execute("SELECT 1 FROM state WHERE value = 'unsettled'").fetchone()):
            self._reconcile(lake)

    def add_part(
        self,
        cell: Cell,
        part: str,
        rows: int,
        documents: Collection[tuple[int, str | None, str | None]],
        spans: Iterable[tuple[str, int, int]],
        *,
        marks: bytes = b"",
        pages: bytes = b"",
    ) -> None:
        """Index the documents (row, said, done; rows ascending) of an events part.

        ``spans`` are its sessions with their first and last row, ``marks`` what is known of
        each row (:class:`MarkWriter`), ``pages`` where its texts lie (``Lake.pages``). A
        part that is in the index already is left alone.
        """
        connection = self._writer()
        if not connection.execute("SELECT 1 FROM spans WHERE part = ? LIMIT 1", (part,)).fetchone():
            self._add(cell, part, rows, Indexed(documents, spans, marks, pages))
        elif pages:
            self.note_pages(part, pages)

    def _add(self, cell: Cell, part: str, rows: int, found: Indexed) -> None:
        connection = self._writer()
        base = self._next
        self._next += rows
        connection.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?, 0)", (base, rows, cell.host, cell.month, part))
        connection.execute("INSERT INTO marks VALUES (?, ?, ?)", (base, rows, found.marks))
        connection.execute("INSERT OR REPLACE INTO pages VALUES (?, ?)", (part, found.pages))
        connection.executemany(
            "INSERT INTO spans VALUES (?, ?, ?, ?, ?)", ((base + first, base + last, cell.host, s, part) for s, first, last in found.spans)
        )
        connection.executemany(f"INSERT INTO history(rowid, said, done) VALUES (? + {base}, ?, ?)", found.documents)

    def tombstone(self, host: str, sessions: Collection[str], *, keep: Collection[str] = (), only: Collection[str] | None = None) -> int:
        """Make rows of these sessions unfindable, but for those in the parts to ``keep``; return how many ranges."""
        connection = self._writer()
        kept = set(keep)
        buried = 0
        gone = row_lookup.dead_documents(connection)
        for session in sessions:
            found = connection.execute("SELECT first, last, part FROM spans WHERE host = ? AND session_id = ?", (host, session)).fetchall()
            for first, last, part in found:
                if part in kept or (only is not None and part not in only):
                    continue
                connection.execute("INSERT OR REPLACE INTO dead VALUES (?, ?)", (first, last))
                connection.execute("DELETE FROM spans WHERE first = ?", (first,))
                gone += row_lookup.documents_between(connection, first, last)
                buried += 1
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", zip(row_lookup.DEAD, map(str, gone), strict=True))
        return buried

    def move(self, moves: Sequence[Move]) -> None:
        """Follow rows that compaction of the lake moved to another part; the rest of the old parts is dead already."""
        connection = self._writer()
        old_parts = {m.old for m in moves}
        entries = {
            path: connection.execute("SELECT base, rows, host, month, first_row FROM parts WHERE part = ?", (path,)).fetchall()
            for path in old_parts
        }
        for path in old_parts:
            connection.execute("DELETE FROM parts WHERE part = ?", (path,))
            connection.execute("DELETE FROM pages WHERE part = ?", (path,))
        for moved in moves:
            for base, rows, host, month, first_row in entries[moved.old]:
                low, high = max(moved.old_row, first_row), min(moved.old_row + moved.rows, first_row + rows)
                if low < high:
                    connection.execute(
                        "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?)",
                        (base + low - first_row, high - low, host, month, moved.new, moved.new_row + low - moved.old_row),
                    )
        connection.executemany("UPDATE spans SET part = ? WHERE part = ?", {(m.new, m.old) for m in moves})

    def note_pages(self, part: str, pages: bytes) -> None:
        """Note where the texts of a part lie that compaction made."""
        self._writer().execute("INSERT OR REPLACE INTO pages VALUES (?, ?)", (part, pages))

    def flush(self) -> None:
        """Write out the words of what was added, without a commit; a thread beside others may call it: it leaves them the interpreter."""
        try:
            self._writer().execute("SAVEPOINT flush")
            self._writer().execute("RELEASE flush")
        except sqlite3.OperationalError as error:
            raise row_lookup.full(error) or error from error

    def finish(self) -> None:
        """Commit what was added since :meth:`begin_bulk`."""
        connection = self._writer()
        try:
            connection.execute("INSERT OR REPLACE INTO state VALUES ('lake', 'unsettled')")
            connection.execute("COMMIT")
            if self._building:
                row_lookup.tune(connection)
        except sqlite3.OperationalError as error:
            raise row_lookup.full(error) or error from error
        if not self._building and row_lookup.mostly_free(connection):
            self._building = self._copied(connection)
        self._connection = None
        connection.close()
        if self._building:
            row_lookup.sync(self._building)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            self._building.replace(self.path)
            self._building = None
        self._shelf = None

    def _copied(self, connection: sqlite3.Connection) -> Path | None:
        """Return a copy of the index without its free pages; None where there is no room for one."""
        copy = self.path.with_name(temporary.name())
        try:
            row_lookup.copy_without_free(connection, copy)
        except (OSError, sqlite3.OperationalError):
            copy.unlink(missing_ok=True)
            return None
        return copy

    def mark_committed(self) -> None:
        """Note that the lake has committed what the index holds."""
        self._reading().execute("UPDATE state SET value = 'settled' WHERE name = 'lake'")

    def abandon(self, error: BaseException | None = None) -> None:
        """Forget what was added since :meth:`begin_bulk`; where the error is damage of the file, remove it and raise StoreDamaged."""
        building, self._building = self._building, None
        damaged = isinstance(error, sqlite3.DatabaseError) and "malformed" in str(error)
        if self._connection is not None:
            if self._connection.in_transaction and building is None and not damaged:
                self._connection.execute("ROLLBACK")
            self.close()
        if building:
            building.unlink(missing_ok=True)
        if damaged:
            self._remove()
            raise StoreDamaged("the search index was damaged", hint="run again: it is made anew", path=str(self.path)) from error

    def rebuild(self, lake: Lake) -> int:
        """Make the index anew from the lake's committed events and return how many documents it holds."""
        self.close()
        self._remove()
        return self.reconcile(lake)

    def reconcile(self, lake: Lake) -> int:
        """Bring the index to the lake's committed events and return how many documents were added."""
        self.begin_bulk()
        count = self._reconcile(lake)
        self.finish()
        self.mark_committed()
        return count

    def made_of(self) -> str:
        """Return the fingerprint of the tables that the index was last said to hold; empty where that was never said."""
        row = self._reading().execute("SELECT value FROM state WHERE name = 'made_of'").fetchone()
        return str(row[0]) if row else ""

    def note_made_of(self, fingerprint: str) -> None:
        """Write into the index of which tables it was made."""
        self._reading().execute("INSERT OR REPLACE INTO state VALUES ('made_of', ?)", (fingerprint,))

    def _reconcile(self, lake: Lake) -> int:
        """Bury what the lake does not have, add what the index lacks, the newest last, and return how many documents that was."""
        connection = self._writer()
        manifests = lake.manifests("normalized", sound=True)
        live = {
            (cell.host, session, part.path): (cell, part)
            for cell, manifest in sorted(manifests.items(), key=lambda pair: (pair[0].month, pair[0].host))
            for part in manifest.of_table("events")
            for session in part.live
        }
        indexed = set(connection.execute("SELECT host, session_id, part FROM spans").fetchall())
        for host, session, part in sorted(indexed - live.keys()):
            self.tombstone(host, [session], only={part})
        missing: dict[str, set[str]] = {}
        for _, session, path in live.keys() - indexed:
            missing.setdefault(path, set()).add(session)
        count = 0
        for (_, _, path), (cell, part) in live.items():
            if sessions := missing.pop(path, None):
                found = rows_of(lake, path, sessions, manifests[cell])
                self._add(cell, path, part.rows, found)
                count += len(found.documents)
        return count

    # reading

    def parts(self) -> set[str]:
        """Return the events parts that have a findable session."""
        return {row[0] for row in self._reading().execute("SELECT DISTINCT part FROM spans")}

    @property
    def mostly_dead(self) -> bool:
        """Whether more rows are dead than alive: dead ones stay in the file and slow every query."""
        alive, dead = (
            row_lookup.scalar(self._reading(), f"SELECT coalesce(sum(last - first + 1), 0) FROM {table}") for table in ("spans", "dead")
        )
        return dead > alive

    def damaged(self) -> bool:
        """Tell whether there is a file and it is no index that this package reads."""
        try:
            return self.path.exists() and self._reading() is None
        except StoreDamaged:
            return True

    def doctor(self, lake: Lake) -> list[str]:
        """Return what is wrong: damage of the file, and sessions that the lake has and the index lacks, or the other way."""
        if not self.path.exists():
            return ["there is no search index"]
        connection = self._reading()
        problems = [f"search index: {row[0]}" for row in connection.execute("PRAGMA quick_check(5)") if row[0] != "ok"]
        missing, extra = self._differences(lake)
        if missing:
            problems.append(f"{missing} sessions are not in the search index")
        if extra:
            problems.append(f"{extra} sessions of the search index are not in the lake")
        return problems

    def agrees(self, lake: Lake) -> bool:
        """Tell whether the index holds the sessions that the lake has, and no others."""
        return self._differences(lake) == (0, 0)

    def _differences(self, lake: Lake) -> tuple[int, int]:
        """Return how many sessions the index lacks, and how many it holds that the lake does not have."""
        indexed = set(self._reading().execute("SELECT host, session_id, part FROM spans"))
        live = {(cell.host, s, p.path) for cell, m in lake.manifests("normalized").items() for p in m.of_table("events") for s in p.live}
        return len(live - indexed), len(indexed - live)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._shelf = None

    def _reading(self) -> sqlite3.Connection:
        if self._connection is not None and not self._connection.in_transaction and row_lookup.identity(self.path) != self._file:
            self.close()
        if self._connection is None:
            if not self.path.exists():
                raise StoreError("there is no search index yet: search.db is missing", hint="ctx run", path=str(self.path))
            self._connection = self._open()
        return self._connection

    def _writer(self) -> sqlite3.Connection:
        if self._connection is None or not (self._connection.in_transaction or self._building):
            raise StoreError("the search index is not open for writing")
        return self._connection

    def _needs_rebuild(self, lake: Lake | None) -> bool:
        """Tell whether the index is better made anew; one that holds something is crowded only where the lake is there to make it of."""
        if not self.path.exists():
            return True
        try:
            connection = self._open()
        except StoreDamaged:
            return True
        try:
            if row_lookup.scalar(connection, "SELECT count(*) FROM parts") == 0:
                return True
            dead, live = (row_lookup.rows_of(connection, table) for table in ("dead", "spans"))
        finally:
            connection.close()
        return lake is not None and dead > max(live, _CROWDED)

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        self._file = row_lookup.identity(self.path)
        return row_lookup.connect(self.path)

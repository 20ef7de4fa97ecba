"""A digest of every table of the ledger, kept by whoever writes: what anything else changed in a row is seen.

SQLite notices a broken page, and no changed value. The digest of a table is a sum over its rows, so that a transaction
adds and takes away what it wrote and reads nothing else. The calls of a session, which are written together, have
theirs beside its number.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.storage.connections import readable_text, row_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

WATCHED = (
    *("sources", "segments", "sessions", "session_lines", "branch_titles", "hints", "quarantine", "unknowns"),
    *("callers", "owners", "asset_cells", "tombstones"),
)
"""Tables with a digest: all but leases, which end by themselves, and calls."""

TABLE = "CREATE TABLE digests (name TEXT PRIMARY KEY, total INTEGER NOT NULL) WITHOUT ROWID"

_MASK = (1 << 62) - 1
"""Two sums below it make no float of SQLite."""

_CALLS = "SELECT session, call_key, ts FROM calls ORDER BY session, call_key"


class Writer(sqlite3.Connection):
    """A connection that knows what its transaction adds to each digest, once it was told to."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Open a database as sqlite3 does."""
        super().__init__(*args, **options)
        self._watching = False
        self._changed: Counter[str] = Counter()

    def watch(self) -> None:
        """Begin to look at what is written; what was written before is not counted."""
        self._changed.clear()
        if self._watching:
            return
        self.create_function("ctx_row", -1, self._add)
        self.execute("PRAGMA recursive_triggers=ON")  # what REPLACE deletes counts too
        for table in WATCHED:
            names = [str(row[1]) for row in self.execute(f"PRAGMA table_info({table})")]
            new, old = (", ".join(f'{which}."{name}"' for name in names) for which in ("NEW", "OLD"))
            added, gone = f"ctx_row(1, '{table}', {new})", f"ctx_row(-1, '{table}', {old})"
            for event, said in (("INSERT", added), ("DELETE", gone), ("UPDATE", f"{gone}, {added}")):
                self.execute(
                    f"CREATE TEMP TRIGGER IF NOT EXISTS watch_{table}_{event} AFTER {event} ON main.{table} BEGIN SELECT {said}; END"
                )
        self._watching = True

    def commit_digests(self) -> None:
        """Write what the transaction changed into the digests, as its last statement."""
        for table, total in self._changed.items():
            if total & _MASK:
                self.execute(f"UPDATE digests SET total = (total + ?) & {_MASK} WHERE name = ?", (total & _MASK, table))

    def _add(self, sign: int, table: str, *values: object) -> None:
        self._changed[table] += sign * row_digest(values)


def renew(connection: sqlite3.Connection) -> None:
    """Take every row as it is now: a ledger of this version was just begun or brought to it."""
    connection.executemany(
        "INSERT OR REPLACE INTO digests VALUES (?, ?)", [(table, _total(connection, table)) for table in WATCHED if table != "callers"]
    )
    calls = _of_calls(connection)
    numbers = [row[0] for row in connection.execute("SELECT number FROM callers")]
    connection.executemany("UPDATE callers SET calls = ? WHERE number = ?", [(calls.get(n, row_digest([])), n) for n in numbers])
    connection.execute("INSERT OR REPLACE INTO digests VALUES ('callers', ?)", (_total(connection, "callers"),))


def contradicting(connection: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows are not those that were written, as one moment shows them."""
    try:
        return _contradicting(connection)
    except sqlite3.OperationalError:  # a changed byte made a text no UTF-8, which SQLite says of the first such row alone
        connection.text_factory = readable_text
        return _contradicting(connection)


def _contradicting(connection: sqlite3.Connection) -> list[str]:
    connection.execute("BEGIN")
    try:
        told = dict(connection.execute("SELECT name, total FROM digests"))
        wrong = [table for table in WATCHED if told.get(table) != _total(connection, table)]
        calls = _of_calls(connection)
        known = dict(connection.execute("SELECT number, calls FROM callers"))
        if calls.keys() - known.keys() or any(calls.get(number, row_digest([])) != total for number, total in known.items()):
            wrong.append("calls")
        return wrong
    finally:
        connection.execute("ROLLBACK")


def of_calls(calls: Iterable[tuple[str, int | None]]) -> int:
    """Return the digest of the calls of one session, as (key, time), in order of their keys."""
    return row_digest([(str(key), ts) for key, ts in calls])


def _total(connection: sqlite3.Connection, table: str) -> int:
    return sum(map(row_digest, connection.execute(f"SELECT * FROM {table}"))) & _MASK


def _of_calls(connection: sqlite3.Connection) -> dict[int, int]:
    sessions = groupby(connection.execute(_CALLS), itemgetter(0))
    return {session: of_calls((key, ts) for _, key, ts in calls) for session, calls in sessions}

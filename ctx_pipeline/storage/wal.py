"""Write-ahead logging, switched on although another process may be doing the same."""

from __future__ import annotations

import sqlite3
import time

_PAUSE = 0.01


def use_wal(connection: sqlite3.Connection, seconds: float = 30.0) -> None:
    """Put a database into WAL mode.

    SQLite does not wait for its busy timeout here (3.40 and before), so we do; the last
    "database is locked" is raised after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return

"""Titles and projects of sessions for a list of hits, read without the rest of the ledger, whose import takes a tenth of a search."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SHOWN = (
    "SELECT host, session_id, coalesce(given_title, rows ->> '$.title'), rows ->> '$.project', rows ->> '$.cwd', first_own_ts FROM sessions"
)


class Shown(NamedTuple):
    """What is shown of a session."""

    title: str | None
    project: str | None
    cwd: str | None = None
    """folder in which it began; None where that is not known"""
    began: int | None = None
    """time of its first own record, microseconds since 1970"""


class ShownSessions:
    """Reads what is shown of sessions; the ledger is opened when first asked, and again where the file was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = (0, 0)
        self._connection: sqlite3.Connection | None = None

    def of(self, sessions: Iterable[tuple[str, str]] | None = None) -> dict[tuple[str, str], Shown]:
        """Return title, project and folder by host and session id of some sessions or of all; raises StoreError for no ledger."""
        chosen = None if sessions is None else json.dumps([list(place) for place in sessions])
        only = " WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))" if chosen is not None else ""
        try:
            rows = self._opened().execute(_SHOWN + only, (chosen,) if chosen is not None else ()).fetchall()
        except (sqlite3.Error, OSError) as error:
            self.close()
            kind = StoreError if "locked" in str(error) or "busy" in str(error) else StoreDamaged
            raise kind(f"{self._path} cannot be read: {error}", hint="ctx doctor --rebuild-ledger", path=str(self._path)) from error
        return {(host, session): Shown(*shown) for host, session, *shown in rows}

    def close(self) -> None:
        """Close the ledger."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _opened(self) -> sqlite3.Connection:
        status = self._path.stat()
        if self._connection is not None and self._file != (status.st_dev, status.st_ino):
            self.close()
        if self._connection is None:
            self._file = status.st_dev, status.st_ino
            place = f"{self._path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(place, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        return self._connection

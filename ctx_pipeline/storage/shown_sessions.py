"""Titles and projects of sessions for a list of hits, read without the rest of the ledger, whose import takes a tenth of a search."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SHOWN = "SELECT host, session_id, coalesce(given_title, rows ->> '$.title'), rows ->> '$.project', rows ->> '$.cwd' FROM sessions"


class Shown(NamedTuple):
    """What is shown of a session."""

    title: str | None
    project: str | None
    cwd: str | None = None
    """folder in which it began; None where that is not known"""


def shown(path: Path, sessions: Iterable[tuple[str, str]] | None = None) -> dict[tuple[str, str], Shown]:
    """Return title, project and folder by host and session id of some sessions or of all; raises StoreError for no ledger."""
    chosen = None if sessions is None else json.dumps([list(place) for place in sessions])
    only = " WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))" if chosen is not None else ""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            rows = connection.execute(_SHOWN + only, (chosen,) if chosen is not None else ()).fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"the ledger cannot be read: {error}", hint="ctx doctor", path=str(path)) from error
    return {(host, session): Shown(title, project, cwd) for host, session, title, project, cwd in rows}

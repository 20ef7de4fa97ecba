"""The sessions whose transcripts were written last, read from the ledger by a hook: with few imports, and without writing."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.storage.connections import reading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARCHIVED = "archived"
"""Status of a session that its agent resumes only out of its archive."""

_PATIENCE = 0.2

LINES = (".jsonl", ".jsonl.zst")
"""What the name of a transcript of lines ends in, of which a hook reads the beginning and the end."""

_OF_LINES = "(" + " OR ".join(f"rel LIKE '%{ending}'" for ending in LINES) + ")"
_WRITTEN = (
    "SELECT s.host, s.session_id, f.root, f.rel, f.mtime_ns, s.rows FROM ({}) f"
    " JOIN sessions s ON s.host = f.host AND s.session_id = f.session_id"
)
_TRANSCRIPTS = (
    f"SELECT host, session_id, root, rel, mtime_ns FROM sources WHERE thread_id = session_id AND {_OF_LINES} ORDER BY mtime_ns DESC LIMIT ?"
)
_OF_SUBAGENTS = (
    "SELECT host, session_id, root, rel, max(mtime_ns) AS mtime_ns FROM (SELECT * FROM sources WHERE thread_id <> session_id"
    f" AND thread_id <> '' AND {_OF_LINES} ORDER BY mtime_ns DESC LIMIT ?) a"
    " WHERE NOT EXISTS (SELECT 1 FROM sources m WHERE m.host = a.host AND m.thread_id = a.session_id) GROUP BY host, session_id"
)
"""Of sessions without a main transcript that of the subagent that was written last."""
_OTHER_SOURCES = (
    "SELECT host, session_id, root, rel, mtime_ns FROM (SELECT host, session_id, root, rel, mtime_ns, row_number() OVER"
    " (PARTITION BY host, session_id ORDER BY thread_id IS session_id DESC, mtime_ns DESC) AS place FROM sources"
    " WHERE session_id IS NOT NULL AND host NOT IN (SELECT value FROM json_each(?))) WHERE place = 1 ORDER BY mtime_ns DESC LIMIT ?"
)
"""Of hosts without a transcript among the newest, and of those that keep sessions in a database: the main thread first."""


class WrittenSession(NamedTuple):
    """One session with the file that holds its main thread (or it among others), as that was when it was captured last."""

    host: str
    session_id: str
    root: str
    rel: str
    mtime_ns: int
    rows: Mapping[str, Any]
    """as of :class:`SessionRow`"""
    main: bool = True
    """the file holds the main thread; False where those of subagents alone were captured"""

    @property
    def archived(self) -> bool:
        """Whether its tables say that it is archived."""
        return self.rows.get("status") == ARCHIVED


def last_written(ledger: Path, limit: int = 400) -> list[WrittenSession]:
    """Return the sessions of a ledger whose main transcript, or whose record in a database, was written last, the last one first.

    Raises sqlite3.Error where it cannot be read.
    """
    with closing(reading(ledger, _PATIENCE)) as connection:
        rows = connection.execute(_WRITTEN.format(_TRANSCRIPTS), [limit]).fetchall()
        known = json.dumps(sorted({row[0] for row in rows}))
        rows += connection.execute(_WRITTEN.format(_OTHER_SOURCES), [known, limit]).fetchall()
        of_subagents = connection.execute(_WRITTEN.format(_OF_SUBAGENTS), [limit]).fetchall()
    found = [WrittenSession(host, session, root, rel, ns, json.loads(counts)) for host, session, root, rel, ns, counts in rows]
    others = {(one.host, one.session_id) for one in found}
    for host, session, root, rel, ns, counts in of_subagents:
        if (host, session) not in others:
            found.append(WrittenSession(host, session, root, rel, ns, json.loads(counts), main=False))
    return sorted(found, key=lambda one: -one.mtime_ns)

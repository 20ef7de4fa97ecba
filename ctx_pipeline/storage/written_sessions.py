"""The sessions whose transcripts were written last, read from the ledger by a hook: with few imports, and without writing."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.storage.connections import reading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PATIENCE = 0.2


class WrittenSession(NamedTuple):
    """One session with the file that holds its main thread, as that was when it was captured last."""

    host: str
    session_id: str
    root: str
    rel: str
    mtime_ns: int
    rows: Mapping[str, Any]
    """as of :class:`SessionRow`"""


def last_written(ledger: Path, limit: int = 400) -> list[WrittenSession]:
    """Return the sessions of a ledger whose main transcript was written last, the last one first.

    Raises sqlite3.Error where it cannot be read.
    """
    with closing(reading(ledger, _PATIENCE)) as connection:
        rows = connection.execute(
            "SELECT s.host, s.session_id, f.root, f.rel, f.mtime_ns, s.rows FROM"
            " (SELECT host, session_id, root, rel, mtime_ns FROM sources WHERE thread_id = session_id"
            " AND (rel LIKE '%.jsonl' OR rel LIKE '%.jsonl.zst')"
            " ORDER BY mtime_ns DESC LIMIT ?) f"
            " JOIN sessions s ON s.host = f.host AND s.session_id = f.session_id ORDER BY f.mtime_ns DESC",
            [limit],
        )
        return [WrittenSession(host, session, root, rel, ns, json.loads(counts)) for host, session, root, rel, ns, counts in rows]

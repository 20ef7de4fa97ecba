"""What was redacted, counted in the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.warehouse.database import connect

if TYPE_CHECKING:
    from pathlib import Path


class Redacted(NamedTuple):
    """How often a detector found something in a session; never what."""

    host: str
    session_id: str
    project: str
    detector: str
    found: int


def counts(warehouse: Path) -> list[Redacted]:
    """Return the redactions of every session by detector. Raises StoreError where no warehouse was built."""
    with connect(warehouse, read_only=True) as connection:
        rows = connection.execute(
            "SELECT r.host, r.session_id, coalesce(s.project, ''), r.detector, r.found FROM redactions r "
            "LEFT JOIN session_overview s ON s.host = r.host AND s.session_id = r.session_id ORDER BY ALL"
        ).fetchall()
    return [Redacted._make(row) for row in rows]

"""Queries behind findings: which sessions there are, and what the warehouse counts over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.storage.warehouse.database import connect

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS_SQL = (
    "SELECT s.host, s.session_id, coalesce(s.title, s.session_id), coalesce(s.project, ''), s.unknown, s.quarantined FROM sessions s"
    " WHERE (? IS NULL OR s.host = ?) AND (? IS NULL OR ? IN (s.project, s.repository))"
    " AND (? IS NULL OR s.last_ts >= ?) AND (? IS NULL OR s.first_ts < ?) ORDER BY 1, 2"
)
"""Host, session, title, project, records of an unknown kind, records that could not be decoded."""

_LESSONS = "SELECT status, CAST(sum(memories) AS BIGINT) FROM memory_counts GROUP BY ALL"


def counted(warehouse: Path) -> dict[str, int]:
    """Return status -> lessons; empty where there is no warehouse."""
    try:
        with connect(warehouse, read_only=True) as connection:
            return dict(connection.execute(_LESSONS).fetchall())
    except CtxError:
        return {}

"""What one session leaves behind, as one record, read from the lake when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.mining.lessons.session_record import Record, record_of
from ctx_pipeline.pipeline.lessons.session_timeline import views

if TYPE_CHECKING:
    from ctx_pipeline.storage import Store

_KINDS = ("prompt", "tool_call", "tool_result", "answer", "injected", "permission")


def lesson_record(store: Store, host: str, session_id: str) -> Record | None:
    """Return the record of a session; None where it is not in the store."""
    row = store.ledger.session(host, session_id)
    if row is None:
        return None
    return next((record_of(view) for view in views(store, row.partition, {session_id}, _KINDS)), None)

"""A store whose normalized cell is written from hand-made session views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import rows_hash
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import NORMALIZED

if TYPE_CHECKING:
    from ctx_pipeline.storage import Store
    from ctx_pipeline_tests.factories.views import Builder

CELL = Cell("claude", "2026-01")


def normalized(store: Store, *sessions: Builder, cell: Cell = CELL, decoder: str = "1") -> Cell:
    """Commit these sessions as the whole content of a normalized cell, as the stage before would with some decoder."""
    rows = {
        "sessions": [s.row() for s in sessions],
        "threads": [t for s in sessions for t in s.threads],
        "events": [e for s in sessions for e in s.events],
        "tool_calls": [c for s in sessions for c in s.calls],
        "model_calls": [c for s in sessions for c in s.model_calls],
    }
    content = rows_hash(row for members in rows.values() for row in members)
    store.lake.replace("normalized", cell, rows, code_version=decoder, input_fp="", content_hash=content)
    for table in NORMALIZED:
        made = rows_hash(rows.get(table, []))
        store.ledger.record_asset(
            f"normalized/{table}", cell, input_fp="", code_version=decoder, content_hash=made, rows=len(rows.get(table, []))
        )
    return cell

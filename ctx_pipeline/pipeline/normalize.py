"""The normalize stage: what raw holds becomes events, sessions, threads, model calls and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.pipeline.ingest import ingest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def normalize(
    store: Store,
    settings: Settings,
    *,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str | tuple[str, str]] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Decode every session whose raw bytes or decoder changed and commit its cell; return the cells with their counts.

    A cell with a session that cannot be decoded, or whose rows break the contract, is
    held and keeps what it had; the others are committed.
    """
    reports = ingest(store, settings, cells=cells, sessions=sessions, progress=progress, capture=False)
    return next(r for r in reports if r.stage == "normalize")

"""Facts, readings and candidates of each cell in one read: a session is decoded once, and its facts are worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.pipeline.derived_partitions import run_cells
from ctx_pipeline.pipeline.facts import plan as making
from ctx_pipeline.pipeline.measure import plan as measuring
from ctx_pipeline.pipeline.mine import plan as mining
from ctx_pipeline.pipeline.reports import UNCHANGED, StageReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def derive(
    store: Store,
    settings: Settings,
    *,
    cells: Collection[Cell] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[StageReport]:
    """Bring facts, readings and candidates up to date and return the reports of the facts, of measuring and of mining.

    The same as one stage after the other. What is stale of them in a cell is made in one
    read: each session's facts first, then its readings, then its candidates.
    """
    stages = {"facts": making(store), "measure": measuring(store, settings), "mine": mining(store)}
    return run_cells(store, stages, cells, progress=progress)


def due(store: Store) -> dict[Cell, int]:
    """Return the cells that lack facts or have something to measure or to mine, with the bytes of their events."""
    stages = (making(store)[0], measuring(store)[0], mining(store)[0])
    found = {}
    for cell in {*store.ledger.cells(), *(cell for stage in stages for asset in stage.versions for cell in store.lake.cells(asset))}:
        if any(stage.stale(cell) for stage in stages):
            manifest = store.lake.manifest("normalized", cell)
            found[cell] = sum(part.bytes for part in manifest.of_table("events")) if manifest else 0
    return found


def merged(first: StageReport, second: StageReport) -> StageReport:
    """Return the report of two halves of one stage; of a cell that both looked at, the half that says more."""
    cells = dict(second.cells)
    for key, cell in first.cells.items():
        if key not in cells or cells[key].status == UNCHANGED:
            cells[key] = cell
    totals = {name: first.totals.get(name, 0) + second.totals.get(name, 0) for name in first.totals | second.totals}
    return StageReport(first.stage, cells, totals, max(first.seconds, second.seconds))

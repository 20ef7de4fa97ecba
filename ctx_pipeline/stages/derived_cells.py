"""What measuring and mining share: which cells of an asset are due, under lease, one cell at a time."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreFull, StoreLocked
from ctx_pipeline.model.codec import rows_hash
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.stages import fingerprints
from ctx_pipeline.stages.reports import DONE, HELD, UNCHANGED, CellReport, StageReport, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store

    Make = Callable[[Cell, Mapping[str, str]], Counter[str]]


COLUMNS = {"events": [n for n in EVENTS.names if n not in ("stream", "generation", "start", "end", "line")]}
"""What measuring and mining read: the place of an event is said by its id already."""


class Due:
    """The assets of one stage, by key, with their code versions and upstream assets."""

    def __init__(self, store: Store, assets: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self._store = store
        self.versions = {key: version for key, (version, _) in assets.items()}
        self.upstream = {key: above for key, (_, above) in assets.items()}

    def fingerprint(self, asset: str, cell: Cell) -> str:
        """Return the fingerprint of what the asset would be made of now in a cell."""
        contents: dict[str, dict[Cell, str]] = {}
        for above in self.upstream[asset]:
            row = self._store.ledger.asset_cell(above, cell)
            contents[above] = {cell: row.content_hash} if row else {}
        return fingerprints.of_cell(contents, self.upstream[asset], cell)

    def stale(self, cell: Cell, *, force: bool = False) -> dict[str, str]:
        """Return the assets that have to be made in a cell (all with ``force``) with the fingerprints of their input."""
        found = {}
        for asset, version in self.versions.items():
            row = self._store.ledger.asset_cell(asset, cell)
            made_of = self.fingerprint(asset, cell)
            if force or row is None or row.code_version != version or row.input_fp != made_of:
                found[asset] = made_of
        return found


def run_cells(
    store: Store,
    stage: str,
    due: Due,
    cells: Collection[Cell] | None,
    make: Make,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    force: bool = False,
) -> StageReport:
    """Make what is due cell by cell and return the report; a cell that raises is held and the others go on.

    ``make(cell, assets)`` gets each asset with the fingerprint of its input, taken before
    anything is read; it commits the assets and returns counts. Assets of a cell are made
    under their leases; what another process made meanwhile is not made again. A cell that
    no session is in any more is made by dropping it. Without ``cells`` all are looked at.
    """
    began = time.perf_counter()
    report = StageReport(stage)
    alive = set(store.ledger.cells())
    chosen = sorted(alive | {cell for asset in due.versions for cell in store.lake.cells(asset)} if cells is None else cells)
    for place, cell in enumerate(chosen, 1):
        held = cell in alive or store.lake.manifest("normalized", cell) is not None
        report.cells[cell.key] = _one(store, due, cell, make, force=force) if held else _dropped(store, due.versions, cell)
        if progress:
            progress(stage, place, len(chosen))
    totals: Counter[str] = Counter()
    for made in report.cells.values():
        totals.update(made.counts)
    report.totals = dict(totals)
    report.seconds = time.perf_counter() - began
    return report


def _one(store: Store, due: Due, cell: Cell, make: Make, *, force: bool) -> CellReport:
    began = time.perf_counter()
    try:
        stale = due.stale(cell, force=force)
        if not stale or store.lake.manifest("normalized", cell) is None:
            return CellReport(UNCHANGED, content_hash=_content(store, due.versions, cell), seconds=time.perf_counter() - began)
        with ExitStack() as leases:
            for asset in sorted(stale):
                leases.enter_context(store.ledger.lease(f"{asset}@{cell.key}"))
            stale = due.stale(cell, force=force)
            counts = make(cell, stale) if stale else Counter[str]()
    except (StoreLocked, StoreFull):
        raise
    except Exception as error:  # noqa: BLE001 - one bad cell holds back itself alone
        return CellReport(HELD, seconds=time.perf_counter() - began, error=reason(error))
    status = DONE if stale else UNCHANGED
    return CellReport(status, dict(counts), _content(store, due.versions, cell), time.perf_counter() - began)


def commit(store: Store, due: Due, asset: str, cell: Cell, *, rows: Mapping[str, Sequence[tuple]], made_of: str) -> None:
    """Make sorted rows, by table, the content of an asset's cell: manifest first, then the ledger.

    A cell that is ``made_of`` nothing (only some sessions were asked for) stays stale.
    """
    version = due.versions[asset]
    content = rows_hash(row for members in rows.values() for row in members)
    store.lake.replace(asset, cell, rows, code_version=version, input_fp=made_of, content_hash=content)
    count = sum(map(len, rows.values()))
    store.ledger.record_asset(asset, cell, input_fp=made_of, code_version=version, content_hash=content, rows=count)


def wanted_kinds(declared: Iterable[Any]) -> tuple[str, ...]:
    """Return the kinds of events that the declarations look at together; empty when one of them wants all."""
    found: set[str] = set()
    for item in declared:
        if "events" in item.reads:
            if not item.kinds:
                return ()
            found.update(item.kinds)
    return tuple(sorted(found))


def _content(store: Store, assets: Iterable[str], cell: Cell) -> str:
    rows = [store.ledger.asset_cell(asset, cell) for asset in assets]
    return fingerprints.combine((row.asset, cell.key, row.content_hash) for row in rows if row)


def _dropped(store: Store, assets: Iterable[str], cell: Cell) -> CellReport:
    """Drop what is left of a cell without sessions."""
    status = UNCHANGED
    for asset in sorted(assets):
        with store.ledger.lease(f"{asset}@{cell.key}"):
            if store.lake.manifest(asset, cell) is not None or store.ledger.asset_cell(asset, cell) is not None:
                store.lake.drop(asset, cell)
                store.ledger.forget_asset(asset, [cell])
                status = DONE
    return CellReport(status)

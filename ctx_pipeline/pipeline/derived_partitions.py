"""What measuring and mining share: which cells of an asset are due, under lease, one cell at a time, read once for all."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from ctx_pipeline.errors import StoreFull, StoreLocked
from ctx_pipeline.model.process.gc_pause import without_collector
from ctx_pipeline.model.tables import EVENTS, TABLES
from ctx_pipeline.pipeline import reports as fingerprints
from ctx_pipeline.pipeline.reports import DONE, HELD, UNCHANGED, CellReport, StageReport, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.storage import Store

    Begin = Callable[[Cell, Collection[str], Mapping[str, Any]], "Visitor"]
    """cell, assets to make in it, stage -> visitor of the stages that see each session of this read before this one"""

    Also = Callable[[Cell, Collection[str]], "Beside | None"]
    """cell, sessions that are about to be read -> who sees them too"""


COLUMNS = {"events": [n for n in EVENTS.names if n not in ("stream", "generation", "start", "end", "line")]}
"""What is read of a table where no columns are named: the place of an event is said by its id already."""


class Due:
    """The assets of one stage, by key, with their code versions and upstream assets."""

    def __init__(self, store: Store, assets: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self._store = store
        self.versions = {key: version for key, (version, _) in assets.items()}
        self.upstream = {key: tuple(above) for key, (_, above) in assets.items()}

    def only(self, asset: str) -> Due:
        """Return one of the assets by itself."""
        return Due(self._store, {asset: (self.versions[asset], self.upstream[asset])})

    def contents(self, cell: Cell) -> dict[str, str]:
        """Return upstream asset -> its content hash in a cell, empty where it has none."""
        return self.made(cell, {above for upstream in self.upstream.values() for above in upstream})

    def made(self, cell: Cell, assets: Iterable[str]) -> dict[str, str]:
        """Return asset -> its content hash in a cell as the ledger has it."""
        rows = {asset: self._store.ledger.asset_cell(asset, cell) for asset in assets}
        return {asset: row.content_hash if row else "" for asset, row in rows.items()}

    def fingerprint(self, asset: str, cell: Cell, contents: Mapping[str, str]) -> str:
        """Return the fingerprint of what the asset is made of in a cell where its upstream assets have these contents."""
        return fingerprints.of_cell({above: {cell: contents[above]} for above in self.upstream[asset]}, self.upstream[asset], cell)

    def stale(self, cell: Cell, *, force: bool = False) -> list[str]:
        """Return the assets that have to be made in a cell, all with ``force``."""
        if force:
            return list(self.versions)
        contents = self.contents(cell)
        rows = {asset: self._store.ledger.asset_cell(asset, cell) for asset in self.versions}
        return [
            asset
            for asset, row in rows.items()
            if row is None or row.code_version != self.versions[asset] or row.input_fp != self.fingerprint(asset, cell, contents)
        ]


class Seeing(Protocol):
    """Says what it has to see of a cell, and sees it session by session."""

    @property
    def sessions(self) -> Collection[str]:
        """Ids of the sessions to see."""

    @property
    def tables(self) -> Collection[str]:
        """Tables whose rows the views are to hold."""

    @property
    def kinds(self) -> Collection[str]:
        """Kinds of events that the views are to hold; empty for all."""

    @property
    def columns(self) -> Mapping[str, Collection[str]]:
        """Columns that the rows are to hold, by table; all of a table that is not named."""

    def see(self, view: SessionView) -> None:
        """Take what is wanted from a session."""


class Beside(Seeing, Protocol):
    """Sees sessions that the stages of a read look at, and never fails."""

    def close(self) -> None:
        """Keep what was taken."""


class Visitor(Seeing, Protocol):
    """One stage in one cell, which commits in the end."""

    @property
    def assets(self) -> Collection[str]:
        """Assets that it makes, of those it was asked for."""

    @property
    def recomputed(self) -> Mapping[str, Mapping[str, int]]:
        """Asset -> why -> sessions whose rows were made, after the commit."""

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Make what was taken the content of the cell, by assets with the fingerprints of their input; return what was counted."""


def run_cells(
    store: Store,
    stages: Mapping[str, tuple[Due, Begin]],
    cells: Collection[Cell] | None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    force: bool = False,
    also: Also | None = None,
) -> list[StageReport]:
    """Make what is due of one or more stages cell by cell and return their reports; a cell that raises is held and the others go on.

    A cell is read once for all the stages. Its assets are made under their leases; what
    another process made meanwhile is not made again. A cell that no session is in any
    more is made by dropping it. Without ``cells`` all are looked at. What ``also`` gives
    is shown the sessions that are read.
    """
    began = time.perf_counter()
    reports = {stage: StageReport(stage) for stage in stages}
    assets = [asset for due, _ in stages.values() for asset in due.versions]
    alive = set(store.ledger.cells())
    chosen = sorted(alive | {cell for asset in assets for cell in store.lake.cells(asset)} if cells is None else cells)
    with without_collector():
        for place, cell in enumerate(chosen, 1):
            held = cell in alive or store.lake.manifest("normalized", cell) is not None
            made = (
                _made(store, stages, cell, also, force=force)
                if held
                else {s: _dropped(store, d.versions, cell) for s, (d, _) in stages.items()}
            )
            for stage, report in made.items():
                reports[stage].cells[cell.key] = report
                if progress:
                    progress(stage, place, len(chosen))
    for stage_report in reports.values():
        totals: Counter[str] = Counter()
        for report in stage_report.cells.values():
            totals.update(report.counts)
        stage_report.totals = dict(totals)
        stage_report.seconds = time.perf_counter() - began
    return list(reports.values())


def _made(
    store: Store, stages: Mapping[str, tuple[Due, Begin]], cell: Cell, also: Also | None = None, *, force: bool
) -> dict[str, CellReport]:
    """Make a cell for all stages at once; when that fails, stage by stage and asset by asset, so that only the one that fails is held."""
    began = time.perf_counter()
    counts: dict[str, Counter[str]] = {}
    failed: dict[str, CellReport] = {}
    written: dict[str, dict[str, Mapping[str, int]]] = {}
    try:
        _together(store, stages, cell, counts, written, also=also, force=force)
    except (StoreLocked, StoreFull):
        raise
    except Exception as error:  # noqa: BLE001 - one bad cell holds back itself alone
        left = {name: stage for name, stage in stages.items() if name not in counts}
        if len(stages) == 1:
            ((name, (due, begin)),) = stages.items()
            stale = due.stale(cell, force=force)
            if len(stale) > 1:
                return {
                    name: _apart([_made(store, {name: (due.only(asset), begin)}, cell, also=also, force=force)[name] for asset in stale])
                }
            why = reason(error)
            return {name: CellReport(HELD, seconds=time.perf_counter() - began, error=why, held=dict.fromkeys(stale, why))}
        failed = {
            name: report for stage in left.items() for name, report in _made(store, dict([stage]), cell, also=also, force=force).items()
        }
    seconds = (time.perf_counter() - began) / max(1, len(counts))
    return {
        name: failed.get(name)
        or CellReport(
            DONE if name in counts else UNCHANGED,
            dict(counts.get(name, {})),
            _content(store, due.versions, cell),
            seconds,
            made=tuple(sorted(written.get(name, ()))),
            recomputed={asset: dict(why) for asset, why in sorted(written.get(name, {}).items())},
        )
        for name, (due, _) in stages.items()
    }


def _apart(reports: Sequence[CellReport]) -> CellReport:
    """Return the report of a stage whose assets were made one by one, since they failed together."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    held = {asset: why for report in reports for asset, why in report.held.items()}
    return CellReport(
        HELD if held else DONE,
        dict(counts),
        seconds=sum(report.seconds for report in reports),
        error="; ".join(f"{asset}: {why}" for asset, why in sorted(held.items())),
        made=tuple(sorted(asset for report in reports for asset in report.made)),
        held=held,
        recomputed={asset: why for report in reports for asset, why in report.recomputed.items()},
    )


def _together(
    store: Store,
    stages: Mapping[str, tuple[Due, Begin]],
    cell: Cell,
    counts: dict[str, Counter[str]],
    written: dict[str, dict[str, Mapping[str, int]]],
    *,
    also: Also | None,
    force: bool,
) -> None:
    """Make what is stale in one read, then what only that made stale in another; add what each stage did.

    ``written`` gets stage -> asset that it wrote -> why -> sessions.
    """
    made: set[str] = set()
    while (waiting := _waiting(stages, cell, made, force=force)) and store.lake.manifest("normalized", cell) is not None:
        with ExitStack() as leases:
            for asset in sorted(asset for assets in waiting.values() for asset in assets):
                leases.enter_context(store.ledger.lease(f"{asset}@{cell.key}"))
            # taken before anything is read: what changes meanwhile makes the assets stale again
            contents = {above: text for name in waiting for above, text in stages[name][0].contents(cell).items()}
            visitors: dict[str, Visitor] = {}
            for name, assets in _waiting(stages, cell, made, force=force).items():
                if held := [asset for asset in assets if asset in waiting.get(name, ())]:
                    visitors[name] = stages[name][1](cell, held, dict(visitors))
            _show(store, cell, list(visitors.values()), also)
            for name, visitor in visitors.items():
                made_of = {asset: stages[name][0].fingerprint(asset, cell, contents) for asset in visitor.assets}
                counted = visitor.commit(made_of)
                counts.setdefault(name, Counter()).update(counted)
                written.setdefault(name, {}).update(visitor.recomputed)
                contents |= stages[name][0].made(cell, visitor.assets)
            made.update(asset for v in visitors.values() for asset in v.assets)
        if not visitors:
            break


def _waiting(stages: Mapping[str, tuple[Due, Begin]], cell: Cell, made: Collection[str], *, force: bool) -> dict[str, list[str]]:
    """Return stage -> stale assets that are not made yet; beside another stage also those that read what it is about to make."""
    stale = {name: [a for a in due.stale(cell, force=force) if a not in made] for name, (due, _) in stages.items()}
    if sum(map(bool, stale.values())) > 1:
        making = {asset for assets in stale.values() for asset in assets}
        for name, (due, _) in stages.items():
            stale[name] = [a for a in due.versions if a in making or (a not in made and making.intersection(due.upstream[a]))]
    return {name: assets for name, assets in stale.items() if assets}


def _show(store: Store, cell: Cell, visitors: Sequence[Visitor], also: Also | None) -> None:
    """Read what the visitors want of a cell, once, and show each its sessions; a view may hold more than one of them asked for."""
    wanting: list[Seeing] = [v for v in visitors if v.sessions]
    asked = {session for v in wanting for session in v.sessions}
    beside = also(cell, asked) if also and asked else None
    if beside and beside.sessions:
        wanting.append(beside)
    if not wanting:
        return
    tables = sorted({table for v in wanting for table in v.tables})
    whole = any(not v.kinds and "events" in v.tables for v in wanting)
    kinds = None if whole else sorted({kind for v in wanting for kind in v.kinds}) or None
    for view in store.lake.read_sessions(cell, asked, tables, _columns(wanting, tables), kinds=kinds):
        for visitor in wanting:
            if view.session_id in visitor.sessions:
                visitor.see(view)
    if beside:
        beside.close()


def _columns(visitors: Iterable[Seeing], tables: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of each table that the visitors want together."""
    chosen = {}
    for table in tables:
        every = COLUMNS.get(table, TABLES[table].names)
        wanted = {name for v in visitors if table in v.tables for name in v.columns.get(table, every)}
        chosen[table] = [name for name in TABLES[table].names if name in wanted]
    return chosen


def wanted_kinds(declared: Iterable[Any]) -> tuple[str, ...]:
    """Return the kinds of events that the declarations look at together; empty when one of them wants all."""
    found: set[str] = set()
    for item in declared:
        if "events" in item.reads:
            if not item.kinds:
                return ()
            found.update(item.kinds)
    return tuple(sorted(found))


def wanted_columns(declared: Iterable[Any]) -> dict[str, set[str]]:
    """Return table -> columns that the declarations look at together; a table of which one of them wants all is not in it."""
    found: dict[str, set[str]] = {}
    whole = set()
    for item in declared:
        for table in item.reads:
            if table in item.columns:
                found.setdefault(table, set()).update(item.columns[table])
            else:
                whole.add(table)
    return {table: names for table, names in found.items() if table not in whole}


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

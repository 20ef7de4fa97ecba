"""Makes the fact tables: the one reading of each session that signals, methods and reports share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.declared import Deferred
from ctx_pipeline.model.source_versions import version_of
from ctx_pipeline.model.tables import FACT_MAKERS, FACTS, FACTS_ASSET, FACTS_VERSION, asset_of
from ctx_pipeline.pipeline.derived_partitions import Due, run_cells
from ctx_pipeline.pipeline.session_rows import SessionInputs, SessionRows, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pipeline.derived_partitions import Begin
    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


# Fact tables and the function that works out the rows of each from a session.


MAKERS: Mapping[str, Callable[[SessionView], list[Any]]] = {table: Deferred(place) for table, place in FACT_MAKERS.items()}
"""Name of each table of :data:`ctx_pipeline.model.tables.FACTS` -> session to rows, in the order of the threads."""


def code_version() -> str:
    """Return the version of all fact tables: as declared, and of the source of their functions and of what tells if they are current."""
    return f"{FACTS_VERSION} {version_of(*FACT_MAKERS.values(), 'ctx_pipeline.storage.lake.manifests:source_hash')}"


SOURCES = tuple(dict.fromkeys(source for table in FACTS.values() for source in table.made_of))
"""Normalized tables that facts are worked out from."""


def make_facts(
    store: Store,
    settings: Settings,  # noqa: ARG001 - every stage takes the same
    *,
    cells: Collection[Cell] | None = None,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Bring the fact tables up to date.

    Rows stay while the session's normalized rows and the version of every fact table
    stay, unless forced; those of other sessions are worked out from the normalized rows, never from raw.
    Totals: the rows of each table and the sessions read.
    """
    return run_cells(store, {"facts": plan(store, force=force)}, cells, progress=progress, force=force)[0]


def plan(store: Store, *, force: bool = False) -> tuple[Due, Begin]:
    """Return what is due of the facts, and what begins a cell of them."""
    due = Due(store, {FACTS_ASSET: (code_version(), tuple(map(asset_of, SOURCES)))})
    return due, lambda cell, _assets, _before: FactsOfCell(store, cell, due.versions[FACTS_ASSET], force=force)


class FactsOfCell:
    """The facts of one cell: those that stay in their parts, and those that are made."""

    assets = (FACTS_ASSET,)

    def __init__(self, store: Store, cell: Cell, version: str, *, force: bool = False) -> None:
        self._store, self._version = store, version
        inputs = SessionInputs(store, cell)
        self._rows = SessionRows(store, FACTS_ASSET, cell, tuple(FACTS))
        same = not force and self._rows.old is not None and self._rows.old.code_version == version
        self._sources = {session: inputs.source(session) for session in inputs.present}
        self.sessions = {s for s, source in self._sources.items() if not (same and self._rows.keep(s, source))}
        self.tables = SOURCES
        self.kinds = () if any(not t.kinds for t in FACTS.values()) else tuple({k for t in FACTS.values() for k in t.kinds})
        self.columns = {source: {n for t in FACTS.values() for n in t.made_of.get(source, ())} for source in SOURCES}

    def see(self, view: SessionView) -> None:
        """Work out the facts of a session; those that the view brings were stored by other code or are of other rows."""
        view.facts.clear()
        self._rows.put(view.session_id, self._sources[view.session_id], {table: MAKERS[table](view) for table in FACTS})

    def noted(self, session_id: str) -> list[str]:
        """Return the hash of what a session's facts are made of and one of each table's rows; none while they are not made."""
        return self._rows.noted(session_id)

    @property
    def recomputed(self) -> dict[str, dict[str, int]]:
        """Asset -> why -> sessions whose rows were made, after the commit."""
        return {FACTS_ASSET: self._rows.recomputed}

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Commit the cell."""
        (manifest,) = commit(self._store, [(self._rows, self._version, made_of[FACTS_ASSET])])
        return Counter({**manifest.rows, "sessions": len(self.sessions)})

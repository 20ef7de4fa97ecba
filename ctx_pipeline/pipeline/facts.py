"""Makes the fact tables: the one reading of each session that signals, methods and reports share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest, rows_hash
from ctx_pipeline.model.declared import Deferred
from ctx_pipeline.model.source_versions import version_of
from ctx_pipeline.model.tables import FACT_MAKERS, FACTS, FACTS_ASSET, FACTS_VERSION, asset_of
from ctx_pipeline.pipeline.derived_partitions import Due, run_cells
from ctx_pipeline.storage.lake import COMPACT_ABOVE, Manifest
from ctx_pipeline.storage.lake.manifests import source_hash

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
    """Return the version of all fact tables: as declared, and of the source of their functions."""
    return f"{FACTS_VERSION} {version_of(*FACT_MAKERS.values())}"


SOURCES = tuple(dict.fromkeys(source for table in FACTS.values() for source in table.made_of))
"""Normalized tables that facts are worked out from."""


def make_facts(
    store: Store,
    settings: Settings,  # noqa: ARG001 - every stage takes the same
    *,
    cells: Collection[Cell] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Bring the fact tables up to date.

    Rows stay while the session's normalized rows and the version of every fact table
    stay; those of other sessions are worked out from the normalized rows, never from raw.
    Totals: the rows of each table and the sessions read.
    """
    return run_cells(store, {"facts": plan(store)}, cells, progress=progress)[0]


def plan(store: Store) -> tuple[Due, Begin]:
    """Return what is due of the facts, and what begins a cell of them."""
    due = Due(store, {FACTS_ASSET: (code_version(), tuple(map(asset_of, SOURCES)))})
    return due, lambda cell, _assets, _before: FactsOfCell(store, cell, due.versions[FACTS_ASSET])


class FactsOfCell:
    """The facts of one cell: those that stay in their parts, and those that are made."""

    assets = (FACTS_ASSET,)

    def __init__(self, store: Store, cell: Cell, version: str) -> None:
        self._store, self._cell, self._version = store, cell, version
        normalized = store.lake.manifest("normalized", cell)
        present = store.lake.read_rows("sessions", cell, "normalized") if normalized else []
        self._sources = {s.session_id: source_hash(normalized, s) for s in present if normalized}
        old = store.lake.manifest(FACTS_ASSET, cell, sound=True)
        self._old = old if old is not None and old.code_version == version else None
        before = self._old.hashes if self._old else {}
        self._hashes = {s: h for s, h in before.items() if h.partition(" ")[0] == self._sources.get(s)}
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in FACTS}
        self.sessions = self._sources.keys() - self._hashes.keys()
        self.tables = SOURCES
        self.kinds = () if any(not t.kinds for t in FACTS.values()) else tuple({k for t in FACTS.values() for k in t.kinds})
        self.columns = {source: {n for t in FACTS.values() for n in t.made_of.get(source, ())} for source in SOURCES}

    def see(self, view: SessionView) -> None:
        """Work out the facts of a session."""
        made = {table: MAKERS[table](view) for table in FACTS}
        self._hashes[view.session_id] = " ".join([self._sources[view.session_id], *(rows_hash(rows)[:16] for rows in made.values())])
        for table, rows in made.items():
            self._rows[table] += rows

    def hashes(self, session_id: str) -> list[str]:
        """Return the hash of what a session's facts are made of and one of each table's rows; none while they are not made."""
        return self._hashes.get(session_id, "").split()

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Commit the cell: the parts of sessions that stayed as they are, and one new part a table."""
        manifest = self._manifest(made_of[FACTS_ASSET])
        self._store.lake.commit(FACTS_ASSET, self._cell, manifest)
        self._store.ledger.record_asset(
            FACTS_ASSET,
            self._cell,
            input_fp=manifest.input_fp,
            code_version=self._version,
            content_hash=manifest.content_hash,
            rows=sum(manifest.rows.values()),
        )
        return Counter({**manifest.rows, "sessions": len(self.sessions)})

    def _manifest(self, made_of: str) -> Manifest:
        lake = self._store.lake
        gone = {s for s, h in (self._old.hashes if self._old else {}).items() if self._hashes.get(s) != h}
        parts = list(self._old.without(gone, tuple(FACTS))) if self._old else []
        with self._store.files.together():
            parts += [lake.write_rows(FACTS_ASSET, self._cell, table, rows) for table, rows in self._rows.items() if rows]
        for table in FACTS:
            mine = [p for p in parts if p.table == table]
            if len(mine) > COMPACT_ABOVE or any(p.dead for p in mine):
                parts = list(lake.compact(FACTS_ASSET, self._cell, parts, table)[0])
        return Manifest.of(
            FACTS_ASSET,
            self._cell,
            parts,
            code_version=self._version,
            input_fp=made_of,
            content_hash=digest(sorted((s, h.partition(" ")[2]) for s, h in self._hashes.items()), size=64),
            hashes=self._hashes,
        )

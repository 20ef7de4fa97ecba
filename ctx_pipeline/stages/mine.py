"""Draws memory candidates from the sessions of each cell, one asset a method."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.memories import StoredCandidate, store_candidate
from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.stages.derived_cells import COLUMNS, Due, commit, run_cells, wanted_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.stages.reports import StageReport
    from ctx_pipeline.storage import Store

CODE_VERSION = "1"


def mine(
    store: Store,
    settings: Settings,  # noqa: ARG001 - every stage takes the same
    *,
    methods: Iterable[str] | None = None,
    cells: Collection[Cell] | None = None,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Bring the candidates of all deterministic methods, or of these, up to date.

    Totals: sessions read, candidates, and errors (a method that raised on a session; it
    gives nothing for it).
    """
    known = discovery.methods()
    for name in methods or ():
        if name not in known:
            raise UnknownName("mining method", name, known)
    chosen = {f"mined/{n}": m for n, m in known.items() if (m.deterministic if methods is None else n in set(methods))}
    tables = tuple(f"normalized/{t}" for t in NORMALIZED)
    due = Due(store, {key: (str(m.version), (*tables, *(f"signals/{f}" for f in m.families))) for key, m in chosen.items()})

    def make(cell: Cell, assets: Mapping[str, str]) -> Counter[str]:
        return _mine_cell(store, due, cell, {a: chosen[a] for a in assets}, assets)

    return run_cells(store, "mine", due, cells, make, progress=progress, force=force)


def _mine_cell(store: Store, due: Due, cell: Cell, methods: dict[str, Method], made_of: Mapping[str, str]) -> Counter[str]:
    counts: Counter[str] = Counter({"sessions": 0, "candidates": 0, "errors": 0})
    found: dict[str, dict[str, StoredCandidate]] = {asset: {} for asset in methods}
    readings = _readings(store, cell, {f for m in methods.values() for f in m.families})
    tables = sorted({t for m in methods.values() for t in m.reads})
    for view in store.lake.read_sessions(cell, None, tables, COLUMNS, kinds=wanted_kinds(methods.values()) or None):
        counts["sessions"] += 1
        view.readings = readings.get(view.session_id, {})
        for asset, method in methods.items():
            drawn, raised = draw(method, view)
            counts["errors"] += raised
            found[asset].update({c.candidate_id: c for c in drawn})
    for asset in methods:
        rows = [found[asset][key] for key in sorted(found[asset])]
        counts["candidates"] += len(rows)
        commit(store, due, asset, cell, rows={"candidates": rows}, made_of=made_of[asset])
    return counts


def draw(method: Method, view: SessionView) -> tuple[list[StoredCandidate], bool]:
    """Return the candidates of one session, and whether the method raised on it.

    Candidates without text or without evidence in the session are left out.
    """
    try:
        drawn = list(method.extract(view))
    except Exception:  # noqa: BLE001 - a plug-in's defect must not take the other sessions with it
        return [], True
    rows = [store_candidate(c, session=view.session, method=method.name, version=method.version) for c in drawn if c.text.strip()]
    return [row for row in rows if row.evidence], False


def _readings(store: Store, cell: Cell, families: Collection[str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for family in families:
        for row in store.lake.read_rows("readings", cell, f"signals/{family}"):
            found.setdefault(row.session_id, {})[row.signal] = row
    return found

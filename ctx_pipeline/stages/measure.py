"""Takes the readings of signals: only of sessions, signals and versions that have none yet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.codec import digest, rows_hash
from ctx_pipeline.model.declared import Reading
from ctx_pipeline.model.readings import StoredReading, store_reading
from ctx_pipeline.stages.derived_cells import COLUMNS, Due, commit, run_cells, wanted_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ctx_pipeline.discovery import Family
    from ctx_pipeline.model.declared import Signal
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.stages.reports import StageReport
    from ctx_pipeline.storage import Store

CODE_VERSION = "1"
_HASHED = frozenset({"events", "tool_calls", "sessions"})
"""Tables whose rows of a session are known by its own hash."""


def measure(
    store: Store,
    settings: Settings,  # noqa: ARG001 - every stage takes the same
    *,
    families: Iterable[str] | None = None,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str] | None = None,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Bring the readings of all families, or these, up to date.

    A reading stays while its session's rows and its signal's version stay, so a new
    signal costs itself alone. One read of a cell serves all families. With ``sessions``
    only these are measured and the cell stays stale; ``force`` measures anew what is
    asked for. Totals: cells' readings, sessions read, and errors (a signal that raised;
    its reading is null and says so).
    """
    known = discovery.families()
    for name in families or ():
        if name not in known:
            raise UnknownName("signal family", name, known)
    chosen = {f"signals/{n}": f for n, f in known.items() if families is None or n in set(families)}
    due = Due(store, {key: (f.code_version, tuple(f"normalized/{t}" for t in f.reads)) for key, f in chosen.items()})

    def make(cell: Cell, assets: Mapping[str, str]) -> Counter[str]:
        made_of = assets if sessions is None else dict.fromkeys(assets, "")
        return _measure_cell(store, due, cell, {a: chosen[a] for a in assets}, made_of, only=sessions, force=force)

    return run_cells(store, "measure", due, cells, make, progress=progress, force=force or sessions is not None)


def _measure_cell(
    store: Store,
    due: Due,
    cell: Cell,
    families: dict[str, Family],
    made_of: Mapping[str, str],
    *,
    only: Collection[str] | None,
    force: bool,
) -> Counter[str]:
    present = {row.session_id: row for row in store.lake.read_rows("sessions", cell, "normalized")}
    kept: dict[str, dict[tuple[str, str], StoredReading]] = {}
    missing: dict[str, list[Signal]] = {}
    inputs: dict[tuple[str, str], str] = {}
    for asset, family in families.items():
        extra = _further_input(store, family, cell)
        kept[asset] = {}
        old = {(r.session_id, r.signal): r for r in store.lake.read_rows("readings", cell, asset)}
        for session_id, session in present.items():
            own = rows_hash([session]) if "sessions" in family.reads else session.content_hash
            read = inputs[asset, session_id] = digest(own, *extra) if extra else own
            chosen = only is None or session_id in only
            for s in family.signals:
                row = old.get((session_id, s.name))
                fresh = row is not None and row.version == s.version and row.input == read
                if row is not None and ((fresh and not (force and chosen)) or not chosen):
                    kept[asset][session_id, s.name] = StoredReading._make(row)
                elif chosen:
                    missing.setdefault(session_id, []).append(s)
    counts: Counter[str] = Counter({"readings": 0, "sessions": len(missing), "errors": 0})
    asset_of = {s.name: asset for asset, family in families.items() for s in family.signals}
    due_signals = {s.name: s for signals in missing.values() for s in signals}
    if missing:
        tables = sorted({t for s in due_signals.values() for t in s.reads})
        kinds = wanted_kinds(due_signals.values())
        for view in store.lake.read_sessions(
            cell, None if len(missing) == len(present) else set(missing), tables, COLUMNS, kinds=kinds or None
        ):
            for s in missing.get(view.session_id, ()):
                reading = take(s, view)
                counts["errors"] += (reading.reason or "").startswith("the signal raised")
                asset = asset_of[s.name]
                read = inputs[asset, view.session_id]
                kept[asset][view.session_id, s.name] = store_reading(s, reading, host=cell.host, session_id=view.session_id, made_of=read)
                counts["readings"] += 1
    for asset in families:
        rows = sorted(kept[asset].values(), key=lambda r: (r.session_id, r.signal))
        commit(store, due, asset, cell, rows={"readings": rows}, made_of=made_of[asset])
    return counts


def take(signal: Signal, view: SessionView) -> Reading:
    """Return what a signal says of a session; one that raises says nothing, and why."""
    try:
        found: Any = signal.function(view)
    except Exception as error:  # noqa: BLE001 - a plug-in's defect must not take the other readings with it
        return Reading(None, reason=f"the signal raised {type(error).__name__}", confidence=0.0)
    if found is None:
        return Reading(None, reason="nothing to measure")
    if not isinstance(found, Reading):
        return Reading(None, reason=f"the signal returned {type(found).__name__}", confidence=0.0)
    return found


def _further_input(store: Store, family: Family, cell: Cell) -> list[str]:
    """Return hashes of the tables that a session's content hash does not cover."""
    rows = [store.ledger.asset_cell(f"normalized/{t}", cell) for t in family.reads if t not in _HASHED]
    return [row.content_hash for row in rows if row]

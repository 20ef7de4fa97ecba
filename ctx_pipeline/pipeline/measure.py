"""Takes the readings of signals: only of sessions, signals and versions that have none yet."""

from __future__ import annotations

import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.declared import Reading
from ctx_pipeline.model.readings import StoredReading, store_reading
from ctx_pipeline.model.tables import FACTS, FACTS_ASSET, asset_of
from ctx_pipeline.pipeline.derived_partitions import Due, run_cells, wanted_columns, wanted_kinds
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.pipeline.session_rows import SessionInputs, SessionRows, commit
from ctx_pipeline.pipeline.signals.signal_inputs import NO_NUMBER, analyses, by_query, observed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ctx_pipeline.discovery import Family
    from ctx_pipeline.model.declared import Signal
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pipeline.derived_partitions import Begin
    from ctx_pipeline.pipeline.facts import FactsOfCell
    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

CODE_VERSION = "2"

RAISED = "the signal raised"
_UNFIT = "the signal returned"
_FAULTS = (RAISED, _UNFIT, NO_NUMBER, "the method returned", "not a finite number")
"""How the reason of a reading begins that a defect of its signal caused"""


def measure(
    store: Store,
    settings: Settings,
    *,
    families: Iterable[str] | None = None,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str] | None = None,
    force: bool = False,
    refresh: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> StageReport:
    """Bring the readings of all families, or these, up to date.

    A reading stays while its session's rows and its signal's code stay, so a new
    signal costs itself alone. One read of a cell serves all families. With ``sessions``
    only these are measured and the cell stays stale; ``force`` measures anew what is
    asked for, ``refresh`` also asks the world again. Totals: cells' readings, sessions
    read, and errors (a signal that raised; its reading is null and says so).
    """
    force = force or refresh
    chosen = {"measure": plan(store, settings, families, sessions=sessions, force=force, refresh=refresh)}
    return run_cells(store, chosen, cells, progress=progress, force=force or sessions is not None)[0]


def plan(
    store: Store,
    settings: Settings | None = None,
    families: Iterable[str] | None = None,
    *,
    sessions: Collection[str] | None = None,
    force: bool = False,
    refresh: bool = False,
) -> tuple[Due, Begin]:
    """Return what is due of all families, or of these, and what begins a cell of them. Raises UnknownName."""
    known = discovery.families()
    for name in families or ():
        if name not in known:
            raise UnknownName("signal family", name, known)
    chosen = {f"signals/{n}": f for n, f in known.items() if families is None or n in set(families)}
    due = Due(store, {key: (f.code_version, tuple(dict.fromkeys(map(asset_of, f.reads)))) for key, f in chosen.items()})

    figures = analyses(settings)

    def begin(cell: Cell, assets: Collection[str], before: Mapping[str, Any]) -> ReadingsOfCell:
        facts: FactsOfCell | None = before.get("facts")
        # a query reads what is committed: it waits for the next read of this cell
        now = [a for a in assets if not (facts and any(s.sql and FACTS.keys() & set(s.reads) for s in chosen[a].signals))]
        measuring = ReadingsOfCell(store, due, cell, {a: chosen[a] for a in now}, facts, only=sessions, force=force)
        measuring.prepare(figures, refresh=refresh)
        return measuring

    return due, begin


class ReadingsOfCell:
    """The readings of some families in one cell: those that stay, and those that are missing."""

    def __init__(
        self,
        store: Store,
        due: Due,
        cell: Cell,
        families: Mapping[str, Family],
        facts: FactsOfCell | None,
        *,
        only: Collection[str] | None,
        force: bool,
    ) -> None:
        self.assets = list(families)
        self._store, self._cell, self._families = store, cell, families
        self._versions = due.versions
        self._only, self._force = only, force
        self._codes = {s.name: s.code_version for family in families.values() for s in family.signals}
        self._asset_of = {s.name: asset for asset, family in families.items() for s in family.signals}
        self._rows = {asset: SessionRows(store, asset, cell, ("readings",)) for asset in families}
        self._errors = {asset: SessionErrors() for asset in families}
        self._missing: dict[str, list[Signal]] = {}
        self._waiting: dict[str, list[str]] = {}
        self._made: dict[tuple[str, str], dict[str, StoredReading]] = {}
        self._sources: dict[tuple[str, str], str] = {}
        self._of_other_version: dict[str, dict[tuple[str, str], StoredReading]] = {}
        self._inputs = SessionInputs(store, cell)
        self._present = self._inputs.present
        self._places = {asset: [1 + at for at, t in enumerate(FACTS) if t in family.reads] for asset, family in families.items()}
        made = store.lake.manifest(FACTS_ASSET, cell) if facts is None and any(self._places.values()) else None
        self._facts = facts.noted if facts else lambda session_id: made.hashes.get(session_id, "").split() if made else []
        unmade = facts.sessions if facts else ()
        for asset in families:
            for session_id in self._present:
                if self._places[asset] and session_id in unmade:
                    self._waiting.setdefault(session_id, []).append(asset)
                else:
                    self._compare(asset, session_id)
        self._counts: Counter[str] = Counter({"readings": 0, "sessions": 0, "errors": 0})
        perhaps = {session: [s for asset in assets for s in families[asset].signals] for session, assets in self._waiting.items()}
        self._perhaps = {session: [*self._missing.get(session, ()), *perhaps.get(session, ())] for session in self._missing | perhaps}
        wanted = {s.name: s for signals in self._perhaps.values() for s in signals}.values()
        self.sessions = set(self._perhaps)
        self.tables = sorted({t for s in wanted for t in s.reads})
        self.kinds = wanted_kinds(wanted)
        self.columns = wanted_columns(wanted)
        self._wanted = wanted

    def prepare(self, figures: Mapping[str, Callable[[SessionView], Any]], *, refresh: bool) -> None:
        """Look outside and run the queries, for the whole cell at once."""
        self._figures = figures
        self._seen = observed(self._store, self._perhaps, self._present, refresh=refresh)
        self._queried = by_query(self._store, self._cell, self._wanted)

    def _compare(self, asset: str, session_id: str) -> None:
        """Keep the readings of a session that stay, and note those that are missing."""
        family, rows, facts = self._families[asset], self._rows[asset], self._facts(session_id)
        own, *further = self._inputs.of(session_id, family.reads)
        further += (facts[place] for place in self._places[asset] if place < len(facts))
        read = self._sources[asset, session_id] = digest(own, *further) if further else own
        chosen = self._only is None or session_id in self._only
        if not chosen:
            rows.keep(session_id)
        elif self._force or not rows.keep(session_id, self._key(asset, session_id)):
            before = {} if self._force else self._before(asset)
            kept = self._made[asset, session_id] = {}
            for s in family.signals:
                row = before.get((session_id, s.name))
                if row is not None and row.input == f"{read}.{self._codes[s.name]}":
                    kept[s.name] = row
                else:
                    self._missing.setdefault(session_id, []).append(s)
            if len(kept) == len(family.signals):
                self._put(asset, session_id)

    def _key(self, asset: str, session_id: str) -> str:
        return digest(self._versions[asset], self._sources[asset, session_id])

    def _before(self, asset: str) -> Mapping[tuple[str, str], StoredReading]:
        """Return (session, signal) -> reading where the cell was made by another version of the family: its other signals stay."""
        if asset not in self._of_other_version:
            old = self._rows[asset].old
            other = old is not None and old.code_version != self._versions[asset]
            found = self._store.lake.read_rows("readings", self._cell, asset, sound=True) if other else []
            self._of_other_version[asset] = {(r.session_id, r.signal): StoredReading._make(r) for r in found}
        return self._of_other_version[asset]

    def _put(self, asset: str, session_id: str) -> None:
        made = self._made[asset, session_id]
        self._rows[asset].put(session_id, self._key(asset, session_id), {"readings": [made[name] for name in sorted(made)]})

    def see(self, view: SessionView) -> None:
        """Take the readings that a session lacks."""
        session_id, host = view.session_id, self._cell.host
        for asset in self._waiting.pop(session_id, ()):
            self._compare(asset, session_id)
        view.analyses, view.seen = self._figures, self._seen.get(session_id, {})
        missing = self._missing.pop(session_id, ())
        for s in missing:
            answer = self._queried.get(s.name)
            reading = answer if isinstance(answer, Reading) else (answer.get(session_id) if answer else None) or take(s, view)
            asset = self._asset_of[s.name]
            self._errors[asset].saw(host, session_id)
            row = _stored(s, reading, host, session_id, f"{self._sources[asset, session_id]}.{self._codes[s.name]}")
            if row.reason is not None and (isinstance(answer, Reading) or row.reason.startswith(_FAULTS)):
                self._counts["errors"] += 1
                self._errors[asset].note(host, session_id, f"{s.name}: {row.reason}")
            self._made[asset, session_id][s.name] = row
        for asset in {self._asset_of[s.name] for s in missing}:
            self._put(asset, session_id)
        self._counts["readings"] += len(missing)
        self._counts["sessions"] += bool(missing)

    def noted(self, session_id: str, asset: str) -> list[str]:
        """Return the hash of what a session's readings of an asset are made of and that of the readings; none while they are not taken."""
        return self._rows[asset].noted(session_id)

    def readings(self, session_id: str, assets: Collection[str]) -> dict[str, StoredReading]:
        """Return signal -> reading of those that were taken of a session now, of some of the assets."""
        return {name: row for asset in assets for name, row in self._made.get((asset, session_id), {}).items()}

    @property
    def recomputed(self) -> dict[str, dict[str, int]]:
        """Asset -> why -> sessions whose rows were made, after the commit."""
        return {asset: rows.recomputed for asset, rows in self._rows.items()}

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Write the readings, by session and signal; a cell of which only some sessions were asked for stays stale."""
        whole = self._only is None
        commit(self._store, [(rows, self._versions[a], made_of[a] if whole else "") for a, rows in self._rows.items()])
        for asset, errors in self._errors.items():
            errors.keep(self._store, f"{asset}@{self._cell.key}", others=True)
        return self._counts


def take(signal: Signal, view: SessionView) -> Reading:
    """Return what a signal says of a session; one that raises says nothing, and why."""
    try:
        # a signal that is a part of another one is measured once
        found: Any = view.once(signal.function)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a plug-in's defect must not take the other readings with it
        return Reading(None, reason=f"{RAISED} {type(error).__name__}{_line(signal, error)}", confidence=0.0)
    if found is None:
        return Reading(None, reason="nothing to measure")
    if not isinstance(found, Reading):
        return Reading(None, reason=f"{_UNFIT} {type(found).__name__}", confidence=0.0)
    return found


def _stored(signal: Signal, reading: Reading, host: str, session_id: str, made_of: str) -> StoredReading:
    """Return the row of a reading, of no value where the signal gave something else than it declares."""
    try:
        return store_reading(signal, reading, host=host, session_id=session_id, made_of=made_of)
    except (TypeError, ValueError, AttributeError) as error:
        unfit = Reading(None, reason=f"{_UNFIT} what cannot be kept: {type(error).__name__}", confidence=0.0)
        return store_reading(signal, unfit, host=host, session_id=session_id, made_of=made_of)


def _line(signal: Signal, error: Exception) -> str:
    """Return the line of the signal's file in which it raised; the message may hold text of a session and stays out."""
    path = getattr(signal.function, "__code__", None)
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if path is not None and frame.filename == path.co_filename:
            found = f", line {frame.lineno}"
    return found

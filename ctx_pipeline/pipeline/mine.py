"""Draws memory candidates from the sessions of each cell, one asset a method."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.memory.consolidation import store_candidate
from ctx_pipeline.model.agent_config import asked_here
from ctx_pipeline.model.memories import StoredCandidate
from ctx_pipeline.model.tables import FACTS_ASSET, NORMALIZED, asset_of
from ctx_pipeline.pipeline.derived_partitions import Due, commit, run_cells, wanted_kinds
from ctx_pipeline.pipeline.lessons.repositories import with_repositories
from ctx_pipeline.pipeline.models import model_judge
from ctx_pipeline.pipeline.reports import reason
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.shell.command_risk import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pipeline.derived_partitions import Begin
    from ctx_pipeline.pipeline.measure import ReadingsOfCell
    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
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
    return run_cells(store, {"mine": plan(store, methods)}, cells, progress=progress, force=force)[0]


def renew(store: Store, settings: Settings) -> None:
    """Mine anew what another version of a method drew: only the version that wrote a candidate knows how to read it."""
    known = {name: method for name, method in discovery.methods().items() if method.deterministic}
    older = [
        n for n, m in known.items() if any(row.code_version != m.code_version for row in store.ledger.asset_cells(f"mined/{n}").values())
    ]
    if older:
        mine(store, settings, methods=older)


def plan(store: Store, methods: Iterable[str] | None = None) -> tuple[Due, Begin]:
    """Return what is due of all deterministic methods, or of these, and what begins a cell of them. Raises UnknownName."""
    known = discovery.methods()
    for name in methods or ():
        if name not in known:
            raise UnknownName("mining method", name, known)
    chosen = {f"mined/{n}": m for n, m in known.items() if (m.deterministic if methods is None else n in set(methods))}
    tables = (*map(asset_of, NORMALIZED), FACTS_ASSET)
    due = Due(store, {key: (m.code_version, (*tables, *(f"signals/{f}" for f in m.families))) for key, m in chosen.items()})
    return due, lambda cell, assets, before: _Mining(store, due, cell, {a: chosen[a] for a in assets}, before.get("measure"))


def candidates(store: Store, method: Method, *, combined: bool = True, errors: SessionErrors | None = None) -> list[StoredCandidate]:
    """Return what a method drew from all sessions, with what they prove together unless ``combined`` is off.

    With ``errors`` a session whose candidates alone make the method raise is noted and left out.
    """
    if method.asks:
        return with_repositories(store, model_judge.candidates(store, method.name))
    asset = f"mined/{method.name}"
    drawn = [StoredCandidate._make(r) for cell in store.lake.manifests(asset) for r in store.lake.read_rows("candidates", cell, asset)]
    drawn = with_repositories(store, drawn)
    combine = method.combine
    if combine is None or not combined:
        return drawn

    def made(some: Sequence[StoredCandidate]) -> list[StoredCandidate]:
        return list(map(guarded, combine(some)))

    return made(drawn) if errors is None else errors.without_bad(drawn, made)


class _Mining:
    """The candidates of some methods in one cell."""

    sessions = None

    def __init__(self, store: Store, due: Due, cell: Cell, methods: Mapping[str, Method], measured: ReadingsOfCell | None) -> None:
        self.assets = list(methods)
        self.tables = sorted({t for m in methods.values() for t in m.reads})
        self.kinds = wanted_kinds(methods.values())
        self.columns: Mapping[str, Collection[str]] = {}
        self._store, self._due, self._cell, self._methods = store, due, cell, methods
        families = {f"signals/{f}" for m in methods.values() for f in m.families}
        self._measured = families.intersection(measured.assets) if measured else set()
        self._measuring = measured
        self._readings = _readings(store, cell, families - self._measured)
        self._found: dict[str, dict[str, StoredCandidate]] = {asset: {} for asset in methods}
        self._errors = {asset: SessionErrors() for asset in methods}
        self._counts: Counter[str] = Counter({"sessions": 0, "candidates": 0, "errors": 0})

    def see(self, view: SessionView) -> None:
        """Draw the candidates of a session; what an agent was asked by a method is nobody's work."""
        self._counts["sessions"] += 1
        if asked_here(view.session.cwd):
            return
        view.readings = self._readings.get(view.session_id, {})
        if self._measuring and self._measured:
            view.readings = view.readings | self._measuring.readings(view.session_id, self._measured)
        for asset, method in self._methods.items():
            drawn, raised = draw(method, view)
            if raised:
                self._counts["errors"] += 1
                self._errors[asset].note(self._cell.host, view.session_id, raised)
            self._found[asset].update({c.candidate_id: c for c in drawn})

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Write the candidates, by id."""
        made = {asset: {"candidates": [found[key] for key in sorted(found)]} for asset, found in self._found.items()}
        self._counts["candidates"] += sum(map(len, self._found.values()))
        commit(self._store, self._due, self._cell, made, made_of=made_of)
        for asset, errors in self._errors.items():
            errors.keep(self._store, f"{asset}@{self._cell.key}")
        return self._counts


def draw(method: Method, view: SessionView) -> tuple[list[StoredCandidate], str]:
    """Return the candidates of one session, and what the method raised on it, else an empty text.

    Candidates without text or without evidence in the session are left out.
    """
    try:
        drawn = list(method.extract(view))
        rows = [store_candidate(c, session=view.session, method=method.name, version=method.version) for c in drawn if c.text.strip()]
    except Exception as error:  # noqa: BLE001 - a plug-in's defect must not take the other sessions with it
        return [], f"the method {method.name}: {reason(error)}"
    return [row for row in rows if row.evidence], ""


def _readings(store: Store, cell: Cell, assets: Collection[str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for asset in assets:
        for row in store.lake.read_rows("readings", cell, asset):
            found.setdefault(row.session_id, {})[row.signal] = row
    return found

"""Draws memory candidates from the sessions of each cell, one asset a method."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.memory.consolidation import store_candidate
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.hook_kinds import asked_here
from ctx_pipeline.model.memories import StoredCandidate
from ctx_pipeline.model.tables import FACTS_ASSET, NORMALIZED, asset_of
from ctx_pipeline.pipeline.derived_partitions import Due, run_cells, wanted_kinds
from ctx_pipeline.pipeline.lessons.repositories import with_repositories
from ctx_pipeline.pipeline.models import model_judge
from ctx_pipeline.pipeline.reports import reason
from ctx_pipeline.pipeline.session_errors import SessionErrors
from ctx_pipeline.pipeline.session_rows import SessionInputs, SessionRows, commit
from ctx_pipeline.shell.command_risk import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pipeline.derived_partitions import Begin
    from ctx_pipeline.pipeline.facts import FactsOfCell
    from ctx_pipeline.pipeline.lessons.repositories import Repositories
    from ctx_pipeline.pipeline.measure import ReadingsOfCell
    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

    Combining = Callable[[Method, Sequence[StoredCandidate]], Iterable[StoredCandidate]]

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
    return run_cells(store, {"mine": plan(store, methods, force=force)}, cells, progress=progress, force=force)[0]


def renew(store: Store, settings: Settings) -> None:
    """Mine anew what another version of a method drew: only the version that wrote a candidate knows how to read it."""
    known = {name: method for name, method in discovery.methods().items() if method.deterministic}
    older = [
        n for n, m in known.items() if any(row.code_version != m.code_version for row in store.ledger.asset_cells(f"mined/{n}").values())
    ]
    if older:
        mine(store, settings, methods=older)


def plan(store: Store, methods: Iterable[str] | None = None, *, force: bool = False) -> tuple[Due, Begin]:
    """Return what is due of all deterministic methods, or of these, and what begins a cell of them. Raises UnknownName."""
    known = discovery.methods()
    for name in methods or ():
        if name not in known:
            raise UnknownName("mining method", name, known)
    chosen = {f"mined/{n}": m for n, m in known.items() if (m.deterministic if methods is None else n in set(methods))}
    tables = (*map(asset_of, NORMALIZED), FACTS_ASSET)
    due = Due(store, {key: (m.code_version, (*tables, *(f"signals/{f}" for f in m.families))) for key, m in chosen.items()})

    def begin(cell: Cell, assets: Collection[str], before: Mapping[str, Any]) -> _Mining:
        facts, measured = before.get("facts"), before.get("measure")
        return _Mining(store, due, cell, {a: chosen[a] for a in assets}, facts=facts, measured=measured, force=force)

    return due, begin


def candidates(
    store: Store,
    method: Method,
    *,
    combined: bool = True,
    errors: SessionErrors | None = None,
    known: Repositories | None = None,
    guard: Callable[[StoredCandidate], StoredCandidate] = guarded,
    combining: Combining | None = None,
) -> list[StoredCandidate]:
    """Return what a method drew from all sessions, with what they prove together unless ``combined`` is off.

    With ``errors`` a session whose candidates alone make the method raise is noted and left
    out. ``known`` says which repository a folder belongs to, where that was asked already,
    ``combining`` what a method makes of its candidates, where it is not asked itself.
    A session that was copied under another id teaches once.
    """
    copied = store.ledger.copied_sessions()
    if method.asks:
        return with_repositories(store, model_judge.candidates(store, method.name), known)
    asset = f"mined/{method.name}"
    drawn = [
        StoredCandidate._make(r)
        for cell in store.lake.manifests(asset)
        # in whatever order their sessions came
        for r in sorted(store.lake.read_rows("candidates", cell, asset), key=itemgetter(0))
    ]
    drawn = [c for c in drawn if (c.host, c.session_id) not in copied] if copied else drawn
    drawn = with_repositories(store, drawn, known)
    if method.combine is None or not combined:
        return drawn
    combine = combining or _combined

    def made(some: Sequence[StoredCandidate]) -> list[StoredCandidate]:
        return list(map(guard, combine(method, some)))

    return made(drawn) if errors is None else errors.without_bad(drawn, made)


def _combined(method: Method, rows: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    return method.combine(rows) if method.combine else rows


class _Mining:
    """The candidates of some methods in one cell: those that stay, and those that are drawn."""

    def __init__(
        self,
        store: Store,
        due: Due,
        cell: Cell,
        methods: Mapping[str, Method],
        *,
        facts: FactsOfCell | None,
        measured: ReadingsOfCell | None,
        force: bool,
    ) -> None:
        self.assets = list(methods)
        self.tables = sorted({t for m in methods.values() for t in m.reads})
        self.kinds = wanted_kinds(methods.values())
        self.columns: Mapping[str, Collection[str]] = {}
        self._store, self._due, self._cell, self._methods, self._force = store, due, cell, methods, force
        self._rows = {asset: SessionRows(store, asset, cell, ("candidates",)) for asset in methods}
        self._families = {asset: [f"signals/{f}" for f in m.families] for asset, m in methods.items()}
        every = {family for families in self._families.values() for family in families}
        self._measured = every.intersection(measured.assets) if measured else set()
        self._measuring, self._facts = measured, facts
        self._made = {asset: made for asset in (FACTS_ASSET, *every) if (made := store.lake.manifest(asset, cell)) is not None}
        self._inputs = SessionInputs(store, cell)
        present = self._inputs.present.keys()
        # of a session that is seen by a stage before this one nobody knows yet what its candidates are made of
        unsettled = (set(facts.sessions) if facts else set()) | (measured.sessions if measured else set())
        self.sessions = unsettled | {s for s in present - unsettled if self._missing(s)}
        self._readings = _readings(store, cell, every, self.sessions)
        self._errors = {asset: SessionErrors() for asset in methods}
        self._counts: Counter[str] = Counter({"sessions": 0, "candidates": 0, "errors": 0})

    def _missing(self, session_id: str) -> dict[str, str]:
        """Keep the candidates of a session that stay; return the assets of the others, with the keys of what they are made of."""
        shared = [*self._inputs.of(session_id, NORMALIZED), *self._noted(FACTS_ASSET, session_id)]
        found = {}
        for asset, families in self._families.items():
            key = digest(self._due.versions[asset], *shared, *(text for f in families for text in self._noted(f, session_id)))
            if self._force or not self._rows[asset].keep(session_id, key):
                found[asset] = key
        return found

    def _noted(self, asset: str, session_id: str) -> list[str]:
        """Return what is noted of a session's rows of an asset upstream: as made now, else as committed."""
        if self._facts and asset == FACTS_ASSET:
            return self._facts.noted(session_id)
        if self._measuring and asset in self._measured:
            return self._measuring.noted(session_id, asset)
        made = self._made.get(asset)
        return made.hashes.get(session_id, "").split()[:-1] if made else []

    def see(self, view: SessionView) -> None:
        """Draw the candidates of a session; what an agent was asked by a method is nobody's work."""
        missing = self._missing(view.session_id)
        if not missing:
            return
        self._counts["sessions"] += 1
        view.readings = self._readings.get(view.session_id, {})
        if self._measuring and self._measured:
            view.readings = view.readings | self._measuring.readings(view.session_id, self._measured)
        for asset, key in missing.items():
            drawn, raised = ([], "") if asked_here(view.session.cwd) else draw(self._methods[asset], view)
            if raised:
                # nothing is kept of it: it is tried again
                self._counts["errors"] += 1
                self._errors[asset].note(self._cell.host, view.session_id, raised)
                continue
            found = {c.candidate_id: c for c in drawn}
            self._rows[asset].put(view.session_id, key, {"candidates": [found[name] for name in sorted(found)]})

    @property
    def recomputed(self) -> dict[str, dict[str, int]]:
        """Asset -> why -> sessions whose rows were made, after the commit."""
        return {asset: rows.recomputed for asset, rows in self._rows.items()}

    def commit(self, made_of: Mapping[str, str]) -> Counter[str]:
        """Write the candidates, by session and id."""
        for made in commit(self._store, [(rows, self._due.versions[a], made_of[a]) for a, rows in self._rows.items()]):
            self._counts["candidates"] += sum(made.rows.values())
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
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a plug-in's defect must not take the other sessions with it
        return [], f"the method {method.name}: {reason(error)}"
    return [row for row in rows if row.evidence], ""


def _readings(store: Store, cell: Cell, assets: Collection[str], sessions: Collection[str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for asset in assets:
        for row in store.lake.read_rows("readings", cell, asset, sessions=sessions):
            found.setdefault(row.session_id, {})[row.signal] = row
    return found

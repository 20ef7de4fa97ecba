"""Sessions as a person picks them: what lies in the homes, and importing chosen ones."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.codec import Plain
from ctx_pipeline.pipeline import capture
from ctx_pipeline.sessions.files import sessions_with_file
from ctx_pipeline.sessions.reports.uncommitted import uncommitted
from ctx_pipeline.sessions.signals import OUTCOMES, measured_in, outcome_of, without_passing_tests
from ctx_pipeline.storage.own_sessions import UNNAMED
from ctx_pipeline.storage.resuming import resuming
from ctx_pipeline.storage.warehouse.session_queries import evidence_files, session_facts
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.periods import day
from ctx_pipeline.usage.repositories import project_names, repository_names
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.own_sessions import Shown
    from ctx_pipeline.storage.warehouse.session_queries import SessionFacts


@dataclass(frozen=True)
class Listed:
    """One session in a home or in the store. ``modified`` is in seconds since 1970."""

    host: str
    session_id: str
    state: str
    """captured, grown (newer bytes in the home), new, or gone (only in the store)"""
    bytes: int
    modified: float
    project: str | None = None
    title: str | None = None
    resume: str = ""
    status: str = "unknown"
    """how it ended, or archived; unknown as well before it is captured"""
    days_left: int | None = None
    """days until its host deletes the transcript; None: never, or it is gone"""
    last: float = 0.0
    """time of its last event in seconds since 1970, 0 where none has a time; see ``last_of_file``"""
    last_of_file: bool = False
    """``last`` is the time of its file: it is not captured, and no record that was read has a time"""
    calls: int = 0
    cost_usd: float | None = None
    """at list prices unless the host recorded a cost; None where no call has a price"""
    active: bool = False
    """a program has it open now"""
    seconds: float | None = None
    """its time as ``ctx work --time`` tells it, where it was sorted by that; None where it has no turn with a time"""
    reading: float | str | None = None
    """what the signal of the filter reads in it, or how often it read or changed the file of the filter"""
    copy_of: str | None = None
    """session for which all its model calls count: it repeats that one's records under another id"""


@dataclass(frozen=True)
class Listing(Plain):
    """Sessions in order, with what was looked through."""

    sessions: list[Listed]
    counts: dict[str, int]
    """host -> how many of ``total`` are its own"""
    hosts: dict[str, str]
    looked: list[str]
    warnings: list[str] = field(default_factory=list)
    total: int = 0
    """sessions that fit, those beyond the limit included"""
    empty: int = 0
    """sessions that were left out because nothing happened in them"""
    outcomes: dict[str, int] = field(default_factory=dict)
    """how tests ended -> how many of ``total``, of sessions without passing tests (:data:`ctx_pipeline.sessions.signals.OUTCOMES`)"""


@dataclass(frozen=True)
class Imported:
    """What became of one session: imported, unchanged or failed."""

    host: str
    session_id: str
    status: str
    events: int = 0
    unknown: int = 0
    error: str | None = None


@dataclass(frozen=True)
class ImportReport(Plain):
    """What became of the chosen sessions."""

    shown = ("imported", "unchanged", "failed", "sessions", "site")

    sessions: list[Imported]
    site: str | None = None

    def _count(self, status: str) -> int:
        return sum(1 for s in self.sessions if s.status == status)

    @property
    def imported(self) -> int:
        """Sessions that were captured and normalized now."""
        return self._count("imported")

    @property
    def unchanged(self) -> int:
        """Sessions that the store already held as they are."""
        return self._count("unchanged")

    @property
    def failed(self) -> int:
        """Sessions whose cell was held back."""
        return self._count("failed")


def _wanted(host: str | None) -> set[str]:
    return {discovery.host(host).key} if host else set(discovery.hosts())


def _seen(store: Store, scan: capture.Scan, wanted: Iterable[str]) -> dict[tuple[str, str], Listed]:
    """Return every session of the homes and of the store by (host, session id)."""
    found: dict[tuple[str, str], Listed] = {}

    def add(host: str, session_id: str, state: str, size: int, modified: float) -> None:
        known = found.get((host, session_id))
        if known:
            rank = ("gone", "captured", "new", "grown")
            state = max(known.state, state, key=rank.index)
            if {known.state, state} == {"captured", "new"}:
                state = "grown"
            size, modified = known.bytes + size, max(known.modified, modified)
        found[host, session_id] = Listed(host, session_id, state, size, modified)

    keys = set(wanted)
    pending = {(p.root, p.rel): p for p in scan.pending}
    for place, source in store.ledger.sources().items():
        if source.host in keys and source.session_id and source.state != "forgotten":
            waiting = pending.pop(place, None)
            state = "gone" if source.state == "vanished" else "grown" if waiting else "captured"
            size = waiting.size if waiting else source.size
            add(source.host, source.session_id, state, size, (waiting.mtime_ns if waiting else source.mtime_ns) / 1e9)
    for p in pending.values():
        declared = discovery.hosts()[p.host]
        if p.host in keys and p.kind in declared.files.session_kinds:
            session_id = _session_of(p, declared)
            if session_id:
                add(p.host, session_id, "new", p.size, p.mtime_ns / 1e9)
    return found


def _session_of(pending: capture.Pending, declared: Host) -> str | None:
    """Return the session that a source not yet captured belongs to, as its first bytes say."""
    identity = capture.identity_of(pending, declared)
    if identity is None or identity.relation == "beside":
        return None
    root = (identity.root_session_id or identity.parent_thread_id) if identity.relation == "part" else None
    return str(root or identity.thread_id)


def _last_changed(store: Store, chosen: list[Listed]) -> dict[tuple[str, str], str | None]:
    """Return (host, session id) -> the files of the change that nothing checked, None where no name of them is known."""
    found = evidence_files(store.lake, UNCHECKED, [(s.host, s.session_id) for s in chosen]) if chosen else {}
    return {(s.host, s.session_id): ", ".join(found.get((s.host, s.session_id), ())) or None for s in chosen}


UNCHECKED = "trajectory_premature_finish_without_validation"


def _times(settings: Settings) -> dict[tuple[str, str], float]:
    """Return (host, session) -> seconds of its time, of sessions that have a turn with a time."""
    from ctx_pipeline.sessions.reports.time_spent import time_spent

    return {place: one.total for place, one in time_spent(settings=settings).sessions.items()}


def list_sessions(
    store: Store,
    settings: Settings,
    *,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    branch: str | None = None,
    since: str | None = None,
    until: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    empty: bool = False,
    signal: str | None = None,
    at_least: float | None = None,
    file: str | None = None,
    unchecked: bool = False,
    not_passed: bool = False,
    left: bool = False,
) -> Listing:
    """Return the sessions that the filters select, at most ``limit``, the last active first or by cost, calls, size, name or signal.

    ``since`` and ``until`` are days on which they were last active. ``signal`` and
    ``at_least`` keep what :func:`ctx_pipeline.sessions.signals.measured_in` selects, the
    largest reading first; ``file`` those that :func:`ctx_pipeline.sessions.files.sessions_with_file`
    names, ``unchecked`` those whose last change of a source file nothing checked, with that file as their reading,
    None where its name is not known, ``not_passed`` those that
    :func:`ctx_pipeline.sessions.signals.without_passing_tests` names, the failed
    ones first and the unknown ones last, ``left`` those of
    :func:`ctx_pipeline.sessions.reports.uncommitted.uncommitted`. ``model`` and ``branch`` keep captured sessions that
    asked the model, or began on the branch.
    Without ``empty`` captured sessions without a prompt, a model call and a tool call
    are left out, and uncaptured ones without a title and a model call.
    Raises UsageError, and UnknownName for a signal, model or branch that is none.
    """
    wanted = _wanted(host)
    zone = settings.timezone
    first, last = moment(day(since, "--since", zone), zone), moment(day(until, "--until", zone), zone, after=True)
    scan = capture.scan(store, settings, thorough=False)
    found = _seen(store, scan, wanted)
    signal = UNCHECKED if unchecked else signal
    readings: dict[tuple[str, str], float | str | None] = {}
    if not_passed or left or signal is not None or file is not None:
        readings |= (
            without_passing_tests(store)
            if not_passed
            else uncommitted(store, settings)
            if left
            else measured_in(store, settings, signal, at_least=at_least)
            if signal is not None
            else sessions_with_file(store, str(file))
        )
        found = {place: one for place, one in found.items() if place in readings}
    facts = session_facts(store.lake)
    found = _of_model_and_branch(found, facts, model, branch)
    folders = store.shown() if found else {}
    keeping = _keeping(store, settings, scan)
    active, copied = _active(settings, wanted), store.ledger.copied_sessions()
    spent = usage("session", settings=settings).by_session() if found else {}
    sort = sort or ("tests" if not_passed else "date" if signal is None else "signal")
    times = _times(settings) if sort == "time" else {}
    seen_now = _first_look(settings, scan, _uncaptured(found, every=project is not None or sort == "name"))
    fitting, left_out = [], 0
    for place, s in found.items():
        known = facts.get(place)
        when = _last(s, facts, seen_now)[0] * 1e6
        named = project_names(known.project, known.repository) if known else {seen_now.get(place, UNNAMED).project}
        if (first is not None and when < first) or (last is not None and when >= last) or (project is not None and project not in named):
            continue
        if not empty and _idle(s, known, seen_now) and not spent.get(place, {}).get("calls"):
            left_out += 1
            continue
        fitting.append(s)

    def order(s: Listed) -> tuple[Any, ...]:
        place = (s.host, s.session_id)
        sums = spent.get(place, {})
        title = facts[place].title if place in facts else seen_now.get(place, UNNAMED).title
        amount = {
            "cost": -sums.get("cost_nano", 0),
            "calls": -sums.get("calls", 0),
            "size": -s.bytes,
            "time": -times.get(place, 0.0),
            "name": (title or "~").lower(),
            "tests": OUTCOMES.index(outcome_of(str(readings[place]))) if not_passed else 0,
        }
        if sort == "signal" and isinstance(reading := readings.get(place), int | float):
            amount["signal"] = -reading
        return (amount.get(sort, 0), -_last(s, facts, seen_now)[0], s.session_id)

    chosen = sorted(fitting, key=order)[:limit]
    if unchecked:
        readings |= _last_changed(store, chosen)
    seen_now |= _first_look(settings, scan, {(s.host, s.session_id) for s in chosen} - facts.keys() - seen_now.keys())
    names = repository_names((f.project, f.repository) for f in facts.values() if f.project)
    shown: list[Listed] = []
    for s in chosen:
        place = (s.host, s.session_id)
        known, sums, unseen = facts.get(place), spent.get(place), seen_now.get(place, UNNAMED)
        project_name, title = (
            (names.get((known.project, known.repository), known.project), known.title) if known else (unseen.project, unseen.title)
        )
        days = None if s.state == "gone" else keeping.get(place)
        priced = sums is not None and sums["unpriced_calls"] < sums["calls"]
        last_active, of_file = _last(s, facts, seen_now)
        shown.append(
            replace(
                s,
                project=project_name,
                title=title,
                resume=resuming(
                    store,
                    s.host,
                    s.session_id,
                    folders[place].cwd if place in folders else unseen.cwd,
                    archived=known is None and unseen.archived,
                ),
                status=known.status if known else "unknown",
                days_left=None if days is None else max(0, int(days - (time.time() - s.modified) / 86_400)),
                last=last_active,
                last_of_file=of_file,
                calls=sums["calls"] if sums else 0,
                active=place in active,
                seconds=times.get(place),
                reading=readings.get(place),
                copy_of=copied.get(place),
                cost_usd=sums["cost_nano"] / 1e9 if sums and priced else None,
            )
        )
    return Listing(
        sessions=shown,
        counts={key: sum(1 for s in fitting if s.host == key) for key in sorted(wanted)},
        hosts={key: discovery.hosts()[key].title for key in sorted(wanted)},
        looked=[str(p) for key in sorted(wanted) for p in settings.candidate_roots(discovery.hosts()[key])],
        warnings=[w.message for w in scan.retention],
        total=len(fitting),
        empty=left_out,
        outcomes=_outcomes(readings[s.host, s.session_id] for s in fitting) if not_passed else {},
    )


def _outcomes(readings: Iterable[Any]) -> dict[str, int]:
    """Return how tests ended -> how many sessions, every kind."""
    counted = Counter(outcome_of(reading) for reading in readings)
    return {outcome: counted[outcome] for outcome in OUTCOMES}


def _of_model_and_branch(
    found: dict[tuple[str, str], Listed], facts: Mapping[tuple[str, str], SessionFacts], model: str | None, branch: str | None
) -> dict[tuple[str, str], Listed]:
    """Return the sessions that asked a model and began on a branch; raises UnknownName for one that no session has."""
    if model is None and branch is None:
        return found
    for kind, name, known in (
        ("model", model, {m for one in facts.values() for m in one.models}),
        ("branch", branch, {one.branch for one in facts.values() if one.branch}),
    ):
        if name is not None and name not in known:
            raise UnknownName(kind, name, known)
    kept = {p for p, one in facts.items() if (model is None or model in one.models) and (branch is None or one.branch == branch)}
    return {place: one for place, one in found.items() if place in kept}


def _active(settings: Settings, wanted: Iterable[str]) -> set[tuple[str, str]]:
    """Return (host, session) of what a program has open now."""
    found = set()
    for key in wanted:
        host = discovery.hosts()[key]
        if host.files.open_sessions is not None:
            found |= {(key, session) for root in settings.roots_of(host) for session in host.files.open_sessions(root)}
    return found


def _uncaptured(found: Mapping[tuple[str, str], Listed], *, every: bool) -> set[tuple[str, str]]:
    """Return the sessions of which the homes hold what the store does not: all, or the newest files."""
    newest = sorted((s for s in found.values() if s.state in {"new", "grown"}), key=lambda s: -s.modified)
    return {(s.host, s.session_id) for s in newest[: None if every else _LOOKED_INTO]}


def _idle(session: Listed, known: SessionFacts | None, seen_now: Mapping[tuple[str, str], Shown]) -> bool:
    """Tell whether nobody asked anything in a session and no tool was called; of an uncaptured one its missing title says so."""
    if known is None:
        place = session.host, session.session_id
        return place in seen_now and seen_now[place].title is None
    return session.state != "grown" and not known.busy


_LOOKED_INTO = 500
"""The newest sessions that are not captured yet, whose files are read for their title and last record."""


def _last(session: Listed, facts: Mapping[tuple[str, str], SessionFacts], seen_now: Mapping[tuple[str, str], Shown]) -> tuple[float, bool]:
    """Return when a session was last active, in seconds since 1970 (0 without a time), and whether that is the time of its file."""
    place = session.host, session.session_id
    known = facts.get(place)
    if known is not None and session.state not in {"new", "grown"}:
        return known.last or 0.0, False
    recorded = seen_now.get(place, UNNAMED).last
    return (session.modified, True) if recorded is None else (recorded / 1e6, False)


def _first_look(settings: Settings, scan: capture.Scan, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Shown]:
    """Return what is shown of sessions that are not captured yet."""
    if not wanted:
        return {}
    from ctx_pipeline.usage.homes import live_usage as live

    paths = {
        p.path
        for p in scan.pending
        if p.kind in discovery.hosts()[p.host].files.session_kinds and (p.host, _session_of(p, discovery.hosts()[p.host])) in wanted
    }
    return live.shown(settings, wanted, [source for source in live.sources(settings) if source.path in paths])


def _keeping(store: Store, settings: Settings, scan: capture.Scan) -> dict[tuple[str, str], int]:
    """Return (host, session) -> days for which the home that it lies in keeps transcripts, the shortest of several."""
    days: dict[tuple[str, str], int] = {}
    for host in discovery.hosts().values():
        for root in settings.roots_of(host) if host.files.retention_days is not None else ():
            kept = host.files.retention_days(root) if host.files.retention_days is not None else None
            if kept is not None:
                days[host.key, str(root)] = kept
    found: dict[tuple[str, str], int] = {}

    def add(host: str, root: str, session_id: str | None) -> None:
        kept = days.get((host, root))
        if kept is not None and session_id:
            found[host, session_id] = min(kept, found.get((host, session_id), kept))

    for source in store.ledger.sources().values():
        if source.state == "live":
            add(source.host, source.root, source.session_id)
    for p in scan.pending:
        if (p.host, p.root) in days and p.kind in discovery.hosts()[p.host].files.session_kinds:
            add(p.host, p.root, _session_of(p, discovery.hosts()[p.host]))
    return found


def import_selected(
    store: Store,
    settings: Settings,
    *,
    host: str | None = None,
    session_ids: tuple[str, ...] = (),
    limit: int | None = None,
    limit_per_host: int | None = None,
    force: bool = False,
    render_page: bool = True,
) -> ImportReport:
    """Capture and normalize just the chosen sessions; one that fails does not stop the others.

    Without ``session_ids`` the newest come first, up to the limits. Raises UnknownName
    for an id that neither a home nor the store knows.
    """
    from ctx_pipeline.pipeline.forget.sessions import keep_forgotten_out
    from ctx_pipeline.pipeline.ingest import ingest

    wanted = _wanted(host)
    scan = capture.scan(store, settings)
    found = _seen(store, scan, wanted)
    chosen = _choose(found, wanted, session_ids, limit, limit_per_host)
    keys = {(s.host, s.session_id) for s in chosen}
    # what was captured and held back is tried again
    held = {(r.host, r.session_id) for r in store.ledger.sessions() if r.captured_fp != r.normalized_fp}
    due = [s for s in chosen if force or s.state in ("new", "grown") or (s.host, s.session_id) in held]
    if due:
        if force:
            capture.capture(store, settings, sessions={(s.host, s.session_id) for s in due}, force=True)
            scan = capture.scan(store, settings)
        with keep_forgotten_out(store, settings):
            ingest(store, settings, scan=scan, sessions={(s.host, s.session_id) for s in due})
    rows = {(r.host, r.session_id): r for r in store.ledger.sessions() if (r.host, r.session_id) in keys}
    lines = []
    for s in chosen:
        row = rows.get((s.host, s.session_id))
        status = "unchanged" if s not in due else "imported"
        if row is None or row.captured_fp != row.normalized_fp:
            lines.append(Imported(s.host, s.session_id, "failed", error="its partition failed; ctx doctor says why"))
            continue
        lines.append(Imported(s.host, s.session_id, status, int(row.rows.get("events", 0)), int(row.rows.get("unknown", 0))))
    site = None
    if render_page and due:
        from ctx_pipeline.pipeline.run import run_stages

        # an empty scan: what else waits in the homes stays there
        site = run_stages(store, settings, scan=capture.Scan()).site
    return ImportReport(lines, site)


def _choose(
    found: dict[tuple[str, str], Listed], wanted: set[str], session_ids: tuple[str, ...], limit: int | None, limit_per_host: int | None
) -> list[Listed]:
    if session_ids:
        chosen = []
        for asked in session_ids:
            fitting = [s for (_, sid), s in found.items() if sid == asked] or [s for (_, sid), s in found.items() if sid.startswith(asked)]
            if len(fitting) != 1:
                raise UnknownName("session", asked, [sid for _, sid in found])
            chosen.append(fitting[0])
        return chosen
    newest = sorted((s for s in found.values() if s.state != "gone"), key=lambda s: (-s.modified, s.session_id))
    if limit_per_host:
        newest = [s for key in sorted(wanted) for s in [s for s in newest if s.host == key][:limit_per_host]]
    return newest[:limit]

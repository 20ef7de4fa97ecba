"""Context rot of sessions: which session is meant, where it is, and what is made of it."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from ctx_pipeline.errors import AmbiguousName, StoreError, UnknownName, UsageError
from ctx_pipeline.rot import store_locations
from ctx_pipeline.rot.store import CtxRotStore, absorb_overflow
from ctx_pipeline.rot.watching import Watched
from ctx_pipeline.sessions.naming import find_session
from ctx_pipeline.usage.periods import day

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ctx_pipeline.sessions.rot_sessions import CapturedSession

    Source = CtxRotStore | CapturedSession


@contextmanager
def session(
    db: str | os.PathLike[str] | None = None, session_id: str | None = None, thread: str | None = None
) -> Iterator[tuple[Source, str]]:
    """Give the store that holds a session, and the session's full id.

    With ``db`` only that store is looked into. Else: the callback stores that are known
    (the default one and those that were announced), then the captured sessions of every
    host. Without an id the latest session; the first characters of an id are enough.
    ``thread`` names another context window of a captured session than the main one.
    Raises StoreError where there is no store, UnknownName with the nearest ids, UsageError
    for a thread of a callback store.
    """
    known: list[str] = []
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            if session_id is None:
                found = store.get_latest_session_id()
            else:
                ids = store.get_session_ids()
                known += ids
                found = _fitting(session_id, ids)
            if found is not None and thread is None:
                yield store, found
                return
            if found is not None and (session_id is not None or db is not None):
                raise UsageError("a session of a callback store has no threads", hint="leave --thread out")
    if db is None:
        captured = _captured(session_id, known)
        if captured is not None:
            yield captured if thread is None else captured.of(_thread(captured, thread)), captured.session_id
            return
    if session_id is None:
        raise StoreError("No sessions found.", hint="run a program with CtxRotCallback, or ctx run for the sessions of your agents")
    raise UnknownName("session", session_id, known)


def _paths(db: str | os.PathLike[str] | None) -> list[Path]:
    """Return the stores that are looked into, after what waits for them in spill files was taken in."""
    paths = [store_locations.store_path(db)] if db is not None else stores()
    for path in paths:
        absorb_overflow(path)
    return paths


def stores() -> list[Path]:
    """Return the callback stores that exist: the default one first, then those that announced themselves."""
    from ctx_pipeline import discovery

    settings = store_locations.settings()
    found = [store_locations.store_path(chosen=settings)]
    for host in discovery.hosts().values():
        if host.announced:
            for root in settings.roots_of(host):
                inside = sorted(root.iterdir()) if root.is_dir() else [root]
                found += [p for p in inside if host.classify(p.name) or p == root]
    return [p for p in dict.fromkeys(found) if p.is_file()]


def watched(db: str | os.PathLike[str] | None = None) -> Watched:
    """Return the stores to watch: the one that is named, else all that are known, now and later."""
    return Watched(stores if db is None else lambda: [store_locations.store_path(db)])


def stored_session(db: str | os.PathLike[str] | None, session_id: str) -> str:
    """Return the full id of a session of a callback store. Raises UnknownName with the nearest ids."""
    known: list[str] = []
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            known += store.get_session_ids()
    found = _fitting(session_id, known)
    if found is None:
        raise UnknownName("session", session_id, known)
    return found


def selected(
    store: CtxRotStore,
    *,
    since: str | None = None,
    until: str | None = None,
    state: str | None = None,
    timezone: str | None = None,
) -> list[str]:
    """Return the sessions of a store that began within bounds and ended in a state, the oldest first.

    ``since`` and ``until`` are days of the time zone (both whole), or ISO 8601 times.
    Raises UsageError for a day that is none.
    """
    zone = timezone or store_locations.settings().timezone
    return store.get_session_ids(_bound(since, zone, end=False), _bound(until, zone, end=True), state)


def _bound(text: str | None, zone: str | None, *, end: bool) -> str | None:
    if text is None:
        return None
    try:
        if "T" not in text and ":" not in text:
            named = day(text, "--until" if end else "--since", zone) or date.min
            start = named + timedelta(days=1 if end else 0)
            moment = datetime(start.year, start.month, start.day, tzinfo=ZoneInfo(zone) if zone else None).astimezone(UTC)
            moment -= timedelta(microseconds=1 if end else 0)
        else:
            moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, KeyError) as error:
        raise UsageError(f"{text!r} is neither a day nor a time", hint="write 2026-11-21 or 2026-11-21T10:00:00+00:00") from error
    return moment.isoformat()


def _fitting(wanted: str, ids: Sequence[str]) -> str | None:
    if wanted in ids:
        return wanted
    fitting = [i for i in ids if i.startswith(wanted)] if wanted else []
    return fitting[0] if len(fitting) == 1 else None


def _thread(captured: CapturedSession, wanted: str) -> str:
    found = _fitting(wanted, list(captured.threads))
    if found is None:
        raise UnknownName("thread", wanted, captured.threads)
    return found


def windows(source: Source, session_id: str) -> list[dict[str, Any]]:
    """Return thread_id, kind, agent and analysis of every context window of a session; one of a callback store has one."""
    from ctx_pipeline.rot.analysis import analyze_session

    if isinstance(source, CtxRotStore):
        return [{"thread_id": session_id, "kind": "main", "agent": None, "analysis": analyze_session(source, session_id)}]
    return [
        {"thread_id": t.thread_id, "kind": t.kind, "agent": t.agent, "analysis": analyze_session(source.of(t.thread_id), session_id)}
        for t in source.threads.values()
    ]


def _captured(session_id: str | None, known: list[str]) -> CapturedSession | None:
    """Return a session of the pipeline's own store, None when it has none that fits; ids that were seen are added."""
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.sessions.rot_sessions import CapturedSession
    from ctx_pipeline.storage.reader import reading

    try:
        with reading() as (store, _):
            rows = store.ledger.sessions()
            known += [r.session_id for r in rows]
            if session_id is None:
                row = max(rows, key=lambda r: (r.month, r.first_own_ts or 0), default=None)
            else:
                row = store.ledger.session(*find_session(store, session_id))
            if row is None:
                return None
            tables = ("events", "tool_calls", "model_calls", "threads")
            views = store.lake.read_sessions(Cell(row.host, row.month), session_ids=[row.session_id], tables=tables)
            view = next(iter(views), None)
    except (StoreError, UnknownName) as error:
        if isinstance(error, AmbiguousName):
            raise
        return None
    return None if view is None else CapturedSession(view)


def exported(
    db: str | os.PathLike[str] | None,
    form: str,
    *,
    ids: Sequence[str] = (),
    everything: bool = False,
    since: str | None = None,
    until: str | None = None,
    state: str | None = None,
) -> Iterator[str]:
    """Yield the chosen sessions as lines of JSON, secrets replaced, each read when it is its turn.

    Ids may name captured sessions of any host; filters look into the callback stores.
    """
    from ctx_pipeline import __version__
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.rot import export
    from ctx_pipeline.rot.redacting import redacted

    redact = Redactor().redact

    def lined(source: Source, found: str) -> str:
        return redacted(export.line(export.record(source, found, __version__, form)), redact)

    if ids or not (everything or since or until or state):
        for wanted in ids or (None,):
            with session(db, wanted) as (source, found):
                yield lined(source, found)
        return
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            for found in selected(store, since=since, until=until, state=state):
                yield lined(store, found)


def overview(db: str | os.PathLike[str] | None = None, limit: int = 200) -> list[dict[str, Any]]:
    """Return the sessions of the callback stores with their totals, the newest first; each names its store."""
    rows: list[dict[str, Any]] = []
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            rows += [{**row, "store": str(path)} for row in store.get_feed_sessions(limit)]
    return sorted(rows, key=lambda r: r["started_at"], reverse=True)[:limit]


def deep_cost(store: Source, session_id: str, models: tuple[str, str], max_iterations: int, max_llm_calls: int) -> tuple[int, float | None]:
    """Return the tokens that a deep analysis uses at most, and their price in dollars, None where a model has no known price."""
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.rot.deep.running import estimate

    most = estimate(store, session_id, max_iterations, max_llm_calls)
    book = PriceBook.of(store_locations.settings())
    nano = 0
    for model, sent, got in ((models[0], most.main_in, most.main_out), (models[1], most.sub_in, most.sub_out)):
        cost, _ = book.cost_nano(model, None, input=sent, output=got)
        if cost is None:
            return sum(most), None
        nano += cost
    return sum(most), nano / 1e9

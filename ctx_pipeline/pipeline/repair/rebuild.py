"""The ledger made anew from raw: what is lost is named, and rows whose raw is lost stay."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.codec import plain
from ctx_pipeline.model.tables import SESSIONS
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.forget import shared_files
from ctx_pipeline.pipeline.forget.sessions import remembered
from ctx_pipeline.pipeline.ingest import LEASE as INGEST_LEASE
from ctx_pipeline.storage import blocked, store_marker, temporary
from ctx_pipeline.storage.connections import reading
from ctx_pipeline.storage.journal import NAME, SCHEMA, Journal
from ctx_pipeline.storage.ledger.rebuilding import Kept
from ctx_pipeline.storage.ledger.rows import REPEATED
from ctx_pipeline.storage.ledger.sessions import thread_hash
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake import Manifest
    from ctx_pipeline.storage.ledger import Ledger


# The journal begun anew: what can still be read of a lost one, and what was forgotten.


LEASE = "journal"

_OLDEST = "SELECT id, at, actor, kind, schema, payload FROM facts ORDER BY id"
_Row = tuple[str, str, str, int, str]


class NewJournal(NamedTuple):
    """What became of the lost journal."""

    facts: int
    """read from it and kept"""
    changed: int
    """left out, since they are not as they were written"""
    tombstones: int
    """taken from the file beside it, which keep forgotten sessions out"""
    aside: str
    """name of the old file, empty where there is none"""

    def __str__(self) -> str:
        """Return it as a line of text."""
        changed = f"{self.changed:,} left out that are not as they were written, " if self.changed else ""
        return f"new journal: {self.facts:,} facts recovered from the lost one, {changed}{self.tombstones:,} tombstones from beside it"


def new_journal(store: Store) -> NewJournal:
    """Begin the journal anew with all that can be read of the lost one and the tombstones beside it; the old file is kept.

    A journal that can be read is left alone: StoreError. Of two processes the second finds it made.
    """
    with store.ledger.lease(LEASE, wait=_WAIT):
        return _begun_anew(store, store.home / NAME)


def _begun_anew(store: Store, path: Path) -> NewJournal:
    changed = {fact for fact, _ in changed_facts(store)}
    if not changed and journal_sound(store) and path.exists() and whole(path):
        raise StoreError(f"{path} can be read", hint="it stays as it is", path=str(path))
    store.journal.close()
    store.__dict__.pop("journal", None)
    known = _readable(path, changed)
    seen = {(at, kind) for at, _, kind, _, _ in known}
    beside = [
        (at, "ctx", kind, SCHEMA, json.dumps(payload))
        for at, kind, payload in store_marker.facts_beside_journal(store.home)
        if (at, kind) not in seen
    ]
    aside = set_aside(path)
    with closing(Journal(path, anew=True)) as journal:
        journal.restore([*beside, *known])
    return NewJournal(len(known), len(changed), len(beside), aside)


def changed_facts(store: Store) -> list[tuple[int, str]]:
    """Return (id, kind) of the facts of the journal that are not as they were written; none where it cannot be read."""
    try:
        return store.journal.contradicting()
    except StoreError:
        return []


def journal_sound(store: Store) -> bool:
    """Tell whether the journal is there and can be read, or was never begun."""
    try:
        store.journal.demand()
    except StoreDamaged:
        return False
    return True


def whole(path: Path) -> bool:
    """Ask SQLite whether a file is a database without damage that it sees."""
    try:
        with closing(reading(path)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


SET_ASIDE = ".damaged-"
"""Stands in the name of what was set aside, before the time."""


def set_aside(path: Path) -> str:
    """Rename a file, and the log of a database with it, after the time; return its new name, empty where there is none."""
    day = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    moved = ""
    for suffix in ("-shm", "-wal", ""):
        old = path.with_name(path.name + suffix)
        if old.exists():
            moved = f"{path.name}{SET_ASIDE}{day}{suffix}"
            mode = 0o700 if old.is_dir() else 0o600
            old.rename(path.with_name(moved)).chmod(mode)
    return moved


def _readable(path: Path, changed: Collection[int]) -> list[_Row]:
    """Return the facts before and after what is damaged, in order, without those that were ``changed``."""
    found: dict[int, _Row] = {}
    for query in (_OLDEST, f"{_OLDEST} DESC") if path.exists() else ():
        try:
            with closing(reading(path)) as old:
                for number, *row in old.execute(query):
                    found[number] = tuple(row)
        except sqlite3.Error:
            continue
    return [row for number, row in sorted(found.items()) if number not in changed and _is_fact(row)]


def _is_fact(row: tuple[Any, ...]) -> bool:
    try:
        return isinstance(json.loads(row[4]), dict) and all(isinstance(text, str) for text in row[:3]) and isinstance(row[3], int)
    except (ValueError, TypeError):
        return False


_WAIT = 30.0
"""Seconds: a person waits for another writer."""

_LOCK = ".rebuild.lock"
_LISTED = 20
_COPY = " | copy: "
"""In ``rule``: the parser saw a call of the session's own, the ledger made it a copy."""

_Session = tuple[str, str]
_Needs = dict[tuple[str, int], int]


class Remaining(NamedTuple):
    """Sessions and what the tables say of their calls, each call once."""

    sessions: int
    calls: int = 0
    tokens: int = 0
    cost_nano: int = 0

    def __str__(self) -> str:
        """Return it as a line of text."""
        cost = self.cost_nano / 1e9
        return f"{self.sessions:,} sessions, {self.calls:,} model calls, {self.tokens:,} tokens, ${cost:,.2f}"


class Unread(NamedTuple):
    """A raw object that cannot be read."""

    path: str
    reason: str
    stream: str
    start: int
    end: int
    sessions: list[_Session]
    """that the tables or the former ledger know it to belong to; none where nobody knows"""


@dataclass(slots=True)
class Rebuild:
    """What a rebuild did."""

    sources: int
    segments: int
    before: Remaining
    after: Remaining
    unread: list[Unread] = field(default_factory=list)
    kept: list[_Session] = field(default_factory=list)
    """sessions whose raw is lost and whose rows stay"""
    gone: list[_Session] = field(default_factory=list)
    """sessions that the former ledger or the tables had and of which nothing is left"""
    unknown: list[str] = field(default_factory=list)
    """parts of the tables that cannot be read: the totals are without them"""
    spare: list[str] = field(default_factory=list)

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """Raw objects that could not be used, and why."""
        return [(one.path, one.reason) for one in self.unread]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        shown = {name: plain(getattr(self, name)) for name in ("before", "after", "unread", "kept", "gone")}
        return {**shown, "unreadable_parts": self.unknown}

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        found = [f"ledger made anew from {self.segments:,} raw segments of {self.sources:,} sources"]
        found += [f"  before: {self.before}", f"  after:  {self.after}"]
        found += [f"  the totals are without {path}, which cannot be read" for path in self.unknown]
        for one in self.unread[:_LISTED]:
            whose = ", ".join(f"{host} {session}" for host, session in one.sessions) or "of a session that nobody knows"
            found.append(f"  raw lost: {one.path}, stream {one.stream}, bytes {one.start:,} to {one.end:,}, {whose}: {one.reason}")
        if len(self.unread) > _LISTED:
            found.append(f"  and {len(self.unread) - _LISTED} more raw objects (--json has all)")
        found += [f"  kept as it was made before, since raw does not hold all of it: {host} {session}" for host, session in self.kept]
        found += [f"  lost, with no rows of it left: {host} {session}" for host, session in self.gone]
        return found


def rebuild_ledger(store: Store, settings: Settings, *, hosts: Mapping[str, Host] | None = None) -> Rebuild:
    """Replace the ledger by one made of raw alone; what was derived is made again by the next run.

    Every raw object is checked by its hash. Sessions whose raw does not hold all that
    their rows were made of keep these rows until it does. The tombstones of the old
    ledger, if it can be read, and of the journal stay. The new file takes the old one's
    place in one rename; of several processes one does it at a time.
    """
    with _one_at_a_time(store):
        return _rebuild(store, settings, hosts)


def rebuild_lost_ledger(store: Store, settings: Settings) -> Rebuild | None:
    """Do what :func:`rebuild_ledger` does unless another process has done it meanwhile: None where the ledger can be read."""
    with _one_at_a_time(store):
        if _sound(store):
            return None
        store.files.write(store_marker.REBUILT, b"")
        return _rebuild(store, settings, None)


def _rebuild(store: Store, settings: Settings, hosts: Mapping[str, Host] | None) -> Rebuild:
    known = discovery.hosts() if hosts is None else hosts
    with _alone(store):
        former = _former(store)
        fresh = store.home / temporary.name()
        try:
            return _rebuilt(store, settings, known, former, fresh)
        finally:
            _drop(fresh)


class _Former(NamedTuple):
    """What the old ledger says, where it can be read."""

    readable: bool
    sessions: set[_Session]
    needs: dict[_Session, _Needs]
    rels: dict[str, str]


def _rebuilt(store: Store, settings: Settings, hosts: Mapping[str, Host], former: _Former, fresh: Any) -> Rebuild:
    from ctx_pipeline.storage.ledger import Ledger

    stones = {*_stones(store), *_remembered(store)}
    with closing(Ledger(fresh, first_month=settings.first_month)) as made:
        if stones:
            made.remember_forgotten(stones)
        found = made.rebuild(store.files, hosts=hosts, redact=capture.redactor_of(settings).redact)
        if journal_sound(store):
            shared_files.recognize(store, made, hosts)
        tables = _Tables(store)
        needs = _needs(former, tables, made)
        lost = _uncovered(needs, made, {(stone[0], stone[2]) for stone in stones})
        kept = [one for session, missing in lost.items() if (one := tables.kept_session(session, missing)) is not None]
        made.keep_lost(kept)
        made.compact()
        after = {(s.host, s.session_id) for s in made.sessions()}
    unread = [_unread(path, reason, needs) for path, reason in found.damaged]
    store.close()
    store.__dict__.pop("ledger", None)
    _drop(store.home / "ledger.db", keep=True)
    blocked.make_way(store.home / "ledger.db")
    os.replace(fresh, store.home / "ledger.db")  # noqa: PTH105 - atomic, as everywhere in the store
    for path in found.contradicting:
        raw.set_aside(store.files, path)
    before = former.sessions | tables.sessions
    forgotten = {(host, name) for host, kind, name, _ in stones if kind == "thread"}
    return Rebuild(
        found.sources,
        found.segments,
        tables.session_totals(before),
        tables.session_totals(after),
        unread,
        sorted((one.host, one.session_id) for one in kept),
        sorted(s for s in before - after if (s[0], thread_hash(*s)) not in forgotten),
        tables.unknown,
        found.spare,
    )


def _former(store: Store) -> _Former:
    """Return what the old ledger knew; of one that cannot be read nothing."""
    try:
        ledger = store.ledger
        sources = ledger.sources().values()
        return _Former(True, {(s.host, s.session_id) for s in ledger.sessions()}, ledger.needs(), {s.stream: s.rel for s in sources})
    except StoreError:
        return _Former(False, set(), {}, {})


class _Tables:
    """What the normalized tables hold, as far as they can be read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.unknown: list[str] = []
        """parts and manifests that cannot be read"""
        self._manifests = list(self._readable())
        self.sessions: set[_Session] = {
            (m.host, session) for m in self._manifests for part in m.of_table("sessions") for session in part.live
        }

    def _readable(self) -> Iterator[Manifest]:
        lake = self._store.lake
        for damage in lake.damages("normalized"):
            self.unknown.append(damage.path)
        yield from lake.manifests("normalized", sound=True).values()

    def needs(self) -> dict[_Session, _Needs]:
        """Return session -> (stream, generation) -> bytes that its events were read from."""
        found: dict[_Session, _Needs] = {}
        for manifest in self._manifests:
            for part in manifest.of_table("events"):
                rows = self._store.lake.read_arrow(part, ("session_id", "stream", "generation", "end"))
                grouped = rows.group_by(["session_id", "stream", "generation"]).aggregate([("end", "max")]).to_pylist()
                for row in grouped:
                    if row["stream"]:
                        found.setdefault((manifest.host, row["session_id"]), {})[row["stream"], row["generation"]] = row["end_max"]
        return found

    def session_totals(self, sessions: Collection[_Session]) -> Remaining:
        """Return the totals of some sessions."""
        import pyarrow as pa
        import pyarrow.compute as pc

        sums: Counter[str] = Counter()
        tokens = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
        for manifest in self._manifests:
            chosen = pa.array([session for host, session in sessions if host == manifest.host], pa.string())
            for part in manifest.of_table("model_calls"):
                rows = self._store.lake.read_arrow(part, ("session_id", "owner", "cost", *tokens))
                mine = pc.is_in(rows.column("session_id").cast(pa.string()), value_set=chosen)
                rows = rows.filter(pc.and_(rows.column("owner"), mine))
                sums["calls"] += rows.num_rows
                sums["cost"] += pc.sum(rows.column("cost")).as_py() or 0
                sums["tokens"] += sum(pc.sum(rows.column(name)).as_py() or 0 for name in tokens)
        return Remaining(len(sessions), sums["calls"], sums["tokens"], sums["cost"])

    def kept_session(self, session: _Session, missing: list[tuple[str, int, int]]) -> Kept | None:
        """Return what the ledger is told of a session whose rows stay; None where it has none."""
        host, session_id = session
        at = {name: n for n, name in enumerate(SESSIONS.names)}
        for manifest in self._manifests:
            if manifest.host != host or not any(session_id in part.live for part in manifest.of_table("sessions")):
                continue
            rows = self._store.lake.read_rows("sessions", manifest.partition, "normalized", sound=True)
            row = next((r for r in rows if r.session_id == session_id), None)
            if row is None:
                continue
            calls = [
                (call.call_key, call.ts)
                for call in self._store.lake.read_rows("model_calls", manifest.partition, "normalized", sound=True)
                if call.session_id == session_id and (call.owner or _COPY in call.rule)
            ]
            counts = {name: row[at[name]] for name in REPEATED}
            return Kept(host, session_id, manifest.month, missing, row.content_hash, counts, calls, row.parent_session)
        return None


def _needs(former: _Former, tables: _Tables, made: Ledger) -> dict[_Session, _Needs]:
    """Return what raw must hold of each session that has rows: what the old ledger says, else what its events were read from.

    The events of a packed file count unpacked bytes: of it there must be any.
    """
    rels = {**former.rels, **{s.stream: s.rel for s in made.sources().values()}}
    found = {session: former.needs[session] for session in tables.sessions if session in former.needs}
    for session, needs in tables.needs().items():
        if session not in found:
            found[session] = {key: 1 if rels.get(key[0], "").endswith(".zst") else end for key, end in needs.items()}
    return found


def _uncovered(
    needs: Mapping[_Session, _Needs], made: Ledger, stones: Collection[tuple[str, str]]
) -> dict[_Session, list[tuple[str, int, int]]]:
    """Return the sessions of which raw does not hold all that it must, with that; what was forgotten is none of them."""
    held = made.stored_bytes()
    found: dict[_Session, list[tuple[str, int, int]]] = {}
    for (host, session), mine in needs.items():
        missing = [(*key, end) for key, end in sorted(mine.items()) if held.get(key, 0) < end]
        names = {thread_hash(host, session), *(stream for stream, _, _ in missing)}
        if missing and not any((host, name) in stones for name in names):
            found[host, session] = missing
    return found


def _unread(path: str, reason: str, needs: Mapping[_Session, _Needs]) -> Unread:
    reason = reason.removeprefix(f"{path} ")
    named = raw.range_of(path)
    if named is None:
        return Unread(path, reason, "", 0, 0, [])
    _, stream, generation, start, end = named
    whose = sorted(session for session, mine in needs.items() if (stream, generation) in mine)
    return Unread(path, reason, stream, start, end, whose)


def _stones(store: Store) -> list[Any]:
    try:
        return list(store.ledger.tombstones())
    except StoreError:
        return []


def _remembered(store: Store) -> list[Any]:
    """Return the tombstones of the journal and of the file beside it; a lost journal does not bring anything back."""
    from ctx_pipeline.storage.ledger import Tombstone

    found = [Tombstone(*stone) for stone in store_marker.stones_of(store_marker.facts_beside_journal(store.home))]
    return found + (remembered(store) if journal_sound(store) else [])


def _sound(store: Store) -> bool:
    try:
        store.ledger.sources()
        store.ledger.sessions()
    except StoreDamaged:
        return False
    return whole(store.home / "ledger.db")


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Keep every writer of raw and of the tables out; a damaged ledger lets nobody in anyway."""
    with ExitStack() as leases:
        try:
            for name in (capture.LEASE, INGEST_LEASE):
                leases.enter_context(store.ledger.lease(name, wait=_WAIT))
        except StoreDamaged:
            pass
        yield


@contextmanager
def _one_at_a_time(store: Store) -> Iterator[None]:
    """Let one process at a time make the ledger anew: a lost one has no leases."""
    import fcntl

    path = store.home / _LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"{store.home / 'ledger.db'} is lost and {store.home} cannot be written: {error.strerror}",
            hint="make the folder writable, then: ctx doctor --rebuild-ledger",
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _drop(path: Any, *, keep: bool = False) -> None:
    for suffix in ("-wal", "-shm") if keep else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)

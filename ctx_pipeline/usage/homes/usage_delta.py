"""What the homes hold beyond the tables: changed sessions decoded live, and which sessions have lost their files.

Nothing is written. A changed session is read whole, from its files and, where those are
gone or were rewritten, from raw; the calls that it shares with stored sessions are
settled anew by the ledger's own rule.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.raw import Identity, SessionInput, StreamBytes
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import is_running_total
from ctx_pipeline.usage.homes import live_usage as live

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.usage_rules import Owner
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Source

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_COPY = " | copy: "
"""In ``rule``: the parser saw a call of the session's own, the ledger made it a copy."""


@dataclass(slots=True)
class UsageDelta:
    """Sessions to take from here and not from the tables, and how their calls are owned."""

    sessions: list[live.Counted] = field(default_factory=list)
    decided: dict[str, dict[str, Owner]] = field(default_factory=dict)
    decided_hosts: set[str] = field(default_factory=set)
    """hosts of which all owners were decided anew; of the others those that the ledger knows hold"""
    replaced: set[tuple[str, str]] = field(default_factory=set)
    """(host, session) that the query over the tables must leave out"""
    changed: list[live.LiveSource] = field(default_factory=list)
    """files that are not in the tables as they are now"""
    gone: set[tuple[str, str]] = field(default_factory=set)
    """stored sessions none of whose files are left"""


def usage_delta(store: Store, settings: Settings, *, whole: bool = False, host: str | None = None) -> UsageDelta:
    """Return what a look at the homes (of one host) finds beyond the tables."""
    known = {place: s for place, s in store.ledger.sources().items() if host in {None, s.host}}
    there = live.sources(settings, host=host)
    known |= _moved(there, known)
    found = {s.stream: s for s in _recognized(there, known)}
    changed = [s for s in found.values() if not _same(s, known.get((s.root, s.rel)))]
    stored = {(s.host, s.session_id) for s in known.values() if s.session_id}
    dirty = {(s.host, s.session_id) for s in store.ledger.dirty_sessions() if host in {None, s.host}}
    result = UsageDelta(changed=changed)
    said = {
        host: live.database_hints(host, {s.root for s in found.values() if s.host == host}) for host in {s.host for s in found.values()}
    }
    parted = {host for host, threads in said.items() if not live.parents(threads).items() <= store.ledger.parents(host).items()}
    read: set[tuple[str, str]] = set()
    if changed or dirty or parted:
        read = _decode(
            store, settings, known, found=found, changed=changed, dirty=dirty, said=said, parted=parted, result=result, whole=whole
        )
    present = {(s.host, s.session_id) for s in known.values() if s.session_id and s.stream in found}
    result.gone = stored - present - read
    return result


def _moved(sources: Sequence[live.LiveSource], known: Mapping[tuple[str, str], Source]) -> dict[tuple[str, str], Source]:
    """Return the rows of files that lie in another home now, by the new place: same name, size and time, and gone from the old one."""
    new = {(s.root, s.rel): s for s in sources if (s.root, s.rel) not in known}
    if not new:
        return {}
    there = {(s.root, s.rel) for s in sources}
    lost: dict[tuple[str, str], list[Source]] = {}
    for place, row in known.items():
        if place not in there:
            lost.setdefault((row.host, row.rel), []).append(row)
    rows = ((place, source, lost.get((source.host, source.rel), [])) for place, source in new.items())
    return {place: held[0] for place, source, held in rows if len(held) == 1 and _same(source, held[0])}


def _recognized(sources: Iterable[live.LiveSource], known: Mapping[tuple[str, str], Source]) -> Iterable[live.LiveSource]:
    """Yield the sources under the stream ids that the ledger gave them (a moved file keeps its first one)."""
    for source in sources:
        row = known.get((source.root, source.rel))
        yield source._replace(stream=row.stream) if row is not None else source


def _same(source: live.LiveSource, row: Source | None) -> bool:
    if row is None:
        return False
    size, mtime_ns = source.size, source.mtime_ns
    if source.name:
        try:
            log = os.stat(f"{source.path}-wal")  # noqa: PTH116
            size, mtime_ns = size + log.st_size, max(mtime_ns, log.st_mtime_ns)
        except OSError:
            pass
    return (row.size, row.mtime_ns, row.state) == (size, mtime_ns, "live")


def _decode(
    store: Store,
    settings: Settings,
    known: Mapping[tuple[str, str], Source],
    *,
    found: Mapping[str, live.LiveSource],
    changed: list[live.LiveSource],
    dirty: set[tuple[str, str]],
    said: Mapping[str, Mapping[str, dict[str, str]]],
    parted: set[str],
    result: UsageDelta,
    whole: bool,
) -> set[tuple[str, str]]:
    """Fill ``result`` with the sessions that changed, and the stored ones whose calls change owner with them.

    Returns those of them that a file of a home holds. ``said`` is what databases of each host's homes say of threads; in ``parted`` hosts
    they name parents that the ledger does not know.
    """
    from ctx_pipeline.storage.ledger import links
    from ctx_pipeline.storage.ledger.forgotten import Forgotten

    stones = store.ledger.tombstones()
    forgotten = Forgotten(stones)
    forgotten_streams = {(t.host, t.hash) for t in stones if t.kind == "stream"}
    rows = {s.stream: s for s in known.values() if s.thread_id and (s.captured or s.generation)}
    identities = {s.stream: _identity_of(s) for s in rows.values()}
    fresh: set[str] = set()
    for source in changed:
        identity = live.identify(source) or identities.get(source.stream)
        if identity is None or (source.host, source.stream) in forgotten_streams:
            continue
        if forgotten.thread(source.host, identity.thread_id) or (not source.name and forgotten.file(source.host, source.path, source.size)):
            continue
        identities[source.stream] = identity
        fresh.add(source.stream)
    parents: dict[tuple[str, str], str | None] = {}
    members: dict[tuple[str, str], list[str]] = {}
    touched = set(dirty)
    host_of = {stream: rows[stream].host if stream in rows else found[stream].host for stream in identities}
    for host in {host_of[s] for s in fresh} | {h for h, _ in dirty} | parted:
        mine = [s for s in identities if host_of[s] == host]
        places = links.resolve(
            [_link(s, identities[s], found.get(s), rows.get(s)) for s in mine],
            first_month=settings.first_month,
            now=links.now_micros(),
            parents={**store.ledger.parents(host), **live.parents(said.get(host, {}))},
        )
        for stream, place in places.items():
            key = (host, place.session_id)
            members.setdefault(key, []).append(stream)
            parents[key] = place.parent_session
            before = rows[stream].session_id if stream in rows else None
            if stream in fresh or (before and before != place.session_id):
                touched.add(key)
                if before:
                    touched.add((host, before))
    read: set[tuple[str, str]] = set()
    segments = store.ledger.segments_of(s for key in touched for s in members.get(key, ()))
    for key in sorted(touched):
        streams = [b for s in members.get(key, ()) for b in _bytes(store, identities[s], found.get(s), rows.get(s), segments.get(s, []))]
        result.replaced.add(key)
        if streams:
            read |= {key} if found.keys() & members[key] else set()
            threads = {b.thread_id for b in streams} | {key[1]}
            hints = store.ledger.hints_of(key[0], threads)
            told = said.get(key[0], {})
            for thread in threads & told.keys():
                hints[thread] = {**hints.get(thread, {}), **told[thread]}
            given = SessionInput(key[0], key[1], tuple(streams), hints)
            result.sessions.append(live.count(given, parents.get(key), whole=whole))
    _decide_owners(store, touched, result)
    return read


def _decide_owners(store: Store, touched: set[tuple[str, str]], result: UsageDelta) -> None:
    """Decide ownership between changed and stored sessions; stored ones whose calls change owner join the result."""
    from ctx_pipeline.storage.warehouse.usage_sql import CANDIDATES_SQL, OWNERS_SQL

    candidates = live.candidates(result.sessions)
    before: dict[str, dict[str, str]] = {}
    for host in {host for host, _ in touched}:
        if _apart(store, host, {session for at, session in touched if at == host}, candidates.get(host, [])):
            candidates.pop(host, None)
            continue
        result.decided_hosts.add(host)
        parents = {s.session_id: s.parent_session for s in store.ledger.sessions(host=host)}
        calls: dict[str, list[tuple[str, int | None]]] = {}
        for session, key, ts in store.ledger.query(CANDIDATES_SQL, [host]):
            if (host, session) not in touched:
                calls.setdefault(session, []).append((key, ts))
        mine = candidates.setdefault(host, [])
        mine += [live.Candidates(session, parents.get(session), held) for session, held in calls.items()]
        known = {c.session_id for c in mine}
        mine += [live.Candidates(session, parent, ()) for session, parent in parents.items() if session not in known]
        before[host] = dict(store.ledger.query(OWNERS_SQL, [host]))
    result.decided = live.owners(candidates)
    moved: set[tuple[str, str]] = set()
    for host, members in candidates.items():
        after, was = result.decided.get(host, {}), before.get(host, {})
        for member in members:
            if (host, member.session_id) in touched:
                continue
            for key, _ in member.calls:
                if key in after or key in was:
                    owner = after.get(key)
                    now = owner is None or owner.session_id == member.session_id
                    if now != (was.get(key, member.session_id) == member.session_id):
                        moved.add((host, member.session_id))
                        break
    if moved:
        result.sessions += stored_calls(store, moved)
        result.replaced |= moved


def _apart(store: Store, host: str, touched: set[str], found: Iterable[live.Candidates]) -> bool:
    """Tell whether each call that these sessions have, or had, is held by one session alone: nothing is to be decided, here or for others.

    False where a key is made of running totals: a call of another session may be the same under another key.
    """
    from ctx_pipeline.storage.warehouse.usage_sql import KEY_HOLDERS_SQL, SESSION_KEYS_SQL

    held = {(one.session_id, key) for one in found for key, _ in one.calls}
    held |= set(store.ledger.query(SESSION_KEYS_SQL, [host, json.dumps(sorted(touched))]))
    keys = {key for _, key in held}
    if len(keys) < len(held) or any(is_running_total(key, session) for session, key in held):
        return False
    holders = store.ledger.query(KEY_HOLDERS_SQL, [host, json.dumps(sorted(keys))])
    return {session for (session,) in holders} <= touched


def stored_calls(store: Store, sessions: set[tuple[str, str]] | None = None) -> list[live.Counted]:
    """Return the model calls of stored sessions (all of them) as they were decoded, before the ledger settled who owns them."""
    from ctx_pipeline.storage.warehouse.usage_sql import all_calls_sql, calls_sql

    with closing(store.lake.connect()) as connection:
        store.lake.views(connection, ("model_calls", "sessions"), sessions=None if sessions is None else {name for _, name in sessions})
        rows = connection.execute(*(calls_sql(sessions) if sessions is not None else (all_calls_sql(),))).fetchall()
    found: dict[tuple[str, str], live.Counted] = {}
    session_at, owner_at, rule_at = (_C[n] for n in ("session_id", "owner", "rule"))
    parents = {(s.host, s.session_id): s.parent_session for s in store.ledger.sessions()}
    for *values, project, repository, branch in rows:
        row = tuple(values)
        key = (row[1], row[session_at])
        if not row[owner_at] and _COPY in row[rule_at]:
            row = (*row[:owner_at], True, None, row[rule_at].partition(_COPY)[0], *row[owner_at + 3 :])
        counted = found.get(key)
        if counted is None:
            counted = found[key] = live.Counted(*key, project, parents.get(key), [], repository=repository, branch=branch)
        counted.calls.append(row)
    return list(found.values())


class About(NamedTuple):
    """What calls are asked for: those of a session, or of a time."""

    session_id: str = ""
    bounds: tuple[int | None, int | None] = (None, None)
    """the first microsecond, and the first after it; None is open"""


def holders(store: Store, about: About) -> set[tuple[str, str]] | None:
    """Return the stored sessions with calls that are asked for, or with copies of these; None where no session has the id."""
    from ctx_pipeline.storage.warehouse.usage_sql import HOLDERS_SQL, SESSION_HOLDERS_SQL

    if about.session_id:
        return {(host, session) for host, session in store.ledger.query(SESSION_HOLDERS_SQL, [about.session_id])} or None
    first, after = about.bounds
    bounds = [-(1 << 63) if first is None else first, (1 << 63) - 1 if after is None else after]
    return {(host, session) for host, session in store.ledger.query(HOLDERS_SQL, bounds)}


def ownership(store: Store, new: UsageDelta) -> dict[str, dict[str, Owner]]:
    """Return host -> call key -> owner of what more than one session holds: as the ledger settled it, where nothing new decides."""
    from ctx_pipeline.model.usage_rules import Owner
    from ctx_pipeline.storage.warehouse.usage_sql import ALL_OWNERS_SQL

    found: dict[str, dict[str, Owner]] = {}
    for host, key, owner, rule in store.ledger.query(ALL_OWNERS_SQL):
        if host not in new.decided_hosts:
            found.setdefault(host, {})[key] = Owner(owner, rule)
    return {**found, **new.decided}


def _identity_of(row: Source) -> Identity:
    return Identity(row.thread_id or "", row.parent_thread_id, row.relation or "main", row.root_session_id, row.first_ts)


def _link(stream: str, identity: Identity, source: live.LiveSource | None, row: Source | None) -> Any:
    from ctx_pipeline.storage.ledger import links

    mtime_ns = source.mtime_ns if source is not None else row.mtime_ns if row is not None else 0
    return links.Link(
        stream, identity.thread_id, identity.parent_thread_id, identity.relation, identity.root_session_id, identity.first_ts, mtime_ns
    )


def _bytes(
    store: Store, identity: Identity, source: live.LiveSource | None, row: Source | None, segments: list[Any]
) -> Iterable[StreamBytes]:
    """Yield the generations of a stream: the file as it is now, and of raw what the file does not begin with."""
    from ctx_pipeline.storage.raw.home_files import EDGE, edge_hash
    from ctx_pipeline.storage.raw.segments import stream_text, unpack

    rel = source.rel if source is not None else row.rel if row is not None else ""
    kind = source.kind if source is not None else row.kind if row is not None else ""
    name = source.stream if source is not None else row.stream if row is not None else ""
    last = row.generation if row is not None else -1
    data = None
    if source is not None:
        try:
            data = live.content(source)
        except (CtxError, OSError):
            data = None
    grown = (
        data is not None and row is not None and len(data) >= row.captured and edge_hash(data[: min(EDGE, row.captured)]) == row.head_hash
    )
    if data is not None:
        text = unpack(data) if rel.endswith(".zst") else data
        number = last if grown else last + 1
        yield StreamBytes(name, kind, rel, max(0, number), text, identity.thread_id, identity.parent_thread_id)
    by_generation: dict[int, list[Any]] = {}
    for segment in segments:
        by_generation.setdefault(segment.generation, []).append(segment)
    for generation, pieces in sorted(by_generation.items()):
        if generation == last and grown:
            continue
        current = generation == last and data is None
        try:
            raw = stream_text(store.files, pieces, rel)
        except (CtxError, OSError):
            continue
        yield StreamBytes(name, kind, rel, generation, raw, identity.thread_id, identity.parent_thread_id, current=current)

"""Work for decoding: sessions with all their streams, in groups of one cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import capture
from ctx_pipeline.storage.ledger import links
from ctx_pipeline.storage.ledger.forgotten import Forgotten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Identity
    from ctx_pipeline.pipeline.capture import Pending
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Segment, SessionRow, Source

TASK_BYTES = 16 * 1024 * 1024

_LEAST_BYTES = 2 * 1024 * 1024
"""Size of the last tasks: who ends first waits for the other one that long."""

_ROUNDS = 4
"""Tasks of the same size that what is left makes at least."""


@dataclass(slots=True)
class SessionJob:
    """One session to decode: streams that raw holds, and sources to capture on the way."""

    host: str
    session_id: str
    month: str
    parent_session: str | None = None
    pending: list[Pending] = field(default_factory=list)
    known: list[Source] = field(default_factory=list)
    segments: dict[str, list[Segment]] = field(default_factory=dict)
    hints: dict[str, dict[str, str]] = field(default_factory=dict)
    threads: set[str] = field(default_factory=set)

    @property
    def partition(self) -> Cell:
        """The partition of the session."""
        return Cell(self.host, self.month)

    @property
    def streams(self) -> set[str]:
        """Every stream that is decoded."""
        return {*(p.stream for p in self.pending), *(s.stream for s in self.known)}

    @property
    def files(self) -> set[str]:
        """Where its streams are in their homes."""
        return {*(p.rel for p in self.pending), *(s.rel for s in self.known)}

    @property
    def bytes(self) -> int:
        """Bytes that decoding reads, about."""
        return sum(p.size for p in self.pending) + sum(s.captured for s in self.known)


@dataclass(slots=True)
class Task:
    """Sessions of one cell that are decoded together and make one part a table."""

    partition: Cell
    jobs: list[SessionJob]

    @property
    def bytes(self) -> int:
        """Bytes that the task reads, about."""
        return sum(job.bytes for job in self.jobs)


def split(store: Store, pending: Iterable[Pending], hosts: Mapping[str, Host]) -> tuple[list[tuple[Pending, Identity]], list[Pending]]:
    """Return the pending sources of sessions with who they are, and the others.

    The others are captured before anything is decoded: sources of no session (they give
    hints), database streams, threads that were forgotten, what lies beside no session, and
    sessions whose rows are kept until raw holds all of them again.
    """
    forgotten = Forgotten(store.ledger.tombstones())
    kept = {(s.host, s.session_id) for s in store.ledger.undecodable_sessions()}
    mine: list[tuple[Pending, Identity]] = []
    others: list[Pending] = []
    for source in pending:
        host = hosts[source.host]
        identity = None if source.marker or source.kind not in host.files.session_kinds else capture.identity_of(source, host)
        if (
            identity is None
            or forgotten.thread(source.host, identity.thread_id)
            or (source.start == 0 and forgotten.file(source.host, source.path, source.size))
            or not kept.isdisjoint((source.host, own) for own in _sessions_of(source, identity))
        ):
            others.append(source)
        else:
            mine.append((source, identity))
    homeless = _homeless(store, mine)
    return [pair for pair in mine if pair[0].stream not in homeless], others + [p for p, _ in mine if p.stream in homeless]


def _sessions_of(source: Pending, identity: Identity) -> set[str | None]:
    return {identity.thread_id, identity.root_session_id, source.known.session_id if source.known else None}


def _homeless(store: Store, mine: Iterable[tuple[Pending, Identity]]) -> set[str]:
    """Return the streams that lie beside a session of which nothing else is known."""
    beside = [(p, i) for p, i in mine if i.relation == "beside"]
    if not beside:
        return set()
    known = {(s.host, s.session_id) for s in store.ledger.sessions()}
    known |= {(p.host, i.root_session_id or i.thread_id) for p, i in mine if i.relation != "beside"}
    return {p.stream for p, i in beside if (p.host, i.root_session_id or i.thread_id) not in known}


def jobs_of(
    store: Store,
    settings: Settings,
    mine: Iterable[tuple[Pending, Identity]],
    dirty: Iterable[SessionRow],
    *,
    hosts: Mapping[str, Host],
) -> list[SessionJob]:
    """Return a job for every session that has a pending source or is dirty in the ledger."""
    jobs: dict[tuple[str, str], SessionJob] = {}
    by_host: dict[str, list[tuple[Pending, Identity]]] = {}
    for source, identity in mine:
        by_host.setdefault(source.host, []).append((source, identity))
    held = [s for s in store.ledger.sources().values() if s.thread_id and (s.captured or s.generation)] if by_host else []
    for host, members in by_host.items():
        own = {
            p.stream: links.Link(p.stream, i.thread_id, i.parent_thread_id, i.relation, i.root_session_id, i.first_ts, p.mtime_ns)
            for p, i in members
        }
        known = [_link(s) for s in held if s.host == host and s.stream not in own]
        places = links.resolve(
            [*own.values(), *known], first_month=settings.first_month, now=links.now_micros(), parents=store.ledger.parents(host)
        )
        for source, identity in members:
            place = places[source.stream]
            key = (host, place.session_id)
            job = jobs.setdefault(key, SessionJob(host, place.session_id, place.month, place.parent_session))
            job.pending.append(source)
            job.threads.add(identity.thread_id)
    for row in dirty:
        key = (row.host, row.session_id)
        if key not in jobs:
            jobs[key] = SessionJob(row.host, row.session_id, row.month, row.parent_session)
    _add_known(store, jobs, hosts)
    return list(jobs.values())


def grouped(jobs: Collection[SessionJob], limit: int = TASK_BYTES) -> list[Task]:
    """Return tasks of about ``limit`` bytes, each of one cell, the latest months last and large sessions first in each.

    The last ones of many are smaller, so that processes that share them end at the same time.
    """
    left = sum(job.bytes for job in jobs)
    taper = left > _ROUNDS * limit
    cells: dict[Cell, list[SessionJob]] = {}
    for job in jobs:
        cells.setdefault(Cell(job.host, job.month), []).append(job)
    tasks = []
    for cell in sorted(cells, key=lambda c: (c.month, c.host)):
        group: list[SessionJob] = []
        size = 0
        for job in sorted(cells[cell], key=lambda j: (-j.bytes, j.session_id)):
            most = min(limit, max(_LEAST_BYTES, left // _ROUNDS)) if taper else limit
            if group and size + job.bytes > most:
                left -= size
                tasks.append(Task(cell, group))
                group, size = [], 0
            group.append(job)
            size += job.bytes
        left -= size
        tasks.append(Task(cell, group))
    return tasks


def _add_known(store: Store, jobs: Mapping[tuple[str, str], SessionJob], hosts: Mapping[str, Host]) -> None:
    """Give the jobs what the ledger holds of their sessions."""
    streams = store.ledger.streams_of(jobs)
    everything = [s for members in streams.values() for s in members] + [p.known for j in jobs.values() for p in j.pending if p.known]
    segments = store.ledger.segments_of({s.stream for s in everything}) if everything else {}
    for key, job in jobs.items():
        waiting = {p.stream for p in job.pending}
        job.known = [s for s in streams[key] if s.stream not in waiting]
        job.threads.update((job.session_id, *(s.thread_id for s in job.known if s.thread_id)))
        for stream in (*waiting, *(s.stream for s in job.known)):
            if stream in segments:
                job.segments[stream] = segments[stream]
    for host in {job.host for job in jobs.values()}:
        mine = [job for job in jobs.values() if job.host == host]
        folder_of = hosts[host].files.shared_folder if host in hosts else None
        about = [job.threads | ({folder_of(rel) or "" for rel in job.files} if folder_of else set()) for job in mine]
        told = store.ledger.hints_of(host, set().union(*about))
        for job, names in zip(mine, about, strict=True):
            job.hints = {name: told[name] for name in names if name in told}


def _link(source: Source) -> Any:
    return links.Link(
        source.stream,
        source.thread_id or "",
        source.parent_thread_id,
        source.relation,
        source.root_session_id,
        source.first_ts,
        source.mtime_ns,
    )

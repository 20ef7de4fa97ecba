"""What hosts keep and for how long, what is about to go, and what went before anybody captured it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError, StoreFull
from ctx_pipeline.facts.expiring import HomeFile, HomeRetention, retention_of_homes
from ctx_pipeline.model.codec import iso
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture import Scan
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Source


class Gap(NamedTuple):
    """Sessions in a row that a host's own history names and whose transcripts are neither in a home nor in the store."""

    host: str
    first: str
    """time of the first prompt (ISO 8601, UTC)"""
    last: str
    sessions: int

    @property
    def message(self) -> str:
        """The gap as a sentence."""
        if self.sessions == 1:
            return f"{self.host}: 1 session from {self.first[:10]} was deleted before it was captured"
        return f"{self.host}: {self.sessions:,} sessions from {self.first[:10]} to {self.last[:10]} were deleted before they were captured"


def retention_by_home(
    store: Store, settings: Settings, scan: Scan | None = None, *, hosts: Mapping[str, Host] | None = None, now_ns: int | None = None
) -> list[HomeRetention]:
    """Return every home with its retention, from what the ledger and a scan know; no file but the host's settings is read."""
    lying = {
        (s.host, s.root, s.rel): HomeFile(s.host, s.root, s.kind, s.mtime_ns, captured=True)
        for s in store.ledger.sources().values()
        if s.state == "live"
    }
    lying |= {(p.host, p.root, p.rel): HomeFile(p.host, p.root, p.kind, p.mtime_ns, captured=False) for p in (scan.pending if scan else ())}
    return retention_of_homes(settings, lying.values(), hosts=hosts, now_ns=now_ns)


def gaps(store: Store, *, scan: Scan | None = None, hosts: Mapping[str, Host] | None = None) -> list[Gap]:
    """Return the gaps that hosts' own deletion left, oldest first; ``scan`` names what waits in the homes and is none.

    A session is lost when a captured history names it with a prompt and no captured or
    waiting source is of it. Lost ones between the same two kept ones are one gap.
    """
    known = discovery.hosts() if hosts is None else hosts
    sources = store.ledger.sources().values()
    found: list[Gap] = []
    for host in known.values():
        if host.files.prompt_history is None:
            continue
        there = {name for s in sources if s.host == host.key for name in (s.thread_id, s.session_id) if name}
        waiting = [p.rel for p in scan.pending if p.host == host.key] if scan is not None else []
        spans: dict[str, tuple[int, int]] = {}
        for session, at in _mentioned(store, host, [s for s in sources if s.host == host.key and s.kind not in host.files.session_kinds]):
            first, last = spans.get(session, (at, at))
            spans[session] = (min(first, at), max(last, at))
        run: list[tuple[int, int]] = []
        for session, span in sorted(spans.items(), key=lambda one: (one[1], one[0])):
            if session in there or any(session in rel for rel in waiting):
                found += _closed(host.key, run)
                run = []
            else:
                run.append(span)
        found += _closed(host.key, run)
    return sorted(found, key=lambda gap: (gap.first, gap.host))


def _mentioned(store: Store, host: Host, sources: Iterable[Source]) -> Iterator[tuple[str, int]]:
    known = {s.stream: s for s in sources}
    for stream, pieces in store.ledger.segments_of(known).items():
        last = max((piece.generation for piece in pieces), default=0)
        try:
            data = raw.stream_text(store.files, [p for p in pieces if p.generation == last], known[stream].rel)
        except StoreError:
            continue
        if host.files.prompt_history is not None:
            yield from host.files.prompt_history(known[stream].kind, data)


def _closed(host: str, run: list[tuple[int, int]]) -> list[Gap]:
    if not run:
        return []
    return [Gap(host, iso(run[0][0]) or "", iso(max(last for _, last in run)) or "", len(run))]


# Whether the disk has room for a capture that nobody watches.


def require_disk_space(settings: Settings) -> None:
    """Return when the store's disk has ``least_free_bytes`` left; raises StoreFull with both figures when it has not."""
    folder = next(folder for folder in (settings.home, *settings.home.parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < settings.least_free_bytes:
        raise StoreFull(
            f"{free:,} bytes are free where {settings.home} lies, fewer than least_free_bytes = {settings.least_free_bytes:,}: "
            "nothing was captured",
            hint="free some disk space, or capture anyway: ctx run",
            free=free,
        )

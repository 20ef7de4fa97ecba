"""What hosts keep and for how long, what is about to go, and what went before anybody captured it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture import Scan
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

SOON = 5
"""Days before its deletion from which a transcript is about to go."""

_DAY_NS = 86_400 * 10**9


class Kept(NamedTuple):
    """One home: how long its host keeps transcripts (``days`` is None: for ever) and what of it goes within ``SOON`` days."""

    host: str
    root: str
    days: int | None
    transcripts: int
    oldest_days: int | None
    """age of the oldest transcript"""
    leaving: int
    uncaptured: int
    """of those that are leaving, how many have bytes that the store lacks"""

    @property
    def message(self) -> str:
        """The facts as a sentence."""
        title = discovery.hosts()[self.host].title if self.host in discovery.hosts() else self.host
        kept = "keeps transcripts for ever" if self.days is None else f"deletes transcripts after {self.days} days"
        said = f"{title} {kept} in {self.root}: {self.transcripts:,} there"
        if self.oldest_days is not None:
            said += f", the oldest {self.oldest_days} days old"
        if self.leaving:
            safe = "all captured" if not self.uncaptured else f"{self.uncaptured:,} of them not captured: ctx run"
            said += f"; {self.leaving:,} go within {SOON} days, {safe}"
        return said


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
        many = f"{self.sessions:,} session{'' if self.sessions == 1 else 's'}"
        return f"{self.host}: {many} from {self.first[:10]} to {self.last[:10]} were deleted before they were captured"


def retention_by_home(store: Store, settings: Settings, scan: Scan, *, hosts: Mapping[str, Host] | None = None) -> list[Kept]:
    """Return every home with its retention, from what the ledger and a scan know; no file but the host's settings is read."""
    known = discovery.hosts() if hosts is None else hosts
    now = time.time_ns()
    times: dict[tuple[str, str], dict[str, tuple[int, bool]]] = {}
    for source in store.ledger.sources().values():
        if source.host in known and source.state == "live" and source.kind in known[source.host].files.session_kinds:
            times.setdefault((source.host, source.root), {})[source.rel] = (source.mtime_ns, True)
    for p in scan.pending:
        if p.host in known and p.kind in known[p.host].files.session_kinds:
            times.setdefault((p.host, p.root), {})[p.rel] = (p.mtime_ns, False)
    found = []
    for host in known.values():
        for root in settings.roots_of(host) if host.files.retention_days is not None else ():
            days = host.files.retention_days(root) if host.files.retention_days is not None else None
            mine = times.get((host.key, str(root)), {}).values()
            limit = now - max(0, days - SOON) * _DAY_NS if days is not None else 0
            going = [safe for mtime_ns, safe in mine if mtime_ns < limit]
            oldest = (now - min(mtime_ns for mtime_ns, _ in mine)) // _DAY_NS if mine else None
            found.append(Kept(host.key, str(root), days, len(mine), oldest, len(going), going.count(False)))
    return found


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
        for session, at in _mentioned(
            store, host, [s.stream for s in sources if s.host == host.key and s.kind not in host.files.session_kinds]
        ):
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


def _mentioned(store: Store, host: Host, streams: Iterable[str]) -> Iterator[tuple[str, int]]:
    known = {s.stream: s for s in store.ledger.sources().values()}
    for stream, pieces in store.ledger.segments_of(streams).items():
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

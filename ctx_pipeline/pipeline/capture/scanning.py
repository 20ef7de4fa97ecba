"""One stat pass over all homes against the ledger."""

from __future__ import annotations

import gc
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError, SourceError, StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline.capture.read_source import BLANKED, compare, holds, opened
from ctx_pipeline.storage.ledger import Stamp
from ctx_pipeline.storage.ledger.links import identify
from ctx_pipeline.storage.raw.home_files import EDGE, HEAD, Problem, Seen, edge_hash, is_ignored, is_lines, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ctx_pipeline.model.declared import Database, Host
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger.rows import Source

__all__ = ["Moved", "Pending", "Problem", "Retention", "Scan", "Seen", "is_ignored", "walk"]


# What a scan finds: plain values that a forked worker can carry.


@dataclass(slots=True)
class Pending:
    """A source with bytes that raw does not hold."""

    host: str
    stream: str
    path: str
    root: str
    rel: str
    kind: str
    size: int
    mtime_ns: int
    inode: int
    generation: int
    start: int
    """first byte to capture; 0 for a new generation"""
    change: Literal["new", "grown", "rewritten"]
    marker: str = ""
    """of a stream in a database: what changed when its rows changed"""
    known: Source | None = None
    """the ledger's row before this capture"""
    forced: bool = False
    ctime_ns: int | None = None


class Moved(NamedTuple):
    """A stream whose file lies elsewhere now; its captured bytes are the same."""

    source: Source
    root: str
    rel: str
    kind: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int | None


class Retention(NamedTuple):
    """A warning: the host will delete transcripts soon."""

    host: str
    root: str
    path: str
    days: int
    """age of the oldest live transcript"""
    retention_days: int

    @property
    def message(self) -> str:
        """The warning as a sentence."""
        left = self.retention_days - self.days
        when = f"in {left} days" if left > 1 else "tomorrow" if left == 1 else "at its next start"
        return (
            f"the oldest transcript in {self.root} is {self.days} days old; {self.host} deletes after {self.retention_days} days, so {when}"
        )


@dataclass(slots=True)
class Scan:
    """One look at all homes. Nothing was written."""

    pending: list[Pending] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    """streams whose files are gone"""
    moved: list[Moved] = field(default_factory=list)
    touched: list[Source] = field(default_factory=list)
    """known sources, with new size and times, that hold no new whole line"""
    ignored: list[str] = field(default_factory=list)
    """known streams that an ignore glob now covers"""
    problems: list[Problem] = field(default_factory=list)
    linked: list[tuple[str, str]] = field(default_factory=list)
    """folders outside of the homes that links in them led to: the link, and where it led"""
    retention: list[Retention] = field(default_factory=list)
    sources: int = 0
    """files and database streams that were seen"""
    waiting: int = 0
    """JSONL files whose last line has no newline yet"""
    forgotten: int = 0
    """files that ``ctx forget`` removed from the store and that still exist"""
    seconds: float = 0.0

    @property
    def nothing_new(self) -> bool:
        """Whether the ledger already says all of this."""
        return not (self.pending or self.vanished or self.moved or self.ignored)


WARN_DAYS = 25
"""A home whose oldest transcript is this old gets a retention warning."""

_FOR_EVER = 365
"""A host told to keep transcripts so many days is not warned about."""

_DAY_NS = 86_400 * 1_000_000_000


def scan(store: Store, settings: Settings, *, hosts: Mapping[str, Host] | None = None, thorough: bool = True) -> Scan:
    """Return what is new, grown, rewritten, moved and vanished in all homes; writes nothing, never raises on a file.

    Unless ``thorough``, a file of which nothing but its ``ctime`` is another is not read:
    for lists, which keep no note of having read it.
    """
    began = time.perf_counter()
    collecting = gc.isenabled()
    gc.disable()  # a hundred thousand long-lived tuples make the collector run for nothing
    try:
        result = _Pass(store, settings, discovery.hosts() if hosts is None else hosts, thorough=thorough).run()
    finally:
        if collecting:
            gc.enable()
    result.seconds = time.perf_counter() - began
    return result


class _Pass:
    """State of one scan."""

    def __init__(self, store: Store, settings: Settings, hosts: Mapping[str, Host], *, thorough: bool) -> None:
        self.settings = settings
        self.hosts = hosts
        self.thorough = thorough
        self.ledger = store.ledger
        self.journal = store.journal
        self.known = self.ledger.stamps()
        self.scan = Scan()
        self._forgotten_lines: list[Any] | None = None
        self.fresh: list[tuple[Host, str, Seen, str]] = []
        self.changed: list[tuple[Host, str, Seen, Stamp, str]] = []
        self.missing: dict[str, str] = {}

    def run(self) -> Scan:
        for host in self.hosts.values():
            for root in self.settings.candidate_roots(host):
                self._home(host, root)
        self._changed()
        self._fresh()
        return self.scan

    def _home(self, host: Host, root: Path) -> None:
        beside = self.known.get((host.key, str(root.parent)), {})
        single = root.is_file() or (beside and not root.is_dir())
        top = str(root.parent if single else root)
        below = self.known.get((host.key, top), {})
        mine = {rel: stamp for rel, stamp in below.items() if not single or rel.partition("#")[0] == root.name}
        scan = self.scan
        oldest: tuple[int, str] | None = None
        earliest = time.time_ns() - WARN_DAYS * _DAY_NS if host.files.retention_days is not None else 0
        count = 0
        recall, databases, session_kinds = mine.pop, host.files.databases, host.files.session_kinds
        for found in walk(host, root, self.settings, scan.problems, scan.linked) if root.exists() else ():
            rel, kind, path, size, mtime_ns, _, ctime_ns = found
            if databases and kind in databases:
                self._database(host, top, Seen._make(found), mine)
                continue
            count += 1
            if mtime_ns <= earliest and kind in session_kinds:
                earliest, oldest = mtime_ns, (mtime_ns, path)
            stamp = recall(rel, None)
            if stamp is None:
                self.fresh.append((host, top, Seen._make(found), ""))
            elif stamp[2] != size or stamp[3] != mtime_ns or stamp[9] != ctime_ns or stamp[5] != "live":
                self.changed.append((host, top, Seen._make(found), Stamp._make(stamp), ""))
            elif stamp[4] < size and is_lines(rel):
                scan.waiting += 1
        scan.sources += count
        self._retention(host, root, oldest)
        for rel, row in mine.items():
            stamp = Stamp._make(row)
            if is_ignored(self.settings, top, rel):
                if stamp.state != "ignored":
                    scan.ignored.append(stamp.stream)
            else:
                self.missing[stamp.stream] = stamp.state

    def _database(self, host: Host, top: str, seen: Seen, mine: dict[str, tuple]) -> None:
        """Compare the streams of a database; it is opened only when its file or its log changed."""
        whole = _with_log(seen)
        prefix = f"{seen.rel}#"
        stamps = {rel: Stamp._make(row) for rel, row in mine.items() if rel.startswith(prefix)}
        for rel in stamps:
            del mine[rel]
        self.scan.sources += len(stamps)
        if stamps and all((s.size, s.mtime_ns, s.state) == (whole.size, whole.mtime_ns, "live") for s in stamps.values()):
            return
        from ctx_pipeline.storage.raw import databases

        declared: Database = host.files.databases[seen.kind]
        try:
            markers = databases.streams(seen.path, declared)
        except (CtxError, OSError, ValueError) as error:
            self.scan.problems.append(Problem(seen.path, f"database cannot be read: {str(error).splitlines()[0]}"))
            return
        self.scan.sources += len(markers.keys() - {rel[len(prefix) :] for rel in stamps})
        for name, marker in sorted(markers.items()):
            one = whole._replace(rel=prefix + name)
            stamp = stamps.pop(one.rel, None)
            if stamp is None:
                self.fresh.append((host, top, one, marker))
            else:
                self.changed.append((host, top, one, stamp, marker))
        self.missing |= {stamp.stream: stamp.state for stamp in stamps.values()}

    def _retention(self, host: Host, root: Path, oldest: tuple[int, str] | None) -> None:
        if oldest is None or host.files.retention_days is None:
            return
        age = (time.time_ns() - oldest[0]) // _DAY_NS
        days = host.files.retention_days(root)
        if days is not None and days < _FOR_EVER:
            self.scan.retention.append(Retention(host.key, str(root), oldest[1], int(age), days))

    def _changed(self) -> None:
        sources = self.ledger.sources_of(stamp.stream for _, _, _, stamp, _ in self.changed) if self.changed else {}
        segments = self.ledger.segments_of(s for s, source in sources.items() if is_lines(source.rel) and not source.marker)
        for host, root, seen, stamp, marker in self.changed:
            source = sources.get(stamp.stream)
            if source is None:
                continue
            now = source._replace(
                size=seen.size, mtime_ns=seen.mtime_ns, inode=seen.inode, ctime_ns=seen.ctime_ns, state="live", kind=seen.kind
            )
            if marker:
                if marker == source.marker:
                    self.scan.touched.append(now)
                else:
                    self._wait(_pending(host, root, seen, source.stream, "grown", source, marker))
                continue
            if source.ctime_ns is None and source == now._replace(ctime_ns=None):
                self.scan.touched.append(now)  # the first look of a store that did not keep this time
                continue
            alike = (seen.size, seen.mtime_ns, "live") == (source.size, source.mtime_ns, source.state) and os.access(seen.path, os.R_OK)
            own = segments.get(source.stream, ())
            try:
                change = (
                    "same"
                    if alike and not self.thorough
                    else compare(seen.path, source, seen.size, own, partial(self._blanked, source.stream))
                )
            except SourceError as error:
                self.scan.problems.append(Problem(seen.path, error.message))
                continue
            if change == "same":
                self.scan.touched.append(now)
                self.scan.waiting += is_lines(seen.rel) and seen.size > source.captured
            else:
                self._wait(_pending(host, root, seen, source.stream, "grown" if change == "grown" else "rewritten", source))

    def _blanked(self, stream: str) -> list[tuple[int, int, int]]:
        """Return where raw holds spaces for lines of a stream that were forgotten."""
        if self._forgotten_lines is None:
            self._forgotten_lines = []
            with suppress(StoreError):
                self._forgotten_lines = self.journal.facts(BLANKED) if self.journal.is_there() else []
        mine = (fact.payload["lines"] for fact in self._forgotten_lines if fact.payload["stream"] == stream)
        return [(line[0], line[1], line[2]) for lines in mine for line in lines]

    def _fresh(self) -> None:
        gone = self.ledger.sources_of(self.missing) if self.missing and self.fresh else {}
        moved: set[str] = set()
        if self.fresh:
            forgotten = {stone.hash for stone in self.ledger.tombstones("stream")}
            used = {row[1] for rows in self.known.values() for row in rows.values()}
            candidates = _Candidates(gone.values(), self.hosts)
            for host, root, seen, marker in self.fresh:
                source = None if marker or not gone else self._moved(host, seen, candidates, moved)
                if source is not None:
                    moved.add(source.stream)
                    self._follow(host, root, seen, source)
                    continue
                stream = _name(host.key, root, seen.rel, used, forgotten)
                if stream in forgotten:
                    self.scan.forgotten += 1
                    continue
                used.add(stream)
                if is_lines(seen.rel) and not marker and not self._has_line(seen):
                    continue
                self._wait(_pending(host, root, seen, stream, "new", None, marker))
        self.scan.vanished += [stream for stream, state in self.missing.items() if stream not in moved and state != "vanished"]

    def _wait(self, pending: Pending) -> None:
        """Note what waits to be captured; a file that is read whole and too large for it is a problem."""
        most = self.settings.whole_file_bytes
        if pending.size > most and not pending.marker and not is_lines(pending.rel):
            self.scan.problems.append(Problem(pending.path, f"is larger than whole_file_bytes = {most}"))
        else:
            self.scan.pending.append(pending)

    def _has_line(self, seen: Seen) -> bool:
        """Tell whether a new file is worth a row; one that cannot be opened is a problem."""
        if not os.access(seen.path, os.R_OK):
            self.scan.problems.append(Problem(seen.path, "cannot be read: Permission denied"))
            return False
        return True

    def _moved(self, host: Host, seen: Seen, candidates: _Candidates, moved: set[str]) -> Any:
        try:
            for source in candidates.of(host, seen):
                if source.stream not in moved and holds(seen.path, source, self.ledger.segments_of([source.stream]).get(source.stream, [])):
                    return source
        except SourceError:
            return None
        return None

    def _follow(self, host: Host, root: str, seen: Seen, source: Any) -> None:
        """Note where a source lies now; its place may make it another thread's, so what it holds more is taken under the new name."""
        self.scan.moved.append(Moved(source, root, seen.rel, seen.kind, seen.size, seen.mtime_ns, seen.inode, seen.ctime_ns))
        try:
            change = compare(seen.path, source, seen.size)
            with opened(seen.path) as handle:
                head = os.pread(handle, source.captured if seen.rel.endswith(".zst") else min(HEAD, source.captured), 0)
        except SourceError as error:
            self.scan.problems.append(Problem(seen.path, error.message))
            return
        if change == "same":
            self.scan.waiting += is_lines(seen.rel) and seen.size > source.captured
            return
        here = source._replace(root=root, rel=seen.rel, kind=seen.kind)
        if seen.kind in host.files.session_kinds and (identity := identify(host, seen.kind, seen.rel, head)[0]) is not None:
            here = here._replace(**identity._asdict())
        self._wait(_pending(host, root, seen, source.stream, change, here))


class _Candidates:
    """Vanished sources by what a moved file would share with them."""

    def __init__(self, sources: Iterable[Any], hosts: Mapping[str, Host]) -> None:
        self.by_inode: dict[tuple[str, int], list[Any]] = {}
        self.by_head: dict[tuple[str, int, str], list[Any]] = {}
        for source in sources:
            host = hosts.get(source.host)
            if host is None or source.marker or source.captured == 0:
                continue
            self.by_inode.setdefault((source.host, source.inode), []).append(source)
            self.by_head.setdefault((source.host, min(EDGE, source.captured), source.head_hash), []).append(source)
        self.lengths = sorted({length for _, length, _ in self.by_head}, reverse=True)

    def of(self, host: Host, seen: Seen) -> list[Any]:
        """Return the vanished sources that a new file may be, the likeliest first; whole files must keep their name."""
        found = list(self.by_inode.get((host.key, seen.inode), ()))
        with opened(seen.path) as handle:
            head = os.pread(handle, EDGE, 0)
        for length in self.lengths:
            if length <= len(head):
                found += self.by_head.get((host.key, length, edge_hash(head[:length])), ())
        name = seen.rel.rpartition("/")[2]
        return [
            s
            for s in found
            if is_lines(s.rel) == is_lines(seen.rel)
            and (is_lines(s.rel) or s.rel.rpartition("/")[2] == name)
            and (s.kind in host.files.session_kinds) == (seen.kind in host.files.session_kinds)
            and s.captured <= seen.size
        ]


def _pending(host: Host, root: str, seen: Seen, stream: str, change: Any, source: Any, marker: str = "") -> Pending:  # noqa: PLR0917 - one caller a line
    return Pending(
        host=host.key,
        stream=stream,
        path=seen.path,
        root=root,
        rel=seen.rel,
        kind=seen.kind,
        size=seen.size,
        mtime_ns=seen.mtime_ns,
        inode=seen.inode,
        ctime_ns=seen.ctime_ns,
        generation=0 if source is None else source.generation + (change == "rewritten"),
        start=0 if source is None or change == "rewritten" else source.captured,
        change=change,
        marker=marker,
        known=source,
    )


def _name(host: str, root: str, rel: str, used: set[str], forgotten: set[str]) -> str:
    """Return the stream id of a new source: of its place, with a number where a moved source has it already."""
    stream = digest(host, root, rel, size=16)
    turn = 0
    while stream in used and stream not in forgotten:
        turn += 1
        stream = digest(host, root, rel, turn, size=16)
    return stream


def _with_log(seen: Seen) -> Seen:
    """Return the sighting of a database with its write-ahead log counted in."""
    try:
        log = os.stat(f"{seen.path}-wal")  # noqa: PTH116
    except OSError:
        return seen
    return seen._replace(
        size=seen.size + log.st_size,
        mtime_ns=max(seen.mtime_ns, log.st_mtime_ns),
        ctime_ns=max(seen.ctime_ns or 0, log.st_ctime_ns),
    )

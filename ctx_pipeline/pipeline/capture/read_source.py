"""From a pending source to a raw object and its rows; no ledger in here, so forked workers call it."""

from __future__ import annotations

import hashlib
import os
import stat
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SourceError, StoreDamaged
from ctx_pipeline.model.raw import Origin
from ctx_pipeline.storage.ledger.links import identify, read_hints
from ctx_pipeline.storage.ledger.rows import Hint, Segment, Source
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline.storage.raw.home_files import EDGE, HEAD, edge_hash, is_lines, whole_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture.scanning import Pending
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.storage.files import Files


# Is a changed file still the one that was captured? Answered from its edges, then from the hashes of its segments.


_BLOCK = 65_536
_SUM = 1 << 20

COMPARED_BYTES = 64 << 20
"""Captured bytes of a file that grew which are compared at one look; of a larger file the next ones are at the next."""

_LONGEST_COMPARED = 4 * COMPARED_BYTES
"""Bytes of the longest segment that a look compares."""

BLANKED = "blanked"
"""Kind of the journal's facts: where the lines of one stream stood that ``ctx forget`` blanked in raw, and the hash of each."""

_NOTHING_BLANKED: tuple[tuple[int, int, int], ...] = ()


def compare(
    path: str,
    source: Source,
    size: int,
    segments: Iterable[Segment] = (),
    blanked: Callable[[], Iterable[tuple[int, int, int]]] = lambda: _NOTHING_BLANKED,
) -> str:
    """Return same, grown or rewritten: what a file with a new size or time holds against what was captured.

    Every byte that raw holds in ``segments`` is compared by its hash, but at most about
    :data:`COMPARED_BYTES` of a file that grew: of a larger one a part at each look, all
    after as many looks as it has such parts. ``blanked`` are the (generation, start, end)
    that raw holds spaces for. Raises SourceError when the file cannot be read.
    """
    with opened(path) as handle:
        if not is_lines(source.rel):
            return "same" if size == source.captured and _sum(handle, 0, size) == source.tail_hash else "rewritten"
        if size < source.captured or not same_edges(handle, source):
            return "rewritten"
        grown = has_line(handle, source.captured, size)
        own = [s for s in segments if s.generation == source.generation]
        if not all(_has_segment(handle, s, blanked) for s in (_in_turn(own) if grown else own)):
            return "rewritten"
        return "grown" if grown else "same"


def _in_turn(own: list[Segment]) -> list[Segment]:
    """Return the segments that one look compares: another part of a large file whenever it got a segment more.

    What was captured at once is one segment, and compared at once; one of more than :data:`_LONGEST_COMPARED` never is here.
    """
    parts = max(1, -(-max((s.end for s in own), default=0) // COMPARED_BYTES))
    return [s for s in own if s.start // COMPARED_BYTES == len(own) % parts and s.end - s.start <= _LONGEST_COMPARED]


def _has_segment(handle: int, segment: Segment, blanked: Callable[[], Iterable[tuple[int, int, int]]]) -> bool:
    """Tell whether a file still has the bytes of a segment, lines aside that were blanked in raw."""
    if _sum(handle, segment.start, segment.end) == segment.sha256:
        return True
    spans = [
        (start - segment.start, end - segment.start)
        for generation, start, end in blanked()
        if generation == segment.generation and segment.start <= start < segment.end
    ]
    return bool(spans) and hashlib.sha256(blank(_read(handle, segment.start, segment.end), spans)).hexdigest() == segment.sha256


def blank(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the data with spaces in these places: as long as before, so every byte range still means the same."""
    out = bytearray(data)
    for start, end in spans:
        out[start:end] = b" " * len(data[start:end])
    return bytes(out)


def same_edges(handle: int, source: Source) -> bool:
    """Tell whether the file still begins with, and has before ``captured``, the bytes that were captured."""
    captured = source.captured
    if captured == 0:
        return True
    head = os.pread(handle, min(EDGE, captured), 0)
    tail_from = max(0, captured - EDGE)
    return edge_hash(head) == source.head_hash and edge_hash(os.pread(handle, captured - tail_from, tail_from)) == source.tail_hash


def holds(path: str, source: Source, segments: Iterable[Segment]) -> bool:
    """Tell whether a file begins with exactly the captured bytes of a source's current generation."""
    with opened(path) as handle:
        if source.captured == 0 or os.fstat(handle).st_size < source.captured or (is_lines(source.rel) and not same_edges(handle, source)):
            return False
        own = [s for s in segments if s.generation == source.generation]
        return bool(own) and all(_sum(handle, s.start, s.end) == s.sha256 for s in own)


def has_line(handle: int, start: int, size: int) -> bool:
    """Tell whether a whole line ends between two bytes of a file."""
    at = start
    rest = []
    while at < size:
        block = os.pread(handle, min(_BLOCK, size - at), at)
        if b"\n" in block:
            return True
        if not block:
            break
        rest.append(block)
        at += len(block)
    return whole_lines(b"".join(rest)) > 0


class opened:  # noqa: N801 - reads as a verb: with opened(path) as handle
    """Open a regular file for reading without ever blocking; raises SourceError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.handle = -1

    def __enter__(self) -> int:
        """Return the file descriptor."""
        try:
            self.handle = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
            status = os.fstat(self.handle)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be read: {error.strerror}", hint="check its permissions", path=self.path) from error
        if not stat.S_ISREG(status.st_mode):
            os.close(self.handle)
            raise SourceError(f"{self.path} is not a file", hint="move it away", path=self.path)
        return self.handle

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        os.close(self.handle)


def _sum(handle: int, start: int, end: int) -> str:
    state = hashlib.sha256()
    while start < end:
        block = os.pread(handle, min(_SUM, end - start), start)
        if not block:
            break
        state.update(block)
        start += len(block)
    return state.hexdigest()


_CONFLICTS = 16


class Taken(NamedTuple):
    """What became of one pending source: rows for :meth:`Ledger.commit_capture`, and the bytes."""

    source: Source
    segments: list[Segment]
    hints: list[Hint]
    data: bytes
    """new bytes: what ``segments[-1]`` holds; empty when only the row changed"""
    trouble: str = ""
    """why the host could not read its head or its hints; the bytes are captured all the same"""


class _New(NamedTuple):
    data: bytes
    generation: int
    start: int
    head: bytes
    """first bytes of the generation, as far as an identity needs them; empty where it is known"""
    head_hash: str
    tail_hash: str


def read_new_bytes(pending: Pending) -> bytes:
    """Return the bytes of a file that raw does not hold: whole lines of a JSONL file, else the whole file.

    No more than the scan saw is read, so its stat stays true. Raises SourceError when
    the file cannot be read or no longer begins with what was captured.
    """
    with opened(pending.path) as handle:
        if not is_lines(pending.rel):
            return _read(handle, 0, os.fstat(handle).st_size)
        if pending.start and (pending.known is None or not same_edges(handle, pending.known)):
            raise SourceError(f"{pending.path} was rewritten since the scan", hint="run again", path=pending.path)
        data = _read(handle, pending.start, pending.size)
    return data[: whole_lines(data)]


def take(
    files: Files, pending: Pending, *, host: Host | None = None, recorded_at: str = "", redact: Callable[[str], str] | None = None
) -> Taken:
    """Read a pending source, write its raw object and return its rows; raises SourceError, StoreError.

    Raw keeps the exact bytes; the values of hints go through ``redact`` (by default the
    built-in detectors).
    """
    declared = host or discovery.hosts()[pending.host]
    new = _database(pending, declared) if pending.marker else _file(pending)
    before = pending.known
    captured = new.start + len(new.data)
    source = Source(
        stream=pending.stream,
        host=pending.host,
        root=pending.root,
        rel=pending.rel,
        kind=pending.kind,
        size=pending.size,
        mtime_ns=pending.mtime_ns,
        inode=pending.inode,
        ctime_ns=pending.ctime_ns,
        generation=new.generation,
        captured=captured,
        head_hash=new.head_hash,
        tail_hash=new.tail_hash,
        marker=pending.marker,
    )
    if before is not None:
        source = source._replace(**{name: getattr(before, name) for name in _IDENTITY}, session_id=before.session_id, month=before.month)
        if not new.data and not (new.generation > before.generation):
            return Taken(source, [], [], b"")
    written: list[Segment] = []
    if new.data:
        source, written = _write(files, source, new, recorded_at or now_text())
    trouble = ""
    if pending.kind in declared.files.session_kinds:
        if new.head or before is None:
            identity, trouble = identify(declared, pending.kind, pending.rel, new.head)
            source = source._replace(**identity._asdict()) if identity is not None else source
        return Taken(source, written, [], new.data, trouble)
    hints, trouble = read_hints(
        declared, pending.kind, pending.rel, new.data, stream=pending.stream, redact=redact or plain_redactor().redact
    )
    return Taken(source, written, hints, new.data, trouble)


_IDENTITY = ("thread_id", "parent_thread_id", "relation", "root_session_id", "first_ts")


@lru_cache(maxsize=1)
def plain_redactor() -> Redactor:
    """Return the built-in detectors."""
    from ctx_pipeline.redaction import Redactor

    return Redactor()


def now_text() -> str:
    """Return the clock as ISO 8601 text, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _file(pending: Pending) -> _New:
    data = read_new_bytes(pending)
    if not is_lines(pending.rel):
        return _whole(pending, data)
    captured = pending.start + len(data)
    if pending.start == 0:
        return _New(data, pending.generation, 0, data[:HEAD], edge_hash(data[:EDGE]), edge_hash(data[-EDGE:]))
    with opened(pending.path) as handle:
        head = os.pread(handle, min(HEAD, captured), 0) if pending.start < HEAD else b""
        first = head[:EDGE] if head else os.pread(handle, EDGE, 0)
        tail = data[-EDGE:] if len(data) >= EDGE else os.pread(handle, min(EDGE, captured), max(0, captured - EDGE))
    return _New(data, pending.generation, pending.start, head, edge_hash(first), edge_hash(tail))


def _whole(pending: Pending, data: bytes) -> _New:
    """A file that is captured whole: the same bytes again are nothing new."""
    before = pending.known
    total = hashlib.sha256(data).hexdigest()
    if before is not None and not pending.forced and (before.captured, before.tail_hash) == (len(data), total):
        return _New(b"", before.generation, before.captured, b"", before.head_hash, before.tail_hash)
    return _New(data, pending.generation, 0, data, edge_hash(data[:EDGE]), total)


def _database(pending: Pending, host: Host) -> _New:
    """A stream of a database: rows added at its end make a segment more, anything else a new generation."""
    from ctx_pipeline.storage.raw import databases

    data = databases.read(pending.path, host.files.databases[pending.kind], pending.rel.rpartition("#")[2])
    before = pending.known
    total = hashlib.sha256(data).hexdigest()
    first = edge_hash(data[:EDGE])
    if before is None:
        return _New(data, 0, 0, data[:HEAD], first, total)
    extends = len(data) >= before.captured and hashlib.sha256(data[: before.captured]).hexdigest() == before.tail_hash
    if pending.forced or not extends:
        return _New(data, before.generation + 1, 0, data[:HEAD], first, total)
    head = data[:HEAD] if before.captured < HEAD else b""
    return _New(data[before.captured :], before.generation, before.captured, head, first, total)


def _write(files: Files, source: Source, new: _New, recorded_at: str) -> tuple[Source, list[Segment]]:
    """Write the object; where a capture that died left other bytes under the name, keep both as generations."""
    adopted: list[Segment] = []
    generation, start, data = new.generation, new.start, new.data
    sha256 = hashlib.sha256(data).hexdigest()
    for _ in range(_CONFLICTS):
        origin = Origin(
            host=source.host,
            root=source.root,
            rel=source.rel,
            kind=source.kind,
            stream=source.stream,
            generation=generation,
            start=start,
            end=start + len(data),
            sha256=sha256,
            recorded_at=recorded_at,
            mtime_ns=source.mtime_ns,
        )
        path = raw.path_of(source.host, source.stream, generation, start, origin.end)
        if not files.exists(path) or raw.read_origin(files, path).sha256 == sha256:
            segment = raw.write_hashed(files, origin, data)
            return source._replace(generation=generation), [*adopted, segment]
        if start:
            break
        adopted.append(raw.segment_of(raw.read_origin(files, path), path, files.size(path)))
        generation += 1
    raise StoreDamaged(f"{path} exists with other bytes", hint="ctx doctor", path=path)


def _read(handle: int, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        part = os.pread(handle, min(1 << 26, end - start), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)

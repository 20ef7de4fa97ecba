"""Is a changed file still the one that was captured? Answered from its edges."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from ctx_pipeline.errors import SourceError
from ctx_pipeline.storage.raw.source_identity import EDGE, edge_hash, is_lines, whole_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.storage.ledger.rows import Segment, Source

_BLOCK = 65_536
_SUM = 1 << 20


def compare(path: str, source: Source, size: int) -> str:
    """Return same, grown or rewritten: what a file with a new size or time holds against what was captured.

    Raises SourceError when it cannot be read.
    """
    with opened(path) as handle:
        if not is_lines(source.rel):
            return "same" if size == source.captured and _sum(handle, 0, size) == source.tail_hash else "rewritten"
        if size < source.captured or not same_edges(handle, source):
            return "rewritten"
        return "grown" if has_line(handle, source.captured, size) else "same"


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

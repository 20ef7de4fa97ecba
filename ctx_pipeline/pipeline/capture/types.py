"""What a scan finds: plain values that a forked worker can carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ctx_pipeline.storage.raw.home_files import Problem

if TYPE_CHECKING:
    from ctx_pipeline.storage.ledger.rows import Source

__all__ = ["Moved", "Pending", "Problem", "Retention", "Scan"]


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


class Moved(NamedTuple):
    """A stream whose file lies elsewhere now; its captured bytes are the same."""

    source: Source
    root: str
    rel: str
    kind: str
    size: int
    mtime_ns: int
    inode: int


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
    """known sources, with new size and time, that hold no new whole line"""
    ignored: list[str] = field(default_factory=list)
    """known streams that an ignore glob now covers"""
    problems: list[Problem] = field(default_factory=list)
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

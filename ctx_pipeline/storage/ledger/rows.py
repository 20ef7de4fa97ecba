"""Rows of the ledger as named tuples; fields stand in the order of the columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.raw import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.raw import Quarantined


class Source(NamedTuple):
    """A file in a home, or one named stream of a database there (``rel`` is ``<path>#<name>``)."""

    stream: str
    host: str
    root: str
    rel: str
    kind: str
    size: int
    """bytes at the last look; for a database its file and its write-ahead log together"""
    mtime_ns: int
    inode: int
    generation: int = 0
    captured: int = 0
    """bytes of the current generation that raw holds: whole lines of a JSONL file, else all"""
    head_hash: str = ""
    tail_hash: str = ""
    """hash of the bytes before ``captured``; of all bytes where the source is not JSONL"""
    marker: str = ""
    state: str = "live"
    """live, vanished or ignored"""
    thread_id: str | None = None
    parent_thread_id: str | None = None
    relation: str | None = None
    root_session_id: str | None = None
    first_ts: int | None = None
    session_id: str | None = None
    month: str | None = None
    ctime_ns: int | None = None
    """when the file system last noted a change of the file, which no program can set; None where no look has told"""

    @property
    def path(self) -> str:
        """Absolute path of the file, without the name of a stream in a database."""
        rel = self.rel.rpartition("#")[0] if self.marker else self.rel
        return f"{self.root}/{rel}"

    @property
    def partition(self) -> Cell | None:
        """The partition of its session; None for streams that belong to no session."""
        return Cell(self.host, self.month) if self.month else None


class Stamp(NamedTuple):
    """What one look at a file is compared with."""

    rel: str
    stream: str
    size: int
    mtime_ns: int
    captured: int
    state: str
    marker: str
    host: str
    root: str
    ctime_ns: int | None


class Segment(NamedTuple):
    """One raw object: bytes ``start`` to ``end`` of one generation of a stream."""

    stream: str
    generation: int
    start: int
    end: int
    sha256: str
    stored_bytes: int
    path: str
    recorded_at: str
    mtime_ns: int


class Hint(NamedTuple):
    """A fact about a thread from a stream that is not a session's."""

    host: str
    thread_id: str
    field: str
    value: str
    stream: str


RAW_LOST = "raw_lost"
"""In the counts of a session: (stream, generation, bytes) that raw must hold before it is decoded again."""

LIVE_SECRETS = "live_secrets"
"""In the counts of a session: the secrets that were replaced in it and may open something, as ``detector:hash``."""


class SessionRow(NamedTuple):
    """One session: where it lies and what has been made of it."""

    host: str
    session_id: str
    month: str
    captured_fp: str
    normalized_fp: str | None = None
    code_version: str | None = None
    content_hash: str | None = None
    parent_session: str | None = None
    first_own_ts: int | None = None
    rows: Mapping[str, Any] = {}
    part: str | None = None

    @property
    def partition(self) -> Cell:
        """The partition that holds the session."""
        return Cell(self.host, self.month)

    @property
    def dirty(self) -> bool:
        """Whether raw holds something that the tables do not."""
        return self.captured_fp != self.normalized_fp

    @property
    def raw_lost(self) -> bool:
        """Whether its rows were kept when the ledger was rebuilt, since raw does not hold all of it any more."""
        return RAW_LOST in self.rows


class Call(NamedTuple):
    """A model call that a session recorded; copies that the parser itself knows of are left out."""

    call_key: str
    ts: int | None


REPEATED = (
    *(
        "title",
        "title_source",
        "project",
        "cwd",
        "repository",
        "threads",
        "events",
        "prompts",
        "model_calls",
        "tool_calls",
        "failed_tool_calls",
    ),
    *("unknown", "lines", "bytes", "last_ts", "status"),
)
"""Columns of a session that the ledger repeats as ``counts``."""


@dataclass(slots=True)
class NormalizedSession:
    """What decoding made of one session, for :meth:`Ledger.record_normalized`."""

    host: str
    session_id: str
    fingerprint: str
    """``captured_fp`` of the session when its bytes were read"""
    content_hash: str
    counts: Mapping[str, Any] = field(default_factory=dict)
    quarantine: Sequence[Quarantined] = ()
    unknowns: Mapping[str, int] = field(default_factory=dict)
    calls: Iterable[tuple[str, int | None]] = ()
    """(call_key, ts in microseconds) of the calls that may be owned"""
    parent_session: str | None = None
    """session it was forked from, where only the parser can know"""
    part: str | None = None
    line_ids: bytes = b""
    """hashes of the ids of its lines, in order"""
    branch_titles: Mapping[bytes, str] = field(default_factory=dict)
    """hash of the id of another session's line -> title of the branch that ends there"""


class AssetCell(NamedTuple):
    """What was last committed for an asset in a cell (host and month empty: unpartitioned)."""

    asset: str
    host: str
    month: str
    input_fp: str
    code_version: str
    content_hash: str
    rows: int
    updated_at: str

    @property
    def partition(self) -> Cell:
        """The partition it is about."""
        return Cell(self.host, self.month)


class QuarantineRow(NamedTuple):
    """A record that could not be decoded, and whose it is."""

    host: str
    session_id: str
    stream: str
    generation: int
    line: int
    start: int
    end: int
    reason: str


class UnknownRow(NamedTuple):
    """How often a session holds a record, block or value of an unknown type."""

    host: str
    session_id: str
    label: str
    times: int


class Tombstone(NamedTuple):
    """A hash of something that ``ctx forget`` removed; ``kind`` is stream, thread, text or content."""

    host: str
    kind: str
    hash: str
    at: str


def live_secrets(sessions: Iterable[SessionRow]) -> Counter[str]:
    """Return, by detector, how many different secrets that may open something stood in sessions."""
    live = {name for row in sessions for name in row.rows.get(LIVE_SECRETS, ())}
    return Counter(name.partition(":")[0] for name in live)

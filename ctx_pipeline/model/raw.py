"""What a host wrote: sources, streams, segments, and who a stream belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Cell(NamedTuple):
    """One partition: a host and the month (UTC, ``YYYY-MM``) of a session's first event."""

    host: str
    month: str

    @property
    def key(self) -> str:
        """Partition key as Dagster writes it: dimensions in alphabetical order."""
        return f"{self.host}|{self.month}"

    @classmethod
    def of(cls, key: str) -> Cell:
        """Return the cell of a partition key such as ``claude|2026-03``."""
        host, _, month = key.partition("|")
        return cls(host, month)


class Identity(NamedTuple):
    """Who a stream belongs to, read from its path and first bytes.

    ``parent_thread_id`` with ``relation`` "part" joins the parent's session (an agent
    file, a spawned thread); "beside" joins it too but makes no session by itself (to-do
    lists outlive their transcript); with "fork" the stream is a session of its own that begins
    with a copy of the parent's history.
    """

    thread_id: str
    parent_thread_id: str | None = None
    relation: str = "main"
    root_session_id: str | None = None
    first_ts: int | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class StreamBytes:
    """The bytes of one generation of one stream, whole lines only."""

    stream: str
    kind: str
    rel: str
    generation: int
    data: bytes
    thread_id: str
    parent_thread_id: str | None = None
    current: bool = True
    """False for an older generation, kept because its lines may exist nowhere else."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SessionInput:
    """All captured streams of one session, and what other files say of its threads."""

    host: str
    session_id: str
    streams: tuple[StreamBytes, ...]
    hints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """thread_id -> {"title": ...}: facts from indexes and databases of the home."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Quarantined:
    """A record that could not be decoded; its bytes stay in the raw segment."""

    stream: str
    generation: int
    line: int
    start: int
    end: int
    reason: str


@dataclass(slots=True, repr=False, eq=False)
class ThreadFacts:
    """What a parser knows about a thread beyond its rows."""

    thread_id: str
    kind: str = "main"
    parent_thread_id: str | None = None
    agent: str | None = None
    title: str | None = None
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    status: str = "unknown"
    context_window: int | None = None
    """tokens that the window holds, where the host recorded it"""


@dataclass(slots=True, repr=False, eq=False)
class SessionFacts:
    """What a parser knows about a session beyond its rows."""

    title: str | None = None
    title_source: str = "none"
    cwd: str | None = None
    repository: str | None = None
    branch: str | None = None
    last_branch: str | None = None
    version: str | None = None
    parent_session: str | None = None
    status: str = "unknown"


@dataclass(slots=True, repr=False, eq=False)
class Parsed:
    """What a parser makes of one session: rows as tuples in the order of the tables.

    ``model_calls`` carry no cost yet (``cost`` and ``price`` are None) and are owner
    unless the parser itself knows that a row is a copy (then ``rule`` says why).
    Rows of one thread stand in order of ``seq``.
    """

    facts: SessionFacts = field(default_factory=SessionFacts)
    threads: list[ThreadFacts] = field(default_factory=list)
    events: list[tuple] = field(default_factory=list)
    model_calls: list[tuple] = field(default_factory=list)
    tool_calls: list[tuple] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    """label of an unknown record, block or field value -> how many"""
    repaired: int = 0
    lines: int = 0
    line_ids: list[str] = field(default_factory=list)
    """ids of the session's lines that another session's file may name, in order"""
    branch_titles: dict[str, str] = field(default_factory=dict)
    """id of a line that is not of this session -> title of the branch that ends there"""


class Origin(NamedTuple):
    """Where a raw object came from; written into the object itself."""

    host: str
    root: str
    rel: str
    kind: str
    stream: str
    generation: int
    start: int
    end: int
    sha256: str
    recorded_at: str
    mtime_ns: int

"""What is gathered while the streams of one session are read: threads, their rows, their calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ctx_pipeline.hosts.claude_code.usage import ModelCalls

if TYPE_CHECKING:
    from ctx_pipeline.hosts.claude_code.record_types import Record
    from ctx_pipeline.model.raw import Quarantined, SessionInput, StreamBytes


Part = tuple[str, "str | None", str, "str | None", "str | None"]
"""kind, subtype, actor, text and call id of one event, before it has a place"""


@dataclass(slots=True, repr=False, eq=False)
class Place:
    """The record in hand and where its events go; one object serves a whole stream."""

    stream: StreamBytes
    thread: Thread
    record: Record
    number: int = 0
    """line number"""
    seq: int = 0
    event: str = ""
    """event_id without the block number"""
    ts: int | None = None
    start: int = 0
    end: int = 0

    def line(self) -> bytes:
        """Return the record's own bytes."""
        return self.stream.data[self.start : self.end]


class Orphan(NamedTuple):
    """Rows whose parent had not been read yet."""

    thread: Thread
    first: int
    last: int
    parent_uuid: str


class Pending(NamedTuple):
    """A queued text: a prompt, unless the same words were sent later or taken back."""

    thread: Thread
    row: int
    text: str


class Answer(NamedTuple):
    """A tool result whose call may come after it in the file."""

    event: str
    ts: int | None
    text: str
    result: Any
    failed: bool


class Call(Struct, gc=False):
    """A tool call and, once it is answered, its result: the columns of tool_calls from ``seq`` on, in their order."""

    seq: int
    tool: str
    action: str
    paths: list[str]
    ranges: list[str]
    argv: list[str]
    exit: int | None
    is_error: bool
    before_sha: str | None
    after_sha: str | None
    in_chars: int
    out_chars: int
    started: int | None
    ended: int | None
    event: str
    result_event: str | None


@dataclass(slots=True, repr=False, eq=False)
class Thread:
    """One context window: its event rows in order of ``seq`` and its tool calls."""

    thread_id: str
    kind: str
    parent: str | None = None
    agent: str | None = None
    title: str | None = None
    cwd: str | None = None
    branch: str | None = None
    last_branch: str | None = None
    """of the last record in the thread's first folder; HEAD where none was checked out"""
    version: str | None = None
    rows: list[tuple] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    began: bool = False
    """Whether the branch is that of a prompt or an answer, not of a record that a host wrote of what was before."""
    open_facts: bool = True
    """Whether cwd, branch or version is still to be found."""
    plain_lines: set[bytes] | None = None
    """Lines without a uuid, kept only where the thread has several streams."""
    early: dict[str, Answer] = field(default_factory=dict)
    """call id -> the result that stands before its call"""
    said: set[tuple[int, str]] = field(default_factory=set)
    """Time and words of each prompt and answer."""

    def replays(self, ts: int | None, words: str) -> bool:
        """Tell whether the same words were said at the same time before: a client that resumes writes its history again."""
        if ts is None:
            return False
        known = (ts, words) in self.said
        self.said.add((ts, words))
        return known


@dataclass(slots=True, repr=False, eq=False)
class Titles:
    """Titles by source; the last custom and ai title win."""

    custom: str | None = None
    ai: str | None = None
    summaries: dict[str, str] = field(default_factory=dict)
    """uuid of the branch's last line -> summary"""


@dataclass(slots=True, repr=False, eq=False)
class Gathered:
    """The state of one session while its streams are read."""

    host: str
    session_id: str
    usage: ModelCalls
    threads: dict[str, Thread] = field(default_factory=dict)
    firsts: dict[str, tuple] = field(default_factory=dict)
    """uuid of a line -> row of its first event"""
    shared_uuids: set[tuple[str, int | None]] = field(default_factory=set)
    """Further times of uuids that stand on lines of different times."""
    orphans: list[Orphan] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    """Texts that were sent, for finding out which queued ones were not."""
    sidechains: dict[str, Thread] = field(default_factory=dict)
    """uuid of an inline sidechain's line -> its thread"""
    sidechain_count: int = 0
    spawned: dict[str, str] = field(default_factory=dict)
    """agent id -> thread whose call started it"""
    spilled: dict[str, str] = field(default_factory=dict)
    """file name of a spilled tool result -> its text"""
    titles: Titles = field(default_factory=Titles)
    forked_from: str | None = None
    unknown: dict[str, int] = field(default_factory=dict)
    quarantined: list[Quarantined] = field(default_factory=list)
    repaired: int = 0
    lines: int = 0

    @classmethod
    def of(cls, session: SessionInput) -> Gathered:
        """Return an empty state of a session, its main thread included."""
        state = cls(session.host, session.session_id, ModelCalls(session.host, session.session_id))
        state.thread(session.session_id, "main")
        return state

    def thread(self, thread_id: str, kind: str) -> Thread:
        """Return the thread of an id, made when it is new."""
        thread = self.threads.get(thread_id)
        if thread is None:
            parent = None if thread_id == self.session_id else self.session_id
            thread = self.threads[thread_id] = Thread(thread_id, kind, parent)
        return thread

    def count_unknown(self, label: str) -> None:
        """Count a record, block or value of an unknown type."""
        self.unknown[label] = self.unknown.get(label, 0) + 1

"""The rows of the lake's tables with validation: the contract of their columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Readings, candidates and memories with validation: the contract of their tables.


Share = Annotated[float, Field(ge=0, le=1)]
Kind = Literal["procedure", "skill", "failure_trigger", "user_preference", "repo_convention", "tool_lesson", "risk_rule", "case"]
Scope = Literal["user", "repo", "task", "global"]
Risk = Literal["low", "medium", "high"]
Result = Literal["passed", "failed", "refused", "running", "unknown"]
Priority = Annotated[int, Field(ge=1, le=5)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadingRow(_Row):
    """One reading of a signal; without a value there is a reason."""

    host: str
    session_id: str
    signal: str
    family: str
    version: int
    kind: Literal["numeric", "boolean", "categorical", "text"]
    value: float | None
    label: str | None
    unit: str
    confidence: Share
    evidence: Annotated[list[str], Field(max_length=8)]
    reason: str | None
    metadata: str | None
    input: str

    @model_validator(mode="after")
    def _value_or_reason(self) -> ReadingRow:
        if (self.value is None and self.label is None) == (self.reason is None):
            raise ValueError("a reading has either a value or a reason")
        return self


class TokenCountRow(_Row):
    """The tokens of one event's text by a public encoding."""

    event_id: str
    host: str
    session_id: str
    kind: str
    content: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    encoding: str
    tokens: Annotated[int, Field(ge=0)]
    chars: Annotated[int, Field(ge=1)]
    exact: bool


class CommandRunRow(_Row):
    """One command that an agent gave to a shell."""

    host: str
    session_id: str
    thread_id: str
    seq: Annotated[int, Field(ge=0)]
    call_event: str
    tool: str
    command: Annotated[str, Field(min_length=1)]
    programs: list[str]
    purposes: list[str]
    argv: list[str]
    folder: str | None
    environment: list[str]
    pipeline: list[str]
    background: bool
    polls: list[str]
    outputs: list[str]
    result: Result
    exit: int | None
    event: str
    line: Annotated[str, Field(max_length=200)] | None
    started: int | None
    ended: int | None


class CheckRunRow(_Row):
    """One test runner, linter, type checker or build that a command ran."""

    host: str
    session_id: str
    thread_id: str
    seq: Annotated[int, Field(ge=0)]
    call_event: str
    place: Annotated[int, Field(ge=0)]
    runner: str
    kind: Literal["test", "lint", "types", "build", "check"]
    program: str
    ran: bool | None
    passed: int | None
    failed: int | None
    skipped: int | None
    unit: str
    result: Result
    event: str
    line: Annotated[str, Field(max_length=200)] | None
    ts: int | None

    @model_validator(mode="after")
    def _passed_only_what_ran(self) -> CheckRunRow:
        if self.result == "passed" and not self.ran:
            raise ValueError("a check that did not run has not passed")
        return self


class TurnRow(_Row):
    """One prompt, what followed it in its thread up to the next, and how that ended."""

    host: str
    session_id: str
    thread_id: str
    number: Annotated[int, Field(ge=0)]
    prompt_event: str | None
    first_event: str
    last_event: str
    began: int | None
    finished: int | None
    ended: Literal["answered", "interrupted", "failed", "open"]
    answer_event: str | None
    interruption_event: str | None
    compactions: list[str]
    tool_calls: Annotated[int, Field(ge=0)]
    model_calls: Annotated[int, Field(ge=0)]
    worked: Annotated[int, Field(ge=0)] | None
    pauses: list[str]

    @model_validator(mode="after")
    def _stopped_where_somebody_stopped_it(self) -> TurnRow:
        if (self.ended == "interrupted") != (self.interruption_event is not None):
            raise ValueError("a turn is interrupted where, and only where, an event says so")
        return self


class FileAccessRow(_Row):
    """One file that one answered tool call read, changed, searched or named."""

    host: str
    session_id: str
    thread_id: str
    seq: Annotated[int, Field(ge=0)]
    call_event: str
    result_event: str | None
    place: Annotated[int, Field(ge=0)]
    path: Annotated[str, Field(min_length=1)]
    repository: str | None
    did: Literal["read", "edit", "write", "delete", "move", "search", "mention"]
    through: Literal["tool", "shell", "nested"]
    tool: str
    lines: str
    told: bool
    chars: Annotated[int, Field(ge=0)]
    old_path: str | None
    ts: int | None


class CandidateRow(_Row):
    """One lesson that a mining method drew from one session."""

    candidate_id: str
    host: str
    session_id: str
    method: str
    version: int
    kind: Kind
    text: Annotated[str, Field(min_length=1)]
    when_to_use: str | None
    structured: str | None
    evidence: Annotated[list[str], Field(min_length=1)]
    confidence: Share
    priority: Priority
    scope: Scope
    risk: Risk
    repository: str | None
    cwd: str | None
    ts: int | None


class MemoryRow(_Row):
    """One memory; a flagged one is never woven."""

    memory_id: str
    kind: Kind
    text: Annotated[str, Field(min_length=1)]
    when_to_use: str | None
    structured: str | None
    status: Literal["candidate", "accepted", "needs_review", "rejected", "retired"]
    flags: list[str]
    source: Literal["mined", "authored"]
    methods: list[str]
    scope: Scope
    repository: str | None
    cwd: str | None
    risk: Risk
    confidence: Share
    priority: Priority
    support: Annotated[int, Field(ge=0)]
    sessions: list[str]
    evidence: list[str]
    candidates: list[str]
    links: list[str]
    superseded_by: str | None
    utility: Share
    uses: Annotated[int, Field(ge=0)]
    first_ts: int | None
    last_ts: int | None


# Events, model calls and tool calls with validation: the contract of their tables.


Count = Annotated[int, Field(ge=0)]
Time = Annotated[int, Field(ge=0)]
"""Microseconds since 1970-01-01 UTC."""
Actor = Literal["user", "assistant", "tool", "system", "subagent", "hook"]
EventKind = Literal[
    "prompt",
    "injected",
    "answer",
    "reasoning",
    "tool_call",
    "tool_result",
    "compaction",
    "session_start",
    "session_end",
    "subagent_start",
    "subagent_end",
    "title",
    "todo",
    "permission",
    "error",
    "attachment",
    "unknown",
]
Action = Literal["read", "edit", "write", "search", "shell", "web", "task", "plan", "ask", "mcp", "other"]


class Row(BaseModel):
    """A row of a table: every column named, no other allowed, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Placed(Row):
    @model_validator(mode="after")
    def _range(self) -> _Placed:
        if self.end <= self.start:  # type: ignore[attr-defined]
            raise ValueError("end is not behind start")
        return self


class EventRow(_Placed):
    """One thing that happened in a session."""

    event_id: Annotated[str, Field(min_length=1)]
    host: str
    session_id: Annotated[str, Field(min_length=1)]
    thread_id: Annotated[str, Field(min_length=1)]
    seq: Count
    ts: Time | None
    kind: EventKind
    subtype: str | None
    actor: Actor
    text: str | None
    parent_id: str | None
    call_id: str | None
    call_key: str | None
    stream: str
    generation: Count
    start: Count
    end: Count
    line: Count


class ModelCallRow(_Placed):
    """One model call as one session recorded it; a copy names its owner."""

    call_key: Annotated[str, Field(min_length=1)]
    host: str
    session_id: Annotated[str, Field(min_length=1)]
    thread_id: Annotated[str, Field(min_length=1)]
    ts: Time | None
    model: str
    input: Count
    output: Count
    cache_write_5m: Count
    cache_write_1h: Count
    cache_read: Count
    reasoning: Count
    context_tokens: Count
    tier: str | None
    speed: str | None
    web_searches: Count
    recorded_cost: int | None
    cost: int | None
    price: str | None
    model_guessed: bool
    owner: bool
    copy_of: str | None
    rule: str
    stream: str
    generation: Count
    start: Count
    end: Count
    line: Count

    @model_validator(mode="after")
    def _priced_and_owned(self) -> ModelCallRow:
        if (self.cost is None) != (self.price is None):
            raise ValueError("a cost goes with the price it was worked out with")
        if self.owner and self.copy_of is not None:
            raise ValueError("an owner is no copy")
        return self


class ToolCallRow(Row):
    """One tool call joined with its result."""

    call_id: Annotated[str, Field(min_length=1)]
    host: str
    session_id: Annotated[str, Field(min_length=1)]
    thread_id: Annotated[str, Field(min_length=1)]
    seq: Count
    tool: str
    action: Action
    paths: list[str]
    ranges: list[str]
    argv: list[str]
    exit: int | None
    is_error: bool
    before_sha: str | None
    after_sha: str | None
    in_chars: Count
    out_chars: Count
    started: Time | None
    ended: Time | None
    call_event: str
    result_event: str | None


# Sessions and threads with validation: the contract of their tables.


Status = Literal["completed", "errored", "interrupted", "abandoned", "unknown"]
SessionStatus = Literal["completed", "errored", "interrupted", "abandoned", "archived", "unknown"]


class ThreadRow(Row):
    """One context window of a session."""

    thread_id: Annotated[str, Field(min_length=1)]
    host: str
    session_id: Annotated[str, Field(min_length=1)]
    kind: Literal["main", "subagent", "sidechain", "review", "fork", "compact"]
    parent_thread_id: str | None
    agent: str | None
    title: str | None
    cwd: str | None
    branch: str | None
    version: str | None
    models: list[str]
    first_ts: Time | None
    last_ts: Time | None
    events: Count
    model_calls: Count
    tool_calls: Count
    status: Status
    context_window: Count | None


class SessionRow(Row):
    """One tree of work of one host."""

    session_id: Annotated[str, Field(min_length=1)]
    host: str
    month: Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$")]
    title: str | None
    title_source: Literal["custom", "ai", "summary", "prompt", "none"]
    cwd: str | None
    repository: str | None
    project: str
    branch: str | None
    last_branch: str | None
    version: str | None
    models: list[str]
    first_ts: Time | None
    last_ts: Time | None
    parent_session: str | None
    status: SessionStatus
    threads: Count
    events: Count
    prompts: Count
    model_calls: Count
    tool_calls: Count
    failed_tool_calls: Count
    unknown: Count
    quarantined: Count
    lines: Count
    bytes: Count
    content_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

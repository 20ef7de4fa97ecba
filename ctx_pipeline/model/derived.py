"""Readings, candidates and memories with validation: the contract of their tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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

"""Events, model calls and tool calls with validation: the contract of their tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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

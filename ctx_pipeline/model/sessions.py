"""Sessions and threads with validation: the contract of their tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ctx_pipeline.model.events import Count, Row, Time

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

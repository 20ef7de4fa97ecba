"""The shapes of rollout lines: one wide struct a level, every field optional.

Fields that repeat what other records say (aggregated output, base64 images, encrypted
reasoning) are left out, so that the decoder skips them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from ctx_pipeline.hosts._lines import MAX_INT

LARGEST = 10**12
"""Tokens of one call or thread above this are a broken number."""

Int = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]


class Block(Struct, gc=False):
    """A content block of a message, a reasoning summary or a tool output."""

    type: str | None = None
    text: str | None = None
    image_url: Any = None


class Git(Struct, gc=False):
    """What the host noted about the repository."""

    commit_hash: str | None = None
    branch: str | None = None
    repository_url: str | None = None


class Usage(Struct, gc=False):
    """Tokens of one call, or running totals. Input includes cached, output includes reasoning."""

    input_tokens: Int = 0
    cached_input_tokens: Int = 0
    cache_write_input_tokens: Int = 0
    output_tokens: Int = 0
    reasoning_output_tokens: Int = 0

    def key(self) -> tuple[int, int, int, int, int]:
        """Return the numbers in a fixed order; one beyond reason is a broken number and counts as none."""
        found = (
            self.input_tokens,
            self.cached_input_tokens,
            self.cache_write_input_tokens,
            self.output_tokens,
            self.reasoning_output_tokens,
        )
        if max(found) <= LARGEST:
            return found
        a, b, c, d, e = (n if n <= LARGEST else 0 for n in found)
        return a, b, c, d, e


class Info(Struct, gc=False):
    """Body of a token_count event; null on events that only say rate limits."""

    total_token_usage: Usage | None = None
    last_token_usage: Usage | None = None
    model_context_window: Any = None
    model: str | None = None


class Action(Struct, gc=False):
    """What a web search or a local shell call does."""

    type: str | None = None
    query: str | None = None
    url: str | None = None
    pattern: str | None = None
    command: list[str] | None = None


class Change(Struct, gc=False):
    """One file of a patch."""

    type: str | None = None
    content: str | None = None
    unified_diff: str | None = None
    move_path: str | None = None


class ParsedCommand(Struct, gc=False):
    """How Codex itself understood a part of a shell command."""

    path: str | None = None


class Invocation(Struct, gc=False):
    """Which MCP tool was called."""

    server: str | None = None
    tool: str | None = None
    arguments: Raw = Raw()


class Item(Struct, gc=False):
    """A finished item of a paginated thread."""

    type: str | None = None
    id: str | None = None
    text: str | None = None
    content: str | list[Block] | None = None
    summary_text: list[str] | None = None
    exit_code: Int | None = None


class Settings(Struct, gc=False):
    """The part of thread settings that prices depend on."""

    service_tier: str | None = None


class Payload(Struct, gc=False):
    """Body of a line of any type; in bare files the line itself."""

    type: str | None = None
    record_type: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[Block] | None = None
    summary: str | list[Block] | None = None
    phase: str | None = None
    # tools
    name: str | None = None
    namespace: str | None = None
    call_id: str | None = None
    arguments: str | dict[str, Any] | list[Any] | None = None
    input: str | dict[str, Any] | list[Any] | None = None
    output: str | dict[str, Any] | list[Block] | None = None
    status: str | None = None
    action: Action | None = None
    command: list[str] | str | None = None
    exit_code: Int | None = None
    aggregated_output: Raw = Raw()
    duration: Any = None
    parsed_cmd: list[ParsedCommand] | None = None
    success: bool | None = None
    changes: dict[str, Change] | None = None
    invocation: Invocation | None = None
    result: Raw = Raw()
    tools: Raw = Raw()
    query: str | None = None
    revised_prompt: str | None = None
    # events
    message: str | dict[str, Any] | None = None
    text: str | None = None
    info: Info | None = None
    rate_limits: Raw = Raw()
    item: Item | None = None
    reason: str | None = None
    thread_name: str | None = None
    turn_id: str | None = None
    started_at: Any = None
    duration_ms: Any = None
    time_to_first_token_ms: Any = None
    model_context_window: Any = None
    window_number: Any = None
    window_id: Any = None
    thread_settings: Settings | None = None
    # token_usage_record
    thread_id: str | None = None
    response_id: str | None = None
    usage: Usage | None = None
    thread_token_usage: Usage | None = None
    # session_meta and turn_context
    session_id: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    originator: str | None = None
    cli_version: str | None = None
    source: Raw = Raw()
    thread_source: str | None = None
    model_provider: str | None = None
    history_mode: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None
    git: Git | None = None
    instructions: str | None = None
    base_instructions: str | Block | None = None
    model: str | None = None
    effort: str | None = None
    approval_policy: Any = None


class Line(Struct, gc=False):
    """A wrapped line: ``{"timestamp", "type", "payload"}``."""

    timestamp: str | None = None
    type: str | None = None
    payload: Payload | None = None


class Subagent(Struct, gc=False):
    """Body of ``source.subagent.thread_spawn``."""

    parent_thread_id: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None


class Arguments(Struct, gc=False):
    """The arguments of a tool call that say what it touches."""

    cmd: str | list[str] | None = None
    command: str | list[str] | None = None
    path: str | None = None
    file_path: str | None = None
    patch: str | None = None
    input: str | None = None


class Metadata(Struct, gc=False):
    """Beside the text of a tool output in 2025."""

    exit_code: Int | None = None


class Output(Struct, gc=False):
    """A tool output of 2025: JSON in a string."""

    output: str
    metadata: Metadata | None = None


class Document(Struct, gc=False):
    """A rollout of the TypeScript CLI (April to June 2025): one JSON document."""

    session: Payload | None = None
    items: list[Payload] = []


FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises on hostile bytes."""

wrapped = msgspec.json.Decoder(Line)
bare = msgspec.json.Decoder(Payload)
document = msgspec.json.Decoder(Document)
arguments = msgspec.json.Decoder(Arguments)
output = msgspec.json.Decoder(Output)
anything = msgspec.json.Decoder()


def value_of(raw: Raw) -> Any:
    """Return the value of a field that was left undecoded, None where there is none or it is broken."""
    if not raw:
        return None
    try:
        return anything.decode(raw)
    except FAILURES:
        return None


def written(value: Any) -> str:
    """Return a value as compact JSON text; numbers that no encoder takes are written as Python does."""
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError):
        return repr(value)

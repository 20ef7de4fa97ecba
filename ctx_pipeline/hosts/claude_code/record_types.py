"""The fields of Claude Code's records that are read, as wide optional structs.

One struct a level and no tagged unions: both an unknown record type and an unknown
field must decode. Fields stand in the order in which Claude Code writes them: the
decoder looks for the next key where it found the last one. Copies of what stands elsewhere (``toolUseResult`` texts, base64
data, signatures) are skipped by the decoder and never become objects.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, field

from ctx_pipeline.hosts._lines import MAX_INT

DecodeErrors = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Count = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]


class CacheSplit(Struct, gc=False):
    """Cache writes by lifetime."""

    ephemeral_5m_input_tokens: Count | float | None = None
    ephemeral_1h_input_tokens: Count | float | None = None


class ServerTools(Struct, gc=False):
    """Requests that the API billed beside tokens."""

    web_search_requests: Count | float | None = None


class Iteration(Struct, gc=False):
    """One request inside a response; only those of an advisor are not in the totals."""

    type: str | None = None
    model: str | None = None
    input_tokens: Count | float | None = None
    output_tokens: Count | float | None = None
    cache_creation_input_tokens: Count | float | None = None
    cache_read_input_tokens: Count | float | None = None
    cache_creation: CacheSplit | None = None


class Usage(Struct, gc=False):
    """Tokens of one API response, repeated on each of its lines."""

    input_tokens: Count | float | None = None
    cache_creation_input_tokens: Count | float | None = None
    cache_read_input_tokens: Count | float | None = None
    cache_creation: CacheSplit | None = None
    output_tokens: Count | float | None = None
    server_tool_use: ServerTools | None = None
    service_tier: str | None = None
    iterations: list[Iteration] | None = None
    speed: str | None = None


class Source(Struct, gc=False):
    """Where an image or document came from; its data is kept by hash."""

    type: str | None = None
    media_type: str | None = None
    url: str | None = None
    data: Raw = Raw()


class Block(Struct, gc=False):
    """One content block of a message or of a tool result."""

    tool_use_id: str | None = None
    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    content: str | list[Block | str] | Block | None = None
    is_error: bool | None = None
    text: str | None = None
    thinking: str | None = None
    source: Source | None = None
    tool_name: str | None = None


class Message(Struct, gc=False):
    """The API message inside a user or assistant record."""

    model: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[Block | str] | None = None
    usage: Usage | None = None


class Hunk(Struct, gc=False, rename="camel"):
    """One changed stretch of a file."""

    new_start: Count | None = None
    new_lines: Count | None = None


class ReadFile(Struct, gc=False, rename="camel"):
    """What a Read returned, without its text."""

    file_path: Any = None
    start_line: Any = None
    num_lines: Any = None


class ToolUseResult(Struct, gc=False, rename="camel"):
    """The structured copy of a tool result: only what its text does not say."""

    interrupted: Any = None
    file: ReadFile | str | None = None
    file_path: Any = None
    structured_patch: list[Hunk] | None = None
    agent_id: Any = None
    exit_code: Any = None
    return_code_interpretation: Any = None
    background_task_id: Any = None
    persisted_output_path: Any = None


class Origin(Struct, gc=False):
    """Who wrote a user record that the person did not."""

    kind: str | None = None


class ForkedFrom(Struct, gc=False, rename="camel"):
    """The session that a fork began with."""

    session_id: str | None = None


class Record(Struct, gc=False, rename="camel"):
    """One line of a transcript, an agent file or a workflow journal."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    message: Message | str | None = None
    request_id: str | None = None
    type: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    tool_use_result: str | list[Raw] | ToolUseResult | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    origin: Origin | None = None
    forked_from: ForkedFrom | None = None
    cost_usd: Count | float | None = field(name="costUSD", default=None)
    permission_mode: str | None = None
    subtype: str | None = None
    content: str | list[Block | str] | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    agent_name: str | None = None
    operation: str | None = None
    attachment: Raw = Raw()
    data: Raw = Raw()
    snapshot: Raw = Raw()
    compact_metadata: Raw = Raw()
    microcompact_metadata: Raw = Raw()
    mode: str | None = None
    result: Raw = Raw()
    team_name: str | None = None
    plan_content: Raw = Raw()


class Head(Struct, gc=False, rename="camel"):
    """Enough of a line to know whose it is."""

    session_id: str | None = None
    forked_from: ForkedFrom | None = None


class Arguments(Struct, gc=False):
    """Arguments of a tool call that name files, lines or commands; of any type, since tools are open."""

    file_path: Any = None
    notebook_path: Any = None
    path: Any = None
    command: Any = None
    offset: Any = None
    limit: Any = None
    url: Any = None
    query: Any = None
    content: Any = None


class Attachment(Struct, gc=False, rename="camel"):
    """What tells the kinds of attachment apart."""

    type: Any = None
    prompt: Any = None
    command_mode: Any = None


class Progress(Struct, gc=False, rename="camel", omit_defaults=True):
    """A progress record without the output and messages that it repeats."""

    type: Any = None
    hook_event: Any = None
    hook_name: Any = None
    command: Any = None
    agent_id: Any = None
    server_name: Any = None
    tool_name: Any = None
    status: Any = None
    elapsed_time_seconds: Any = None
    elapsed_time_ms: Any = None
    total_lines: Any = None
    query: Any = None
    result_count: Any = None
    task_description: Any = None
    task_type: Any = None


class AgentMeta(Struct, gc=False, rename="camel"):
    """The file beside an agent's transcript."""

    agent_type: str | None = None
    description: str | None = None


class Prompt(Struct, gc=False, rename="camel"):
    """One line of history.jsonl."""

    display: str | None = None
    session_id: str | None = None


class IndexEntry(Struct, gc=False, rename="camel"):
    """One session of sessions-index.json; it may be stale."""

    session_id: str | None = None
    summary: str | None = None
    first_prompt: str | None = None


class Index(Struct, gc=False):
    """sessions-index.json."""

    entries: list[IndexEntry] | None = None


record_decoder = msgspec.json.Decoder(Record)
head_decoder = msgspec.json.Decoder(Head)
arguments_decoder = msgspec.json.Decoder(Arguments)
attachment_decoder = msgspec.json.Decoder(Attachment)
progress_decoder = msgspec.json.Decoder(Progress)
meta_decoder = msgspec.json.Decoder(AgentMeta)
prompt_decoder = msgspec.json.Decoder(Prompt)
index_decoder = msgspec.json.Decoder(Index)
encode = msgspec.json.encode

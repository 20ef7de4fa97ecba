"""Parts of an assistant record: what the model said, thought and called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts.claude_code.notices import label_of
from ctx_pipeline.hosts.claude_code.prompts import answer_call, attached, join, unknown_block
from ctx_pipeline.hosts.claude_code.thread import Call
from ctx_pipeline.hosts.claude_code.tools import action_of, arguments_of
from ctx_pipeline.hosts.claude_code.usage import SYNTHETIC

if TYPE_CHECKING:
    from ctx_pipeline.hosts.claude_code.records import Block, Message
    from ctx_pipeline.hosts.claude_code.thread import Gathered, Part, Place

_ANSWER = ("answer", None, "assistant")
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def answer_parts(state: Gathered, place: Place, message: Message) -> list[Part]:
    """Return the events of an assistant record, blocks in order; one without text when it has none."""
    said: tuple[str, str | None, str] = _ANSWER
    if place.record.is_api_error_message:
        said = ("error", "api_error_message", "system")
    elif message.model == SYNTHETIC:
        said = ("injected", "synthetic", "system")
    content = message.content
    if not isinstance(content, list):
        return [_text(place, said, content)]
    parts: list[Part] = []
    for block in content:
        if isinstance(block, str):
            parts.append(_text(place, said, block))
            continue
        kind = block.type
        if kind == "text":
            parts.append(_text(place, said, block.text))
        elif kind == "thinking":
            parts.append(("reasoning", None, "assistant", block.thinking, None))
        elif kind in _CALLS:
            parts.append(_call(place, block, len(parts)))
        elif kind == "redacted_thinking":
            parts.append(("reasoning", kind, "assistant", None, None))
        else:
            parts += _rare(state, place, block, len(parts))
    return parts or [_text(place, said, None)]


def _text(place: Place, said: tuple[str, str | None, str], text: str | None) -> Part:
    """Return the event of one text block; a blank one, and one that is written again at its old time, is no answer.

    One without a text field is: the call was made, and what it said was not recorded.
    """
    if said is _ANSWER and text is not None:
        if not text or text.isspace():
            return ("injected", "empty", "assistant", text, None)
        if place.thread.replays(place.ts, text):
            return ("injected", "replay", "assistant", text, None)
    return (*said, text, None)


def _call(place: Place, block: Block, index: int) -> Part:
    tool = block.name or "unknown"
    raw = block.input
    text = str(raw, "utf-8", "replace")
    action = action_of(tool)
    paths, ranges, argv, after = arguments_of(action, raw)
    event = f"{place.event}{index}"
    call_id = block.id or event
    calls = place.thread.calls
    if call_id not in calls:
        calls[call_id] = Call(
            place.seq + index, tool, action, paths, ranges, argv, None, False, None, after, len(text), 0, place.ts, None, event, None
        )
        if (early := place.thread.early.pop(call_id, None)) is not None:
            join(calls[call_id], early)
    kind = block.type
    return ("tool_call", None if kind == "tool_use" else kind, "assistant", text, call_id)


def _rare(state: Gathered, place: Place, block: Block, index: int) -> list[Part]:
    kind = block.type or ""
    if kind == "tool_result" or kind.endswith("_tool_result"):
        return answer_call(state, place, block, index)
    if kind in ("image", "document"):
        return [attached(block, None)]
    if kind == "fallback":
        return [("attachment", kind, "system", block.text, None)]
    if kind == "compaction":
        said = block.content
        return [("compaction", kind, "system", said if isinstance(said, str) else block.text, None)]
    return [unknown_block(state, f"assistant/{label_of(block.type)}", block, place)]

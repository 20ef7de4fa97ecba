"""Response items: messages, reasoning, tool calls and their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._blobs import hashed, without_blobs
from ctx_pipeline.hosts.codex import tools
from ctx_pipeline.hosts.codex.dedupe import injected, joined
from ctx_pipeline.hosts.codex.records import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.hosts.codex.records import Payload
    from ctx_pipeline.hosts.codex.threads import Entry
    from ctx_pipeline.hosts.codex.walk import Walk


def _message(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = joined(payload.content)
    role = payload.role
    if role == "assistant":
        if text.strip() not in walk.families.answers:
            walk.say(entry, "answer", text, _with_phase("message/assistant", payload))
    elif role == "user":
        _user(walk, entry, payload, text)
    else:
        walk.inject(entry, text, f"message/{role}"[:100], "system")


def _user(walk: Walk, entry: Entry, payload: Payload, text: str) -> None:
    families = walk.families
    if not families.typed:
        if injected(text):
            walk.inject(entry, text, "message/user", "system")
        else:
            walk.prompt(entry, text, "message/user")
        walk.pictures(entry, payload.content, "user")
        return
    if text.strip() in families.prompts:
        walk.pictures(entry, payload.content, "user")
        return
    blocks = payload.content
    if isinstance(blocks, list) and any((block.text or "").strip() in families.prompts for block in blocks if block.text):
        walk.pictures(entry, blocks, "user")
        return
    walk.inject(entry, text, "message/user", "system")


def _with_phase(subtype: str, payload: Payload) -> str:
    return f"{subtype}/{payload.phase}"[:100] if payload.phase else subtype


def _reasoning(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = joined(payload.summary) or joined(payload.content)
    walk.say(entry, "reasoning", text or None, "reasoning")


def _function_call(walk: Walk, entry: Entry, payload: Payload) -> None:
    name = payload.name or payload.type or "function_call"
    text = _written(payload.arguments if payload.arguments is not None else payload.input)
    touched = tools.file_access(name, payload.namespace, text)
    tool = walk.call(entry, payload.call_id, touched, text, payload.type or "function_call")
    if payload.status == "failed":
        tool.is_error = True


def _local_shell(walk: Walk, entry: Entry, payload: Payload) -> None:
    command = tuple(payload.action.command or ()) if payload.action else ()
    text = written(command)
    walk.call(entry, payload.call_id or payload.id, tools.FileAccess("local_shell", "shell", (), command), text, "local_shell_call")


def _web_search(walk: Walk, entry: Entry, payload: Payload) -> None:
    action = payload.action
    text = " ".join(t for t in (action.query, action.url, action.pattern) if t) if action else ""
    call_id = payload.call_id or payload.id
    ended = walk.searches.popleft() if walk.searches else None
    tool = walk.call(entry, call_id or (ended[0] if ended else None), tools.FileAccess("web_search", "web"), text, "web_search_call")
    tool.is_error = payload.status == "failed"
    if ended:
        walk.rows.adopt(ended[1], tool)


def _output(walk: Walk, entry: Entry, payload: Payload) -> None:
    end = tools.ending(payload.output)
    asked = walk.rows.open.get(payload.call_id or "")
    kept = tools.kept_from_running(asked.name, asked.action, end) if asked is not None else None
    tool = walk.rows.result(entry, payload.call_id, end.text, kept or payload.type or "function_call_output")
    if isinstance(payload.output, list):
        walk.pictures(entry, payload.output, "tool", call_id=payload.call_id)
    if tool is not None:
        if end.exit is not None:
            tool.exit = end.exit
        if end.failed or kept:
            tool.is_error = True


def _tool_search(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = _written(payload.arguments)
    walk.call(entry, payload.call_id or payload.id, tools.FileAccess("tool_search", "other"), text, "tool_search_call")


def _tool_search_output(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.rows.result(
        entry, payload.call_id or payload.id, without_blobs(bytes(payload.tools).decode("utf-8", "replace")), "tool_search_output"
    )


def _image(walk: Walk, entry: Entry, payload: Payload) -> None:
    touched = tools.FileAccess("image_generation", "other")
    tool = walk.call(entry, payload.call_id or payload.id, touched, payload.revised_prompt or "", "image_generation_call")
    tool.is_error = payload.status == "failed"
    if made := bytes(payload.result).decode("utf-8", "replace").strip('"'):
        digest, size = hashed(made)
        text = written({"type": "image", "sha256": digest, "bytes": size})
        walk.rows.event(entry, "attachment", "image_generation_call/result", "tool", text, call_id=tool.call_id, block=1)


def _agent_message(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, "agent_message", kind="injected", actor="subagent", text=joined(payload.content))


def _unknown(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, payload.type or "response_item")


def _encrypted(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, payload.type or "compaction", text="")


def _written(arguments: str | dict[str, Any] | list[Any] | None) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else written(arguments)


ITEMS: dict[str, Callable[[Walk, Entry, Payload], None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "local_shell_call": _local_shell,
    "local_shell_call_output": _output,
    "web_search_call": _web_search,
    "tool_search_call": _tool_search,
    "tool_search_output": _tool_search_output,
    "image_generation_call": _image,
    "agent_message": _agent_message,
    "ghost_snapshot": _unknown,
    "additional_tools": _unknown,
    "compaction": _encrypted,
    "compaction_summary": _encrypted,
    "context_compaction": _encrypted,
}
"""What adds the rows of a response item, by its type; one without a type is a message where it has a role."""

"""Event messages: what the person and the model said, how tools ended, what became of turns."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ctx_pipeline.hosts._values import without_blobs
from ctx_pipeline.hosts.codex import tools
from ctx_pipeline.hosts.codex.items import joined
from ctx_pipeline.hosts.codex.record_types import value_of, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.hosts.codex.record_types import Change, Item, Payload
    from ctx_pipeline.hosts.codex.rows import Tool
    from ctx_pipeline.hosts.codex.thread_lines import Entry
    from ctx_pipeline.hosts.codex.thread_state import Walk

_LONGEST = 10**7
"""Seconds of a call, at most: more is a broken number."""


def _user_message(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.prompt(entry, _message_text(payload), "user_message")


def _agent_message(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.say(entry, "answer", _message_text(payload), f"agent_message/{payload.phase}"[:100] if payload.phase else "agent_message")


def _agent_reasoning(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = payload.text or ""
    if text.strip() not in walk.families.thoughts:
        walk.say(entry, "reasoning", text, payload.type or "agent_reasoning")


def _message_text(payload: Payload) -> str:
    message = payload.message
    if isinstance(message, str):
        return message
    return written(message) if message is not None else payload.text or ""


def _token_count(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.count(entry, walk.counter.count(payload.info), payload)
    if payload.info is not None:
        walk.holds(payload.info.model_context_window)
    limits = bytes(payload.rate_limits)
    if limits and limits not in (walk.limits, b"null"):
        walk.limits = limits
        walk.note(entry, "token_count/rate_limits", text=limits.decode("utf-8", "replace"))


def _item_completed(walk: Walk, entry: Entry, payload: Payload) -> None:
    item = payload.item
    kind = item.type if item is not None else None
    if item is None or kind not in _FINISHED:
        walk.unknown(entry, payload)
        return
    subtype = f"item_completed/{kind}"
    text = joined(item.content) or item.text or ""
    if kind == "UserMessage":
        walk.prompt(entry, text, subtype)
    elif kind == "AgentMessage":
        walk.say(entry, "answer", text, subtype)
    elif kind == "Reasoning":
        text = "\n".join(item.summary_text or ()) or text
        if text.strip() not in walk.families.thoughts:
            walk.say(entry, "reasoning", text, subtype)
    elif kind in {"Plan", "TodoList"}:
        walk.note(entry, subtype, kind="todo", actor="assistant", text=text or None)
    else:
        _item_exit(walk, item)
        walk.note(entry, subtype)


def _item_exit(walk: Walk, item: Item) -> None:
    tool = walk.rows.open.get(item.id or "")
    if tool is not None and item.exit_code is not None:
        tool.exit = item.exit_code
        tool.is_error = item.exit_code != 0


_FINISHED = frozenset(
    {
        "UserMessage",
        "AgentMessage",
        "Reasoning",
        "Plan",
        "TodoList",
        "CommandExecution",
        "ContextCompaction",
        "EnteredReviewMode",
        "ExitedReviewMode",
        "FileChange",
        "HookPrompt",
        "ImageGeneration",
        "ImageView",
        "McpToolCall",
        "WebSearch",
    }
)


def _exec_end(walk: Walk, entry: Entry, payload: Payload) -> None:
    tool = walk.rows.open.get(payload.call_id or "")
    command = payload.command
    argv = () if command is None else (command,) if isinstance(command, str) else tuple(command)
    if tool is None:
        # a command that the person ran: there is no call of the model
        text = written(argv)
        tool = walk.call(entry, payload.call_id, tools.FileAccess("user_shell", "shell", (), argv), text, "exec_command_end")
        said = value_of(payload.aggregated_output)
        if isinstance(said, str):
            walk.rows.result(entry, tool.call_id, said, "exec_command_end", block=1)
        _timed(tool, entry, payload)
    elif tool.action == "shell":
        tool.argv = tool.argv or argv
    paths = dict.fromkeys(p.path for p in payload.parsed_cmd or () if p.path)
    tool.paths = tool.paths or tuple(paths)
    if payload.exit_code is not None:
        tool.exit = payload.exit_code
        tool.is_error = payload.exit_code != 0


def _timed(tool: Tool, entry: Entry, payload: Payload) -> None:
    """Give a call that only its end event tells of its times: the end, and the duration before it."""
    tool.ended = entry.ts
    length = payload.duration
    seconds = length.get("secs") if isinstance(length, dict) else None
    nanos = length.get("nanos", 0) if isinstance(length, dict) else None
    if isinstance(seconds, int) and isinstance(nanos, int) and entry.ts is not None and 0 <= seconds < _LONGEST and 0 <= nanos < 10**9:
        tool.started = entry.ts - seconds * 1_000_000 - nanos // 1_000


def _patch_end(walk: Walk, entry: Entry, payload: Payload) -> None:
    changes = payload.changes or {}
    tool = walk.rows.open.get(payload.call_id or "")
    if tool is None:
        touched = tools.FileAccess("apply_patch", "edit", tuple(changes))
        tool = walk.call_inside(entry, payload.call_id, touched, "\n".join(changes), "patch_apply_end")
        tool.ended = entry.ts
    tool.paths = tuple(changes) or tool.paths
    if payload.success is not None:
        tool.is_error = not payload.success
    spans = tuple(tools.changed_lines(change.unified_diff) for change in changes.values())
    tool.ranges = spans if any(spans) else ()
    if len(changes) == 1:
        tool.before_sha, tool.after_sha = _hashes(next(iter(changes.values())))


def _hashes(change: Change) -> tuple[str | None, str | None]:
    if change.content is None:
        return None, None
    value = hashlib.sha256(change.content.encode("utf-8", "replace")).hexdigest()
    return (value, None) if change.type == "delete" else (None, value) if change.type == "add" else (None, None)


def _mcp_end(walk: Walk, entry: Entry, payload: Payload) -> None:
    said = payload.invocation
    name = f"{said.server}.{said.tool}" if said else "mcp"
    result = bytes(payload.result)
    failed = result.startswith((b'{"Err"', b'{"err"')) or b'"isError":true' in result or b'"isError": true' in result
    tool = walk.rows.open.get(payload.call_id or "")
    if tool is not None:
        tool.action = "mcp"
        tool.is_error = tool.is_error or failed
        return
    text = bytes(said.arguments).decode("utf-8", "replace") if said else ""
    tool = walk.call_inside(entry, payload.call_id, tools.FileAccess(name, "mcp"), text, "mcp_tool_call_end")
    tool.is_error = failed
    walk.rows.result(entry, tool.call_id, without_blobs(result.decode("utf-8", "replace")), "mcp_tool_call_end", block=1)
    _timed(tool, entry, payload)


def _search_end(walk: Walk, entry: Entry, payload: Payload) -> None:
    tool = walk.rows.open.get(payload.call_id or "")
    if tool is None and not walk.families.searches:
        text = payload.query or ""
        walk.call(entry, payload.call_id, tools.FileAccess("web_search", "web"), text, "web_search_end").ended = entry.ts
        return
    if tool is None:
        walk.searches.append((payload.call_id, len(walk.rows.events)))
    walk.rows.result(entry, payload.call_id, payload.query or "", "web_search_end")


def _dynamic_request(walk: Walk, entry: Entry, payload: Payload) -> None:
    arguments = payload.arguments
    text = arguments if isinstance(arguments, str) else "" if arguments is None else written(arguments)
    name = payload.name or "dynamic_tool"
    if walk.rows.open.get(payload.call_id or "") is None:
        walk.call(entry, payload.call_id, tools.file_access(name, payload.namespace, text), text, payload.type or name)


def _dynamic_response(walk: Walk, entry: Entry, payload: Payload) -> None:
    tool = walk.rows.result(entry, payload.call_id, joined(payload.content), payload.type or "dynamic_tool_call_response")
    if tool is not None and payload.success is False:
        tool.is_error = True


def _started(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.status = "unknown"
    walk.ended = len(walk.rows.tools)
    walk.holds(payload.model_context_window)
    _unknown(walk, entry, payload)


def _complete(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.status = "completed"
    walk.ended = len(walk.rows.tools)
    walk.rows.event(entry, "attachment", payload.type or "task_complete", "system", _turn_text(payload))


def _aborted(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.status = "interrupted"
    walk.ended = len(walk.rows.tools)
    if payload.reason == "interrupted":
        walk.rows.event(entry, "injected", "interrupt", "user", payload.reason)
    else:
        walk.rows.event(entry, "injected", "turn_aborted", "system", payload.reason)


def _turn_text(payload: Payload) -> str:
    facts = {"turn_id": payload.turn_id, "duration_ms": payload.duration_ms, "time_to_first_token_ms": payload.time_to_first_token_ms}
    return written({name: value for name, value in facts.items() if value is not None})


def _error(walk: Walk, entry: Entry, payload: Payload) -> None:
    if payload.type == "error":
        walk.status = "errored"
    walk.rows.event(entry, "error", payload.type or "error", "system", _message_text(payload))


def _name(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.name = (payload.thread_name or "").strip() or walk.name
    walk.rows.event(entry, "title", "thread_name_updated", "system", payload.thread_name)


def _settings(walk: Walk, entry: Entry, payload: Payload) -> None:
    if payload.thread_settings is not None:
        walk.tier = payload.thread_settings.service_tier
    _unknown(walk, entry, payload)


def _compacted(walk: Walk, entry: Entry, payload: Payload) -> None:
    kind = "attachment" if walk.families.compacted else "compaction"
    walk.rows.event(entry, kind, payload.type or "context_compacted", "system", None)


def _unknown(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, payload.type or "event_msg")


def _of_kind(kind: str, actor: str) -> Callable[[Walk, Entry, Payload], None]:
    def keep(walk: Walk, entry: Entry, payload: Payload) -> None:
        walk.note(entry, payload.type or kind, kind=kind, actor=actor)

    return keep


EVENTS: dict[str, Callable[[Walk, Entry, Payload], None]] = {
    "user_message": _user_message,
    "agent_message": _agent_message,
    "agent_reasoning": _agent_reasoning,
    "agent_reasoning_raw_content": _agent_reasoning,
    "token_count": _token_count,
    "item_completed": _item_completed,
    "exec_command_end": _exec_end,
    "patch_apply_end": _patch_end,
    "mcp_tool_call_end": _mcp_end,
    "web_search_end": _search_end,
    "dynamic_tool_call_request": _dynamic_request,
    "dynamic_tool_call_response": _dynamic_response,
    "task_started": _started,
    "turn_started": _started,
    "task_complete": _complete,
    "turn_complete": _complete,
    "turn_aborted": _aborted,
    "error": _error,
    "stream_error": _error,
    "warning": _error,
    "thread_name_updated": _name,
    "thread_settings_applied": _settings,
    "context_compacted": _compacted,
    "plan_update": _of_kind("todo", "assistant"),
    "guardian_assessment": _of_kind("permission", "system"),
    "exec_approval_request": _of_kind("permission", "system"),
    "apply_patch_approval_request": _of_kind("permission", "system"),
    "request_permissions": _of_kind("permission", "system"),
    "collab_agent_spawn_end": _of_kind("subagent_start", "assistant"),
    "collab_close_end": _of_kind("subagent_end", "assistant"),
    **dict.fromkeys(
        (
            "background_event",
            "collab_agent_interaction_end",
            "collab_resume_end",
            "collab_waiting_end",
            "deprecation_notice",
            "entered_review_mode",
            "exited_review_mode",
            "image_generation_end",
            "model_reroute",
            "session_configured",
            "sub_agent_activity",
            "thread_goal_updated",
            "thread_rolled_back",
            "turn_diff",
            "undo_completed",
            "view_image_tool_call",
        ),
        _unknown,
    ),
}
"""What adds the rows of an event message, by its type."""

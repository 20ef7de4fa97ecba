"""One record of every type, subtype, block and item that the hosts are known to write, with the event it must become.

A row is ``(record, kind, subtype)``. Chained records of Claude Code lack their envelope,
those of Codex their time: ``claude_lines`` and ``codex_lines`` add them.
"""

from __future__ import annotations

import json
from typing import Any

from ctx_pipeline_tests.factories import codex as make

Row = tuple[dict[str, Any], str, str | None]

PNG = "iVBORw0KGgoA" + "QUJDRA" * 800
"""A picture as it stands in a record: base64 that begins as PNG does."""


def _user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}} | fields


def _assistant(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "id": "m", "model": "claude-opus-4-7", "content": list(blocks)}} | fields


def _system(subtype: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "system", "level": "info"} | ({"subtype": subtype} if subtype else {}) | fields


_TEXT = {"type": "text", "text": "words"}
_ANSWERED = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}

CLAUDE: list[Row] = [
    # user
    (_user("typed"), "prompt", None),
    (_user([_TEXT]), "prompt", None),
    (_user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]), "attachment", "image"),
    (_user([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}]), "attachment", "document"),
    (_user([_ANSWERED]), "tool_result", None),
    (_user([_ANSWERED | {"content": [_TEXT, {"type": "tool_reference", "tool_name": "Read"}]}]), "tool_result", None),
    (_user("skill body", isMeta=True), "injected", "meta"),
    (_user("so far", isCompactSummary=True, isVisibleInTranscriptOnly=True), "injected", "compact-summary"),
    (_user("a task ended", origin={"kind": "task-notification"}), "injected", "task-notification"),
    # assistant
    (_assistant(_TEXT), "answer", None),
    (_assistant({"type": "thinking", "thinking": "hm", "signature": "c2ln"}), "reasoning", None),
    (_assistant({"type": "thinking", "thinking": "", "signature": "c2ln"}), "reasoning", None),
    (_assistant({"type": "redacted_thinking", "data": "xx"}), "reasoning", "redacted_thinking"),
    (
        _assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}}),
        "tool_call",
        None,
    ),
    (_assistant({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}), "tool_call", "server_tool_use"),
    (_assistant({"type": "mcp_tool_use", "id": "s2", "name": "log", "input": {}}), "tool_call", "mcp_tool_use"),
    (
        _assistant({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "text": "r"}]}),
        "tool_result",
        "web_search_tool_result",
    ),
    (_assistant({"type": "fallback", "text": "another model"}), "attachment", "fallback"),
    (_assistant({"type": "compaction", "content": "so far"}), "compaction", "compaction"),
    (_assistant(_TEXT, isApiErrorMessage=True, error="overloaded"), "error", "api_error_message"),
    (
        {"type": "assistant", "message": {"role": "assistant", "id": "x", "model": "<synthetic>", "content": [_TEXT]}},
        "injected",
        "synthetic",
    ),
    # system
    (_system(None, content="Running hook", toolUseID="t"), "injected", "system"),
    (_system("informational", content="x"), "injected", "system/informational"),
    (_system("local_command", content="<command-name>/x</command-name>"), "injected", "system/local_command"),
    (_system("api_error", error={"status": 529}, retryInMs=5.0, retryAttempt=1, maxRetries=10), "error", "system/api_error"),
    (
        _system(
            "compact_boundary", content="c", compactMetadata={"trigger": "auto", "preTokens": 9}, parentUuid=None, logicalParentUuid="l"
        ),
        "compaction",
        "system/compact_boundary",
    ),
    (
        _system(
            "microcompact_boundary", content="c", microcompactMetadata={"trigger": "auto", "tokensSaved": 3, "compactedToolIds": ["t"]}
        ),
        "compaction",
        "system/microcompact_boundary",
    ),
    (_system("turn_duration", durationMs=5, messageCount=2), "attachment", "system/turn_duration"),
    (_system("stop_hook_summary", hookCount=1, hookInfos=[], hookErrors=[], stopReason=""), "attachment", "system/stop_hook_summary"),
    (_system("away_summary", content="recap"), "injected", "system/away_summary"),
    (_system("bridge_status", content="b", url="https://example.com"), "injected", "system/bridge_status"),
    (_system("model_refusal_fallback", content="x"), "error", "system/model_refusal_fallback"),
    (_system("scheduled_task_fire", content="x"), "injected", "system/scheduled_task_fire"),
    (_system("agents_killed", content="x"), "subagent_end", "system/agents_killed"),
    (_system("thinking", content="x"), "reasoning", "system/thinking"),
    (_system("memory_saved", content="x"), "injected", "system/memory_saved"),
    (_system("permission_retry", content="x"), "permission", "system/permission_retry"),
    # progress
    *(
        ({"type": "progress", "data": {"type": name}, "toolUseID": "t", "parentToolUseID": "t"}, "attachment", f"progress/{name}")
        for name in (
            *("agent_progress", "bash_progress", "hook_progress", "mcp_progress", "query_update"),
            *("search_results_received", "skill_progress", "waiting_for_task"),
        )
    ),
    # attachment
    (
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "later", "commandMode": "prompt"}},
        "prompt",
        "queued_command",
    ),
    (
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": [_TEXT], "commandMode": "task-notification"}},
        "injected",
        "task-notification",
    ),
    *(
        ({"type": "attachment", "attachment": {"type": name, "content": PNG}}, kind, f"attachment/{name}")
        for kind, names in {
            "attachment": (
                *("edited_text_file", "diagnostics", "hook_success", "hook_system_message", "hook_additional_context", "hook_cancelled"),
                *("deferred_tools_delta", "mcp_instructions_delta", "agent_listing_delta", "skill_listing", "date_change"),
                *("opened_file_in_ide", "selected_lines_in_ide", "directory", "file", "goal_status", "ultra_effort_enter"),
            ),
            "error": ("hook_non_blocking_error", "hook_blocking_error"),
            "permission": ("command_permissions", "auto_mode", "auto_mode_exit", "plan_mode", "plan_mode_exit", "plan_mode_reentry"),
            "todo": ("task_reminder", "todo_reminder"),
        }.items()
        for name in names
    ),
    # records without a chain
    ({"type": "summary", "summary": "of a branch", "leafUuid": "elsewhere"}, "title", "summary"),
    ({"type": "custom-title", "customTitle": "mine"}, "title", "custom-title"),
    ({"type": "ai-title", "aiTitle": "its"}, "title", "ai-title"),
    ({"type": "agent-name", "agentName": "bob"}, "title", "agent-name"),
    ({"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}}, "attachment", "file-history-snapshot"),
    ({"type": "queue-operation", "operation": "enqueue", "content": "/compact"}, "injected", "queue-operation/enqueue"),
    ({"type": "queue-operation", "operation": "dequeue"}, "injected", "queue-operation/dequeue"),
    ({"type": "queue-operation", "operation": "remove"}, "injected", "queue-operation/remove"),
    ({"type": "queue-operation", "operation": "popAll", "content": "x"}, "injected", "queue-operation/popAll"),
    ({"type": "last-prompt", "lastPrompt": "x"}, "attachment", "last-prompt"),
    ({"type": "pr-link", "prNumber": 3, "prUrl": "https://example.com/pull/3", "prRepository": "a/b"}, "attachment", "pr-link"),
    ({"type": "mode", "mode": "normal"}, "permission", "mode"),
    ({"type": "permission-mode", "permissionMode": "plan"}, "permission", "permission-mode"),
    ({"type": "bridge-session", "bridgeSessionId": "b", "lastSequenceNum": 3}, "attachment", "bridge-session"),
    ({"type": "started", "key": "k", "agentId": "a"}, "subagent_start", "workflow/started"),
    ({"type": "result", "key": "k", "agentId": "a", "result": {"x": 1}}, "subagent_end", "workflow/result"),
    *(
        ({"type": name, "body": PNG}, "attachment", name)
        for name in (
            *("tag", "agent-color", "agent-setting", "speculation-accept", "attribution-snapshot"),
            *("worktree-state", "task-summary", "tombstone", "content-replacement", "marble-origami-commit", "marble-origami-snapshot"),
        )
    ),
]


def claude_lines(rows: list[Row] = CLAUDE) -> list[dict[str, Any]]:
    """Return the records with the envelope that Claude Code gives them."""
    chained = {"user", "assistant", "system", "attachment", "progress"}
    records = []
    for number, (record, _, _) in enumerate(rows):
        envelope = {"uuid": f"u{number}", "parentUuid": None, "timestamp": f"2026-03-05T10:{number // 60:02d}:{number % 60:02d}.000Z"}
        records.append({"sessionId": "s"} | (envelope if record["type"] in chained else {}) | record)
    return records


def _item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind} | fields}


def _event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind} | fields}


def _finished(kind: str, **fields: Any) -> dict[str, Any]:
    return _event("item_completed", thread_id="t", turn_id="u", item={"type": kind, "id": f"i-{kind}"} | fields)


_EXEC = {"command": ["ls"], "exit_code": 0, "aggregated_output": "a.txt\n", "duration": {"secs": 1, "nanos": 500_000_000}}

CODEX: list[Row] = [
    (make.meta(0), "session_start", "session_meta"),
    (make.context(1), "attachment", "turn_context"),
    ({"type": "compacted", "payload": {"message": "so far", "window_number": 2, "window_id": "w2"}}, "compaction", "compacted"),
    *(
        ({"type": name, "payload": {"a": 1}}, "attachment", name)
        for name in ("world_state", "retained_context", "security_risk_score", "inter_agent_communication_metadata")
    ),
    ({"type": "realtime_item", "payload": {"a": 1}}, "attachment", "realtime_item"),
    ({"type": "inter_agent_communication", "payload": {"content": "hello"}}, "injected", "inter_agent_communication"),
    # response items
    (_item("message", role="developer", content=[{"type": "input_text", "text": "be brief"}]), "injected", "message/developer"),
    (_item("message", role="system", content=[{"type": "input_text", "text": "rules"}]), "injected", "message/system"),
    (
        _item("message", role="assistant", phase="final_answer", content=[{"type": "output_text", "text": "only an item"}]),
        "answer",
        "message/assistant/final_answer",
    ),
    (_item("reasoning", summary=[{"type": "summary_text", "text": "t"}], encrypted_content="xx"), "reasoning", "reasoning"),
    (_item("function_call", name="shell", call_id="f1", arguments='{"command":["ls"]}'), "tool_call", "function_call"),
    (
        _item("function_call_output", call_id="f1", output=[{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]),
        "tool_result",
        "function_call_output",
    ),
    (_item("custom_tool_call", name="exec", call_id="f2", input="ls", status="completed"), "tool_call", "custom_tool_call"),
    (_item("custom_tool_call_output", call_id="f2", output="ok"), "tool_result", "custom_tool_call_output"),
    (_item("local_shell_call", call_id="f3", status="completed", action={"command": ["ls"]}), "tool_call", "local_shell_call"),
    (_item("web_search_call", status="completed", action={"type": "search", "query": "q"}), "tool_call", "web_search_call"),
    (_item("tool_search_call", call_id="f4", arguments={"query": "q"}), "tool_call", "tool_search_call"),
    (_item("tool_search_output", call_id="f4", tools=[]), "tool_result", "tool_search_output"),
    (_item("image_generation_call", id="ig", status="completed", result=PNG, revised_prompt="a fox"), "tool_call", "image_generation_call"),
    (_item("agent_message", author="a", recipient="b", content=[{"type": "input_text", "text": "hi"}]), "injected", "agent_message"),
    (_item("ghost_snapshot", ghost_commit={"id": "abc"}), "attachment", "ghost_snapshot"),
    (_item("additional_tools", tools=[]), "attachment", "additional_tools"),
    (_item("compaction", encrypted_content="zz"), "attachment", "compaction"),
    (_item("compaction_summary", encrypted_content="zz"), "attachment", "compaction_summary"),
    (_item("context_compaction", encrypted_content="zz"), "attachment", "context_compaction"),
    # events
    (
        _event("user_message", message="go", images=[f"data:image/png;base64,{PNG}"], local_images=[], text_elements=[]),
        "prompt",
        "user_message",
    ),
    (_event("agent_message", message="on it", phase="commentary"), "answer", "agent_message/commentary"),
    (_event("agent_reasoning", text="think"), "reasoning", "agent_reasoning"),
    (_event("agent_reasoning_raw_content", text="raw"), "reasoning", "agent_reasoning_raw_content"),
    (_event("token_count", info=None, rate_limits={"primary": {"used_percent": 1.0}}), "attachment", "token_count/rate_limits"),
    (_event("task_started", turn_id="u", model_context_window=258_400), "attachment", "task_started"),
    (_event("turn_started", turn_id="u"), "attachment", "turn_started"),
    (_event("task_complete", turn_id="u", duration_ms=9), "attachment", "task_complete"),
    (_event("turn_complete", turn_id="u"), "attachment", "turn_complete"),
    (_event("turn_aborted", turn_id="u", reason="interrupted"), "injected", "interrupt"),
    (_event("turn_aborted", turn_id="u", reason="replaced"), "injected", "turn_aborted"),
    (_event("patch_apply_end", call_id="p", success=True, changes={"a": {"type": "add", "content": "c"}}), "tool_call", "patch_apply_end"),
    (_event("exec_command_end", call_id="e", **_EXEC), "tool_call", "exec_command_end"),
    (
        _event("mcp_tool_call_end", call_id="m", invocation={"server": "s", "tool": "t"}, result={"Ok": {"data": PNG}}),
        "tool_call",
        "mcp_tool_call_end",
    ),
    (_event("web_search_end", call_id="w", query="q"), "tool_result", "web_search_end"),
    (_event("dynamic_tool_call_request", call_id="d", name="paint", arguments={"x": 1}), "tool_call", "dynamic_tool_call_request"),
    (_event("dynamic_tool_call_response", call_id="d", success=True), "tool_result", "dynamic_tool_call_response"),
    (_event("context_compacted"), "attachment", "context_compacted"),
    (_event("thread_name_updated", thread_name="Named"), "title", "thread_name_updated"),
    (_event("guardian_assessment", id="g"), "permission", "guardian_assessment"),
    (_event("collab_agent_spawn_end", sender_thread_id="a", new_thread_id="b"), "subagent_start", "collab_agent_spawn_end"),
    (_event("collab_close_end"), "subagent_end", "collab_close_end"),
    (_event("error", message="bad"), "error", "error"),
    (_event("stream_error", message="bad"), "error", "stream_error"),
    (_event("warning", message="careful"), "error", "warning"),
    *(
        (_event(name, result=PNG), "attachment", name)
        for name in (
            *("collab_waiting_end", "collab_agent_interaction_end", "collab_resume_end", "sub_agent_activity", "view_image_tool_call"),
            *("thread_rolled_back", "thread_goal_updated", "thread_settings_applied", "entered_review_mode", "exited_review_mode"),
            *("undo_completed", "image_generation_end", "background_event", "deprecation_notice", "model_reroute", "turn_diff"),
        )
    ),
    # finished items of paginated threads
    (_finished("UserMessage", content=[{"type": "text", "text": "typed"}]), "prompt", "item_completed/UserMessage"),
    (_finished("AgentMessage", content=[{"type": "Text", "text": "said"}]), "answer", "item_completed/AgentMessage"),
    (_finished("Reasoning", summary_text=["thought"]), "reasoning", "item_completed/Reasoning"),
    (_finished("Plan", text="1. go"), "todo", "item_completed/Plan"),
    (_finished("TodoList", items=[]), "todo", "item_completed/TodoList"),
    *(
        (_finished(name, result=PNG), "attachment", f"item_completed/{name}")
        for name in (
            *("CommandExecution", "ContextCompaction", "EnteredReviewMode", "ExitedReviewMode", "FileChange", "HookPrompt"),
            *("ImageGeneration", "ImageView", "McpToolCall", "WebSearch"),
        )
    ),
]


def codex_lines(rows: list[Row] = CODEX) -> list[dict[str, Any]]:
    """Return the records with the time that Codex gives them."""
    return [{"timestamp": make.at(n)} | record for n, (record, _, _) in enumerate(rows)]


def encoded(records: list[dict[str, Any]]) -> bytes:
    """Return records as the bytes of a file."""
    return b"".join(json.dumps(r).encode() + b"\n" for r in records)

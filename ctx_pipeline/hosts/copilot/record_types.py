"""Names that Copilot's records have: event types, parts of a chat's response, tools and what each does."""

from __future__ import annotations

NOTES = frozenset(
    {
        *("assistant.turn_start", "assistant.turn_end", "assistant.intent", "assistant.idle", "assistant.fusion_phase_completed"),
        *("assistant.fusion_phase_failed", "assistant.fusion_phase_started", "auto_mode_switch.completed", "auto_mode_switch.requested"),
        *("capabilities.changed", "command.completed", "command.execute", "command.queued", "commands.changed"),
        *("external_tool.completed", "external_tool.requested", "mcp.oauth_completed", "mcp.oauth_required", "pending_messages.modified"),
        *("session.auto_mode_resolved", "session.autopilot_objective_changed", "session.background_tasks_changed"),
        *("session.binary_asset", "session.canvas.recorded", "session.canvas.removed", "session.compaction_start"),
        *("session.completion_receipt", "session.context_changed", "session.custom_agents_updated", "session.extensions_loaded"),
        *("session.fusion_completed", "session.fusion_resolved", "session.fusion_route_failed", "session.handoff", "session.idle"),
        *("session.info", "session.mcp_server_status_changed", "session.mcp_servers_loaded", "session.mode_changed"),
        *("session.mode_notice_delivered", "session.model_change", "session.permissions_changed", "session.plan_changed"),
        *("session.remote_steerable_changed", "session.schedule_cancelled", "session.schedule_created", "session.schedule_rearmed"),
        *("session.session_limits_changed", "session.skills_loaded", "session.snapshot_rewind", "session.task_complete"),
        *("session.todos_changed", "session.tools_updated", "session.truncation", "session.usage_checkpoint", "session.usage_info"),
        *("session.warning", "session.workspace_file_changed", "subagent.configured", "subagent.deselected", "subagent.selected"),
        *("tool.execution_partial_result", "tool.execution_progress", "tool_search.activated", "hook.progress"),
    }
)
"""Types whose records are kept as attachments: what they say is no part of the conversation."""

PERMISSIONS = frozenset(
    {
        *("elicitation.completed", "elicitation.requested", "exit_plan_mode.completed", "exit_plan_mode.requested"),
        *("permission.assentDetected", "permission.carriedForward", "permission.completed", "permission.contextualAuthorization"),
        *("permission.messageAuthorization", "permission.messageAuthorizationDegraded", "permission.messageAuthorizationRead"),
        *("permission.requested", "user_input.completed", "user_input.requested"),
    }
)

MEANT = frozenset(
    {
        *("abort", "assistant.message", "assistant.reasoning", "assistant.usage", "hook.end", "hook.start", "model.call_failure"),
        *("session.compaction_complete", "session.context_cleared", "session.error", "session.resume", "session.shutdown"),
        *("session.start", "session.title_changed", "skill.invoked", "subagent.completed", "subagent.failed", "subagent.started"),
        *("system.message", "system.notification", "tool.execution_complete", "tool.execution_start", "tool.user_requested"),
        "user.message",
    }
)
"""Types with a meaning of their own, which the reader of events gives them."""

PARTS = frozenset(
    {
        *("clearToPreviousToolInvocation", "codeblockUri", "command", "disabledClaudeHooks", "extensions", "hook"),
        *("mcpServersStarting", "multiDiffData", "prepareToolInvocation", "progressMessage", "progressTask", "progressTaskSerialized"),
        *("pullRequest", "references", "treeData", "undoStop", "warning", "workspaceEdit"),
    }
)
"""Kinds of parts of a response that are kept as attachments."""

ASKED_PARTS = frozenset({"confirmation", "elicitation", "elicitationSerialized", "questionCarousel", "planReview"})
MEANT_PARTS = frozenset(
    {"inlineReference", "markdownContent", "markdownVuln", "notebookEditGroup", "textEditGroup", "thinking", "toolInvocationSerialized"}
)

STORE_TABLES = (
    ("assistant_usage_events", "id"),
    ("turns", "id"),
    ("sessions", "id"),
    ("checkpoints", "id"),
    ("session_files", "id"),
    ("session_refs", "id"),
    ("forge_trajectory_events", "id"),
)
"""Tables of ``session-store.db`` in the order they are read, with the column that orders them."""

FIELDS = {
    "": frozenset({"type", "data", "id", "timestamp", "parentId", "agentId", "ephemeral", "kind", "k", "v", "i", "row", "table"}),
}

_TOOLS = {
    "read": "view read_file read_agent get_notebook_summary read_notebook_cell_output copilot_readFile copilot_getNotebookSummary"
    " copilot_readNotebookCellOutput get_errors copilot_getErrors get_changed_files copilot_getChangedFiles view_image",
    "edit": "edit str_replace str_replace_editor apply_patch replace_string_in_file multi_replace_string_in_file insert_edit_into_file"
    " edit_notebook_file edit_files copilot_replaceString copilot_multiReplaceString copilot_applyPatch copilot_insertEdit"
    " copilot_editNotebook vscode_editFile_internal textEditGroup notebookEditGroup",
    "write": "create create_file create_directory create_new_jupyter_notebook copilot_createFile copilot_createDirectory",
    "search": "grep glob rg grep_search file_search semantic_search list_dir list_code_usages test_search search_workspace_symbols"
    " copilot_searchCodebase copilot_findTextInFiles copilot_findFiles copilot_listDirectory copilot_listCodeUsages",
    "shell": "bash powershell shell run_in_terminal read_bash write_bash stop_bash list_bash read_powershell write_powershell"
    " stop_powershell get_terminal_output send_to_terminal kill_terminal run_task runTests run_tests run_notebook_cell"
    " copilot_runInTerminal copilot_getTerminalOutput copilot_runNotebookCell copilot_runTests local_shell",
    "web": "web_fetch web_search fetch_webpage open_simple_browser github_repo copilot_fetchWebPage vscode_fetchWebPage_internal"
    " copilot_openSimpleBrowser copilot_githubRepo",
    "task": "task runSubagent search_subagent execution_subagent list_agents write_agent explore_subagent",
    "plan": "update_todo manage_todo_list todo report_intent exit_plan_mode",
    "ask": "ask_user vscode_askQuestions",
}
_ACTIONS = {name: action for action, names in _TOOLS.items() for name in names.split()}
SHELLS = frozenset({"bash", "powershell", "shell", "run_in_terminal", "local_shell", "copilot_runinterminal"})


def action_of(name: str, *, mcp: bool = False) -> str:
    """Return what a tool does."""
    return "mcp" if mcp or name.startswith(("mcp_", "mcp__")) else _ACTIONS.get(name, "other")

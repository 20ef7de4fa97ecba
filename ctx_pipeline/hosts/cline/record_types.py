"""Names in the messages of Cline and Roo Code: what is said and asked, tools, and how providers count a prompt."""

from __future__ import annotations

ANSWERS = frozenset({"text", "completion_result", "plan_mode_respond", "act_mode_respond", "followup"})
PROMPTS = frozenset({"task", "user_feedback"})
ERRORS = frozenset(
    {
        *("api_req_failed", "auto_approval_max_req_reached", "clineignore_error", "command_permission_denied", "condense_context_error"),
        *("diff_error", "error", "error_retry", "mistake_limit_reached", "rooignore_error"),
    }
)
TOOLS = frozenset({"command", "tool", "use_mcp_server", "browser_action_launch", "browser_action", "use_subagents"})
RESULTS = frozenset({"command_output", "mcp_server_response", "browser_action_result", "subtask_result", "codebase_search_result"})
USAGE = frozenset({"api_req_started", "api_req_finished", "deleted_api_reqs", "api_req_deleted", "subagent_usage"})
COMPACTIONS = frozenset({"condense_context", "sliding_window_truncation", "condense", "summarize_task"})
NOTES = frozenset(
    {
        *("api_req_rate_limited", "api_req_retried", "api_req_retry_delayed", "browser_session_status", "checkpoint_created"),
        *("checkpoint_saved", "conditional_rules_applied", "generate_explanation", "hook_output_stream", "hook_status", "image", "info"),
        *("load_mcp_documentation", "mcp_notification", "mcp_server_request_started", "new_task", "report_bug", "resume_completed_task"),
        *("resume_task", "shell_integration_warning", "shell_integration_warning_with_suggestion", "subagent", "task_progress"),
        *("user_edit_todos", "user_feedback_diff", "reasoning"),
    }
)

_TOOLS = {
    "read": "readFile read_file listCodeDefinitionNames list_code_definition_names read_files",
    "edit": "editedExistingFile appliedDiff replace_in_file apply_diff apply_patch search_and_replace insert_content edit edit_file"
    " search_replace insertContent searchAndReplace",
    "write": "newFileCreated write_to_file fileDeleted generateImage",
    "search": "searchFiles listFiles listFilesTopLevel listFilesRecursive codebaseSearch search_files list_files codebase_search",
    "shell": "command execute_command run_commands",
    "web": "webFetch webSearch web_fetch web_search browser_action browser_action_launch fetch_web_content",
    "task": "use_subagents newTask new_task finishTask spawn_agent",
    "plan": "updateTodoList update_todo_list switchMode switch_mode plan_mode_respond summarizeTask",
    "ask": "ask_followup_question followup ask_question",
    "mcp": "use_mcp_server use_mcp_tool access_mcp_resource",
}
_ACTIONS = {name: action for action, names in _TOOLS.items() for name in names.split()}
SHELLS = frozenset({"command", "execute_command", "run_commands"})

WHOLE_PROMPT = frozenset({"openai", "litellm", "doubao", "fireworks", "hicap", "lmstudio", "qwen", "xai", "zai"})
"""Providers of Cline whose recorded prompt includes what the cache served."""
ROO_WHOLE_SINCE = 1_761_955_200_000_000
"""2025-11-01: from Roo Code 3.29.5 on the recorded prompt includes the cache for every provider."""


def action_of(name: str) -> str:
    """Return what a tool does."""
    return _ACTIONS.get(name, "other")

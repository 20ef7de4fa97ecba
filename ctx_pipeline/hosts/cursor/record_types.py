"""Names in Cursor's records: fields of a line, tools and what each does."""

from __future__ import annotations

FIELDS = {
    "": frozenset({"role", "message", "type", "status", "error", "metadata"}),
    "message": frozenset({"content"}),
    "metadata": frozenset({"overview"}),
}

_TOOLS = {
    "read": "read_file read_file_v2 Read ReadFile fetch_rules read_lints ReadLints",
    "edit": "edit_file edit_file_v2 search_replace StrReplace MultiEdit ApplyPatch apply_patch reapply edit_notebook EditNotebook",
    "write": "write Write create_file delete_file Delete",
    "search": "grep grep_search ripgrep_raw_search Grep glob_file_search file_search Glob list_dir list_dir_v2 LS codebase_search"
    " semantic_search SemanticSearch semantic_search_full",
    "shell": "run_terminal_cmd run_terminal_command run_terminal_command_v2 Shell",
    "web": "web_search WebSearch web_fetch WebFetch",
    "task": "task task_v2 Task Subagent",
    "plan": "todo_write TodoWrite create_plan CreatePlan SwitchMode",
    "ask": "ask_question AskQuestion",
    "mcp": "call_mcp_tool CallMcpTool FetchMcpResource",
}
_ACTIONS = {name: action for action, names in _TOOLS.items() for name in names.split()}
SHELLS = frozenset(name.lower() for name in _TOOLS["shell"].split())


def action_of(name: str) -> str:
    """Return what a tool does."""
    return "mcp" if name.startswith(("mcp_", "mcp-")) else _ACTIONS.get(name, "other")

"""What a tool call did: its action, the files and lines it names, its command and exit status."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.claude_code.records import Arguments, DecodeErrors, ReadFile, ToolUseResult, arguments_decoder

if TYPE_CHECKING:
    import msgspec

ACTIONS = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Write": "write",
    "Grep": "search",
    "Glob": "search",
    "LS": "search",
    "LSP": "search",
    "Bash": "shell",
    "BashOutput": "shell",
    "KillBash": "shell",
    "KillShell": "shell",
    "Monitor": "shell",
    "WebFetch": "web",
    "WebSearch": "web",
    "web_fetch": "web",
    "web_search": "web",
    "Agent": "task",
    "Task": "task",
    "AgentOutputTool": "task",
    "SendMessage": "task",
    "TaskOutput": "task",
    "TaskStop": "task",
    "TeamCreate": "task",
    "TeamDelete": "task",
    "Workflow": "task",
    "EnterPlanMode": "plan",
    "ExitPlanMode": "plan",
    "exit_plan_mode": "plan",
    "TaskCreate": "plan",
    "TaskGet": "plan",
    "TaskList": "plan",
    "TaskUpdate": "plan",
    "TodoRead": "plan",
    "TodoWrite": "plan",
    "AskUserQuestion": "ask",
    "ListMcpResourcesTool": "mcp",
    "ReadMcpResourceTool": "mcp",
}

_TELLING = frozenset({"read", "edit", "write", "search", "shell", "web"})
_exit = re.compile(r"(?:Error: )?Exit code (-?\d{1,10})\b").match
_decode_arguments = arguments_decoder.decode
_MAX_LINE = 10**9


def action_of(tool: str) -> str:
    """Return the action of a tool by its name; ``mcp__server__tool`` is mcp, an unknown name other."""
    return ACTIONS.get(tool) or ("mcp" if tool.startswith("mcp__") else "other")


Named = tuple[list[str], list[str], list[str], "str | None"]
"""paths, ranges beside them, argv, and the SHA-256 of the text that a Write puts into its file: edits carry only a stretch"""


def arguments_of(action: str, raw: msgspec.Raw) -> Named:
    """Return the files, lines and command that a call's arguments name."""
    if action not in _TELLING:
        return [], [], [], None
    try:
        given: Arguments = _decode_arguments(raw)
    except DecodeErrors:
        return [], [], [], None
    if action == "shell":
        return [], [], [given.command] if given.command.__class__ is str else [], None
    if action == "web":
        asked = given.url if isinstance(given.url, str) else given.query
        return [], [], [asked] if isinstance(asked, str) else [], None
    path = given.file_path or given.notebook_path or given.path
    if path.__class__ is not str:
        return [], [], [], None
    if action == "read":
        return [path], _span(given.offset, given.limit), [], None
    if action == "write" and isinstance(given.content, str):
        return [path], [], [], hashlib.sha256(given.content.encode()).hexdigest()
    return [path], [], [], None


def _span(first: Any, count: Any) -> list[str]:
    """Return ``["first-last"]``, or nothing when the numbers do not say."""
    if first is not None and isinstance(first, int) and isinstance(count, int) and 0 <= first < _MAX_LINE and 0 < count < _MAX_LINE:
        return [f"{first}-{first + count - 1}"]
    return []


def result_lines(result: ToolUseResult) -> tuple[str | None, list[str]]:
    """Return the file that a result names and its line ranges, several joined by commas."""
    file = result.file
    if isinstance(file, ReadFile):
        path = file.file_path if isinstance(file.file_path, str) else None
        return path, _span(file.start_line, file.num_lines)
    path = result.file_path if isinstance(result.file_path, str) else None
    hunks = result.structured_patch
    if not hunks:
        return path, []
    spans = [span for hunk in hunks for span in _span(hunk.new_start, hunk.new_lines)]
    return path, [",".join(spans)] if spans else []


def exit_of(text: str, result: ToolUseResult | str | list | None, *, failed: bool) -> int | None:
    """Return the exit status of a shell call, None where it is not recorded.

    A command that fails is answered by ``Exit code N``; an answer of a finished
    command without it is the record of status 0, unless the client explains a status
    that it does not count as an error or the command went on in the background.
    """
    match = _exit(text) if text[:1] == "E" else None
    if match:
        status = int(match[1])
        return status if abs(status) < 1 << 31 else None
    if failed or result.__class__ is not ToolUseResult:
        return None
    if isinstance(result.exit_code, int):
        return int(result.exit_code) if abs(result.exit_code) < 1 << 31 else None
    if isinstance(result.interrupted, bool) and not (result.interrupted or result.return_code_interpretation or result.background_task_id):
        return 0
    return None

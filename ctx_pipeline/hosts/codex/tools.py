"""What a tool call touches, and how its output says that it ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ctx_pipeline.hosts.codex import record_types
from ctx_pipeline.model.host_records import DENIED, REFUSED
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.hosts.codex.record_types import Block

_ACTIONS = {
    "apply_patch": "edit",
    "container.exec": "shell",
    "exec": "shell",
    "exec_command": "shell",
    "local_shell": "shell",
    "shell": "shell",
    "shell_command": "shell",
    "unified_exec": "shell",
    "write_stdin": "shell",
    "read_file": "read",
    "view_image": "read",
    "grep_files": "search",
    "list_dir": "search",
    "web_search": "web",
    "close_agent": "task",
    "resume_agent": "task",
    "send_input": "task",
    "spawn_agent": "task",
    "spawn_agents_on_csv": "task",
    "wait_agent": "task",
    "update_plan": "plan",
    "request_user_input": "ask",
    "list_mcp_resources": "mcp",
    "list_mcp_resource_templates": "mcp",
    "read_mcp_resource": "mcp",
}
_PATCH_FILE = lazy_pattern(r"\*\*\* (?<![^\n]\*\*\* )(?:(Update|Add|Delete) File|Move to): (.+)")
"""The test for the beginning of a line stands behind the stars: a pattern that begins with letters is looked for faster."""
_EXIT = lazy_pattern(r"(?:Exit code:|Process exited with code|exited with code) (-?\d{1,10})")
_HUNK = lazy_pattern(r"^@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.MULTILINE)
_FAILED = (
    "apply_patch verification failed",
    "aborted",
    "collab spawn failed",
    "err: ",
    "error: ",
    "exec_command failed",
    "execution error",
    "failed ",
    "Script error",
    "Script failed",
    "tool call error",
    "unsupported ",
    "write_stdin failed",
)
_HEADER = 400


class FileAccess(Struct, gc=False):
    """The columns of tool_calls that the arguments of a call give."""

    tool: str
    action: str
    paths: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()


def file_access(name: str, namespace: str | None, text: str) -> FileAccess:
    """Return what a call does, from its tool's name and its arguments as text."""
    action = _ACTIONS.get(name)
    if action is None:
        if namespace:
            name = f"{namespace.rstrip('_')}__{name}" if namespace.startswith("mcp__") else f"{namespace}.{name}"
        action = "mcp" if namespace or name.startswith("mcp__") else "other"
    if action == "edit":
        return _patched(name, text)
    if name == "exec" or not text.startswith("{"):
        return FileAccess(name, action, (), (text,) if action == "shell" and text else ())
    try:
        said = record_types.arguments.decode(text)
    except record_types.FAILURES:
        return FileAccess(name, action)
    command = said.cmd if said.cmd is not None else said.command
    argv = () if command is None else (command,) if isinstance(command, str) else tuple(command)
    if argv and "*** Begin Patch" in argv[-1]:
        patched = _patched(name, argv[-1])
        patched.argv = argv
        return patched
    path = said.path or said.file_path
    return FileAccess(name, action, (path,) if path else (), argv)


def _patched(name: str, text: str) -> FileAccess:
    if text.startswith("{"):
        try:
            said = record_types.arguments.decode(text)
        except record_types.FAILURES:
            return FileAccess(name, "edit")
        text = said.patch or said.input or ""
    verbs = set()
    paths: dict[str, None] = {}
    for verb, path in _PATCH_FILE.findall(text):
        verbs.add(verb or "Move")
        paths[path.strip()] = None
    return FileAccess(name, "write" if verbs == {"Add"} else "edit", tuple(paths))


def changed_lines(diff: str | None) -> str:
    """Return the line ranges of the new file that a unified diff changes, joined by commas."""
    spans = []
    for first, count in _HUNK.findall(diff or ""):
        start, lines = int(first), int(count or 1)
        if lines:
            spans.append(f"{start}-{start + lines - 1}")
    return ",".join(spans)


class Ending(Struct, gc=False):
    """A tool's output as text, its exit status where one is said, and whether it failed."""

    text: str
    exit: int | None
    failed: bool


def ending(output: str | dict[str, Any] | list[Block] | None) -> Ending:
    """Return the text of a tool output of any era and how the tool ended."""
    if isinstance(output, list):
        parts = [block.text for block in output if block.text]
        text = "\n".join(parts)
        return Ending(text, _exit_of(text), text.startswith(_FAILED))
    if isinstance(output, dict):
        inner = output.get("content", output.get("output"))
        text = inner if isinstance(inner, str) else record_types.written(output)
        return Ending(text, None, output.get("success") is False)
    if not output:
        return Ending("", None, False)
    if output.startswith('{"output":'):
        try:
            said = record_types.output.decode(output)
        except record_types.FAILURES:
            pass
        else:
            code = said.metadata.exit_code if said.metadata else None
            return Ending(said.output, code, bool(code))
    code = _exit_of(output)
    return Ending(output, code, bool(code) or output.startswith(_FAILED))


_NO = frozenset({"exec command rejected by user", "patch rejected by user"})
_STOPPED = lazy_pattern(r"aborted by user(?: after [\d.]{1,12}s)?")


def kept_from_running(tool: str, action: str, end: Ending) -> str | None:
    """Return the subtype of an output that says that its call never ran or was stopped; None for any other.

    What a command prints stands behind a header or inside JSON, so that it is never the
    whole output; a script (``exec``) and servers of others may say anything.
    """
    if end.exit is not None or action not in ("shell", "edit", "write") or tool == "exec":
        return None
    return REFUSED if end.text in _NO else DENIED if _STOPPED.fullmatch(end.text) else None


def _exit_of(text: str) -> int | None:
    match = _EXIT.search(text, 0, _HEADER)
    if match is None or text.find("Output:\n", 0, match.start()) >= 0:
        return None
    return int(match.group(1))

"""Output of a shell command, or a file that was read, in the payload of a hook, and the answer that replaces it."""

from __future__ import annotations

from typing import Any

_STAYS = ("interrupted", "isImage", "backgroundTaskId", "persistedOutputPath")
"""Fields of a response that is no plain, whole output."""


def output(response: Any) -> str:
    """Return what the model would read of a response; empty for an image, a command in the background or a spilled output."""
    if not isinstance(response, dict) or any(response.get(name) for name in _STAYS):
        return ""
    texts = [response.get("stdout"), response.get("stderr")]
    return "\n".join(text for text in texts if text) if all(isinstance(text, str) for text in texts) else ""


def answer(response: Any, text: str) -> dict[str, Any]:
    """Return the response with a shorter text: a value of another shape than the tool's own is passed over."""
    updated = {**response, "stdout": text, "stderr": ""}
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": updated}}


def read(response: Any) -> tuple[str, int, str] | None:
    """Return path, number of the first line and text of a file that the Read tool read as text; None for anything else."""
    file = response.get("file") if isinstance(response, dict) and response.get("type") == "text" else None
    if not isinstance(file, dict):
        return None
    path, first, text = (file.get(name) for name in ("filePath", "startLine", "content"))
    return (path, first, text) if isinstance(path, str) and isinstance(first, int) and isinstance(text, str) else None


def unchanged(response: Any, notice: str) -> dict[str, Any]:
    """Return the response with a notice in place of the text of its file."""
    updated = {**response, "file": {**response["file"], "content": notice, "numLines": 1}}
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": updated}}

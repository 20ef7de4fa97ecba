"""Output of a shell command in the payload of a hook, and the answer that replaces it."""

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

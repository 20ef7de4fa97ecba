"""Output of a shell command in the payload of a hook, and the answer that replaces it."""

from __future__ import annotations

from typing import Any


def output(response: Any) -> str:
    """Return what the model would read of a response: it is plain text once the command ended."""
    return response if isinstance(response, str) else ""


def answer(_response: Any, text: str) -> dict[str, Any]:
    """Return the answer after which the model reads the text in place of the response.

    A decision to block would do the same, but throws in a script that called the command.
    """
    return {"continue": False, "stopReason": text}

"""Reads what contextstore (1.0.1 and before) wrote: one row a session, the whole conversation as one JSON text."""

from __future__ import annotations

from typing import Any

import msgspec

TABLE = "tb_context"

_FIELDS = ("role", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "type", "metadata")
"""Fields that contextstore moves from the message into its content."""


def read_row(text: str | bytes) -> list[dict[str, Any]] | None:
    """Return the messages of a row as they were before contextstore moved their fields, or None when it is no JSON list."""
    try:
        entries = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(entries, list):
        return None
    return [_message(entry) if isinstance(entry, dict) else {"content": {"data": entry}} for entry in entries]


def _message(entry: dict[str, Any]) -> dict[str, Any]:
    content = entry.get("content")
    if not isinstance(content, dict):
        return entry
    inner = dict(content)
    outer = {name: inner.pop(name) for name in _FIELDS if name in inner}
    if "data" in inner:
        data = inner.pop("data")
        if outer or inner:
            return {**entry, **outer, **inner, "content": data}
        return {**entry, "content": {"data": data}}
    return {**entry, **outer, "content": inner}

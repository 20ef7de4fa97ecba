"""What an agent may be told: text that a reader sees as a model does, and no memory that a check held back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.memory.safety import seen, unread

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory

_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\|\x9c)")
"""What colours text, moves a cursor or names a window of a terminal."""


def held_back(memory: Memory) -> bool:
    """Tell whether a memory must not reach an agent."""
    return memory.status == "needs_review" or bool(why_held(memory))


def why_held(memory: Memory) -> list[str]:
    """Return what a check found in a memory that no person has read and accepted."""
    return list(memory.flags) or unread(memory, [memory.text, memory.when_to_use])


def clean(value: Any) -> Any:
    """Return plain values whose texts, names of fields too, have no sequence for a terminal and no character that cannot be seen."""
    if isinstance(value, str):
        return seen(_SEQUENCE.sub("", value.replace("\r\n", "\n")).replace("\r", "\n"))
    if isinstance(value, dict):
        return {clean(key): clean(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [clean(member) for member in value]
    return value

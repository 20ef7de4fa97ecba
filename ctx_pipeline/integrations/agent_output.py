"""What an agent may be told: text that a reader sees as a model does, and no memory that a check held back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.memory.safety import unread
from ctx_pipeline.model.display import visible

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory


def withheld(memory: Memory) -> bool:
    """Tell whether a memory must not reach an agent."""
    return memory.status == "needs_review" or bool(withheld_reasons(memory))


def withheld_reasons(memory: Memory) -> list[str]:
    """Return what a check found in a memory that no person has read and accepted."""
    return list(memory.flags) or unread(memory, [memory.text, memory.when_to_use])


def clean(value: Any) -> Any:
    """Return plain values whose texts, names of fields too, have no sequence for a terminal and no character that cannot be seen."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {clean(key): clean(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [clean(member) for member in value]
    return value

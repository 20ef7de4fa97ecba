"""What an agent may be told: text that a reader sees as a model does, and no memory that a check held back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.memory.safety import unread, untold
from ctx_pipeline.model.display import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.model.memories import Memory


def withheld(memory: Memory) -> bool:
    """Tell whether a memory must not reach an agent."""
    return memory.status == "needs_review" or bool(withheld_reasons(memory))


def withheld_reasons(memory: Memory) -> list[str]:
    """Return what a check found in a memory that no person has read and accepted."""
    return list(memory.flags) or unread(memory, [memory.text, memory.when_to_use])


def displayed_name(name: str) -> str:
    """Return a path or another name of others on one line that closes no frame; one that gives an order is not shown."""
    from ctx_pipeline.memory.prompt_block import name_for_agent

    return name_for_agent(name)


def gives_an_order(name: str) -> bool:
    """Tell whether a name stays unsaid to an agent."""
    return untold(name)


def clean(value: Any, shown: Callable[[str], str] = visible) -> Any:
    """Return plain values whose texts, names of fields too, have no sequence for a terminal and no character that cannot be seen.

    ``shown`` is what is done to each text.
    """
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {clean(key, shown): clean(member, shown) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [clean(member, shown) for member in value]
    return value

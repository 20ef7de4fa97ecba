"""What records do to the context window of their thread."""

from __future__ import annotations

from typing import NamedTuple

TURN = "turn"
"""An event stands in the window, in its turn."""

SYSTEM = "system"
"""An event stands in the window, in its system header."""

OUT = ""
"""An event was never sent to the model."""

_STANDING = frozenset({"prompt", "injected", "answer", "reasoning", "tool_call", "tool_result", "subagent_start"})


class Change(NamedTuple):
    """What a record took out of the window, and what it put there instead."""

    reason: str
    """compaction, clearing or rollback"""
    everything: bool = False
    """All turns are gone, but for what is kept."""
    kept: tuple[str, ...] = ()
    """Texts of messages that stay when everything goes."""
    keeps_prompts: bool = False
    """Everything that the person typed stays when everything goes."""
    results: tuple[str, ...] = ()
    """Tool calls whose results were blanked."""
    turns: int = 0
    """How many of the newest turns were taken back."""
    text: str | None = None
    """What the record itself adds, such as a summary."""


def usual(kind: str, text: str | None) -> str | Change:
    """Return what an event of a kind does where its host says nothing of its own."""
    if kind == "compaction":
        return Change("compaction", everything=True, text=text)
    return TURN if kind in _STANDING else OUT

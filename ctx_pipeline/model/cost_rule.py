"""The cost of a model call: which of its two figures counts, in Python and, from the same declaration, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COST_RULE: Mapping[str, tuple[str, ...]] = {
    "auto": ("recorded_cost", "cost"),
    "calculate": ("cost",),
    "display": ("recorded_cost",),
}
"""cost mode -> columns of ``model_calls``, the first that is known is the cost: what the host wrote down, the list price"""

COST_MODES = tuple(COST_RULE)


def cost_of(mode: str, recorded: int | None, calculated: int | None) -> int | None:
    """Return the nano-dollars of a call by a cost mode; None where no figure is known."""
    for column in COST_RULE[mode]:
        value = recorded if column == "recorded_cost" else calculated
        if value is not None:
            return value
    return None

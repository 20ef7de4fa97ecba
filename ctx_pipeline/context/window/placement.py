"""Where the messages of a window stand, when not by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.window.units import Unit


def at_the_edges(units: Sequence[Unit]) -> list[tuple[int, ...]]:
    """Return the places of units, pinned first, then the highest priorities alternately at the end and at the start.

    What a model has to find is found best at both ends of a long context and worst in its
    middle (Liu et al., "Lost in the Middle", 2023). Among equal priorities the newer one
    counts as higher.
    """
    pinned = [unit.places for unit in units if unit.pinned]
    ranked = sorted((unit for unit in units if not unit.pinned), key=lambda u: (-u.priority, -u.places[0]))
    head = [unit.places for unit in ranked[1::2]]
    tail = [unit.places for unit in ranked[0::2]]
    return [*pinned, *head, *reversed(tail)]

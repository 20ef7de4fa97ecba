"""How sparingly memories are injected, unasked, into a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.memory.ranking import WEIGHTS, Recalled, rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.model.memories import Memory, Scored

THRESHOLD = 0.4
"""Share of a prompt's weight, rare words weighing more, that a memory must hold to be injected; a search asks for less."""

LIMIT = 4
BUDGET = 500
"""Tokens of a note."""

LEAST_WORDS = 2
"""Telling words of a prompt below which nothing is injected: one word, as in "commit", is held whole by whatever has it."""

PROMPT_WORDS = 32
"""Words of a prompt that are looked for: each costs, and a long prompt says early what it is about."""


class Choice(NamedTuple):
    """How sparingly memories are injected."""

    threshold: float = THRESHOLD
    holdout: float = 0.0
    """Share of sessions from which everything is withheld, logged all the same."""
    limit: int = LIMIT
    budget: int = BUDGET
    accepted_only: bool = False


def for_prompt(recalled: Iterable[Recalled], *, place: Place | None, choice: Choice, now: int) -> list[Scored]:
    """Return what may be told at a prompt, best first, four times as many as are told since some may be known already."""
    near = [r for r in recalled if r.covered >= choice.threshold]
    return rank(near, place=place, limit=4 * choice.limit, now=now, accepted_only=choice.accepted_only)


def at_start(held: Iterable[Memory], *, place: Place | None, choice: Choice, now: int) -> list[Scored]:
    """Return what is worth knowing at a place whatever is asked: accepted, or learnt in more than one session."""
    worth = [Recalled(m, 1.0, 1.0) for m in held if m.status == "accepted" or m.support > 1]
    ranked = rank(worth, place=place, limit=4 * choice.limit, now=now, accepted_only=choice.accepted_only)
    return [s for s in ranked if (s.score - WEIGHTS["match"]) / (1 - WEIGHTS["match"]) >= choice.threshold]

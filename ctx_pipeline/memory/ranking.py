"""The order of memories for a query: how well they match, and what they have been worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.memory.lifetime import ended
from ctx_pipeline.memory.scope import Place, nearness, visible
from ctx_pipeline.model.memories import Memory, Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

WEIGHTS = {"match": 0.60, "utility": 0.12, "confidence": 0.08, "support": 0.06, "nearness": 0.06, "recency": 0.05, "accepted": 0.03}
"""Share of each part in the score; every part lies between 0 and 1."""

PENALTY = {"low": 0.0, "medium": 0.03, "high": 0.2}
LINKED = 0.5
"""A linked memory gets this share of the match of the memory that names it."""

LEAST_COVERED = 0.34
"""Share of the query's weight, rare words weighing more, that a memory must hold to be an answer."""

CLOSE = 0.6
"""Cosine from which a memory answers a question whose words it does not hold."""

CLOSENESS = 0.5
"""Weight of the cosine beside the words in a match, where a person chose an embedding function."""

_DAY = 86_400_000_000.0
_HALF_LIFE_DAYS = 60.0


class Recalled(NamedTuple):
    """A memory that holds words of the query, as the index found it."""

    memory: Memory
    score: float
    """BM25, higher is better"""
    covered: float
    """share of the query's weight (inverse document frequency) that its words hold, 0 to 1"""
    close: float | None = None
    """cosine of its vector and the question's; None where words alone are looked at"""


def rank(
    recalled: Iterable[Recalled],
    *,
    place: Place | None = None,
    limit: int = 10,
    now: int,
    linked: Callable[[Sequence[str]], Iterable[Memory]] | None = None,
    everywhere: bool = False,
    accepted_only: bool = False,
) -> list[Scored]:
    """Return at most ``limit`` memories, best first, with the parts of their scores.

    Memories that cover too little of the query, and whose vectors are not close to its
    own where there are such, are not answers: the list may be empty.
    ``linked`` looks up memories by id; one hop is followed, and only to memories that the
    place may see and that no check holds back. ``now`` is in microseconds since 1970.
    """
    allowed = ("accepted",) if accepted_only else ("accepted", "candidate")

    def may(memory: Memory) -> bool:
        return (
            memory.status in allowed
            and not memory.flags
            and memory.superseded_by is None
            and not ended(memory, now)
            and (everywhere or visible(memory.scope, memory.repository, memory.cwd, place))
        )

    hits = [r for r in recalled if (r.covered >= LEAST_COVERED or (r.close or 0.0) >= CLOSE) and may(r.memory)]
    best = max((r.score for r in hits if r.covered >= LEAST_COVERED), default=0.0)
    scored: dict[str, Scored] = {}
    for hit in hits:
        relative = hit.score / best if best > 0 else 1.0
        match = 0.5 * relative + 0.5 * hit.covered if hit.covered >= LEAST_COVERED else 0.0
        if hit.close is not None:
            match = (match + CLOSENESS * max(0.0, hit.close)) / (1 + CLOSENESS)
        found = _scored(hit.memory, match, place, now)
        scored[hit.memory.memory_id] = (
            found if hit.close is None else found._replace(parts=found.parts | {"closeness": round(hit.close, 4)})
        )
    if linked is not None and scored:
        sources = {t: s for s in sorted(scored.values(), key=_order)[:limit][::-1] for t in s.memory.links if t not in scored}
        for memory in linked(list(sources)) if sources else ():
            source = sources.get(memory.memory_id)
            if source is not None and may(memory):
                found = _scored(memory, LINKED * source.parts["match"], place, now)
                scored[memory.memory_id] = found._replace(linked_from=source.memory.memory_id)
    return sorted(scored.values(), key=_order)[:limit]


def _order(scored: Scored) -> tuple[float, str]:
    return (-scored.score, scored.memory.memory_id)


def _scored(memory: Memory, match: float, place: Place | None, now: int) -> Scored:
    age = max(0.0, (now - memory.last_ts) / _DAY) if memory.last_ts else 365.0
    parts = {
        "match": match,
        "utility": memory.utility,
        "confidence": memory.confidence,
        "support": 1.0 - 1.0 / (1.0 + max(0, memory.support - 1)),
        "nearness": nearness(memory.scope, memory.cwd, place),
        "recency": 0.5 ** (age / _HALF_LIFE_DAYS),
        "accepted": 1.0 if memory.status == "accepted" else 0.0,
    }
    score = sum(WEIGHTS[name] * value for name, value in parts.items()) - PENALTY.get(memory.risk, 0.2)
    return Scored(
        memory, round(score, 6), {name: round(value, 4) for name, value in parts.items()} | {"risk": 0.0 - PENALTY.get(memory.risk, 0.2)}
    )

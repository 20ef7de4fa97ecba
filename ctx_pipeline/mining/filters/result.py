"""What a filter says of some candidates, and the order in which candidates are best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import StoredCandidate


class Filtered(NamedTuple):
    """What a filter made of candidates."""

    kept: list[StoredCandidate]
    dropped: dict[str, str]
    """candidate id -> why it was taken out"""
    marks: dict[str, list[str]]
    """candidate id -> what a reader must know of it"""


def best_first(candidate: StoredCandidate) -> tuple[int, float, str, str]:
    """Return the sort key of a candidate: priority and confidence, higher first, then kind and id."""
    return (-candidate.priority, -candidate.confidence, candidate.kind, candidate.candidate_id)

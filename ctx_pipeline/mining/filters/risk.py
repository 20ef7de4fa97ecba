"""``risk_aware``: little that is sure rather than much that is not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.mining.filters.result import Filtered, best_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import StoredCandidate

LEAST_CONFIDENCE, ALIKE, MOST = 0.40, 0.75, 8
"""Confidence below which a candidate is dropped, share of common words from which it repeats another, and how many are kept."""

_WORD = re.compile(r"[a-z]\w+")


def risk_aware(candidates: Sequence[StoredCandidate]) -> Filtered:
    """Drops candidates of high risk or a confidence below 0.40 and repetitions (three quarters of the words in common), and keeps eight.

    Best come first: by priority, then confidence. A repetition is of the same kind and
    repository as one that is kept, with a Jaccard index of their words of 0.75 and more.
    """
    kept: list[StoredCandidate] = []
    words: list[tuple[str, str, frozenset[str]]] = []
    dropped: dict[str, str] = {}
    for c in sorted(candidates, key=best_first):
        own = frozenset(_WORD.findall(f"{c.text} {c.when_to_use or ''}".lower()))
        if c.risk == "high":
            dropped[c.candidate_id] = "high risk"
        elif c.confidence < LEAST_CONFIDENCE:
            dropped[c.candidate_id] = f"confidence {c.confidence:.2f} below {LEAST_CONFIDENCE:.2f}"
        elif any((kind, where) == (c.kind, _where(c)) and _jaccard(own, other) >= ALIKE for kind, where, other in words):
            dropped[c.candidate_id] = "says what another one says"
        elif len(kept) >= MOST:
            dropped[c.candidate_id] = f"beyond the best {MOST}"
        else:
            kept.append(c)
            words.append((c.kind, _where(c), own))
    return Filtered(kept, dropped, {})


def _where(candidate: StoredCandidate) -> str:
    return candidate.repository or candidate.cwd or ""


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first or second else 1.0

"""``near_duplicate``: the same lesson of many sessions once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ctx_pipeline.mining.filters.result import Filtered, best_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import StoredCandidate

ALIKE = 90
"""rapidfuzz token-sort ratio from which two texts are the same lesson."""


def near_duplicate(candidates: Sequence[StoredCandidate]) -> Filtered:
    """Keeps of lessons of one kind and repository that say nearly the same (nine tenths alike) the best, marked with how many say it."""
    from rapidfuzz import fuzz, process

    groups: dict[tuple[str, str], list[StoredCandidate]] = defaultdict(list)
    for c in sorted(candidates, key=best_first):
        groups[c.kind, c.repository or c.cwd or ""].append(c)
    kept: list[StoredCandidate] = []
    dropped: dict[str, str] = {}
    sessions: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for members in groups.values():
        texts: dict[str, StoredCandidate] = {}
        for c in members:
            same = texts.get(c.text)
            if same is None and texts:
                near = process.extractOne(c.text, texts.keys(), scorer=fuzz.token_sort_ratio, score_cutoff=ALIKE)
                same = texts[near[0]] if near else None
            if same is None:
                texts[c.text] = c
                kept.append(c)
            else:
                dropped[c.candidate_id] = f"says what {same.candidate_id} says"
            sessions[(same or c).candidate_id].add((c.host, c.session_id))
    marks = {key: [f"said by {len(who)} sessions"] for key, who in sessions.items() if len(who) > 1}
    return Filtered(sorted(kept, key=best_first), dropped, marks)

"""``contradiction``: lessons that say the opposite of each other."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from ctx_pipeline.mining.filters.result import Filtered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.memories import StoredCandidate

ALIKE = 85
"""rapidfuzz token-sort ratio of two rules, negations taken out, from which they are about the same thing."""

_NO = re.compile(r"(?i)\b(?:don'?t|do not|never|stop|avoid|not|no longer)\b")
_RATHER = re.compile(
    r"(?i)\b(?:use|prefer|run)\s+`?([\w./@-]+)`?,?\s+(?:instead of|rather than|over|(?:and )?not|never)\s+(?:use\s+)?`?([\w./@-]+)"
)
_FILL = re.compile(r"(?i)\b(?:please|always|you|should|must|we|the|a|an|to|use|do)\b|[^\w./@ -]")


def contradiction(candidates: Sequence[StoredCandidate]) -> Filtered:
    """Marks lessons for one place that say the opposite: a rule and its negation, "A instead of B" and "B instead of A", swapped commands.

    Both stay, each with the id of the other, since only a person knows which one holds.
    """
    places: dict[str, list[StoredCandidate]] = defaultdict(list)
    general = [c for c in candidates if c.scope in ("user", "global")]
    for c in candidates:
        if c.scope not in ("user", "global"):
            places[c.repository or c.cwd or ""].append(c)
    marks: dict[str, list[str]] = defaultdict(list)
    for members in [[*m, *general] for m in places.values()] or [general]:
        for first, second in _opposed(members):
            for one, other in ((first, second), (second, first)):
                said = f"contradicts {other.candidate_id}"
                if said not in marks[one.candidate_id]:
                    marks[one.candidate_id].append(said)
    return Filtered(list(candidates), {}, dict(marks))


def _opposed(members: Sequence[StoredCandidate]) -> Iterator[tuple[StoredCandidate, StoredCandidate]]:
    from rapidfuzz import fuzz

    choices: dict[tuple[str, str], list[StoredCandidate]] = defaultdict(list)
    rules: dict[bool, list[tuple[str, StoredCandidate]]] = {True: [], False: []}
    for c in members:
        body = c.body
        chosen = _RATHER.search(c.text)
        if c.kind in ("user_preference", "risk_rule") and chosen:
            choices[chosen[1].lower(), chosen[2].lower()].append(c)
        elif c.kind == "user_preference":
            rules[bool(_NO.search(c.text))].append((" ".join(_FILL.sub(" ", _NO.sub(" ", c.text.lower())).split()), c))
        elif body.get("resolution") == "command" and body.get("failed") and body.get("passed"):
            choices[str(body["passed"]), str(body["failed"])].append(c)
    for (taken, left), said in choices.items():
        if taken < left:
            yield from ((a, b) for a in said for b in choices.get((left, taken), ()))
    for text, against in rules[True]:
        yield from ((against, c) for other, c in rules[False] if text and fuzz.token_sort_ratio(text, other) >= ALIKE)

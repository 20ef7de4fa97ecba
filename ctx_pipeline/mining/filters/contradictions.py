"""``contradiction``: lessons that say the opposite of each other."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

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
    everywhere = _statements(general)
    compared = [(everywhere, everywhere)]
    for here in map(_statements, places.values()):
        compared += [(here, here), (here, everywhere), (everywhere, here)]
    for some, others in compared:
        for first, second in _opposed(some, others):
            _mark(marks, first, second)
    return Filtered(list(candidates), {}, dict(marks))


def _mark(marks: dict[str, list[str]], first: StoredCandidate, second: StoredCandidate) -> None:
    for one, other in ((first, second), (second, first)):
        said = f"contradicts {other.candidate_id}"
        if said not in marks[one.candidate_id]:
            marks[one.candidate_id].append(said)


class _Said(NamedTuple):
    choices: dict[tuple[str, str], list[StoredCandidate]]
    """(taken, left) -> lessons that choose so"""
    rules: dict[bool, list[tuple[str, StoredCandidate]]]
    """whether it forbids -> what each rule is about, its words in order of the alphabet"""


def _opposed(some: _Said, others: _Said) -> Iterator[tuple[StoredCandidate, StoredCandidate]]:
    """Yield what some forbid with what others demand, and opposite choices of the two."""
    from rapidfuzz import fuzz, process

    for (taken, left), said in some.choices.items():
        if taken < left:
            yield from ((a, b) for a in said for b in others.choices.get((left, taken), ()))
    demanded = [text for text, _ in others.rules[False]]
    for text, against in some.rules[True] if demanded else ():
        if text:
            alike = process.extract_iter(text, demanded, scorer=fuzz.ratio, score_cutoff=ALIKE)
            yield from ((against, others.rules[False][place][1]) for _, _, place in alike)


def _statements(members: Sequence[StoredCandidate]) -> _Said:
    choices: dict[tuple[str, str], list[StoredCandidate]] = defaultdict(list)
    rules: dict[bool, list[tuple[str, StoredCandidate]]] = {True: [], False: []}
    for c in members:
        body = c.body
        chosen = _RATHER.search(c.text)
        if c.kind in ("user_preference", "risk_rule") and chosen:
            choices[chosen[1].lower(), chosen[2].lower()].append(c)
        elif c.kind == "user_preference":
            # in one order once, since comparing sorts both sides of every pair otherwise
            rules[bool(_NO.search(c.text))].append((" ".join(sorted(_FILL.sub(" ", _NO.sub(" ", c.text.lower())).split())), c))
        elif body.get("resolution") == "command" and body.get("failed") and body.get("passed"):
            choices[str(body["passed"]), str(body["failed"])].append(c)
    return _Said(choices, rules)

"""What a filter says of some candidates, and the order in which candidates are best first."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.recorded_paths import ABSENT, FILE, is_folder, look_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.model.memories import StoredCandidate

__all__ = ["FILTERS", "Filter", "Filtered", "filtered"]


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


# near_duplicate: the same lesson of many sessions once.


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


# risk_aware: little that is sure rather than much that is not.


LEAST_CONFIDENCE, RISK_ALIKE, MOST = 0.40, 0.75, 8
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
        elif any((kind, where) == (c.kind, _where(c)) and _jaccard(own, other) >= RISK_ALIKE for kind, where, other in words):
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


# staleness: lessons about files that are gone or were changed since.


_MOST = 16


def staleness(candidates: Sequence[StoredCandidate]) -> Filtered:
    """Marks lessons that name files of their project which are gone or were changed after the session.

    Files are looked for below the folder in which the session ran; where that folder is
    not on this machine, or cannot be looked at, nothing can be said.
    """
    marks: dict[str, list[str]] = {}
    for c in candidates:
        files = c.body.get("files")
        if not isinstance(files, list) or not c.cwd or not is_folder(c.cwd):
            continue
        root = Path(c.cwd)
        said = [note for name in files[:_MOST] if (note := _state(root, str(name), c.ts))]
        if said:
            marks[c.candidate_id] = said
    return Filtered(list(candidates), {}, marks)


def _state(root: Path, name: str, ts: int | None) -> str:
    """Return what became of a file that a lesson names; empty when it is as it was, or is none of the project's."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or name.startswith("~") or "\0" in name:
        return ""
    found = look_at(root / path, links=False)
    if found.kind == ABSENT:
        return f"gone: {name}"
    changed = found.kind == FILE and ts is not None and found.mtime_ns // 1000 > ts
    return f"changed since: {name}" if changed else ""


# contradiction: lessons that say the opposite of each other.


CONTRADICTIONS_ALIKE = 85
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
            alike = process.extract_iter(text, demanded, scorer=fuzz.ratio, score_cutoff=CONTRADICTIONS_ALIKE)
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


# What is taken out of mined candidates or marked in them before a person or a prompt sees them; one file a filter.


class Filter(NamedTuple):
    """A filter by its name on the command line."""

    name: str
    apply: Callable[[Sequence[StoredCandidate]], Filtered]

    @property
    def describe(self) -> str:
        """What it does, in one sentence."""
        return " ".join((self.apply.__doc__ or "").partition("\n\n")[0].split())


FILTERS = {f.__name__: Filter(f.__name__, f) for f in (risk_aware, near_duplicate, contradiction, staleness)}


def filtered(candidates: Sequence[StoredCandidate], names: Iterable[str]) -> Filtered:
    """Return what the named filters keep, one after the other, with all that they dropped and marked."""
    result = Filtered(list(candidates), {}, {})
    for name in names:
        one = FILTERS[name].apply(result.kept)
        marks = dict(result.marks)
        for key, said in one.marks.items():
            marks[key] = [*marks.get(key, []), *said]
        result = Filtered(one.kept, result.dropped | one.dropped, marks)
    return result

"""The order of memories for a query: how well they match, and what they have been worth."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.scope import Place, nearness, visible
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import Memory, Scored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


# Until when a memory holds, and when not to use it.


VALID_UNTIL, NOT_WHEN = "valid_until", "not_when"
"""Names in the structured body: the last day (UTC, ISO 8601) and the situation in words."""

_LIFETIME_LONGEST = 300


def a_day(value: Any) -> str | None:
    """Return a day as ISO 8601; None for what is none."""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value.isoformat()
    try:
        return date.fromisoformat(str(value).strip()[:10]).isoformat()
    except ValueError:
        return None


def limits(payload: Any) -> dict[str, str]:
    """Return what a note or an acceptance says of the end of a memory, as it stands in the structured body."""
    day, when = a_day(payload.get(VALID_UNTIL)), payload.get(NOT_WHEN)
    told = " ".join(when.split())[:_LIFETIME_LONGEST] if isinstance(when, str) else ""
    return ({VALID_UNTIL: day} if day else {}) | ({NOT_WHEN: told} if told else {})


def ended(memory: Memory, now: int) -> bool:
    """Tell whether the last day of a memory is over at a time in microseconds since 1970."""
    # most memories have no end, and reading every body would cost a prompt more than finding them
    if not memory.structured or f'"{VALID_UNTIL}"' not in memory.structured:
        return False
    day = a_day(memory.body.get(VALID_UNTIL))
    return day is not None and datetime.fromtimestamp(now / 1_000_000, UTC).date().isoformat() > day


def not_when(memory: Memory) -> str:
    """Return when not to use a memory; empty where nobody said."""
    if not memory.structured or f'"{NOT_WHEN}"' not in memory.structured:
        return ""
    told = memory.body.get(NOT_WHEN)
    return told if isinstance(told, str) else ""


WEIGHTS = {"match": 0.60, "utility": 0.12, "confidence": 0.08, "support": 0.06, "nearness": 0.06, "recency": 0.05, "accepted": 0.03}
"""Share of each part in the score; every part lies between 0 and 1."""

PENALTY = {"low": 0.0, "medium": 0.03, "high": 0.2}
LINKED = 0.5
"""A linked memory gets this share of the match of the memory that names it."""

LEAST_COVERED = 0.34
"""Share of the query's weight, rare words weighing more, that a memory must hold to be an answer."""

LEAST_SEARCHED = 0.2
"""The same share for what somebody searches for: who asks can pass over an answer, a prompt cannot."""

CLOSE = 0.6
"""Cosine from which a memory answers a question whose words it does not hold."""

CLOSENESS = 0.5
"""Weight of the cosine beside the words in a match, where a person chose an embedding function."""

AROUND = 0.5
"""Weight of what the memories around one hold beside its own words in a match, where a person searches."""

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
    around: float = 0.0
    """the share that the memories of its session beside it hold, itself included; 0 where they were not looked at"""
    held: int = 0
    """how many words of the query it holds"""


def rank(
    recalled: Iterable[Recalled],
    *,
    place: Place | None = None,
    limit: int = 10,
    now: int,
    linked: Callable[[Sequence[str]], Iterable[Memory]] | None = None,
    everywhere: bool = False,
    accepted_only: bool = False,
    least: float = LEAST_COVERED,
) -> list[Scored]:
    """Return at most ``limit`` memories, best first, with the parts of their scores.

    Memories that cover less than ``least`` of the query, with those around them where these were looked at, and whose
    vectors are not close to its own where there are such, are not answers: the list may be empty.
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

    hits = [r for r in recalled if (max(r.covered, r.around) >= least or (r.close or 0.0) >= CLOSE) and may(r.memory)]
    best = max((r.score for r in hits if max(r.covered, r.around) >= least), default=0.0)
    scored: dict[str, Scored] = {}
    for hit in hits:
        relative = hit.score / best if best > 0 else 1.0
        match = 0.5 * relative + 0.5 * hit.covered if max(hit.covered, hit.around) >= least else 0.0
        if hit.around:
            match = (match + AROUND * hit.around) / (1 + AROUND)
        if hit.close is not None:
            match = (match + CLOSENESS * max(0.0, hit.close)) / (1 + CLOSENESS)
        found = _scored(hit.memory, match, place, now)
        further = {"closeness": hit.close, "around": hit.around or None}
        parts = found.parts | {name: round(value, 4) for name, value in further.items() if value is not None}
        scored[hit.memory.memory_id] = found._replace(parts=parts)
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


# From what a person types to the words that are looked for.


_LONGEST = 4000
_MOST = 48
_POSITION = lazy_pattern(r"(?::\d+){1,2}$")
_ABOVE = lazy_pattern(r"^.*/(?=[^/]+/[^/]+$)")
_WORD = lazy_pattern(r"[^\W_](?:[\w./:@+-]*\w)?")

_HALF_AT_END, _HALF_AT_START = lazy_pattern(r"\s\S{0,200}\Z"), lazy_pattern(r"\A\S{0,200}\s")

_STOP = """
    a about after again all also am an and any are aren as at be been before being but by can cannot could did didn do does doesn
    doing don done down each else few for from further get gets getting give go goes going got had has hasn have haven having he her
    here hers him his how i if in into is isn it its itself just let like ll make many may me might more most much must my need no nor
    not now of off on once one only or other our out over own please re really same see she should shouldn so some such than that the
    their them then there these they thing things this those through to too try under until up us use ve very want was wasn way we
    were weren what when where which while who whom why will with won would wouldn yes yet you your yours
"""
STOP_WORDS = frozenset(_STOP.split())
"""Words that match nothing."""


def words_of(query: str) -> list[str]:
    """Return the words and identifiers of a query that say something, each once; at most 48.

    Stop words are left out, so a query of stop words alone gives nothing. Of a long text
    the first and the last words count: an output says at its end what went wrong. Of a
    path from the root the last folder and the file count, of any without a line's number.
    """
    found: dict[str, None] = {}
    text = query if len(query) <= 2 * _LONGEST else f"{_HALF_AT_END.sub('', query[:_LONGEST])} {_HALF_AT_START.sub('', query[-_LONGEST:])}"
    text = text.replace("\0", " ")
    for match in _WORD.finditer(text):
        word = _POSITION.sub("", match.group())
        if "/" in word and text[match.start() - 1 : match.start()] == "/":
            word = _ABOVE.sub("", word)
        low = word.lower()
        if low in STOP_WORDS or (len(low) == 1 and low.isascii()):
            continue
        found.setdefault(low if word.islower() or word.istitle() else word, None)
    words = list(found)
    return words if len(words) <= _MOST else words[: _MOST // 2] + words[-_MOST // 2 :]


def error_words(text: str, significant_terms: Callable[[str], str]) -> list[str]:
    """Return the words of the line of a pasted output that says what went wrong, as ``telling`` picks it.

    Of a single line there are none: it is looked for as it stands.
    """
    return words_of(significant_terms(text)) if "\n" in text.strip() else []

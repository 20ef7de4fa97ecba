"""What a backtest adds up to: how often memories of the past answer what came after, against chance and other controls.

Pure figures; who asks and what is found is decided elsewhere. docs/backtest.md defines each figure.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.injection_policy import NOTHING, STARTS
from ctx_pipeline.memory.intervals import SEED, by_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.memory.session_facts import About, Thing

SHOWN = 5
"""Answers of a question that count."""

THRESHOLDS = (0.34, 0.4, 0.5, 0.6, 0.7, 0.8)
WANTED = 0.5
"""Precision that a threshold should reach."""

MEASURED = "measured.backtest"
"""Kind of the journal's facts that keep the figures; they make nothing stale."""

LEAST_TOLD = 10
"""Memories told below which a threshold's precision says nothing."""

ERROR = "error"
KINDS = (ERROR, "failed", "changed", "ran", "ruled")
"""Kinds of questions: an error as it was printed; a prompt after which an earlier failure, file, check or rule came again."""


class Asked(NamedTuple):
    """One question of which it is known what came, and what was found for it."""

    kind: str
    session: str
    place: str
    targets: frozenset[Thing]
    """what came after the question and had come before the day"""
    found: tuple[About, ...]
    """memories in the order of a search, at most :data:`SHOWN`"""
    raw: tuple[bool, ...]
    """the same for BM25 over the raw text of the past: which of its hits show the same thing"""
    visible: int
    """memories that may be seen at the place"""
    about: int
    """how many of them are about a target"""
    told: bool
    """the hooks would have told one that is about a target by then"""

    def hit(self, within: int) -> bool:
        """Tell whether one of the first memories is about a target."""
        return any(about.fits(self.targets) for about in self.found[:within])


class Prompted(NamedTuple):
    """A prompt, and the memories that each threshold would have injected: right, wrong, or about nothing that can be told."""

    session: str
    told: dict[float, tuple[bool | None, ...]]
    start: tuple[bool | None, ...] = ()
    """the same of what would have been told at the start of the session, once"""
    first: tuple[float, bool] | None = None
    """share of the query that the first answer of a search holds, and whether it is right"""
    starts: Mapping[str, tuple[bool | None, ...]] = MappingProxyType({})
    """the same of what each rule would have told at the start of the session, once"""


def chance(visible: int, about: int, within: int) -> float:
    """Return how likely ``within`` memories drawn at random hold one that is right: 1 - C(n - r, k) / C(n, k)."""
    if not about:
        return 0.0
    if visible - about < within:
        return 1.0
    return 1.0 - math.comb(visible - about, within) / math.comb(visible, within)


def recall(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return the figures of each kind of question, and of all; intervals resample whole sessions."""
    by_kind: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        by_kind[one.kind].append(one)
    shuffled = _shuffled(asked)
    return [_of_kind(kind, by_kind[kind], shuffled) for kind in KINDS if by_kind[kind]]


def _of_kind(kind: str, asked: Sequence[Asked], shuffled: dict[int, bool]) -> dict[str, Any]:
    known = [a for a in asked if a.about]
    return {
        "kind": kind,
        "questions": len(asked),
        "sessions": len({a.session for a in asked}),
        "learnt": len(known),
        "hit_at_1": _mean(asked, lambda a: a.hit(1)),
        "hit_at_5": _mean(asked, lambda a: a.hit(SHOWN)),
        "learnt_hit_at_1": _mean(known, lambda a: a.hit(1)),
        "learnt_hit_at_5": _mean(known, lambda a: a.hit(SHOWN)),
        "chance_at_1": _mean(asked, lambda a: chance(a.visible, a.about, 1)),
        "chance_at_5": _mean(asked, lambda a: chance(a.visible, a.about, SHOWN)),
        "injected": _mean(asked, lambda a: a.told),
        "raw_at_1": _mean(asked, lambda a: any(a.raw[:1])),
        "raw_at_5": _mean(asked, lambda a: any(a.raw[:SHOWN])),
        "shuffled_at_5": _mean([a for a in asked if id(a) in shuffled], lambda a: shuffled[id(a)]),
    }


def _mean(asked: Iterable[Asked], value: Any) -> dict[str, Any]:
    return by_group((a.session, value(a)) for a in asked).plain()


def _shuffled(asked: Sequence[Asked]) -> dict[int, bool]:
    """Return for each question whether its answers fit what came in another session at the same place: popularity without the question."""
    draw = random.Random(SEED)  # noqa: S311 - statistics
    groups: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for a in asked:
        groups[a.kind, a.place].append(a)
    found: dict[int, bool] = {}
    for key in sorted(groups):
        for a in groups[key]:
            others = [o for o in groups[key] if o.session != a.session]
            if others:
                found[id(a)] = a._replace(targets=draw.choice(others).targets).hit(SHOWN)
    return found


def thresholds(prompted: Sequence[Prompted]) -> list[dict[str, Any]]:
    """Return for each threshold what would have been injected, how much of it was right, and how right the first answer of a search is."""
    rows = []
    for threshold in sorted({*THRESHOLDS, *(t for p in prompted for t in p.told)}):
        told = [(p.session, p.told.get(threshold, ())) for p in prompted]
        judged = [(session, right) for session, some in told for right in some if right is not None]
        firsts = [(p.session, p.first[1]) for p in prompted if p.first and p.first[0] >= threshold]
        rows.append(
            {
                "threshold": threshold,
                "told": sum(len(some) for _, some in told),
                "prompts_told": by_group((session, bool(some)) for session, some in told).plain(),
                "injection_precision": by_group(judged).plain(),
                "search_precision": by_group(firsts).plain(),
            }
        )
    return rows


def at_start(prompted: Sequence[Prompted]) -> dict[str, Any]:
    """Return how many memories would have been told at the start of sessions, and how much of that was right."""
    judged = [(p.session, right) for p in prompted for right in p.start if right is not None]
    return {
        "told": sum(len(p.start) for p in prompted),
        "sessions": sum(bool(p.start) for p in prompted),
        "precision": by_group(judged).plain(),
    }


def starts(prompted: Sequence[Prompted]) -> list[dict[str, Any]]:
    """Return for each rule of the start, the most sparing first, what :func:`at_start` says of it."""
    return [{"start": rule, **at_start([p._replace(start=p.starts.get(rule, ())) for p in prompted])} for rule in STARTS if rule != NOTHING]


def recommended(rows: Sequence[dict[str, Any]], wanted: float = WANTED, started: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the lowest threshold of injection, and of search, and the most generous rule of the start with the wanted precision.

    None where none has it or too few were told to know.
    """

    def fits(figure: Mapping[str, Any]) -> bool:
        return bool(figure["of"] >= LEAST_TOLD and figure["value"] >= wanted)

    return {
        "wanted": wanted,
        "injection": min((r["threshold"] for r in rows if fits(r["injection_precision"])), default=None),
        "search": min((r["threshold"] for r in rows if fits(r["search_precision"])), default=None),
        "start": next((r["start"] for r in reversed(started) if fits(r["precision"])), None),
    }

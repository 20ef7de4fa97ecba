"""What a backtest adds up to: how often memories of the past answer what came after, against chance and other controls.

Pure figures; who asks and what is found is decided elsewhere. docs/backtest.md defines each figure.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.intervals import SEED, of_groups, wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.memory.deeds import About, Thing

SHOWN = 5
"""Answers of a question that count."""

THRESHOLDS = (0.34, 0.4, 0.5, 0.6, 0.7, 0.8)
WANTED = 0.5
"""Precision that a threshold should reach."""

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
    exchanged = [shuffled[id(a)] for a in asked if id(a) in shuffled]
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
        "shuffled_at_5": wilson(sum(exchanged), len(exchanged)).plain(),
    }


def _mean(asked: Iterable[Asked], value: Any) -> dict[str, Any]:
    groups: dict[str, list[float]] = defaultdict(list)
    for a in asked:
        groups[a.session].append(float(value(a)))
    return of_groups([groups[key] for key in sorted(groups)]).plain()


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
    for threshold in THRESHOLDS:
        judged: dict[str, list[float]] = defaultdict(list)
        told = untold = 0
        for p in prompted:
            some = p.told.get(threshold, ())
            untold += not some
            told += len(some)
            judged[p.session] += [float(right) for right in some if right is not None]
        firsts = [right for p in prompted if p.first and p.first[0] >= threshold for right in [p.first[1]]]
        rows.append(
            {
                "threshold": threshold,
                "told": told,
                "prompts_told": wilson(len(prompted) - untold, len(prompted)).plain(),
                "injection_precision": of_groups([judged[key] for key in sorted(judged)]).plain(),
                "search_precision": wilson(sum(firsts), len(firsts)).plain(),
            }
        )
    return rows


def at_start(prompted: Sequence[Prompted]) -> dict[str, Any]:
    """Return how many memories would have been told at the start of sessions, and how much of that was right."""
    judged: dict[str, list[float]] = defaultdict(list)
    for p in prompted:
        judged[p.session] += [float(right) for right in p.start if right is not None]
    return {
        "told": sum(len(p.start) for p in prompted),
        "sessions": sum(bool(p.start) for p in prompted),
        "precision": of_groups([judged[key] for key in sorted(judged)]).plain(),
    }


def recommended(rows: Sequence[dict[str, Any]], wanted: float = WANTED) -> dict[str, float | None]:
    """Return the lowest threshold of injection, and of search, with the wanted precision; None where none has it or too few were told."""

    def lowest(name: str) -> float | None:
        fitting = [r["threshold"] for r in rows if r[name]["of"] >= LEAST_TOLD and r[name]["value"] >= wanted]
        return min(fitting, default=None)

    return {"wanted": wanted, "injection": lowest("injection_precision"), "search": lowest("search_precision")}

"""Measures of lessons: a backtest's figures, sessions with and without them, intervals of 95 %."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.injection_policy import LEAST_TOLD, NOTHING, STARTS
from ctx_pipeline.memory.session_facts import HELPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.memory.session_facts import About, Thing
    from ctx_pipeline.model.memories import Memory


# Intervals of 95 % around shares and differences; the same input gives the same figures.


_Z = 1.959963984540054
RESAMPLES = 1_000
SEED = 20_261_121


class Estimate(NamedTuple):
    """A figure with its interval; all None where nothing was there to estimate from."""

    value: float | None
    low: float | None
    high: float | None
    of: int
    """how many the figure rests on"""

    def plain(self) -> dict[str, float | int | None]:
        """Return it as plain values, rounded to four places."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in self._asdict().items()}


NO_ESTIMATE = Estimate(None, None, None, 0)


def wilson(right: float, of: int) -> Estimate:
    """Return a share with Wilson's score interval (E. B. Wilson, 1927)."""
    if not of:
        return NO_ESTIMATE
    share = right / of
    centre = share + _Z**2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2))
    below = 1 + _Z**2 / of
    return Estimate(share, max(0.0, (centre - spread) / below), min(1.0, (centre + spread) / below), of)


def of_groups(groups: Sequence[Sequence[float]], *, differences: bool = False) -> Estimate:
    """Return a share, the mean of all values of 0 to 1, with an interval from resampling whole groups: values of one session are alike.

    With ``differences`` the values are -1 to 1: what one way got less what another got at the same place.
    """
    held = [g for g in groups if g]
    if not held:
        return NO_ESTIMATE
    sums = [(math.fsum(g), len(g)) for g in held]
    value = math.fsum(s for s, _ in sums) / sum(n for _, n in sums)
    if len(sums) < 2:
        return Estimate(value, None, None, sum(n for _, n in sums))
    draw = random.Random(SEED)  # noqa: S311 - statistics
    means = sorted(
        math.fsum(s for s, _ in chosen) / sum(n for _, n in chosen)
        for chosen in (draw.choices(sums, k=len(sums)) for _ in range(RESAMPLES))
    )
    low, high = _middle(means)
    if low == high and differences:  # as many sessions may differ as Wilson's score leaves open where none of so many did
        spread = wilson(0, len(sums)).high or 0.0
        low, high = max(-1.0, value - spread), min(1.0, value + spread)
    elif low == high:  # sessions that all agree tell nothing by being drawn again
        _, low, high, _ = wilson(value * len(sums), len(sums))  # type: ignore[assignment]
    return Estimate(value, low, high, sum(n for _, n in sums))


def by_group(values: Iterable[tuple[str, float]], *, differences: bool = False) -> Estimate:
    """Return the same of (group, value) pairs in any order of the groups."""
    groups: dict[str, list[float]] = {}
    for group, value in values:
        groups.setdefault(group, []).append(float(value))
    return of_groups([groups[key] for key in sorted(groups)], differences=differences)


def difference(with_it: Sequence[float], without: Sequence[float]) -> Estimate:
    """Return mean of the first minus mean of the second with its bootstrap interval; no interval with fewer than two on a side."""
    if not with_it or not without:
        return NO_ESTIMATE
    value = math.fsum(with_it) / len(with_it) - math.fsum(without) / len(without)
    of = len(with_it) + len(without)
    if min(len(with_it), len(without)) < 2:
        return Estimate(value, None, None, of)
    draw = random.Random(SEED)  # noqa: S311 - statistics

    def mean(values: Sequence[float]) -> float:
        return math.fsum(draw.choices(values, k=len(values))) / len(values)

    return Estimate(value, *_middle(sorted(mean(with_it) - mean(without) for _ in range(RESAMPLES))), of)


def _middle(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the borders of the middle 95 %."""
    cut = int(len(ordered) * 0.025)
    return ordered[cut], ordered[-1 - cut]


# What told memories did: sessions with and without them, proposals that follow, and figures compared over time.


OUTCOMES = ("corrections", "retries", "cost")
"""What is compared: prompts that correct the agent, failures that came again in the session, dollars at list price."""

HARMED = ("harmful", "recurred")
LEAST_SESSIONS = 5
"""Sessions that a memory was told in before its retirement is proposed."""

LEAST_HELPED = 3
"""Sessions that a memory helped in before its acceptance is proposed."""


@dataclass
class Sides:
    """Sessions that were told memories, those it was withheld from, and others of the same places since; each with its outcomes."""

    told: list[Mapping[str, float]] = field(default_factory=list)
    withheld: list[Mapping[str, float]] = field(default_factory=list)
    randomized: list[Mapping[str, float]] = field(default_factory=list)
    """of the told sessions those that a holdout could have withheld from"""
    others: list[Mapping[str, float]] = field(default_factory=list)
    uses: dict[str, Counter[str]] = field(default_factory=dict)
    """memory -> outcome -> sessions"""
    logged: tuple[int, int] = (0, 0)
    """sessions that hooks told, and memories that reached a session, in the whole log"""
    judged: list[tuple[str, str]] = field(default_factory=list)
    """(session, outcome) of each memory that was judged in it"""


def effects(sides: Sides) -> dict[str, Any]:
    """Return differences of means, told minus not told, with their intervals.

    With sessions that a holdout withheld from it is an ``experiment``, else told sessions
    stand against others of the same places (``observational``: these may differ in more
    than the memories); without told sessions it is ``nothing told``.
    """
    outcomes = Counter(outcome for _, outcome in sides.judged)
    shown: dict[str, Any] = {
        "kind": "nothing told",
        "sessions_told": len(sides.told),
        "sessions_not_told": 0,
        "logged": {"sessions_told": sides.logged[0], "memories_told": sides.logged[1]},
        "memories_judged": len(sides.judged),
        "outcomes": dict(sorted(outcomes.items())),
        "used": by_group((session, outcome in HELPED) for session, outcome in sides.judged).plain(),
        "followed": by_group((session, outcome == "followed") for session, outcome in sides.judged).plain(),
        "memories": [
            {"memory_id": name, "outcomes": dict(sorted(counted.items()))}
            for name, counted in sorted(sides.uses.items(), key=lambda pair: (-sum(pair[1][n] for n in HELPED), pair[0]))
        ],
        "differences": {},
    }
    if not sides.told:
        return shown
    with_it, without = (sides.randomized, sides.withheld) if sides.withheld and sides.randomized else (sides.told, sides.others)
    shown["kind"] = "experiment" if without is sides.withheld else "observational"
    shown["sessions_told"], shown["sessions_not_told"] = len(with_it), len(without)
    for name in OUTCOMES:
        pair = [[row[name] for row in side if name in row] for side in (with_it, without)]
        means = [round(sum(side) / len(side), 4) if side else None for side in pair]
        shown["differences"][name] = {"told": means[0], "not_told": means[1], **difference(*pair).plain()}
    return shown


def proposals(
    memories: Mapping[str, Memory],
    told: Mapping[str, set[str]],
    right: Mapping[str, set[str]],
    warned: set[str],
    uses: Mapping[str, Counter[str]],
) -> list[dict[str, Any]]:
    """Return what the figures speak for, nothing of which is done by itself: memories to accept, and memories to retire.

    Accepted should be a candidate that helped in three sessions that were told it and did
    more good than harm, or would have been right in three of the replayed ones and in at least half.
    Retired should be one that was told, really or in the replay, in five sessions or more
    and never helped, was never right and would have warned of nothing; and one that did harm more often than it helped.
    """
    found = []
    for memory_id in sorted(set(told) | set(uses)):
        memory = memories.get(memory_id)
        if memory is None or memory.status not in ("candidate", "accepted"):
            continue
        counted = uses.get(memory_id, Counter())
        helped, harmed = (sum(counted[name] for name in names) for names in (HELPED, HARMED))
        judged, replayed, fitting = sum(counted.values()), len(told.get(memory_id, ())), len(right.get(memory_id, ()))
        verb = _verdict(helped, harmed, judged, replayed, fitting, warned=memory_id in warned)
        if not verb or (verb == "accept" and memory.status == "accepted"):
            continue
        found.append(
            {
                "memory_id": memory_id,
                "propose": verb,
                "text": memory.text,
                "told": judged,
                "helped": helped,
                "harmed": harmed,
                "replayed": replayed,
                "right": fitting,
                "command": f"ctx memory {verb} {memory_id}",
            }
        )
    return sorted(found, key=lambda p: (p["propose"], -p["helped"] - p["right"], p["memory_id"]))


def _verdict(helped: int, harmed: int, judged: int, replayed: int, fitting: int, *, warned: bool) -> str:
    if harmed > helped and harmed >= 2:
        return "retire"
    if helped >= LEAST_HELPED and helped > harmed:
        return "accept"
    if not judged and fitting >= LEAST_HELPED and 2 * fitting >= replayed:
        return "accept"
    if max(judged, replayed) >= LEAST_SESSIONS and not (helped or fitting or warned):
        return "retire"
    return ""


def compare(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures of a report by name, each with its interval and whether more of it is better."""
    found: dict[str, dict[str, Any]] = {}
    for row in report["recall"]:
        for name in ("hit_at_1", "hit_at_5", "injected"):
            found[f"{row['kind']}.{name}"] = {**row[name], "better": "higher"}
    for row in report["thresholds"]:
        if row["threshold"] == report["recommended"]["in_use"]:
            found["injection.precision"] = {**row["injection_precision"], "better": "higher"}
    found["start.precision"] = {**report["start"]["precision"], "better": "higher"}
    for name in ("other_repository", "everyday"):
        found[f"control.{name}"] = {**report["controls"][name], "better": "lower"}
    found["warned"] = {**report["warned_share"], "better": "higher"}
    return {name: figure for name, figure in found.items() if figure["value"] is not None}


def worse(earlier: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures that lie beyond the earlier one's interval on the bad side."""
    found = []
    for name in sorted(earlier.keys() & now.keys()):
        before, after = earlier[name], now[name]
        low, high, value = before.get("low"), before.get("high"), after["value"]
        bad = value < before["value"] if after["better"] == "higher" else value > before["value"]
        if bad and low is not None and high is not None and not low <= value <= high:
            found.append({"figure": name, "was": before["value"], "low": low, "high": high, "is": value})
    return found


# What a backtest adds up to: how often memories of the past answer what came after, against chance and other
# controls.


SHOWN = 5
"""Answers of a question that count."""

THRESHOLDS = (0.34, 0.4, 0.5, 0.6, 0.7, 0.8)
WANTED = 0.5
"""Precision that a threshold should reach."""

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
        "learned": len(known),
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

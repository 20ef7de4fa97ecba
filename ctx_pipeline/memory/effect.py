"""What told memories did: sessions with and without them, proposals that follow, and figures compared over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.memory.intervals import by_group, difference
from ctx_pipeline.memory.outcome import HELPED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.model.memories import Memory

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

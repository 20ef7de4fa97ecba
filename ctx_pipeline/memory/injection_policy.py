"""How sparingly memories are injected, unasked, into a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.ranking import WEIGHTS, Recalled, rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.model.memories import Memory, Scored

THRESHOLD = 0.4
"""Share of a prompt's weight, rare words weighing more, that a memory must hold to be injected; a search asks for less."""

ACCEPTED, PROVEN, NOTHING = "accepted", "proven", "nothing"
STARTS = (NOTHING, ACCEPTED, PROVEN)
"""What is told at the start of a session, where no question is asked: nothing; what somebody accepted; that, and what was learned twice."""

ONCE = 0.65
"""Share of a prompt's weight that a rule must hold which the person said once in passing."""

WORTH = 0.4
"""What a memory must have been worth, 0 to 1, to be told at the start: its score without the match."""

LIMIT = 4
BUDGET = 500
"""Tokens of a note."""

BESIDE = 0.8
"""Share of what the first lesson holds of a prompt that another must hold to be told beside it, and at least two of its words."""

LEAST_WORDS = 2
"""Telling words of a prompt below which nothing is injected: one word, as in "commit", is held whole by whatever has it."""

PROMPT_WORDS = 32
"""Words of a prompt that are looked for: each costs, and a long prompt says early what it is about."""


class Choice(NamedTuple):
    """How sparingly memories are injected."""

    threshold: float = THRESHOLD
    holdout: float = 0.0
    """Share of sessions from which everything is withheld, logged all the same."""
    limit: int = LIMIT
    budget: int = BUDGET
    accepted_only: bool = False
    start: str = ACCEPTED
    """one of :data:`STARTS`"""
    prompts: bool = True
    """tell something at prompts at all"""
    commands: bool = True
    """tell something before a command and after one that failed"""


def parse_options(named: Mapping[str, str]) -> Choice:
    """Return what options of a hook say (name -> value); what is no value of an option counts as left out."""
    plain = Choice()
    start = named.get("start", plain.start)
    return Choice(
        threshold=_share(named.get("threshold"), plain.threshold),
        holdout=_share(named.get("holdout"), plain.holdout),
        accepted_only="accepted-only" in named,
        start=start if start in STARTS else plain.start,
        prompts="no-prompts" not in named,
        commands="no-commands" not in named,
    )


def _share(text: str | None, default: float) -> float:
    try:
        value = float(text) if text else default
    except ValueError:
        return default
    return value if 0 <= value <= 1 else default


def sure_enough(memory: Memory) -> bool:
    """Tell whether a memory is sure enough to be told unasked: what the person said once in passing waits until somebody accepts it."""
    return memory.status == ACCEPTED or not memory.body.get("once")


AT_START, AT_PROMPT, BEFORE_COMMAND, AT_FAILURE = "start", "prompt", "before a command", "after a failure"
"""Moments at which hooks speak."""

COMMAND_MOMENTS = (BEFORE_COMMAND, AT_FAILURE)

MEASURED = "measured.backtest"
"""Kind of the journal's facts that keep the figures of a backtest; they make nothing stale."""

LEAST_TOLD = 10
"""Tellings of a backtest below which a threshold's precision says nothing, and how a kind of lesson does proves nothing."""

_KIND_WORDS = {
    "user_preference": "rule",
    "risk_rule": "refusal",
    "repo_convention": "checks",
    "tool_lesson": "cure",
    "failure_trigger": "cure",
}


KINDS_TOLD = ("rule", "refusal", "checks", "cure", "warning", "fact")
"""Kinds of lessons that a moment is told of."""


def kind_of(memory: Memory) -> str:
    """Return the kind of a lesson as the backtest judges it: rule, refusal, checks, cure, warning, fact, or its own kind."""
    if memory.body.get("fact"):
        return "fact"
    return "warning" if memory.body.get("warning") else _KIND_WORDS.get(memory.kind, memory.kind)


class ByDefault(NamedTuple):
    """Whether a kind of lesson is told unasked at a moment, and why."""

    told: bool
    why: str


def spoken_by_default(row: Mapping[str, Any], kind: str) -> ByDefault:
    """Return whether a kind of lesson is told at a moment where nobody accepted the lesson, by what the newest backtest counted there.

    Of ten tellings or more it must have been right more often than a text search. Fewer prove nothing and silence nothing,
    but where lessons of every kind together lose clearly to the search at the moment: there it must have been right more often.
    """
    count = row["kinds"].get(kind, {"told": 0, "right": 0, "plain": 0})
    told, right, plain = count["told"], count["right"], count["plain"]
    lost = _lost(row)
    compared = f"right in {right} of {told}, text search in {plain}"
    if told >= LEAST_TOLD:
        return ByDefault(right > plain, compared)
    ahead = right > plain or not lost
    compared = f"unproven: {compared}" if told else "never told in the backtest"
    return ByDefault(ahead, compared if ahead else f"{compared}{_LOST}")


_LOST = "; text search clearly beats lessons there"


def _lost(row: Mapping[str, Any]) -> bool:
    """Tell whether a text search clearly beats all lessons of a moment."""
    high = (row.get("against_search") or {}).get("high")
    return high is not None and high < 0 and row.get("answerable", 0) >= LEAST_TOLD


def quiet_kinds(moments: Mapping[str, Any]) -> list[str]:
    """Return in words which kinds of lessons are not told unasked at which moments, and why.

    ``moments`` is what the newest backtest counted.
    """
    why: dict[tuple[str, str], list[str]] = {}
    for moment, row in moments.items():
        for kind in KINDS_TOLD:
            one = spoken_by_default(row, kind)
            if not one.told:
                why.setdefault((moment, one.why), []).append(kind)
    return [f"{moment}: {', '.join(kinds)} ({reason})" for (moment, reason), kinds in why.items()]


def for_prompt(recalled: Iterable[Recalled], *, place: Place | None, choice: Choice, now: int, first: Memory | None = None) -> list[Scored]:
    """Return what may be told at a prompt, best first, four times as many as are told since some may be known already.

    Beside the first one only what has as much in common with the prompt is told: one word is held by whatever has it.
    ``first`` is what is told already, by what the prompt asks to do.
    """
    least = max(choice.threshold, ONCE)
    told = [r for r in recalled if r.memory.status == ACCEPTED or not r.memory.body.get("at_hand")] if choice.prompts else []
    near = [r for r in told if r.covered >= (choice.threshold if sure_enough(r.memory) else least)]
    ranked = rank(near, place=place, limit=4 * choice.limit, now=now, accepted_only=choice.accepted_only)
    found = {r.memory.memory_id: r for r in near}
    best = first.memory_id if first is not None else ranked[0].memory.memory_id if ranked else ""
    least_beside = BESIDE * found[best].covered if best in found else 0.0

    def beside(memory: Memory) -> bool:
        return found[memory.memory_id].held >= LEAST_WORDS and found[memory.memory_id].covered >= least_beside

    return [s for s in ranked if s.memory.memory_id == best or beside(s.memory)]


def at_start(held: Iterable[Memory], *, place: Place | None, choice: Choice, now: int) -> list[Scored]:
    """Return what is worth knowing at a place whatever is asked, by the rule that was chosen for the start.

    Nothing covers a question that was not asked: here a memory must have been accepted (or, where
    that was chosen, learned in more than one session) and have proved to be worth something.
    """
    if choice.start == NOTHING:
        return []
    worth = [Recalled(m, 1.0, 1.0) for m in held if m.status == ACCEPTED or (choice.start == PROVEN and m.support > 1)]
    ranked = rank(worth, place=place, limit=4 * choice.limit, now=now, accepted_only=choice.accepted_only)
    return [s for s in ranked if (s.score - WEIGHTS["match"]) / (1 - WEIGHTS["match"]) >= WORTH]

"""Whether a session used a memory that it was told: signs with the events that show them, and the reward they are worth."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.memory.session_facts import CHANGED, FAILED, RAN, RULED, about

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.memory.session_facts import About, Said, SessionFact, Timeline
    from ctx_pipeline.model.memories import Memory

REWARDS = {"avoided": 1.0, "followed": 0.9, "touched": 0.7, "quoted": 0.7, "ignored": 0.4, "recurred": 0.1, "harmful": 0.0}
"""Reward of each outcome: utility moves towards it by ``utility += 0.2 * (reward - utility)``."""

HELPED = ("avoided", "followed", "touched", "quoted")
OBJECTED = 0.5
"""Share of a reward that is left where the person objected to the turn in which the memory was used."""

MEASURED = "measured"
"""``source`` of the rewards that come from here, in the journal."""

_QUOTED_WORDS = 7
"""Words in a row that an answer takes from a memory to quote it."""

_SHOWN = 4
_WORD = re.compile(r"\w+")


class Use(NamedTuple):
    """What became of a memory in a session that was told it."""

    outcome: str
    """avoided, followed, touched, quoted, ignored, recurred or harmful"""
    reward: float
    evidence: dict[str, list[str]]
    """sign -> event ids that show it; several signs may be there, the outcome is the one that counts"""


def judge(memory: Memory, story: Timeline, told: int) -> Use | None:
    """Return what became of a memory told at a moment (microseconds); None while the agent has not worked on since.

    Signs count after that moment only. ``followed``: a command that it advises ran and
    passed, and had not run before. ``harmful``: such a command only failed. ``recurred``:
    the error that it tells of, or the rule that it holds, came again. ``avoided``: the
    program of that error ran and passed, and the error did not come. ``touched``: a file
    that it names was changed for the first time. ``quoted``: an answer names its id or
    takes seven words in a row from it. What counts is, in this order: avoided, followed,
    harmful, recurred, touched, quoted, else ignored.
    """
    after = [d for d in story.deeds if d.at > told]
    answers = [a for a in story.answers if a.at > told]
    if not after and not answers:
        return None
    signs = _signs(about(memory), [d for d in story.deeds if d.at <= told], after)
    earlier = [s.text for s in (*story.prompts, *story.answers) if s.at <= told]
    quoting = [a for a in answers if _quotes(a.text, memory)]
    if quoting and not any(_quotes(text, memory) for text in earlier):
        signs["quoted"] = [(a.at, a.event_id) for a in quoting]
    outcome = next((name for name in ("avoided", "followed", "harmful", "recurred", "touched", "quoted") if name in signs), "ignored")
    reward = REWARDS[outcome]
    if outcome in HELPED and _objected(story, signs[outcome][0][0]):
        reward *= OBJECTED
        signs["objected"] = [(o.at, o.event_id) for o in _next_objection(story, signs[outcome][0][0])]
    return Use(outcome, reward, {name: [event for _, event in found][:_SHOWN] for name, found in sorted(signs.items())})


def _signs(what: About, before: Sequence[SessionFact], after: Sequence[SessionFact]) -> dict[str, list[tuple[int, str]]]:
    signs: dict[str, list[tuple[int, str]]] = {}
    ran = {name for d in before if d.kind == RAN for name in d.names}
    advised = [d for d in after if d.kind == RAN and what.commands.intersection(d.names)]
    fresh = [d for d in advised if d.passed and not ran.intersection(d.names)]
    if fresh:
        signs["followed"] = _shown(fresh)
    elif advised and not any(d.passed for d in advised):
        signs["harmful"] = _shown(advised)
    again = [d for d in after if d.kind in (FAILED, RULED) and what.things.intersection(d.spellings)]
    errors = {name for kind, name in what.things if kind == FAILED}
    if again:
        signs["recurred"] = _shown(again)
    elif errors:
        went_well = [d for d in after if d.kind == RAN and d.passed and what.subject and d.subject == what.subject]
        if went_well:
            signs["avoided"] = _shown(went_well)
    known = {name for d in before if d.kind == CHANGED for name in d.names}
    touched = [d for d in after if d.kind == CHANGED and (what.files - known).intersection(d.names)]
    if touched:
        signs["touched"] = _shown(touched)
    return signs


def _shown(deeds: Iterable[SessionFact]) -> list[tuple[int, str]]:
    return [(d.at, event) for d in deeds for event in d.events]


def _quotes(text: str, memory: Memory) -> bool:
    # a note may be named as its person likes: a plain word is no sign of it
    if not memory.memory_id.isalpha() and re.search(rf"(?<![\w-]){re.escape(memory.memory_id)}(?![\w-])", text):
        return True
    words = _WORD.findall(memory.text.lower())
    said = f" {' '.join(_WORD.findall(text.lower()))} "
    return any(f" {' '.join(words[i : i + _QUOTED_WORDS])} " in said for i in range(len(words) - _QUOTED_WORDS + 1))


def _next_objection(story: Timeline, used: int) -> list[Said]:
    """Return the prompt after a moment when it is an objection."""
    following = next((p for p in story.prompts if p.at > used), None)
    return [o for o in story.objections if following is not None and o.event_id == following.event_id]


def _objected(story: Timeline, used: int) -> bool:
    return bool(_next_objection(story, used))

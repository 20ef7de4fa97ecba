"""How good a skill or procedure is as a thing to follow, by five parts that can be checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.memory.budget import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import Memory

GRADED = ("skill", "procedure")
LETTERS = (("A", 0.85), ("B", 0.7), ("C", 0.5))
"""Grade and the least mean of the parts that it takes; D below."""

_CAPS = ((0.5, "C"), (0.66, "B"))
"""Share of steps that can be done below which a grade is at most this letter: a list of files is not a way to do something."""

_VAGUE = re.compile(
    r"(?:please |then |now )?(?:change|edit|write|modify|update|add|create|touch|fix|adjust|open|read|check|see (?:whether|if)|look at)?"
    r"\s*(?:(?:the )?files?\s*)?`[^`\s]+`(?:\s*(?:,|and)\s*`[^`\s]+`)*(?: and \d+ more)?"
    r"(?: changes with it| changed with it| too| as well)?[.:]?",
    re.IGNORECASE,
)
"""A step that only names files: which change is to be made is left open."""

_HARM = {"low": 0.0, "medium": 0.3, "high": 0.8}
_SHORT, _LONG = 150, 1_000
"""Tokens up to which a skill costs nothing to speak of, and from which it costs too much."""


class Grade(NamedTuple):
    """A letter and the parts that it is the mean of, each 0 to 1."""

    letter: str
    parts: dict[str, float]


def grade(memory: Memory, marks: Sequence[str] = ()) -> Grade | None:
    """Return the grade of a skill or procedure; None for other kinds.

    ``safety`` is what the checks and its risk leave, ``completeness`` the share of when
    to use it, steps, end and check that it names, ``executability`` the share of steps
    that can be done: they name a command, or a file and what becomes of it ("change `F`"
    says too little), ``upkeep`` 0 when a file of it is gone and 0.5 when one
    was changed since (``marks`` of :func:`ctx_pipeline.learning.lesson_flags.marks`), and ``cost``
    falls from 1 at 150 tokens to 0 at 1,000. Where less than half of the steps can be done
    the letter is at most C, where less than two thirds can, B.
    """
    if memory.kind not in GRADED:
        return None
    body = memory.body
    steps = [s for s in body.get("steps") or () if isinstance(s, str)]
    ends = body.get("termination") or body.get("outcome")
    checks = body.get("verification") or [s for s in steps if s.startswith("run `")]
    tokens = sum(estimate(str(t)) for t in (memory.text, memory.when_to_use or "", *steps))
    parts = {
        "safety": 0.0 if memory.flags else 1.0 - _HARM[memory.risk],
        "completeness": sum(map(bool, (memory.when_to_use, steps, ends, checks))) / 4,
        "executability": sum(map(_can_be_done, steps)) / len(steps) if steps else 0.0,
        "upkeep": 0.0 if any(m.startswith("gone") for m in marks) else 0.5 if any(m.startswith("changed") for m in marks) else 1.0,
        "cost": min(1.0, max(0.0, (_LONG - tokens) / (_LONG - _SHORT))),
    }
    mean = sum(parts.values()) / len(parts)
    letter = next((name for name, least in LETTERS if mean >= least), "D")
    letter = max(letter, next((most for least, most in _CAPS if parts["executability"] < least), "A"))
    return Grade(letter, {name: round(value, 2) for name, value in parts.items()})


def _can_be_done(step: str) -> bool:
    return "`" in step and not _VAGUE.fullmatch(step.strip())

"""What happened in a session, and what a memory is about, in one vocabulary: so that it can be told whether a thing came again.

A *thing* is (kind, name): ``failed`` an error line without numbers and folders, ``ran``
a command line, ``changed`` a file below the working folder, ``ruled`` a rule that the
person typed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.model.memories import Memory


FAILED, RAN, CHANGED, RULED = "failed", "ran", "changed", "ruled"
KINDS = (FAILED, CHANGED, RAN, RULED)

Thing = tuple[str, str]

_RUN_STEP = re.compile(r"^run `(.+)`$")
_MARKED = re.compile(r"`([^`]+)`")


class SessionFact(NamedTuple):
    """One thing that happened: its names (a command has more than one spelling), when, and the events that show it."""

    kind: str
    names: tuple[str, ...]
    at: int
    """microseconds since 1970"""
    events: tuple[str, ...]
    passed: bool = True
    subject: str = ""
    """program and subcommand of a command, e.g. ``go test``"""
    text: str = ""
    """what a failure printed around the line that says so"""
    check: bool = False
    """the command tests, lints, builds, installs or runs something"""

    @property
    def spellings(self) -> Iterable[Thing]:
        """The deed in each of its spellings."""
        return ((self.kind, name) for name in self.names)


class Said(NamedTuple):
    """Something that was typed or answered."""

    event_id: str
    at: int
    text: str


@dataclass
class Timeline:
    """One session as far as memories are concerned; everything in the order of time."""

    host: str
    session_id: str
    cwd: str
    repository: str
    first: int
    last: int
    prompts: list[Said] = field(default_factory=list)
    answers: list[Said] = field(default_factory=list)
    deeds: list[SessionFact] = field(default_factory=list)
    objections: list[Said] = field(default_factory=list)
    """prompts that say that what was done before them was not right"""

    @property
    def key(self) -> str:
        """``host/session_id``, as memories name their sessions."""
        return f"{self.host}/{self.session_id}"


class About(NamedTuple):
    """What a memory is about, and what it advises."""

    things: frozenset[Thing] = frozenset()
    least: int = 1
    """so many of the things have to come again"""
    commands: frozenset[str] = frozenset()
    """command lines that it advises to run"""
    files: frozenset[str] = frozenset()
    """files that it says to change"""
    subject: str = ""
    """program whose failure it tells of"""

    def fits(self, things: frozenset[Thing] | set[Thing]) -> bool:
        """Tell whether the memory is about one of these things."""
        return bool(self.things) and len(self.things & things) >= self.least


_OF_ERRORS = ("tool_lesson", "failure_trigger")
"""Kinds of memories whose signature is that of an error; in others it names a rule, a habit or a file, for what takes its place later."""


def about(memory: Memory) -> About:
    """Return what a memory is about by its body; nothing for notes and for bodies that name none of the known parts.

    A body with an error is about this error, a preference about its rule, a skill about
    its file, a procedure about two of its files, a habit about its commands, a refusal
    about the command or file that was refused.
    """
    body = _body(memory)
    commands = frozenset(_commands(body))
    files = tuple(_texts(body.get("files")))
    subject = str(body.get("subject") or "")
    least = 1
    things: set[Thing] = set()
    error = str(body.get("signature") or "") if memory.kind in _OF_ERRORS or body.get("error") else ""
    if error:
        things = {(FAILED, error)}
    elif memory.kind == "user_preference":
        things = {(RULED, subject)} if subject else set()
    elif body.get("refused"):
        marked = _MARKED.findall(str(body["refused"]))
        kind = RAN if str(body["refused"]).startswith("`") else CHANGED
        things = {(kind, name) for name in marked}
    elif files:
        chosen = files[:1] if memory.kind == "skill" else files
        things = {(CHANGED, name) for name in chosen}
        least = min(2, len(things))
    else:
        things = {(RAN, name) for name in commands}
    told = subject if error else ""
    return About(frozenset(things), least, frozenset() if body.get("refused") else commands, frozenset(files), told)


_TOLD = ("change ", "see ", "edit ", "write ", "use `", "leave out ", "name `", "call it ", "make `", "add `")
"""How steps begin that are no commands."""


def _commands(body: dict[str, Any]) -> Iterable[str]:
    if body.get("resolution") in ("command", "setup"):
        yield from _texts(body.get("did"))
    yield from _texts(body.get("commands"))
    yield from _texts([body.get("narrowed")])
    for step in _texts(body.get("steps")):
        match = _RUN_STEP.match(step)
        if match:
            yield match.group(1)
        elif not step.startswith(_TOLD):
            yield step


def _texts(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str) and v] if isinstance(value, list | tuple) else []


def _body(memory: Memory) -> dict[str, Any]:
    found = json.loads(memory.structured) if memory.structured else {}
    return found if isinstance(found, dict) else {}


# Whether a session used a memory that it was told: signs with the events that show them, and the reward they are
# worth.


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

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
    from collections.abc import Iterable

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

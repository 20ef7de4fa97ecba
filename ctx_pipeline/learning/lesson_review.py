"""The few lessons that would have saved most, for a person to judge, and the lines that they make in a rules file."""

from __future__ import annotations

import difflib
import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.learning.machine_facts import of_machine
from ctx_pipeline.learning.memories import plain_memory
from ctx_pipeline.learning.repository_identity import known_place
from ctx_pipeline.memory.injection_policy import MEASURED, quiet_kinds
from ctx_pipeline.memory.prompt_block import inline
from ctx_pipeline.memory.ranking import ended
from ctx_pipeline.memory.safety import unread
from ctx_pipeline.memory.scope import visible
from ctx_pipeline.model.memories import RULE_KINDS, WOVEN
from ctx_pipeline.storage import wait_for_forget
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline.usage.repositories import project_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ctx_pipeline.model.memories import Memory
    from ctx_pipeline.settings import Settings

KINDS = RULE_KINDS | {"repo_convention", "tool_lesson", "failure_trigger"}
"""Kinds that a rules file can hold in a line; procedures, skills and cases are too long for one."""

MOST_LINES = 12
"""Lines of a block."""

_BEGIN, _END = "<!-- ctx learn: begin -->", "<!-- ctx learn: end -->"
_BLOCK = re.compile(rf"\n*{re.escape(_BEGIN)}.*?{re.escape(_END)}\n?", re.DOTALL)
_HEAD = "## Lessons from earlier sessions"
_HELD = 0.85
"""Share of a line's words from which a rules file is taken to say it already."""


class Proposal(NamedTuple):
    """A lesson with what it rests on: sessions that taught it, minutes that were lost to it, and its line for a rules file."""

    memory: Memory
    line: str
    sessions: int
    minutes: float
    """from a failure to what cured it, over its sessions; 0 where nothing failed"""


def proposals(
    *, cwd: str | None = None, project: str | None = None, limit: int | None = 5, accepted: bool = False, settings: Settings | None = None
) -> list[Proposal]:
    """Return the lessons that wait for a judgment, what saved most first; with ``accepted`` those that somebody accepted.

    ``project`` is the name of a repository or its folder; without it and ``cwd`` those of all
    repositories. Left out are lessons that are held back, superseded or ended, and rules that
    a rules file had before the agent. Raises UnknownName for a project that no lesson is of.
    """
    chosen = settings or settings_module.load()
    wait_for_forget(chosen.home)
    index = MemoryIndex(chosen.home / "memory.db")
    try:
        place = known_place(cwd, index, chosen.home) if cwd else None
        held = index.of_places(allowed=lambda s, r, w: place is None or visible(s, r, w, place))
    finally:
        index.close()
    if project is not None:
        all_held, names = held, {m.memory_id: project_names(project_of(m), m.repository or None) for m in held}
        held = [m for m in held if project in names[m.memory_id]]
        if not held:
            raise UnknownName("project with lessons", project, {project_of(m) for m in all_held} - {""})
    now = time.time_ns() // 1000
    wanted = [m for m in held if m.kind in KINDS and m.status == ("accepted" if accepted else "candidate") and not ended(m, now)]
    found = [_proposal(m) for m in wanted if m.status in WOVEN and not m.body.get("written_in") and not unread(m, [m.text])]
    return sorted(found, key=lambda p: (-_worth(p), p.memory.memory_id))[:limit]


def only_once_accepted(settings: Settings | None = None) -> list[str]:
    """Return in words at which moments hooks tell which kinds of lessons only once accepted, by the newest backtest; empty without one."""
    chosen = settings or settings_module.load()
    with closing(Journal(chosen.home / "journal.db", read_only=True)) as journal:
        kept = journal.newest(MEASURED, 1) if journal.is_there() else []
    return quiet_kinds(kept[0].payload.get("moments", {})) if kept else []


def project_of(memory: Memory) -> str:
    """Return the short name of the repository or folder that a lesson is of; nothing for one that holds everywhere."""
    place = memory.repository or memory.cwd or ""
    return re.split(r"[/\\]", place.removesuffix(".git").rstrip("/\\"))[-1]


def for_rules_file(found: Iterable[Proposal], limit: int = MOST_LINES) -> list[Proposal]:
    """Return the lessons that a rules file can state as rules, each once: none that names one run, pull request or commit.

    Nor one that holds on one machine: its shell, its programs and their options. What
    somebody accepted stays.
    """
    chosen: list[Proposal] = []
    said: list[set[str]] = []
    for one in found:
        spans = _CODE.findall(one.line)
        # in other words: the same programs, or the same error with the same cure
        errors = _QUOTED.findall(one.line)
        same = [told for told in (spans, [*errors, *spans[-1:]] if errors else []) if len(told) > 1]
        again = any(all(span in other.line for span in told) for told in same for other in chosen)
        if not (
            again or _stands(one.line, said) or (one.memory.status != "accepted" and (of_machine(one.memory) or _ONE_OFF.search(one.line)))
        ):
            chosen.append(one)
            said.append(_words(one.line))
    return chosen[:limit]


_CODE = re.compile(r"`([^`]+)`")
_QUOTED = re.compile("“([^”]+)”")
_ONE_OFF = re.compile(
    r"(?<![:\w.])\d{5,}(?![\w.])|(?<!\w)#\d+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12,40}\b|/(?:pull|runs|issues)/\d+"
)
"""A number, id or address of one run, pull request, issue or commit; a port behind a colon is none."""


def _proposal(memory: Memory) -> Proposal:
    body = memory.body
    seconds = body.get("seconds")
    lost = float(seconds) if isinstance(seconds, (int, float)) else 0.0
    lost *= 1 if "sessions" in body else max(1, memory.support)
    line = str(body.get("line") or "").removeprefix("- ") or memory.text
    line = inline(line).strip()
    return Proposal(memory, f"{line[:1].upper()}{line[1:]}", max(1, memory.support), round(lost / 60, 1))


def _worth(proposal: Proposal) -> float:
    """Return how much a lesson would have saved: its sessions and minutes, by how sure it is; what the person said counts double."""
    said = 2 if proposal.memory.kind in RULE_KINDS else 1
    return proposal.memory.confidence * (said * proposal.sessions + min(proposal.minutes, 60) / 5)


def plain_proposal(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as plain values: memory_id, kind, text, line, sessions, minutes, confidence, evidence, when_to_use."""
    row = plain_memory(proposal.memory)
    names = ("memory_id", "kind", "text", "when_to_use", "status", "confidence", "repository", "evidence")
    return {name: row[name] for name in names} | {
        "line": proposal.line,
        "sessions": proposal.sessions,
        "minutes": proposal.minutes,
    }


def with_lessons(text: str, found: list[Proposal]) -> str:
    """Return a rules file with the lines of lessons in a marked block at its end, in place of an earlier one.

    What the file says already stays out; nothing is added where nothing is left to say.
    """
    rest = without_lessons(text)
    said = [_words(line) for line in rest.splitlines()]
    lines = [p.line for p in found if not _stands(p.line, said)]
    if not lines:
        return rest
    block = "\n".join([_BEGIN, _HEAD, "", *(f"- {line}" for line in lines), _END]) + "\n"
    return rest + ("" if not rest else "\n" if rest.endswith("\n") else "\n\n") + block


def _words(line: str) -> set[str]:
    return set(re.findall(r"\w+", line.lower()))


def _stands(line: str, said: list[set[str]]) -> bool:
    words = _words(line)
    return any(len(words & known) >= _HELD * len(words) for known in said)


def without_lessons(text: str) -> str:
    """Return a text without the marked block."""
    return _BLOCK.sub(lambda m: "\n" if m.start() else "", text, count=1)


def has_lessons(text: str) -> bool:
    """Tell whether the marked block is in a text."""
    return _BLOCK.search(text) is not None


def as_diff(path: Path, before: str, after: str) -> str:
    """Return the change of a file as a patch that ``git apply`` takes."""
    old = f"a/{path.name}" if before else "/dev/null"
    return "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, f"b/{path.name}"))

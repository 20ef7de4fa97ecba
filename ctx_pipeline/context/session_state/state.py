"""What a session is about and how far it came, as one record; who said or showed each part of it stands beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCHEMA = 1
"""Version of the JSON shape of a state."""

PERSON = "person"
AGENT = "agent"
BUNDLE = "bundle"
"""Who said what an imported state says that somebody said."""

SAID_BY = {PERSON: 0, AGENT: 1}
"""Who says a thing outranks what is drawn from the records: a person first."""

DRAWN = 8
"""Findings, decisions and done steps that are drawn from the records at most; what somebody said is never left out."""


_PLACED = re.compile(r"^\s*(\S{1,400}?)(?::(\d{1,7}))?\s+(?:—|\u2013|-)\s+(\S.*)$", re.DOTALL)


class Item(NamedTuple):
    """A task, a finding, a decision or a step, with where it is from."""

    text: str
    by: str
    """person, agent, or what of the session shows it: plan, todos, prompt, title, checks, answer, question"""
    at: str | None = None
    """when it was said or seen, ISO 8601 in UTC"""
    event: str | None = None
    """event that shows it; None for what was said through ``ctx``"""
    path: str | None = None
    line: int | None = None
    reason: str | None = None
    replaces: str | None = None
    """the decision that this one stands for"""
    score: float = 1.0
    """rank among drawn items; the highest first"""

    @property
    def place(self) -> str:
        """``path:line``, the path alone, or nothing."""
        if not self.path:
            return ""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    @property
    def told(self) -> bool:
        """Somebody said it; it is not drawn from the records."""
        return self.by in SAID_BY


class FileState(NamedTuple):
    """One file that a session touched."""

    ref: str
    """``F1``, ``F2`` ... in the order of the first touch"""
    path: str
    reads: int
    changes: int
    lines: int
    """the last line that was seen of it; 0 where nothing tells"""
    last: int
    """number of the last touch, counted over the session"""
    event: str | None = None
    """the call that changed it last; of a file that was only read, the one that read it last"""

    @property
    def status(self) -> str:
        """Modified or read."""
        return "modified" if self.changes else "read"


_UNENDED = {"running": "had not ended", "refused": "was kept from running", "unknown": "ran; its output does not show how it ended"}


class CheckRun(NamedTuple):
    """The last run of a check."""

    command: str
    purpose: str
    passed: int
    failed: int
    ok: bool
    stale: bool
    """files were changed since"""
    event: str | None
    why: str = ""
    """the line that says what failed"""
    result: str = ""
    """passed, failed, refused, running or unknown; empty in a state of an earlier version"""
    unit: str = ""
    """what is counted where that is no test: package, file"""
    cut: bool = False
    """its output went through a program that shows a part of it, such as ``tail``"""

    @property
    def counts(self) -> str:
        """``3/5 passed`` where the tool counted, else how it ended, as far as the records say."""
        total = self.passed + self.failed
        if self.result in _UNENDED:
            return _UNENDED[self.result] + (f" ({self.passed}/{total} passed so far)" if total else "")
        if total and not self.ok and not self.failed:
            return f"failed ({self.passed}/{total} passed)"
        return f"{self.passed}/{total} passed" if total else "passed" if self.ok else "failed"

    @property
    def outcome(self) -> str:
        """How it ended as a sentence goes on: ``failed (3/5 passed)``, ``passed (5/5 packages)``, ``had not ended``."""
        if self.result in _UNENDED:
            return self.counts
        units = f" {self.unit}s" if self.unit not in ("", "test") else ""
        total = self.passed + self.failed
        told = f" ({self.passed}/{total}{units}{'' if self.ok else ' passed'})" if total else ""
        part = " as far as the shown part of its output says" if self.cut and self.ok else ""
        return f"{'passed' if self.ok else 'failed'}{told}{part}"


@dataclass(frozen=True)
class SessionState:
    """How one session stands at one moment."""

    host: str
    session_id: str
    title: str | None = None
    project: str | None = None
    repository: str | None = None
    branch: str | None = None
    as_of: str | None = None
    """time of the last event that is in it"""
    seq: int = -1
    """``seq`` of that event in the main thread"""
    began: str | None = None
    asked_first: Item | None = None
    """the first prompt that asks for something"""
    asked_last: Item | None = None
    """the last one; None where it is the first"""
    task: Item | None = None
    findings: list[Item] = field(default_factory=list)
    decisions: list[Item] = field(default_factory=list)
    progress: list[Item] = field(default_factory=list)
    """steps that are done"""
    next_steps: list[Item] = field(default_factory=list)
    files: list[FileState] = field(default_factory=list)
    """in the order of the first touch"""
    tests: CheckRun | None = None
    """the last test run, else the last other check"""
    checks: list[CheckRun] = field(default_factory=list)
    """the last run of each kind of check: test, types, lint, build"""
    answer: Item | None = None
    """how the agent's last answer ended, without sentences that repeat what a tool printed"""
    stats: dict[str, int] = field(default_factory=dict)
    """events, prompts, model_calls, tool_calls, compactions, prompt_tokens (as billed) and output_tokens"""

    @property
    def modified(self) -> list[FileState]:
        """Changed files, the last changed first."""
        return sorted((f for f in self.files if f.changes), key=lambda f: -f.last)

    @property
    def read(self) -> list[FileState]:
        """Files that were only read, the last read first."""
        return sorted((f for f in self.files if not f.changes), key=lambda f: -f.last)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"schema": SCHEMA, **plain(self), "files": plain(self.files, "status")}


def from_json(value: dict[str, Any]) -> SessionState:
    """Return the state that :meth:`SessionState.to_json` wrote; names it does not know are left out.

    Raises KeyError, TypeError, ValueError or OverflowError for what is no state: every field is of its type.
    """
    if value.get("schema") != SCHEMA:
        raise ValueError("written by another version")

    def item(row: dict[str, Any]) -> Item:
        return Item(**_typed(row, _ITEM))

    def maybe(name: str) -> Item | None:
        return item(value[name]) if value.get(name) else None

    known = {n: value.get(n) for n in ("title", "project", "repository", "branch", "as_of", "began")}
    return SessionState(
        host=str(value["host"]),
        session_id=str(value["session_id"]),
        seq=int(value.get("seq", -1)),
        asked_first=maybe("asked_first"),
        asked_last=maybe("asked_last"),
        task=maybe("task"),
        answer=maybe("answer"),
        findings=[item(r) for r in value.get("findings", ())],
        decisions=[item(r) for r in value.get("decisions", ())],
        progress=[item(r) for r in value.get("progress", ())],
        next_steps=[item(r) for r in value.get("next_steps", ())],
        files=[FileState(**_typed(r, _FILE)) for r in value.get("files", ())],
        tests=CheckRun(**_typed(value["tests"], _RUN)) if value.get("tests") else None,
        checks=[CheckRun(**_typed(r, _RUN)) for r in value.get("checks", ())],
        stats={str(k): int(v) for k, v in dict(value.get("stats") or {}).items()},
        **{n: v if v is None else str(v) for n, v in known.items()},
    )


_TEXT, _MAYBE, _COUNT = (str,), (str, type(None)), (int,)
_ITEM: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("text", "by"), _TEXT),
    **dict.fromkeys(("at", "event", "path", "reason", "replaces"), _MAYBE),
    "line": (int, type(None)),
    "score": (int, float),
}
_FILE: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("ref", "path"), _TEXT),
    **dict.fromkeys(("reads", "changes", "lines", "last"), _COUNT),
    "event": _MAYBE,
}
_RUN: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("command", "purpose", "why", "result", "unit"), _TEXT),
    **dict.fromkeys(("passed", "failed"), _COUNT),
    **dict.fromkeys(("ok", "stale", "cut"), (bool,)),
    "event": _MAYBE,
}


def _typed(row: dict[str, Any], kinds: dict[str, tuple[type, ...]]) -> dict[str, Any]:
    """Return the known fields of a row; raises TypeError for one of another type."""
    known = {name: row[name] for name in kinds if name in row}
    wrong = next((name for name, value in known.items() if not isinstance(value, kinds[name])), None)
    if wrong is not None:
        raise TypeError(f"{wrong} is of another type")
    return known


def with_notes(state: SessionState, said: Iterable[tuple[str, Item]]) -> SessionState:
    """Return the state with what somebody said: ``(task, finding or decision; the item)``, oldest first.

    The newest task counts. A decision that replaces another takes its place; findings and
    decisions of people and agents stand before drawn ones, and none of them is left out.
    """
    task = state.task
    findings: list[Item] = []
    decisions: list[Item] = []
    for what, item in said:
        if what == "task":
            task = item
        elif what == "finding":
            findings.append(item)
        elif what == "decision":
            if item.replaces:
                decisions = [d for d in decisions if d.text != item.replaces]
            decisions.append(item)
    return replace(
        state,
        task=task,
        findings=ranked(findings, state.findings),
        decisions=ranked(decisions, state.decisions),
    )


def ranked(told: Sequence[Item], drawn: Sequence[Item]) -> list[Item]:
    """Return what was said, newest first, then the best of what is drawn: at most :data:`DRAWN`, none that says the same again.

    What an imported state brought stands between them, and none of it is left out.
    """
    known = {_same(i.text) for i in told}
    brought: list[Item] = []
    rest: list[Item] = []
    for item in sorted(drawn, key=lambda i: -i.score):
        same = _same(item.text)
        if same not in known:
            known.add(same)
            (brought if item.by == BUNDLE else rest).append(item)
    return [*reversed(told), *brought, *rest[:DRAWN]]


def _same(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def placed(text: str) -> tuple[str | None, int | None, str]:
    """Return path, line and rest of ``auth.ts:45 - text`` (any dash between blanks); path and line are None where there is none.

    What stands before the dash is a place when it has no blank and looks like a file: it
    has a line, a folder or an ending.
    """
    found = _PLACED.match(text)
    if found is None:
        return None, None, text.strip()
    path = found[1]
    if found[2] is None and "/" not in path and not re.search(r"\w\.[A-Za-z]\w{0,7}$", path):
        return None, None, text.strip()
    return path, int(found[2]) if found[2] else None, found[3].strip()

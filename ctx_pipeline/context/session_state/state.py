"""What a session is about and how far it came, as one record; who said or showed each part of it stands beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError, UnknownName
from ctx_pipeline.model.codec import Plain, plain
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


SCHEMA = 1
"""Version of the JSON shape of a state."""

PERSON = "person"
AGENT = "agent"
BUNDLE = "bundle"
"""Who said what an imported state says that somebody said."""
REFUSAL = "refusal"
"""Who says what stood in the refusal of a call, which is the reason of the item."""
ORDER = "order"
"""Who says what a subagent was started with."""

SAID_BY = {PERSON: 0, AGENT: 1}
"""Who says a thing outranks what is drawn from the records: a person first."""

DRAWN = 8
"""Findings, decisions and done steps that are drawn from the records at most; what somebody said is never left out."""

_PLACED = lazy_pattern(r"^\s*(\S{1,400}?)(?::(\d{1,7}))?\s+(?:—|\u2013|-)\s+(\S.*)$", re.DOTALL)


class Item(NamedTuple):
    """A task, a finding, a decision or a step, with where it is from."""

    text: str
    by: str
    """person, agent, or what of the session shows it: plan, todos, prompt, title, checks, answer, question, refusal"""
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
    passed_later: bool = False

    @property
    def place(self) -> str:
        """``path:line``, the path alone, or nothing."""
        if not self.path:
            return ""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    @property
    def stated(self) -> bool:
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
    """number of the last change, of a file that was only read of the last touch, counted over the session"""
    event: str | None = None
    """the call that changed it last; of a file that was only read, the one that read it last"""
    deleted: bool = False
    """that call removed it"""

    @property
    def status(self) -> str:
        """Modified, deleted or read."""
        return "deleted" if self.deleted else "modified" if self.changes else "read"


_FOUND = ("error", "problem")
"""What a check finds, and does not pass."""

_UNENDED = {
    "running": "had not ended",
    "refused": "was kept from running",
    "unanswered": "was called; no result is recorded",
    "stopped": "was stopped by the agent before it ended",
    "cut off": "was stopped before it ended",
    "unknown": "ran; its output does not show how it ended",
}


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
    """passed, failed, refused, running, stopped, cut off, unanswered or unknown; empty in a state of an earlier version"""
    unit: str = ""
    """what is counted where that is no test: package, file"""
    by_person: bool = False
    """the person ran it in the prompt, and not the agent"""
    skipped: int = 0
    cut: bool = False
    """its output went through a program that shows a part of it, such as ``tail``"""
    empty: int = 0
    """packages of which the runner says that no test of theirs was chosen"""
    since: str = ""
    """the files that were changed since, or the command that changed them"""
    hook: str = ""  # of the person's, that ran it: Stop
    before: str = ""
    """how the run of this kind before it ended, where it did not end itself"""

    @property
    def aged(self) -> str:
        """What is said behind its outcome: that files were changed since, and how the one before it ended; else empty."""
        since = f"; files were changed since{f' ({self.since})' if self.since else ''}" if self.stale else ""
        return f"{since}{f'; {self.before}' if self.before else ''}"

    @property
    def counts(self) -> str:
        """``3/5 passed`` where the tool counted, else how it ended, as far as the records say."""
        total = self.passed + self.failed
        units = f" {self.unit}s" if self.unit not in ("", "test") else ""
        if self.result in _UNENDED:
            return _UNENDED[self.result] + (f" ({self.passed}/{total}{units} passed so far)" if total else "")
        if total and not self.ok and not self.failed:
            return f"failed ({self.passed}/{total}{units} passed)"
        return f"{self.passed}/{total}{units} passed" if total else "passed" if self.ok else "failed"

    @property
    def outcome(self) -> str:
        """How it ended as a sentence goes on: ``failed (3/5 passed)``, ``failed (2 errors)``, ``passed (5/5 packages)``."""
        if self.result in _UNENDED:
            return self.counts
        units = f" {self.unit}s" if self.unit not in ("", "test") else ""
        total = self.passed + self.failed
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        empty = f", no test chosen in {self.empty} package{'s' if self.empty > 1 else ''}" if self.empty else ""
        told = f" ({self.passed}/{total}{units}{'' if self.ok else ' passed'}{skipped}{empty})" if total else ""
        if self.unit in _FOUND and self.failed:
            told = f" ({self.failed} {self.unit}{'s' if self.failed > 1 else ''})"
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
    asked_again: bool = False
    """the last one says what the first one does, word for word, also where both are shortened"""
    asked_before: Item | None = None
    """what that follows, where it cannot be understood by itself; None where it is the first"""
    goes_on: bool = False
    """the last one goes on with what was asked before ("commit and push", "why?") and is no task by itself"""
    said_last: Item | None = None
    """what the person said behind it, which asks for nothing ("ok, works"); None where nothing was"""
    replied: Item | None = None
    """the last reply to a question of the agent behind the last request, where what was said since answers none"""
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
    titled: bool = True
    """the title was recorded; False where it is the first prompt"""
    forked_from: Item | None = None
    """id of the session that this one was forked from: what was done before stands there"""
    commit: Item | None = None
    """the last commit that git said it made: hash, branch, subject, whether it was pushed and files were changed since"""
    unsent: bool = False
    """it was not pushed, and nothing behind it speaks of that"""
    committed: bool | None = None
    """a command speaks of a commit, whatever came of it; None where nobody looked"""
    subagents_only: bool = False
    """no event of the main thread is recorded"""
    subagents: int = 0
    """of these, how many are recorded; 0 where nobody counted"""
    orders: list[Item] = field(default_factory=list)
    """what those were started with that answered before the last one, the last of them first, where that is so"""
    hooks_ran: bool = False
    """commands of the person's hooks ran, which may have checked the work"""
    unseen_agents: int = 0
    """subagents that were started and whose own calls are not among what the state is drawn from"""
    answer: Item | None = None
    """what the agent's last answer says of how the work stands, without what repeats what a tool printed; empty where all does"""
    answer_longer: list[Item] = field(default_factory=list)
    """the same with more of it for where there is room, the longest first; empty where that is all"""
    answer_of_subagent: bool = False
    """it is one of a subagent: the session itself has none"""
    calls_since: int = 0
    """tool calls behind that answer"""
    unanswered: bool = False
    """the person said something behind it, and nothing came of it"""
    asked_since: bool = False
    """the person asked for something behind it"""
    recap: Item | None = None
    """what the agent said unasked of how the work stands, where nothing was said or done behind it"""
    delivered: Item | None = None
    """what the subagent that ended or answered last behind that answer gave; its reason says how many did, and when"""
    last_call: Item | None = None
    """what became of the last call, where it was refused or no result of it is recorded"""
    outside: list[Item] = field(default_factory=list)
    """how branch, working tree, pull request, CI and commands that still ran stood at the end, as commands showed it"""
    stats: dict[str, int] = field(default_factory=dict)
    """events, prompts, model_calls, tool_calls, compactions, prompt_tokens (as billed) and output_tokens"""

    @property
    def modified(self) -> list[FileState]:
        """Changed files, the last changed first."""
        return sorted((f for f in self.files if f.changes), key=lambda f: -f.last)

    @property
    def read(self) -> list[FileState]:
        """Files that were only read, the last read first."""
        return sorted((f for f in self.files if f.reads and not f.changes), key=lambda f: -f.last)

    @property
    def unseen_changes(self) -> str:
        """What is said behind the changed files where subagents may have changed others; else empty."""
        who, reports = (
            ("1 subagent", "its report tells") if self.unseen_agents == 1 else (f"{self.unseen_agents} subagents", "their reports tell")
        )
        return f"; {who} may have changed {'more' if self.modified else 'some'}, of which only {reports}" if self.unseen_agents else ""

    @property
    def on_branch(self) -> Item | None:
        """The branch that was checked out at the end; None where no command shows it."""
        return next((item for item in self.outside if item.by == "branch"), None)

    @property
    def current_task(self) -> Item | None:
        """What somebody said of the task, or else what was asked last; None where nothing was."""
        if self.task and (self.task.stated or self.task.by == BUNDLE):
            return self.task
        return asked_for(self.asked_first, self.asked_last, self.asked_before, goes_on=self.goes_on) or self.task

    @property
    def asked_since_task(self) -> Item | None:
        """What was asked last where :attr:`current_task` is the request that this only goes on with; else None."""
        return self.asked_last if self.goes_on and self.current_task in (self.asked_before, self.asked_first) else None

    @property
    def outside_shown(self) -> list[Item]:
        """What a block tells of ``outside``: not what it tells with the commit, with its absence or with the answer."""
        branch, commit, said = self.on_branch, self.commit.text if self.commit else "", self.answer.text if self.answer else ""
        known = branch is not None and (f"{branch.text.replace('ended on the branch', 'on')}, " in commit or self.uncommitted)
        known = known or not (commit or self.modified)
        return [i for i in self.outside if not (known if i is branch else i.by == "pull" and i.text.rpartition(" ")[2] in said)]

    @property
    def uncommitted(self) -> bool:
        """Files were changed, and no command speaks of a commit, as far as is known: subagents may have committed unseen."""
        return self.own_uncommitted and not self.unseen_agents

    @property
    def own_uncommitted(self) -> bool:
        """Files were changed, and no command that is recorded speaks of a commit, nor did git list one of a subagent."""
        of_agents = any(item.by == "agents" for item in self.outside)
        return bool(self.modified) and self.commit is None and self.committed is False and not of_agents

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

    names = ("title", "project", "repository", "branch", "as_of", "began")
    known: dict[str, Any] = {n: None if value.get(n) is None else str(value[n]) for n in names}
    known |= {n: maybe(n) for n in _ITEMS}
    known |= {n: [item(r) for r in value.get(n, ())] for n in ("findings", "decisions", "progress", "next_steps", "outside", "orders")}
    known |= {n: int(value.get(n, 0)) for n in ("calls_since", "unseen_agents", "subagents")}
    known |= {n: bool(value.get(n, n == "titled")) for n in _FLAGS}
    return SessionState(
        host=str(value["host"]),
        session_id=str(value["session_id"]),
        seq=int(value.get("seq", -1)),
        committed=None if value.get("committed") is None else bool(value["committed"]),
        answer_longer=[item(r) for r in (value["answer_longer"] if "answer_longer" in value else _longer_before(value))],
        files=[FileState(**_typed(r, _FILE)) for r in value.get("files", ())],
        tests=CheckRun(**_typed(value["tests"], _RUN)) if value.get("tests") else None,
        checks=[CheckRun(**_typed(r, _RUN)) for r in value.get("checks", ())],
        stats={str(k): int(v) for k, v in dict(value.get("stats") or {}).items()},
        **known,
    )


def _longer_before(value: dict[str, Any]) -> list[Any]:
    """Return the longer texts of an answer as states named them before these were a list: the longest first."""
    return [row for name in ("answer_more", "answer_some") if (row := value.get(name))]


_ITEMS = (
    *("asked_first", "asked_last", "asked_before", "said_last", "replied", "forked_from"),
    *("commit", "task", "answer", "recap", "delivered", "last_call"),
)
_FLAGS = (
    *("asked_again", "unsent", "asked_since", "titled", "subagents_only", "hooks_ran"),
    *("unanswered", "goes_on", "answer_of_subagent"),
)
_TEXT, _MAYBE, _COUNT = (str,), (str, type(None)), (int,)
_ITEM: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("text", "by"), _TEXT),
    **dict.fromkeys(("at", "event", "path", "reason", "replaces"), _MAYBE),
    "line": (int, type(None)),
    "passed_later": (bool,),
    "score": (int, float),
}
_FILE: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("ref", "path"), _TEXT),
    **dict.fromkeys(("reads", "changes", "lines", "last"), _COUNT),
    "event": _MAYBE,
    "deleted": (bool,),
}
_RUN: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("command", "purpose", "why", "result", "unit", "since", "hook", "before"), _TEXT),
    **dict.fromkeys(("passed", "failed", "skipped", "empty"), _COUNT),
    **dict.fromkeys(("ok", "stale", "cut", "by_person"), (bool,)),
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


def asked_for(first: Item | None, last: Item | None, before: Item | None, *, goes_on: bool) -> Item | None:
    """Return the prompt that says what a session is at: the last one, or the one before where that only goes on with it."""
    return ((before or first) if goes_on else None) or last or first


# Profiles: how large snapshots and blocks are, and how far a session may go, under a name.


DEFAULT = "coder"
BUILT_IN, OWN = "built-in", "own"
_RANGES = {
    "snapshot_bytes": (512, 100_000),
    "resume_tokens": (60, 20_000),
    "context_tokens": (0, 10_000_000),
    "tool_calls": (0, 1_000_000),
    "cost_usd": (0, 1_000_000),
    "warn_at": (0, 1),
    "checkpoint_calls": (0, 10_000),
}
"""Field -> the least and the most it may be; 0 is no limit, no warning, no checkpoint after calls."""

_FRACTIONS = ("cost_usd", "warn_at")
PARTS = ("task", "files", "decisions", "findings", "progress", "tests", "next_steps", "answer")
"""Parts of a state by which a profile says what is kept."""

_DEEPEST = 8


@dataclass(frozen=True)
class Profile(Plain):
    """One profile: how large what is told is, how far a session may go (0 is no limit), and what is kept first and left out."""

    name: str
    description: str = ""
    source: str = BUILT_IN
    snapshot_bytes: int = 2_048
    resume_tokens: int = 500
    context_tokens: int = 150_000
    tool_calls: int = 300
    cost_usd: float = 5.0
    warn_at: float = 0.8
    """share of a limit from which it is warned of"""
    checkpoint_calls: int = 15
    """tool calls between two checkpoints"""
    keep_first: tuple[str, ...] = ()
    """parts of a block and a snapshot that stay where not all of it fits"""
    leave_out: tuple[str, ...] = ()
    """parts that are not told"""


_CODER = Profile(DEFAULT, "everyday work on a project")
BUILT_INS = {
    p.name: p
    for p in (
        _CODER,
        Profile("exploration", "reading into something large", snapshot_bytes=3_072, resume_tokens=800, context_tokens=200_000),
        Profile(
            "bugfix",
            "one fault, found and mended",
            resume_tokens=400,
            context_tokens=100_000,
            tool_calls=150,
            keep_first=("tests", "findings"),
        ),
        Profile(
            "hotfix",
            "a small change at once",
            snapshot_bytes=1_024,
            resume_tokens=200,
            context_tokens=30_000,
            tool_calls=40,
            cost_usd=1,
            warn_at=0.5,
            checkpoint_calls=5,
            keep_first=("files", "tests"),
            leave_out=("answer", "progress"),
        ),
        Profile("ci-debug", "what fails on another machine", tool_calls=400, keep_first=("tests",)),
        Profile(
            "review",
            "reading a change and saying what is wrong",
            resume_tokens=600,
            tool_calls=100,
            keep_first=("findings", "decisions"),
            leave_out=("progress",),
        ),
        Profile("passthrough", "no limits", snapshot_bytes=8_192, resume_tokens=2_000, context_tokens=0, tool_calls=0, cost_usd=0),
    )
}


def profiles(folder: Path) -> dict[str, Profile]:
    """Return the built-in profiles and those of ``NAME.toml`` files in a folder, by name; a file of a built-in's name replaces it.

    A file says ``extends`` (a profile; ``coder`` without it), ``description`` and what
    differs. Raises SettingsError for a file that cannot be used.
    """
    tables = {path.stem: _table(path) for path in sorted(folder.glob("*.toml"))} if folder.is_dir() else {}
    return BUILT_INS | {name: _made(name, tables, folder) for name in tables}


def _table(path: Path) -> dict[str, Any]:
    import tomllib  # a hook without profiles of a person's own does without

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{path} cannot be read: {error}", hint="mend the file or move it away", path=str(path)) from error


def _made(name: str, tables: Mapping[str, dict[str, Any]], folder: Path, seen: tuple[str, ...] = ()) -> Profile:
    if name in seen or len(seen) > _DEEPEST:
        raise SettingsError(f"profile {name!r} extends itself", hint=f"look at {folder}")
    table = tables[name]
    parent = str(table.get("extends", DEFAULT))
    if parent in tables and parent != name:
        base = _made(parent, tables, folder, (*seen, name))
    elif parent in BUILT_INS:
        base = BUILT_INS[parent]
    else:
        raise SettingsError(f"profile {name!r} extends {parent!r}, which does not exist", hint=f"one of {', '.join([*BUILT_INS, *tables])}")
    known = {f.name for f in fields(Profile)} - {"name", "source"} | {"extends"}
    strange = sorted(set(table) - known)
    if strange:
        raise SettingsError(f"profile {name!r} has no {strange[0]!r}", hint=f"one of {', '.join(sorted(known))}")
    values: dict[str, Any] = {key: _number(name, key, table[key]) for key in _RANGES if key in table}
    values |= {key: _parts(name, key, table[key]) for key in ("keep_first", "leave_out") if key in table}
    return replace(base, name=name, source=OWN, description=str(table.get("description", base.description))[:200], **values)


def _parts(name: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(part in PARTS for part in value):
        raise SettingsError(f"profile {name!r}: {key} = {value!r}", hint=f"a list of {', '.join(PARTS)}")
    return tuple(value)


def _number(name: str, key: str, value: Any) -> Any:
    least, most = _RANGES[key]
    kinds = (int, float) if key in _FRACTIONS else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not (least <= value <= most):
        raise SettingsError(f"profile {name!r}: {key} = {value!r}", hint=f"a number from {least} to {most}")
    return value


def named(name: str, known: Mapping[str, Profile]) -> Profile:
    """Return the profile of a name; raises UnknownName."""
    if name not in known:
        raise UnknownName("profile", name[:80], known)
    return known[name]

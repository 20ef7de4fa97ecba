"""The steps of a session: each action of the agent with its category, its outcome and what makes it the same as another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.facts.check_runs import commands_that_checked
from ctx_pipeline.facts.command_runs import CHECKS, runs_by_call
from ctx_pipeline.facts.file_accesses import is_document
from ctx_pipeline.model.host_records import KEPT
from ctx_pipeline.shell.commands import steps as programs
from ctx_pipeline.shell.files import files_changed, files_read, first_line
from ctx_pipeline.shell.parsing import pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.commands import Step as Program

CORE = ("explore", "locate", "search", "reproduce", "generate_fix", "run_tests", "refactor", "explain")
CATEGORIES = (*CORE, "permission", "error", "other")
"""What an action is for; the last three are no phase of work."""

KINDS = ("tool_call", "tool_result", "answer", "reasoning")
"""Kinds of events that the steps of a session are made of."""

COLUMNS = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype", "text"),
    "tool_calls": (
        *("thread_id", "seq", "tool", "action", "paths", "argv", "exit", "is_error", "call_event", "result_event"),
        *("ranges", "started"),
    ),
}
"""What the steps of a session are made of, and signals over them."""

_SCRATCH = re.compile(r"^/(?:tmp|private/tmp|var/folders|var/tmp|dev)/|\.(?:log|out|tmp)$")
_REFACTORS = ("refactor", "renam", "reformat", "dedup", "simplif", "clean up", "cleaning up")
_THOUGHT = 400
_VOLATILE = re.compile(
    r"/(?:tmp|var/folders)/[\w./+-]{1,200}|\b0x[0-9a-f]{1,16}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.Z+]{0,20}"
)
_KEY = 600

_SEARCHES = frozenset({"rg", "grep", "egrep", "fgrep", "find", "fd", "fdfind", "ag", "ack", "git grep", "git-grep", "locate"})
_LOOKS = frozenset(
    {"ls", "cat", "pwd", "sed", "head", "tail", "tree", "wc", "nl", "bat", "less", "more", "file", "stat", "du", "df", "env", "printenv"}
    | {"which", "type", "whoami", "uname", "date", "ps", "jq", "yq", "awk", "sort", "uniq", "cut", "diff", "cmp", "xxd", "strings"}
    | {"git status", "git log", "git diff", "git show", "git branch", "git remote", "git rev-parse", "git ls-files", "git ls-tree"}
    | {"git ls-remote", "git config", "git describe", "git tag", "git reflog", "git cat-file", "git shortlog"}
    | {"gh pr", "gh api", "gh run", "gh issue", "gh repo", "gh auth", "gh search", "gh release", "cargo tree", "cargo info"}
    | {"go list", "go doc", "go env", "npm ls", "npm view", "pip show", "pip list", "docker ps", "docker logs", "kubectl get"}
    | {"test", "[", "[[", "readlink", "realpath", "basename", "dirname", "man"}
)  # fmt: skip
_LOCATES = frozenset({"git blame", "ctags", "nm", "addr2line", "otool"})
_MOVES = frozenset({"mv", "git mv"})
_FORMATTERS = frozenset({"black", "isort", "rustfmt", "gofmt", "goimports", "prettier", "shfmt"})
_FORMATS = frozenset({"fmt", "format"})
_ONLY_CHECKS = frozenset({"--check", "-c", "--check-only", "-l", "-d", "--list-different", "--diff", "-n", "--dry-run"})
_PROBES = frozenset(
    {"curl", "wget", "http", "psql", "sqlite3", "mysql", "redis-cli", "docker run", "docker compose", "docker exec", "go run", "cargo run"}
)

_TOOL_WORDS = (
    (re.compile(r"(?:search|query|find|grep|glob)", re.IGNORECASE), "search"),
    (re.compile(r"(?:definition|reference|symbol|hover|diagnostic)", re.IGNORECASE), "locate"),
    (re.compile(r"(?:read|get|list|view|fetch|show|status|describe|snapshot|screenshot)", re.IGNORECASE), "explore"),
    (re.compile(r"(?:navigate|click|evaluate|execute|run|browser|eval)", re.IGNORECASE), "reproduce"),
    (re.compile(r"(?:comment|message|notif|journal|think|thought|plan|goal|document|issue|ask|input)", re.IGNORECASE), "explain"),
)


@dataclass(slots=True, eq=False)
class Step:
    """One action of the agent."""

    call: Any
    category: str
    key: tuple[str, str]
    """Tool and arguments; equal for two calls that ask the same."""
    failed: bool
    """It ran and ended badly: an error of the tool, a bad exit status, or tests that failed behind a pipe."""
    run: Any
    """Row of ``command_runs``; None for any other action."""
    result: str
    """Text of its result."""
    place: int
    """number in its thread, from 0"""

    @property
    def evidence(self) -> str:
        """Event that shows how it ended, else the call."""
        if self.run is not None:
            return str(self.run.event)
        return str(self.call.result_event or self.call.call_event)

    @property
    def target(self) -> str:
        """What it is about: the check or program that it runs, or its file; the same for two tries at one thing."""
        if self.run is not None:
            return subject(self.run)
        return str(self.call.paths[0]) if self.call.paths else str(self.call.tool)


def subject(run: Any) -> str:
    """Return the program that a command is about: the first that checks, else the first; empty where it runs none."""
    return next((p for p, purpose in zip(run.programs, run.purposes, strict=True) if purpose in CHECKS), next(iter(run.programs), ""))


class Steps(list[list[Step]]):
    """The steps of each thread of a session, in order; threads without a step are left out."""

    def __init__(self, threads: Sequence[list[Step]], thoughts: dict[str, str]) -> None:
        super().__init__(threads)
        self.thoughts = thoughts
        """event id of a call -> what the agent thought or said right before it in its thread"""
        self.all = [step for thread in threads for step in thread]

    def in_time(self) -> list[Step]:
        """Return the steps of all threads as they followed each other; within one thread the recorded order counts."""
        if len(self) <= 1:
            return self.all
        reached = 0
        keyed = []
        for thread in self:
            reached = 0
            for step in thread:
                reached = max(reached, step.call.started or 0)
                keyed.append((reached, step))
        return [step for _, step in sorted(keyed, key=lambda pair: pair[0])]


def steps(view: SessionView) -> Steps:
    """Return the steps of a session; reads tool calls, command runs, check runs and the kinds of events in :data:`KINDS`.

    A tool call and its result are one step. Waiting for a command that runs on is part
    of that command; what a subagent did stands in its own thread.
    """
    shell = runs_by_call(view)
    checked = view.once(commands_that_checked)
    events = view.by_event
    thoughts = _thoughts(view)
    threads: dict[str, list[Step]] = {}
    for call in view.tool_calls:
        run = shell.get(call.call_event)
        if (run is None and call.action == "shell") or (run is not None and run.call_event != call.call_event):
            continue
        thread = threads.setdefault(call.thread_id, [])
        result = events.get(call.result_event) if call.result_event else None
        if run is not None:
            refused, failed = run.result == "refused", run.result == "failed"
            key = ("shell", _same(run.command))
        else:
            refused = result is not None and result.subtype in KEPT
            failed = call.is_error and not refused
            asked = events.get(call.call_event)
            key = (call.tool, (asked.text or "") if asked is not None else "")
        if run is not None and run.outputs:
            result = events.get(run.outputs[-1])
        thought = thoughts.get(call.call_event, "")
        category = _category(call, run, thought, refused=refused, failed=failed, checked=call.call_event in checked)
        thread.append(Step(call, category, key, failed, run, (result.text or "") if result is not None else "", len(thread)))
    return Steps(list(threads.values()), thoughts)


def _thoughts(view: SessionView) -> dict[str, str]:
    last: dict[str, str] = {}
    found: dict[str, str] = {}
    for e in view.events:
        kind = e.kind
        if kind in ("answer", "reasoning"):
            if e.text:
                last[e.thread_id] = e.text
        elif kind == "tool_call":
            said = last.get(e.thread_id)
            if said:
                found[e.event_id] = said
        elif kind == "prompt":
            last.pop(e.thread_id, None)
    return found


@lru_cache(maxsize=8192)
def _same(command: str) -> str:
    return _VOLATILE.sub("#", " ".join(command[:_KEY].split()))


def _category(call: Any, run: Any, thought: str, *, refused: bool, failed: bool, checked: bool) -> str:
    if refused or call.tool in discovery.declared_texts("records.approval_tools"):
        return "permission"
    if run is not None:
        return "error" if failed and run.exit is None and not run.programs else _of_shell(run.command, checked)
    if failed:
        return "error"
    action = call.action
    if action == "read":
        return "locate" if call.ranges and not call.ranges[0].startswith(("0-", "1-")) else "explore"
    if action == "search":
        return "explore" if call.tool in ("LS", "list_dir") else "search"
    if action in ("edit", "write"):
        return _of_edit(call.paths, thought)
    if action == "web":
        return "search"
    if action in ("task", "plan", "ask"):
        return "explain"
    return _of_tool(call.tool)


@lru_cache(maxsize=1024)
def _of_tool(tool: str) -> str:
    return next((category for words, category in _TOOL_WORDS if words.search(tool)), "other")


def _of_edit(paths: Sequence[str], thought: str) -> str:
    if paths and all(is_document(p) for p in paths):
        return "explain"
    if thought:
        said = thought[-_THOUGHT:].lower()
        for word in _REFACTORS:
            if word in said:
                return "refactor"
    return "generate_fix"


@lru_cache(maxsize=8192)
def _of_shell(command: str, checked: bool) -> str:
    found = programs(command)
    if checked and any(s.purpose in CHECKS and not _formats(s) for s in found):
        return "run_tests"
    written = [p for p in files_changed(command) if not _SCRATCH.search(p)] if _writes(command) else []
    if written:
        return _of_edit(written, "")
    for s in found:
        category = _of_program(s)
        if category:
            return category
    return "other"


def _of_program(s: Program) -> str:
    head = s.subject.partition(" ")[0]
    if _formats(s) or s.subject in _MOVES:
        return "refactor"
    if s.purpose == "run" or s.subject in _PROBES or head in _PROBES:
        return "reproduce"
    if s.subject in _SEARCHES or head in _SEARCHES:
        return "search"
    if s.subject in _LOCATES:
        return "locate"
    if s.subject in _LOOKS or head in _LOOKS or files_read(s):
        return "locate" if (first_line(s) or 1) > 1 else "explore"
    return ""


def _formats(s: Program) -> bool:
    """Tell whether a step rewrites files in the project's style, and does not only look."""
    if not (s.subject in _FORMATTERS or s.subject.partition(" ")[0] in _FORMATTERS or _FORMATS & {*s.subject.split(), *s.words[1:2]}):
        return False
    return not _ONLY_CHECKS & set(s.words)


def _writes(command: str) -> bool:
    """Tell whether a command line writes text into files: a redirection, ``tee``, ``sed -i``."""
    return any(p.writes or (p.words and p.words[0] in ("tee", "sed", "perl")) for p in pieces(command))

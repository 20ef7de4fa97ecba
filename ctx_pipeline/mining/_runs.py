"""The commands of a session as lessons quote them: what was run, to what end, and whether it passed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining._failures import clean, looks_red, shorten_paths
from ctx_pipeline.model.commands import Step, command_text, found_nothing, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

CHECKS = frozenset({"test", "lint", "types", "build", "install", "run"})
_LOOKING = frozenset(
    {
        "cat",
        "sed",
        "head",
        "tail",
        "ls",
        "rg",
        "grep",
        "find",
        "fd",
        "tree",
        "wc",
        "stat",
        "file",
        "awk",
        "nl",
        "diff",
        "less",
        "which",
        "ps",
    }
    | {"cp", "mv", "rm", "mkdir", "touch", "chmod", "ln", "kill", "pkill", "printf", "cut", "sort", "xargs", "test", "[", "[["}
)
"""Programs that look around or move files: their misses are no lessons."""

_LOOKING_GIT = frozenset({"git status", "git log", "git show", "git diff", "git blame", "git grep", "git ls-files", "git rev-parse"})
_LONGEST = 600
OUTSIDE = re.compile(r"^(?:/tmp/|/private/|/var/|/dev/)|/\.(?:claude|codex)/|/node_modules/|/\.venv/")


@dataclass
class Run:
    """One shell call with what it ran and how it ended."""

    place: int
    call: Any
    command: str
    step: Step
    """the step that counts: the first check of the line, else its last step"""
    failed: bool
    output: str = ""

    @cached_property
    def passed(self) -> bool:
        """It ended well and its output speaks of no failure."""
        return not self.failed and not looks_red(self.output)


def run_of(view: SessionView, place: int, call: Any) -> Run | None:
    """Return what a call ran; None where it is unanswered, looks around, or only says that a search found nothing."""
    if call.action != "shell" or call.result_event is None or not call.argv:
        return None
    command = command_text(call.argv)
    if len(command) > _LONGEST:
        return None
    found = steps(command)
    if not found:
        return None
    step = next((s for s in found if s.purpose in CHECKS), found[0])
    if step.subject.partition(" ")[0] in _LOOKING or step.subject in _LOOKING_GIT:
        return None
    failed = call.is_error and bool(call.exit) and not found_nothing(call.argv, call.exit)
    if call.is_error and not failed:
        return None
    return Run(place, call, command, step, failed, view.result_text(call))


def runs(view: SessionView) -> list[Run]:
    """Return what the shell calls of a session ran, thread by thread in order; ``place`` counts the calls of the thread."""
    found: list[Run] = []
    places: Counter[str] = Counter()
    for call in view.tool_calls:
        place = places[call.thread_id]
        places[call.thread_id] += 1
        if call.action == "shell" and (run := run_of(view, place, call)) is not None:
            found.append(run)
    return found


class Form(NamedTuple):
    """A check as a project runs it: without what only shapes its output, and whether it was narrowed to some tests or files."""

    text: str
    narrowed: bool


_SHAPE = frozenset(
    {
        "2>&1",
        "-v",
        "-vv",
        "-q",
        "-s",
        "-x",
        "--tb=short",
        "--tb=line",
        "--tb=long",
        "--no-header",
        "--nocapture",
        "-count=1",
        "--color=never",
    }
)
_CHOOSE = frozenset(
    {"-run", "-k", "-t", "-g", "--filter", "--grep", "--test", "--tests", "--testNamePattern", "-p", "--package", "--lib", "--bin", "--"}
)
_ONE = re.compile(r"::|\w\.\w{1,4}$|^(?!\.+/\.\.\.$)[\w.@-]*/[\w./@*-]+$|^-run=|^-k=|^--filter=")
_ASSIGNMENT = re.compile(r"^(?:[A-Za-z_]\w*=\S*\s+)+")


def form(run: Run, cwd: str | None) -> Form:
    """Return the form of a check that can be counted over sessions."""
    return _form(run.step.text, run.step.subject, cwd)


@lru_cache(maxsize=8192)
def _form(command: str, subject: str, cwd: str | None) -> Form:
    text = shown(command, cwd).rstrip(");& ")
    text = _ASSIGNMENT.sub("", text) if "=" in text else text
    words = [w for w in text.split() if w not in _SHAPE and not w.startswith((">", "2>"))]
    program, *others = subject.split()
    first = next((i for i, w in enumerate(words) if w.rpartition("/")[2] == program), 0)
    rest = words[first + 1 + len(others) :]
    plain_target = subject in ("cargo test", "cargo nextest") and any(not w.startswith("-") for w in rest)
    narrowed = plain_target or any(w in _CHOOSE or _ONE.search(w.strip("'\"")) for w in rest)
    return Form(" ".join(words), narrowed)


@lru_cache(maxsize=8192)
def shown(command: str, cwd: str | None) -> str:
    """Return a command line as a lesson quotes it: one line, paths shortened, without what cuts its output, at most 160 characters."""
    text = clean(shorten_paths(command, cwd) if "/" in command or cwd else command).replace("`", "'")
    text = _THERE.sub("", text) if cwd and command.startswith(f"cd {cwd} ") else text
    text = _CUT.sub("", text) if "|" in text else text
    text = text.removesuffix("2>&1").rstrip() if text.endswith(" 2>&1") else text
    return text if len(text) <= 160 else f"{text[:159].rstrip()}…"


_THERE = re.compile(r"^cd (?:\.|~?/?[\w./@+-]*)\s*(?:&&|;)\s*")
_CUT = re.compile(r"\s*(?:2>&1)?\s*\|\s*(?:head|tail)\b[^|;&]*$")


def listed(items: Sequence[str], total: int = 0) -> str:
    """Return items in code marks, with how many of ``total`` are left out."""
    more = f" and {total - len(items)} more" if total > len(items) else ""
    return ", ".join(f"`{i}`" for i in items) + more

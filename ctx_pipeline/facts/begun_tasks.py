"""Where a task runner says in an output that it begins a task, or that one failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.shell.commands import Step

_TASK_HEADS = {
    "npm": r"> (?:\S+ )?{}(?: /.*)?\r?$",
    "pnpm": r"> (?:\S+ )?{}(?: /.*)?\r?$",
    "mise": r"\[{}\] \$ ",
    "task": r"task: \[{}\] ",
}
"""Task runner -> what it prints above what a task prints."""

_TASK_ENDS = {
    "pnpm": r"> (?:\S+ )?{}(?: /.*)?\r?\n> .*\n(?:(?!> ).*\n)*[^\S\n]*ELIFECYCLE\s+(?:Command|Test) failed\b.*\s*\Z",
    "mise": r"\[{}\] ERROR ",
    "task": r'task: Failed to run task "{}"',
}
"""Task runner -> what it prints behind a task that failed; pnpm's last line names none, and is that of the task begun last."""

_QUIET = frozenset({"-s", "--silent", "-q", "--quiet"})


def task_begun(output: str, step: Step) -> int:
    """Return the place of the last line with which a task runner begins the task of a step; -1 where an output has none."""
    return _last_place(_TASK_HEADS, output, step)


def task_failed(output: str, step: Step) -> bool:
    """Tell whether a task runner says that the task of a step failed."""
    return _last_place(_TASK_ENDS, output, step) >= 0


def says_when_begun(step: Step) -> bool:
    """Tell whether a step runs a task that its runner names when it begins it."""
    runner = _runner_and_task(step)[0]
    named = runner == "task" or "run" in step.words or step.words[1:2] == ("test",)
    return runner in _TASK_HEADS and named and _QUIET.isdisjoint(_own_words(step.words))


def _own_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that a runner reads itself: up to what it hands on behind ``--``."""
    return words[: words.index("--")] if "--" in words else words


def _last_place(lines: dict[str, str], output: str, step: Step) -> int:
    runner, task = _runner_and_task(step)
    line = lines.get(runner, "")
    return max((found.start() for found in re.finditer(rf"(?m)^{line.format(re.escape(task))}", output)), default=-1) if line else -1


def _runner_and_task(step: Step) -> tuple[str, str]:
    runner, _, task = step.subject.rpartition(" ")
    return runner.partition(" ")[0].rpartition("/")[2], task

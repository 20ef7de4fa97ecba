"""What a task runner says that it runs: ``mise run test:ci`` is ``go test -race ./...``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.mining.lessons.failures import clean, shorten_paths
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from ctx_pipeline.mining.lessons.commands import Run

_ECHOES = re.compile(
    r"^(?:\[(?P<mise>[\w:.-]+)\] \$|task: \[(?P<task>[\w:.-]+)\]|> \S+@\S* (?P<npm>[\w:.-]+)(?: /\S+)?\r?\n>|\$) (?P<runs>\S.*)$",
    re.MULTILINE,
)
"""Lines of mise, go-task, npm and pnpm, which name the task, and of yarn and bun, which do not."""

_PLAIN = frozenset({"make", "just"})
"""Runners that print the command as it stands."""

_BEGINNING, _LONGEST = 20_000, 100


def echoed(run: Run, cwd: str | None) -> str:
    """Return the one command that a task runner said it ran for a check; empty where it said none, several, or something else.

    What it ran is a check of the same purpose: a script of the project says nothing to whoever does not know it.
    """
    output = run.output[:_BEGINNING]
    words = run.step.words
    said = {m["runs"] for m in _ECHOES.finditer(output) if (m["mise"] or m["task"] or m["npm"] or words[-1]) in words}
    if not said and words and words[0] in _PLAIN:
        first = next((line for line in output.splitlines() if line.strip()), "")
        said = {first} if first else set()
    if len(said) != 1:
        return ""
    command = clean(shorten_paths(said.pop().strip(), cwd)).replace("`", "'")
    purposes = [s.purpose for s in steps(command)]
    whole = len(command) <= _LONGEST and "$(" not in command and not command.endswith("…")
    return command if whole and purposes == [run.step.purpose] and command != run.step.text and not dangers(command) else ""


def added_arguments(base: str, other: str) -> list[str]:
    """Return the arguments that a command adds to another one; none where it leaves something out."""
    first, second = base.split(), other.split()
    return [w for w in second if w not in first] if base and set(first) <= set(second) else []

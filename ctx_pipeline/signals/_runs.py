"""Shell commands of a session, each joined with what it printed in the end and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.check_results import CheckResult, check_results
from ctx_pipeline.model.commands import Step, command_text, found_nothing, steps
from ctx_pipeline.model.permissions import KEPT

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

COLUMNS = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype", "text"),
    "tool_calls": ("thread_id", "seq", "tool", "action", "paths", "argv", "exit", "is_error", "call_event", "result_event"),
}
"""What the commands of a session are made of, and signals over them."""

_GOES_ON = re.compile(
    r"(?:running (?:with|in background with) (?:session |cell )?ID:?|Script running with cell ID) (\w{1,40})|\"session_id\":(\d{1,20})"
)
_POLLS = re.compile(r"\b(?:session_id|bash_id|shell_id|cell_id|task_id)\"?:\s?\"?(\w{1,40})")
_SAID = re.compile(r'"exit_code":(-?\d{1,10})\b')
_HEADER = 600
_SUMS_UP = frozenset({"test", "lint", "types", "build"})
_SHOWN = 120


@dataclass(slots=True, eq=False)
class Run:
    """One command that the agent gave to a shell. ``exit`` None: not recorded, or it never ended."""

    call: Any
    command: str
    steps: tuple[Step, ...]
    exit: int | None
    refused: bool
    """the person, or a rule, kept it from running, or it was stopped: the host's record says so"""
    answered: bool
    is_error: bool
    outputs: list[Any] = field(default_factory=list)
    """events with what it printed, in order"""
    running: bool = False
    """its last output says that it still goes on"""
    _purposes: frozenset[str] | None = None

    @property
    def failed(self) -> bool:
        """It ran and ended badly; a search that found nothing did not."""
        if not self.answered or self.refused or self.running:
            return False
        if self.exit is None:
            return self.is_error
        return self.exit != 0 and not found_nothing((self.command,), self.exit)

    @property
    def evidence(self) -> str:
        """Event that shows how it ended."""
        return str(self.outputs[-1].event_id if self.outputs else self.call.result_event or self.call.call_event)

    @property
    def shown(self) -> str:
        """Command line, cut at 120 characters."""
        return self.command[:_SHOWN]

    def purposes(self) -> frozenset[str]:
        """Return which of test, lint, types and build it is for."""
        if self._purposes is None:
            self._purposes = _SUMS_UP.intersection([s.purpose for s in self.steps])
        return self._purposes


class Runs(list[Run]):
    """The shell commands of a session in the order of its threads."""

    def __init__(self, found: list[Run], continued: dict[str, Run]) -> None:
        super().__init__(found)
        self.continued = continued
        """event id of a call that only waits for a command or writes to it -> the command"""
        self._results: dict[str, tuple[CheckResult, ...]] = {}

    def results(self, run: Run) -> tuple[CheckResult, ...]:
        """Return what the tools that a command ran reported; read once."""
        key = run.call.call_event
        found = self._results.get(key)
        if found is None:
            text = "\n".join(e.text for e in run.outputs if e.text) if run.purposes() else ""
            found = self._results[key] = check_results(text) if text else ()
        return found

    @cached_property
    def by_event(self) -> dict[str, Run]:
        """Commands by the event of their call."""
        return {run.call.call_event: run for run in self}

    def bad(self, run: Run) -> bool:
        """Tell whether a command failed, also where a pipe hides it: ``pytest | tail`` ends well."""
        if run.failed:
            return True
        return bool(run.answered and not run.refused and (said := self.results(run)) and any(not r.ok for r in said))


def runs(view: SessionView) -> Runs:
    """Return the shell commands of a session; reads tool calls and events of kind tool_call and tool_result.

    A call that waits for a command that went on in the background, or writes to it,
    belongs to that command: its output and its status are the command's.
    """
    found: list[Run] = []
    continued: dict[str, Run] = {}
    open_runs: dict[str, Run] = {}
    events = view.by_event
    for call in view.tool_calls:
        if call.action not in ("shell", "other", "task"):
            continue
        result = events.get(call.result_event) if call.result_event else None
        text = (result.text or "") if result is not None else ""
        status = call.exit
        if status is None and text.startswith("Script completed") and (said := _SAID.search(text, 0, _HEADER)):
            status = int(said[1])
        command = command_text(call.argv) if call.action == "shell" and call.argv else ""
        if command:
            run = Run(call, command, steps(command), status, False, call.result_event is not None, call.is_error)
            found.append(run)
        else:
            waits = _waited(call, events, open_runs)
            if waits is None:
                continue
            run = waits
            continued[call.call_event] = run
            run.is_error = call.is_error
            run.exit = status if status is not None else run.exit
        if result is not None:
            run.outputs.append(result)
            run.refused = run.refused or result.subtype in KEPT
        goes_on = (
            _GOES_ON.search(text, 0, _HEADER)
            if run.exit is None and ("running" in text[:_HEADER] or '"session_id"' in text[:_HEADER])
            else None
        )
        run.running = goes_on is not None
        if goes_on:
            open_runs[goes_on[1] or goes_on[2]] = run
    return Runs(found, continued)


def _waited(call: Any, events: dict[str, Any], open_runs: dict[str, Run]) -> Run | None:
    if not open_runs:
        return None
    asked = events.get(call.call_event)
    named = _POLLS.search((asked.text or "")[:_HEADER]) if asked is not None else None
    return open_runs.get(named[1]) if named else None

"""Which tool calls failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.facts.command_runs import runs_by_call
from ctx_pipeline.model.permissions import KEPT

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


class FailedCall(NamedTuple):
    """A tool call that ran and ended in an error."""

    call_event: str
    tool: str
    event: str
    """event_id of the record that shows the error"""


def failed_calls(view: SessionView) -> list[FailedCall]:
    """Return the tool calls that failed, in the order of the threads.

    A command fails once, by its row of ``command_runs``, however many calls waited for
    it; what was refused never ran. Reads tool calls, command runs and the subtype of events
    of kind tool_result.
    """
    runs = runs_by_call(view)
    found = []
    for call in view.tool_calls:
        run = runs.get(call.call_event)
        if run is not None:
            if run.result == "failed" and run.call_event == call.call_event:
                found.append(FailedCall(call.call_event, call.tool, run.event))
        elif call.is_error and call.action != "shell":
            result = view.by_event.get(call.result_event)
            if result is None or result.subtype not in KEPT:
                found.append(FailedCall(call.call_event, call.tool, call.result_event or call.call_event))
    return found

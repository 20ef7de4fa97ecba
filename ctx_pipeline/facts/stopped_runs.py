"""Which commands were ended before their own end, and whether the agent did that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import phrases
from ctx_pipeline.facts.killed_runs import agent_killed, ended_by_signal

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

STOPPED, CUT_OFF = "stopped", "cut off"
"""The agent ended the command; somebody did, and no event says who."""


def stopped(view: SessionView, run: Any) -> str:
    """Return how a row of ``command_runs`` was ended before its own end; empty where no event shows that it was."""
    host = phrases(view.host)
    if run.result != "unknown" or run.exit == 0:
        return ""
    if not run.polls and ended_by_signal(view, run.exit, run.started, run.ended):
        return STOPPED if agent_killed(view, run.started, run.ended) else CUT_OFF
    if not (host.stops or host.stopped):
        return ""
    # a command may go on behind an interrupt: only that it exited then shows that it did not
    if host.stops and run.exit is not None and any(re.search(host.stops, _text(view, event)[: host.head]) for event in run.polls):
        return STOPPED
    shown = [_text(view, event)[: host.head] for event in run.outputs]
    if run.exit is None and host.stopped_by_call and run.polls and any(re.search(host.stopped_by_call, text) for text in shown):
        return STOPPED
    last = _text(view, run.event) if run.event not in run.outputs else shown[-1] if run.polls else ""
    return CUT_OFF if run.exit is None and host.stopped and re.search(host.stopped, last) else ""


def _text(view: SessionView, event_id: str) -> str:
    event = view.by_event.get(event_id)
    return (event.text or "") if event is not None else ""

"""Which tool calls of a session are another session's: a copy that went on begins with what its origin did."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


def copied_calls(view: SessionView) -> frozenset[str]:
    """Return the events of the tool calls that a model call asked for which counts for another session.

    Reads ``call_key`` and ``owner`` of ``model_calls``, and ``call_key`` of the calling ``events``.
    """
    return view.once(_copied)


def _copied(view: SessionView) -> frozenset[str]:
    elsewhere = {call.call_key for call in view.model_calls if not call.owner}
    if not elsewhere:
        return frozenset()
    asked = ((call.call_event, view.by_event.get(call.call_event)) for call in view.tool_calls)
    return frozenset(name for name, event in asked if event is not None and event.call_key in elsewhere)

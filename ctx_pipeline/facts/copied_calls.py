"""Which tool calls of a session are another session's: a copy that went on begins with what its origin did."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


def copied_calls(view: SessionView) -> frozenset[str]:
    """Return the events of the tool calls that a model call asked for which counts for another session, and which that one recorded too.

    Of a model call that two sessions recorded in parts each may hold tool calls of its own.
    Reads ``call_key``, ``owner`` and ``copy_of`` of ``model_calls``, ``call_id`` of ``tool_calls``, ``call_key`` of the calling
    ``events``, and the view's ``origin_calls``.
    """
    return view.once(_copied)


def _copied(view: SessionView) -> frozenset[str]:
    elsewhere = {call.call_key: str(call.copy_of) for call in view.model_calls if not call.owner and call.copy_of}
    if not elsewhere:
        return frozenset()
    if view.origin_calls is None:
        msg = f"the calls of the sessions that {view.session_id} was copied from were not read"
        raise LookupError(msg)
    asked = ((call, view.by_event.get(call.call_event)) for call in view.tool_calls)
    return frozenset(
        call.call_event
        for call, event in asked
        if event is not None and event.call_key in elsewhere and call.call_id in view.origin_calls.get(elsewhere[event.call_key], ())
    )

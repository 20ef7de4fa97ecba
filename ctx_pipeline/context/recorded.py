"""The context window of a recorded session, played again event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.tree.component import Component
from ctx_pipeline.context.tree.context import Context
from ctx_pipeline.context.tree.history import ContextHistory

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROLES = {
    "prompt": "user",
    "injected": "user",
    "answer": "assistant",
    "reasoning": "assistant",
    "attachment": "user",
    "compaction": "system",
}
_KINDS = {"tool_call": ("assistant", "call"), "tool_result": ("tool", "result")}


def played(events: Iterable[Any], *, upto: int | None = None) -> ContextHistory:
    """Return a history with a snapshot at every turn, and before and after every compaction, of one thread.

    Events are rows of the table ``events`` in order; ``upto`` is the last ``seq`` to play.
    A prompt begins a turn. A compaction empties the window: the turns before it go, its
    own text stays. The last snapshot, triggered by ``now``, is the window after the last
    event. Every node carries ``data_seq``, the ``seq`` of its event.
    """
    history = ContextHistory()
    context = Context(history=history)
    for event in events:
        if upto is not None and event.seq > upto:
            break
        if event.kind == "compaction":
            context.seal(f"before_compaction {event.seq}")
            context = Context(history=history)
            _add(context, event)
            context.seal(f"after_compaction {event.seq}")
        elif event.kind in _ROLES or event.kind in _KINDS:
            if event.kind == "prompt" and any(n.role != "user" for n in context["d0, 0"].children):
                context.commit(f"before_prompt {event.seq}")
            _add(context, event)
    context.seal("now")
    return history


def _add(context: Context, event: Any) -> None:
    role, kind = _KINDS.get(event.kind) or (_ROLES[event.kind], event.kind)
    attributes = {"data_seq": event.seq}
    if event.call_id is not None:
        attributes["tool_call_id"] = event.call_id
    context.add(Component(event.text or "", role=role, kind=kind, tags=[event.kind], attributes=attributes, id=event.event_id))

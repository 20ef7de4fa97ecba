"""How rows say that a tool call was kept from running, and with which words of the person: facts that only a host sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

REFUSED = "refused"
"""Subtype of a result that the host wrote because the person said no, and of the permission event with what the person typed."""

DENIED = "denied"
"""Subtype of a result that the host wrote because a rule, a mode or an interruption kept the call from running."""

KEPT = frozenset({REFUSED, DENIED})
"""Subtypes of the results of calls that never ran."""

REASON = ("permission", REFUSED, "user")
"""Kind, subtype and actor of the event that holds the words with which the person refused a call; its call_id names the call."""


def words_of_refusals(view: SessionView) -> list[Any]:
    """Return the events that hold what the person typed when a call was refused, in order; a refusal without words has none."""
    return [e for e in view.of_kinds(REASON[0]) if (e.kind, e.subtype, e.actor) == REASON]

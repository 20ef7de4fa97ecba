"""Calls that started a subagent, and what their answers tell of those whose records are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_STARTS_AGENTS = frozenset({"Task", "Agent", "spawn_agent"})

AGENTS = frozenset({"subagent", "sidechain", "review"})
"""Kinds of the threads in which a subagent worked."""


class Unrecorded(NamedTuple):
    """Subagents of which the history holds the calls that started them, and no record of their own."""

    agents: int
    tokens: int = 0
    """what their answers tell of their tokens, which no total holds; 0 where they tell none"""


def starting_calls(view: SessionView) -> list[Any]:
    """Return the calls that started a subagent and did not fail."""
    return [call for call in view.tool_calls if call.tool in _STARTS_AGENTS and not call.is_error]


def unrecorded_agents(view: SessionView) -> Unrecorded:
    """Return how many subagents worked without a record, where the session holds no thread of one; none elsewhere."""
    if any(thread.kind in AGENTS for thread in view.threads):
        return Unrecorded(0)
    answered = [call for call in starting_calls(view) if call.result_event]
    told = discovery.declared_pattern("records.agent_tokens")
    # an agent may quote what another one was told: the host writes its own line last
    found = [list(told.finditer(view.result_text(call)))[-1:] for call in answered]
    return Unrecorded(len(answered), sum(int(match[match.lastindex or 0]) for matches in found for match in matches))

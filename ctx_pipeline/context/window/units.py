"""Messages that belong together: a tool call stays with its results."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Message = Mapping[str, Any]


class Unit(NamedTuple):
    """Messages that are kept or dropped as one, by their places, and what they cost together."""

    places: tuple[int, ...]
    tokens: int
    pinned: bool = False
    priority: float = 0.0


def units_of(
    messages: Sequence[Message],
    costs: Sequence[int],
    *,
    keep_tool_pairs: bool = True,
    pin: Callable[[Message], bool] | None = None,
    priority: Callable[[Message], float] | None = None,
) -> list[Unit]:
    """Return the units in the order of their first message.

    A call and its results are found by ``tool_calls[].id`` and ``tool_call_id`` (OpenAI),
    and by ``tool_use`` and ``tool_result`` parts (Anthropic). A unit is pinned when one of
    its messages is, and has the highest priority among them.
    """
    if not pin and not priority and not (keep_tool_pairs and may_belong_together(messages)):
        return list(map(Unit, zip(range(len(costs)), strict=True), costs))
    group = list(range(len(messages)))
    if keep_tool_pairs:
        opened: dict[str, int] = {}
        for place, message in enumerate(messages):
            for call in _answers(message):
                if call in opened:
                    group[place] = group[opened[call]]
            for call in _calls(message):
                opened[call] = place
    members: dict[int, list[int]] = {}
    for place, first in enumerate(group):
        members.setdefault(first, []).append(place)
    return [
        Unit(
            tuple(places),
            sum(costs[p] for p in places),
            pinned=any(pin(messages[p]) for p in places) if pin else False,
            priority=max(float(priority(messages[p])) for p in places) if priority else 0.0,
        )
        for places in members.values()
    ]


def may_belong_together(messages: Sequence[Message]) -> bool:
    """Return whether any message has something that could make it a tool call or a result."""
    return not {"tool_calls", "tool_call_id"}.isdisjoint(chain.from_iterable(messages)) or list in {
        type(message.get("content")) for message in messages
    }


def _calls(message: Message) -> list[str]:
    calls = message.get("tool_calls")
    found = [str(c["id"]) for c in calls if isinstance(c, dict) and c.get("id")] if isinstance(calls, list) else []
    content = message.get("content")
    if isinstance(content, list):
        found += [str(p["id"]) for p in content if isinstance(p, dict) and p.get("type") == "tool_use" and p.get("id")]
    return found


def _answers(message: Message) -> list[str]:
    found = [str(message["tool_call_id"])] if message.get("tool_call_id") else []
    content = message.get("content")
    if isinstance(content, list):
        found += [str(p["tool_use_id"]) for p in content if isinstance(p, dict) and p.get("type") == "tool_result" and p.get("tool_use_id")]
    return found

"""Everything that the view shows of one session, read at one time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.windows import ASSUMED, window_size
from ctx_pipeline.model.characters import visible
from ctx_pipeline.rot.analysis import analyze_session
from ctx_pipeline.rot.call_tree import Node, call_tree
from ctx_pipeline.rot.growth import layers

if TYPE_CHECKING:
    from collections.abc import Mapping


def safe(text: object) -> str:
    """Return text of a session without what a terminal would obey."""
    return visible(str(text))


@dataclass(frozen=True)
class Snapshot:
    """A session's figures and what is drawn from them."""

    session_id: str
    session: Mapping[str, Any]
    summary: Mapping[str, Any]
    layers: list[dict[str, Any]]
    tools: Mapping[int, list[dict[str, Any]]]
    tree: list[dict[str, Any]]
    calls: list[Node]
    """the calls as the program made them; empty where nothing says so"""
    analysis: Mapping[str, Any]
    window: int
    window_known: bool

    @property
    def nested(self) -> bool:
        """Whether the program's own tree says more than a list of its calls."""
        return any(node.children for node in self.calls)

    @property
    def is_rlm(self) -> bool:
        """Whether the session is a recursive one, shown as a tree first."""
        return any(row["call_type"] for row in self.tree)


def take(store: Any, session_id: str) -> Snapshot:
    """Return the state of a session now."""
    session = store.get_session(session_id) or {}
    growth = store.get_growth_data(session_id)
    tools = store.get_tools_by_iteration(session_id)
    model = growth[-1]["model"] if growth else session.get("model")
    largest = max((row["prompt_tokens"] or 0 for row in growth), default=0)
    window = window_size(session.get("context_window"), model, largest).tokens
    return Snapshot(
        session_id=session_id,
        session=session,
        summary=store.get_session_summary(session_id),
        layers=layers(growth, tools),
        tools=tools,
        tree=store.get_rlm_tree_data(session_id),
        calls=call_tree(store.get_log(session_id)) if hasattr(store, "get_log") else [],
        analysis=analyze_session(store, session_id),
        window=window or max(ASSUMED, largest),
        window_known=window is not None,
    )


def tool_costs(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return tool_name, calls, raw tokens (estimated) and context tokens (their part of what the prompt really gained), both on average.

    Of what a prompt has more than the one before, a tool's part is its share of the
    completion before and all raw outputs together.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for before, after in zip(snapshot.layers, snapshot.layers[1:], strict=False):
        ran = snapshot.tools.get(before["seq"], [])
        raw = sum(t["output_tokens_est"] or 0 for t in ran)
        gained = max(0, after["prompt"] - before["prompt"])
        for tool in ran:
            own = tool["output_tokens_est"] or 0
            whole = before["output"] + raw
            found.setdefault(tool["tool_name"], []).append((own, own * gained / whole if whole else 0.0))
    rows = [
        {
            "tool_name": name,
            "calls": len(uses),
            "raw": sum(u[0] for u in uses) // len(uses),
            "context": round(sum(u[1] for u in uses) / len(uses)),
        }
        for name, uses in found.items()
    ]
    return sorted(rows, key=lambda r: -r["context"] * r["calls"])

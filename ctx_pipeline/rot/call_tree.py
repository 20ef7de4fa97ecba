"""The calls of a session as the tree in which the program made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.rot.content import decoded

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Node:
    """A call: its kind (module, lm_call, tool_call), what the log says of it, and the calls that it made."""

    kind: str
    call_id: str | None
    body: dict[str, Any]
    children: list[Node] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The module, tool or model."""
        return str(self.body.get("module") or self.body.get("tool") or self.body.get("model") or self.kind)

    @property
    def error(self) -> str | None:
        """Why it failed, None when it did not."""
        return self.body.get("error")

    @property
    def tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of this call and all below it."""
        usage = self.body.get("usage") or {}
        below = [child.tokens for child in self.children]
        return (
            (usage.get("prompt_tokens") or 0) + sum(t[0] for t in below),
            (usage.get("completion_tokens") or 0) + sum(t[1] for t in below),
        )


def call_tree(log: Sequence[dict[str, Any]]) -> list[Node]:
    """Return the outermost calls of a session's log, in the order in which they began.

    A call whose parent has no row stands outermost. Modules begin where their first row
    stands; model and tool calls are written when they end and are put in by their beginning.
    """
    nodes: dict[str, Node] = {}
    order: list[tuple[int, str | None, Node]] = []
    for row in log:
        body = decoded(row["payload"])
        body = body if isinstance(body, dict) else {}
        call_id = row["call_id"]
        if row["kind"] == "module_end":
            if call_id in nodes and body.get("error"):
                nodes[call_id].body["error"] = body["error"]
        elif row["kind"] in {"module_start", "lm_call", "tool_call"}:
            node = Node("module" if row["kind"] == "module_start" else row["kind"], call_id, body)
            began = body.get("started")
            order.append((began if isinstance(began, int) else row["at"], row["parent_call_id"], node))
            if call_id is not None:
                nodes[call_id] = node
    roots: list[Node] = []
    for _, parent, node in sorted(order, key=lambda entry: entry[0]):
        above = nodes.get(parent) if parent is not None and parent != node.call_id else None
        (roots if above is None else above.children).append(node)
    return roots

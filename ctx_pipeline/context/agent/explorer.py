"""Looking at a context, and driving one by hand."""

from __future__ import annotations

import html
import json
import sys
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.agent.agent import Agent
from ctx_pipeline.context.errors import ReadOnlyHistory
from ctx_pipeline.context.tree.context import Context
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.characters import visible
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.context.tree.node import Node

MODES = ("tree", "text", "provider", "xml")
_SHOWN = 80


class ContextExplorer:
    """Shows a context as a tree, as text, as XML or as a provider gets it; steps change one that is not history."""

    def __init__(self, subject: Context | Agent | None = None) -> None:
        self._agent = subject if isinstance(subject, Agent) else None
        self._context = subject.context if isinstance(subject, Agent) else subject if subject is not None else Context()

    @property
    def context(self) -> Context:
        """The context that is looked at."""
        return self._agent.context if self._agent is not None else self._context

    def print(self, mode: str = "tree") -> None:
        """Write the context to standard output, without what a terminal would obey; see :meth:`text`."""
        sys.stdout.write(visible(self.text(mode)) + "\n")

    def text(self, mode: str = "tree") -> str:
        """Return the context as text, in one of :data:`MODES`. Raises UnknownName."""
        if mode not in MODES:
            raise UnknownName("mode", mode, MODES)
        if mode == "provider":
            return json.dumps(self.context.provider_thread(), indent=2, ensure_ascii=False)
        if mode == "text":
            return "\n".join(f"{block['role']}: {_plain(block['content'])}" for block in self.context.provider_thread())
        root = self.context["^root"]
        return "\n".join(_tree(root, 0) if mode == "tree" else _xml(root, 0))

    def step(self, operation: str, *arguments: Any) -> Any:
        """Do one operation and return what it gives: user_message, assistant_message, system_message, seal, render or commit.

        Raises ReadOnlyHistory for a context out of the history, and UnknownName.
        """
        context = self.context
        operations: dict[str, Callable[..., Any]] = {
            "user_message": context.add_user,
            "assistant_message": context.add_assistant,
            "system_message": context.add_system,
            "seal": lambda trigger="explorer": context.seal(trigger),
            "render": context.render,
            "commit": context.commit,
        }
        if operation not in operations:
            raise UnknownName("operation", operation, operations)
        if context.read_only:
            raise ReadOnlyHistory(operation, context.current_episode)
        return operations[operation](*arguments)


def _tree(node: Node, level: int) -> list[str]:
    notes = [f"offset {node.offset}"]
    if node.structure in {"seg", "ah", "sys"}:
        notes.insert(0, f"d{node.depth}")
    notes += [f"ttl {node.ttl}"] if node.ttl is not None else []
    notes += [f"#{node.key}"] if node.key else []
    notes += [f"+{tag}" for tag in node.tags]
    said = f" {_short(node.content)}" if node.content is not None else ""
    lines = [f"{'  ' * level}{node.node_type} [{', '.join([node.id, *notes])}]{said}"]
    for child in node.children:
        lines += _tree(child, level + 1)
    return lines


def _xml(node: Node, level: int) -> list[str]:
    pad = "  " * level
    fields = {"id": node.id, "offset": node.offset, "key": node.key, "role": node.role, "kind": node.kind, "ttl": node.ttl}
    written = "".join(f' {name}="{html.escape(str(value))}"' for name, value in fields.items() if value is not None)
    name = node.node_type.lstrip("^").replace(":", "-")
    name = name if name.replace("-", "").replace("_", "").isalnum() and not name[:1].isdigit() else "node"
    if not node.children:
        return [f"{pad}<{name}{written}>{html.escape(_plain(node.content))}</{name}>"]
    return [f"{pad}<{name}{written}>", *(line for child in node.children for line in _xml(child, level + 1)), f"{pad}</{name}>"]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)


def _short(content: Any) -> str:
    return json.dumps(truncate(_plain(content).replace("\n", "⏎"), _SHOWN), ensure_ascii=False)

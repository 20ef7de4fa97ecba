"""An agent: a context, a provider, tools, hooks and a history."""

from __future__ import annotations

import html
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ctx_pipeline.context.agent.providers import Provider, ToolCall, answerer
from ctx_pipeline.context.errors import InvalidArgument, ReadOnlyHistory
from ctx_pipeline.context.tree.component import Component
from ctx_pipeline.context.tree.context import Context, ContextHistory
from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.model.display import truncate, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.context.tree.component import Node

    F = TypeVar("F", bound=Callable[["ToolContext"], Any])


class BaseContextScaffold:
    """Subclass it with ``scaffold_type`` and ``render``; ``self.agent`` is the agent it was given to."""

    scaffold_type = "scaffold"
    agent: Agent

    def attach(self, agent: Agent) -> None:
        """Learn which agent this belongs to."""
        self.agent = agent

    def render(self) -> Component | None:
        """Return what stands in the context during the next call, or None; it replaces what was returned before."""
        return None


@dataclass
class ToolContext:
    """What a hook learns: the agent, the tool and its arguments; after the call also its result or its error."""

    agent: Agent
    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str = ""
    result: Any = None
    error: BaseException | None = None


class ToolHooks:
    """``@agent.hooks.tool.pre_call`` and ``post_call``; both give the function back, several run in order."""

    def __init__(self) -> None:
        self.before: list[Callable[[ToolContext], Any]] = []
        self.after: list[Callable[[ToolContext], Any]] = []

    def pre_call(self, function: F) -> F:
        """Run a function before every tool. An error of it stops the call."""
        self.before.append(function)
        return function

    def post_call(self, function: F) -> F:
        """Run a function after every tool, also one that failed."""
        self.after.append(function)
        return function


class Hooks:
    """The hooks of an agent."""

    def __init__(self) -> None:
        self.tool = ToolHooks()


MAX_ROUNDS = 25
"""How often a provider may ask for tools within one call."""


class Agent:
    """Talks to a provider and keeps what was said in a context.

    ``provider``: None, a function of messages, or ``"openai:gpt-4"`` (through ``dspy.LM``).
    A call begins a cycle: what the call before left in the active head is committed first,
    which takes a snapshot; then message, tools and answer are added to the active head,
    where they stay until the next call begins.
    """

    def __init__(
        self,
        provider: str | Provider | None = None,
        *,
        context: Context | None = None,
        history: ContextHistory | None = None,
        tools: Iterable[Callable[..., Any]] = (),
        scaffolds: Iterable[BaseContextScaffold] = (),
        system: str | None = None,
    ) -> None:
        if history is not None and not isinstance(history, ContextHistory):
            raise InvalidArgument(f"a history is a ContextHistory, not {type(history).__name__}", hint="ContextHistory(path) opens a file")
        self.provider = provider
        self.hooks = Hooks()
        self.history = history if history is not None else ContextHistory()
        self.tools = _tools(tools)
        self.scaffolds: list[BaseContextScaffold] = []
        self._answer = answerer(provider)
        self._undone: list[int] = []
        self.context = context if context is not None else Context()
        if system is not None:
            self.context.add_system(system)
        for scaffold in scaffolds:
            self.add_scaffold(scaffold)

    @property
    def context(self) -> Context:
        """The context; one that is set here writes to this agent's history from now on."""
        return self._context

    @context.setter
    def context(self, context: Context) -> None:
        if not isinstance(context, Context):
            raise InvalidArgument(f"a context is a Context, not {type(context).__name__}", hint="Context.from_snapshot(...) makes one")
        if context.read_only:
            raise UsageError(
                "a context out of the history is read-only", hint="agent.context = Context.from_snapshot(historical.model_dump())"
            )
        context.attach(self.history)
        self._context = context

    def add_scaffold(self, scaffold: BaseContextScaffold) -> None:
        """Let a scaffold write into the context before every call. Raises InvalidArgument for a class or something else."""
        if isinstance(scaffold, type):
            raise InvalidArgument(f"{scaffold.__name__} is a class", hint=f"pass a scaffold: {scaffold.__name__}()")
        if not isinstance(scaffold, BaseContextScaffold):
            raise InvalidArgument(f"{type(scaffold).__name__} is no scaffold", hint="subclass BaseContextScaffold")
        scaffold.attach(self)
        self.scaffolds.append(scaffold)

    def call(self, message: str) -> str:
        """Return the provider's answer to a message; tools that it asks for are run with their hooks.

        Raises UsageError when it goes on asking for tools after 25 rounds. Errors of the
        provider pass through; the message then stands in the context without an answer.
        """
        context = self._context
        self._undone.clear()
        if self._has_messages():
            context.commit()
        self._scaffold()
        context.add_user(message)
        for _ in range(MAX_ROUNDS):
            reply = self._answer(self.messages(), self.tools)
            if reply.content:
                context.add_assistant(reply.content)
            if not reply.tool_calls:
                return reply.content
            for call in reply.tool_calls:
                self._run(call)
        raise UsageError(f"the provider asked for tools {MAX_ROUNDS} times in one call", hint="check what the tools return to it")

    def messages(self) -> list[dict[str, Any]]:
        """Return the context as chat messages (OpenAI's form)."""
        out: list[dict[str, Any]] = []
        for block in self._context.provider_thread():
            content = block["content"]
            if block["kind"] == "call":
                call = {"id": content["id"], "type": "function"}
                call["function"] = {"name": content["name"], "arguments": json.dumps(content["arguments"])}
                if out and out[-1]["role"] == "assistant":
                    out[-1].setdefault("tool_calls", []).append(call)
                else:
                    out.append({"role": "assistant", "content": None, "tool_calls": [call]})
            elif block["kind"] == "result":
                out.append({"role": "tool", "tool_call_id": content["id"], "content": content["text"]})
            else:
                text = content if isinstance(content, (str, list)) else json.dumps(content)
                out.append({"role": block["role"], "content": text})
        return out

    def undo(self) -> int | None:
        """Go back to the snapshot before the present one and return its episode; None at the oldest."""
        present = self._context.model_dump()["root"]
        limit = self._context.current_episode + (0 if self._undone else 1)
        before = [e for e in self.history.snapshots if e < limit]
        target = next((e for e in reversed(before) if self.history.at_snapshot(e).model_dump()["root"] != present), None)
        if target is None:
            return None
        if not self._undone:
            self._undone.append(self._context.seal("before_undo"))
        self._undone.append(target)
        return self._go_to(target)

    def redo(self) -> int | None:
        """Take back the last undo and return the episode; None when there is none."""
        if len(self._undone) < 2:
            return None
        self._undone.pop()
        episode = self._go_to(self._undone[-1])
        if len(self._undone) == 1:
            self._undone.clear()
        return episode

    def _go_to(self, episode: int) -> int:
        self.context = Context.from_snapshot(self.history.at_snapshot(episode).model_dump())
        return episode

    def _has_messages(self) -> bool:
        return bool(self._context[0, 0].children)

    def _scaffold(self) -> None:
        context = self._context
        for scaffold in self.scaffolds:
            made = scaffold.render()
            name = f"scaffold_{scaffold.scaffold_type}"
            for old in context.get_by_tags([name]):
                context.pact_delete(id=old.id)
            if made is not None:
                made.tags = [*made.tags, name]
                context.pact_insert((0, 100_000), made)

    def _run(self, call: ToolCall) -> None:
        told = ToolContext(self, call.name, dict(call.arguments), call.id)
        for hook in self.hooks.tool.before:
            hook(told)
        tool = next((tool for tool in self.tools if getattr(tool, "__name__", "") == call.name), None)
        self._context.add(
            Component(
                {"id": call.id, "name": call.name, "arguments": call.arguments},
                kind="call",
                role="assistant",
                tags=["tool"],
                attributes={"tool_call_id": call.id, "tool_name": call.name},
            )
        )
        try:
            told.result = tool(**call.arguments) if tool is not None else _missing(call.name)
        except Exception as error:  # noqa: BLE001 - a tool's error is told to the model, as every agent does
            told.error = error
        text = (
            f"error: {told.error}" if told.error else told.result if isinstance(told.result, str) else json.dumps(told.result, default=str)
        )
        self._context.add(
            Component(
                {"id": call.id, "text": text},
                kind="result",
                role="tool",
                tags=["tool"],
                attributes={"tool_call_id": call.id, "tool_name": call.name, "status": "error" if told.error else "ok"},
            )
        )
        for hook in self.hooks.tool.after:
            hook(told)


def _tools(tools: Iterable[Callable[..., Any]]) -> list[Callable[..., Any]]:
    if isinstance(tools, Mapping) or not isinstance(tools, Iterable):
        raise InvalidArgument(f"tools is {type(tools).__name__}", hint="a list of functions; a model calls them by their own names")
    listed = list(tools)
    names = Counter(map(_tool_name, listed))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InvalidArgument(f"two tools are called {twice[0]!r}", hint="a model calls them by their names")
    return listed


def _tool_name(tool: object) -> str:
    name = getattr(tool, "__name__", None)
    if not callable(tool) or not isinstance(name, str):
        raise InvalidArgument(f"{tool!r} is no tool", hint="a tool is a function with a name, a docstring and typed parameters")
    return name


def _missing(name: str) -> NoReturn:
    raise LookupError(f"there is no tool {name!r}")


# Looking at a context, and driving one by hand.


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

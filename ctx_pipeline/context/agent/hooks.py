"""Functions that run before and after a tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.context.agent.agent import Agent

    F = TypeVar("F", bound=Callable[["ToolContext"], Any])


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

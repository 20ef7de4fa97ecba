"""What answers: nothing, a function, or a model through DSPy."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ctx_pipeline.context.agent.dspy_model import DspyModel
from ctx_pipeline.errors import UsageError

Messages = list[dict[str, Any]]
Provider = Callable[..., Any]


@dataclass(frozen=True)
class ToolCall:
    """A tool that a model asks for."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"call_{uuid4().hex[:12]}")


@dataclass(frozen=True)
class Reply:
    """What a provider answered: text, tools to run, or both."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


def answerer(provider: str | Provider | None) -> Callable[[Messages, list[Callable[..., Any]]], Reply]:
    """Return a function that answers messages with tools at hand.

    ``None`` answers nothing. A function gets the messages, and the tools when it has a
    parameter for them; it returns text, or ``{"content": ..., "tool_calls": [{"name",
    "arguments"}]}``. ``"openai:gpt-4"`` is a model through ``dspy.LM``, which is made at
    the first call.
    """
    if provider is None:
        return lambda _messages, _tools: Reply()
    if isinstance(provider, str):
        if not any(mark in provider.strip(":/") for mark in ":/"):
            raise UsageError(
                f"{provider!r} names no provider", hint=f'write "openai:{provider or "gpt-4"}", or another provider before the colon'
            )
        model = DspyModel(provider)
        return lambda messages, tools: reply_of(model.answer(messages, tools))
    if not callable(provider):
        raise UsageError(f"{provider!r} is no provider", hint='None, a function of messages, or "openai:gpt-4"')
    wants_tools = _wants_tools(provider)
    return lambda messages, tools: reply_of(provider(messages, tools) if wants_tools else provider(messages))


def reply_of(answer: Any) -> Reply:
    """Return an answer of any form as a Reply. Raises UsageError for what is no answer."""
    if answer is None:
        return Reply()
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(answer)
    if isinstance(answer, Mapping):
        calls = tuple(_call(call) for call in answer.get("tool_calls") or ())
        return Reply(str(answer.get("content") or answer.get("text") or ""), calls)
    raise UsageError(f"a provider answered {type(answer).__name__}", hint='return text, or {"content": ..., "tool_calls": [...]}')


def _call(call: Any) -> ToolCall:
    get = call.get if isinstance(call, Mapping) else lambda name, default=None: getattr(call, name, default)
    function = get("function")
    if function is not None:
        inner = function.get if isinstance(function, Mapping) else lambda name, default=None: getattr(function, name, default)
        name, arguments = inner("name"), inner("arguments")
    else:
        name, arguments = get("name"), get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except json.JSONDecodeError:
            arguments = {"input": arguments}
    made = ToolCall(str(name), dict(arguments or {}))
    return ToolCall(made.name, made.arguments, str(get("id"))) if get("id") else made


def _wants_tools(provider: Provider) -> bool:
    try:
        parameters = list(inspect.signature(provider).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL}]
    return len(positional) > 1 or any(p.kind == p.VAR_POSITIONAL for p in positional)

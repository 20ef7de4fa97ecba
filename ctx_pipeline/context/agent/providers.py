"""What answers: nothing, a function, or a model through DSPy."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ctx_pipeline.errors import UsageError
from ctx_pipeline.settings import keep_litellm_offline

# A model of DSPy as a provider, with the interface of 3.4 and later and with the one before it.


_TYPES = {int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_NAMED = {"int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}


class DspyModel:
    """``"openai:gpt-4"`` or any name that ``dspy.LM`` takes; made at the first call, without its cache."""

    def __init__(self, name: str) -> None:
        provider, colon, model = name.partition(":")
        self._name = f"{provider}/{model}" if colon else name
        self._lm: Any = None

    def answer(self, messages: Messages, tools: list[Callable[..., Any]]) -> dict[str, Any]:
        """Return ``{content, tool_calls}`` for chat messages."""
        keep_litellm_offline()
        import dspy

        if self._lm is None:
            self._lm = dspy.LM(self._name, cache=False)
        shape = getattr(dspy, "lm15", None)
        if shape is not None:
            return _answered(self._lm(_request(shape, self._lm.model, messages, tools)))
        options = {"tools": [{"type": "function", "function": schema(tool)} for tool in tools]} if tools else {}
        answer = self._lm(messages=messages, **options)[0]
        return answer if isinstance(answer, dict) else {"content": answer}


def schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """Return what a model is told of a tool: its name, its docstring, its parameters as JSON schema."""
    parameters = inspect.signature(tool).parameters
    return {
        "name": tool.__name__,
        "description": inspect.getdoc(tool) or tool.__name__,
        "parameters": {
            "type": "object",
            "properties": {name: {"type": _kind(p.annotation)} for name, p in parameters.items()},
            "required": [name for name, p in parameters.items() if p.default is p.empty],
        },
    }


def _kind(annotation: Any) -> str:
    return _NAMED.get(annotation, "string") if isinstance(annotation, str) else _TYPES.get(annotation, "string")


def _request(shape: Any, model: str, messages: Messages, tools: list[Callable[..., Any]]) -> Any:
    first = 0
    while first < len(messages) and messages[first]["role"] == "system":
        first += 1
    system = "\n\n".join(_text(message["content"]) for message in messages[:first])
    rest = [_message(shape, message) for message in messages[first:]]
    declared = tuple(shape.FunctionTool(**schema(tool)) for tool in tools)
    return shape.Request(model=model, messages=tuple(rest), system=system or None, tools=declared)


def _message(shape: Any, message: dict[str, Any]) -> Any:
    text = _text(message["content"])
    match message["role"]:
        case "tool":
            return shape.Message.tool(message["tool_call_id"], text)
        case "assistant":
            parts = [shape.TextPart(text)] if text else []
            for call in message.get("tool_calls", ()):
                function = call["function"]
                parts.append(shape.ToolCallPart(call["id"], function["name"], json.loads(function["arguments"])))
            return shape.Message("assistant", tuple(parts) or (shape.TextPart(""),))
        case "system":
            return shape.Message.developer(text)
        case _:
            return shape.Message.user(text)


def _answered(response: Any) -> dict[str, Any]:
    parts = response.message.parts
    calls = [
        {"id": part.id, "name": part.name, "arguments": dict(part.input)}
        for part in parts
        if hasattr(part, "input") and hasattr(part, "name") and hasattr(part, "id")
    ]
    return {"content": response.message.text or "", "tool_calls": calls}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)


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
        raise UsageError(f"{provider!r} is not a provider", hint='None, a function of messages, or "openai:gpt-4"')
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

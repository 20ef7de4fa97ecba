"""A model of DSPy as a provider, with the interface of 3.4 and later and with the one before it."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.settings import keep_litellm_offline

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = list[dict[str, Any]]

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

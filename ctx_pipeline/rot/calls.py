"""What one model call used and said, from DSPy's own record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.rot.content import encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOK_BACK = 2_000
_SECRET = ("key", "secret", "password", "authorization", "credential")
_TOKENS = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def entry_of(instance: Any, outputs: Any) -> Mapping[str, Any] | None:
    """Return the history entry of a call: the one whose outputs *are* what the call returned.

    DSPy names no call in its history, and under threads the last entry is often another
    call's. For an explicit Request the entry holds the response that was returned.
    """
    history = getattr(instance, "history", None)
    if not isinstance(history, list) or outputs is None:
        return None
    for place, entry in enumerate(reversed(history)):
        if place >= _LOOK_BACK:
            break
        if isinstance(entry, dict) and (entry.get("outputs") is outputs or entry.get("response") is outputs):
            return entry
    return None


def usage_of(entry: Mapping[str, Any] | None, outputs: Any) -> dict[str, int]:
    """Return the token counts of a call that are not zero; prompt tokens include cached ones."""
    usage = entry.get("usage") if entry is not None else _read(outputs, "usage")
    if not usage:
        return {}
    prompt = _read(usage, "prompt_tokens_details")
    completion = _read(usage, "completion_tokens_details")
    values = (
        _first(_read(usage, "prompt_tokens"), _read(usage, "input_tokens")),
        _first(_read(usage, "completion_tokens"), _read(usage, "output_tokens")),
        _first(
            _read(prompt, "cached_tokens"),
            _read(usage, "cache_read_tokens"),
            _read(usage, "cache_read_input_tokens"),
            _read(usage, "_cache_read_input_tokens"),
            _read(_read(usage, "input_tokens_details"), "cached_tokens"),
        ),
        _first(
            _read(prompt, "cache_creation_tokens"),
            _read(usage, "cache_write_tokens"),
            _read(usage, "cache_creation_input_tokens"),
            _read(usage, "_cache_creation_input_tokens"),
        ),
        _first(
            _read(completion, "reasoning_tokens"),
            _read(usage, "reasoning_tokens"),
            _read(_read(usage, "output_tokens_details"), "reasoning_tokens"),
        ),
    )
    return {name: value for name, value in zip(_TOKENS, values, strict=True) if value}


def is_cache_hit(entry: Mapping[str, Any] | None) -> bool:
    """Tell whether DSPy answered from its own cache: no usage, but the price that was paid once."""
    if entry is None:
        return False
    return _read(entry.get("response"), "cache_hit") is True or (not entry.get("usage") and entry.get("cost") is not None)


def said(outputs: Any) -> dict[str, Any]:
    """Return completions, reasoning and tool calls of a call's outputs, as far as there are any."""
    texts: list[Any] = []
    reasoning: list[str] = []
    calls: list[Any] = []
    for output in outputs if isinstance(outputs, list | tuple) else [outputs]:
        text, thought, asked = _parts(output)
        if thought:
            reasoning.append(thought)
        calls += asked
        texts.append(text if text is not None or not asked else {"tool_calls": asked})
    found: dict[str, Any] = {"completions": encoded(texts)}
    if reasoning:
        found["reasoning"] = "\n".join(reasoning).encode("utf-8", "replace").decode()
    if calls:
        found["tool_calls"] = encoded(calls)
    return found


def _parts(output: Any) -> tuple[Any, str | None, list[Any]]:
    if isinstance(output, str) or output is None:
        return output or "", None, []
    if isinstance(output, dict):
        calls = output.get("tool_calls") or []
        return output.get("text"), output.get("reasoning_content"), [_plain(c) for c in calls]
    message = _read(output, "message")
    parts = _read(message, "parts")
    if parts is None:
        return str(output), None, []
    texts = [p.text for p in parts if type(p).__name__ == "TextPart"]
    thoughts = [p.text for p in parts if type(p).__name__ == "ThinkingPart" and p.text]
    calls = [{"id": c.id, "function": {"name": c.name, "arguments": c.input}} for c in _read(output, "tool_calls") or ()]
    return "".join(texts) if texts else None, "".join(thoughts) or None, calls


def _plain(call: Any) -> Any:
    """Return a tool call as a dictionary; LiteLLM gives objects."""
    if isinstance(call, dict):
        return call
    function = _read(call, "function")
    named = {"name": _read(function, "name"), "arguments": _read(function, "arguments")}
    return {"id": _read(call, "id"), "type": _read(call, "type"), "function": named}


def finish_reason(entry: Mapping[str, Any] | None, outputs: Any) -> str | None:
    """Return why the model stopped, in the provider's word."""
    response = entry.get("response") if entry is not None else outputs
    if isinstance(response, list | tuple):
        response = response[0] if response else None
    choices = _read(response, "choices")
    reason = _read(choices[0], "finish_reason") if isinstance(choices, list) and choices else _read(response, "finish_reason")
    return None if reason is None else str(getattr(reason, "value", reason))


def attempts(entry: Mapping[str, Any] | None) -> int | None:
    """Return how often the provider was asked again, where the engine says so."""
    made = _read(_read(entry.get("response") if entry else None, "_hidden_params"), "additional_headers")
    value = made.get("x-litellm-attempted-retries") if isinstance(made, dict) else None
    return value if isinstance(value, int) else None


def parameters(instance: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalar parameters of a call (temperature, max_tokens, ...); no credential and no address."""
    found: dict[str, Any] = {}
    for source in (getattr(instance, "kwargs", None), inputs.get("kwargs")):
        if isinstance(source, dict):
            for name, value in source.items():
                if isinstance(value, str | int | float | bool) and not _private(name):
                    found[name] = value if not isinstance(value, int) or -(2**63) <= value < 2**64 else str(value)
    retries = getattr(instance, "num_retries", None)
    if isinstance(retries, int):
        found["num_retries"] = retries
    return found


def _private(name: Any) -> bool:
    return not isinstance(name, str) or name.startswith("api_") or "url" in name or any(word in name for word in _SECRET)


def _read(value: Any, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return value.get(name)
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody's response class
        return None


def _first(*values: Any) -> int:
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), 0)

"""Values of other people's programs as JSON that always decodes again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


_DEPTH = 60
_decode = msgspec.json.Decoder().decode


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - somebody's __str__
        return f"<{type(value).__name__}>"


_encoder = msgspec.json.Encoder(enc_hook=_text)


def encoded(value: Any) -> msgspec.Raw:
    """Return a value as JSON; what JSON has no word for is its text, and nothing raises."""
    try:
        return msgspec.Raw(_encoder.encode(value))
    except Exception:  # noqa: BLE001 - a value of somebody's class may raise anything
        return msgspec.Raw(_encoder.encode(_cleaned(value, 0)))


def decoded(raw: msgspec.Raw | bytes | str) -> Any:
    """Return the value of a JSON text; the text itself when it is none."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        try:
            return json.loads(bytes(raw) if isinstance(raw, msgspec.Raw) else raw)
        except (ValueError, RecursionError):
            return raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "replace")


def chars(messages: Any) -> int:
    """Return the characters of the contents of messages, as ctxrot counts them."""
    if isinstance(messages, str):
        return len(messages)
    if not isinstance(messages, list):
        return 0
    return sum(len(str(m.get("content", ""))) for m in messages if isinstance(m, dict))


def estimated_tokens(text: str) -> int:
    """Return a fourth of the characters: the estimate of ctxrot where it has no tokenizer."""
    return len(text) // 4


def as_text(value: Any) -> str:
    """Return the text of a tool's output; a falsy one keeps its own text (``0``, ``[]``)."""
    return value if isinstance(value, str) else _text(value)


def _cleaned(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if depth > _DEPTH:
        return "…"
    if isinstance(value, dict):
        return {str(_cleaned(_text(k), 0)): _cleaned(v, depth + 1) for k, v in list(value.items())}
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(v, depth + 1) for v in list(value)]
    return _cleaned(_text(value), depth)


# Secrets out of JSON texts, so that what is left still decodes.


def redacted(text: str, redact: Callable[[str], str]) -> str:
    """Return JSON with every string redacted; the text itself when nothing in it is a secret."""
    if redact(text) == text:
        return text
    clean = msgspec.json.encode(_walked(decoded(text), redact), order="sorted").decode()
    again = redact(clean)
    if again == clean:
        return clean
    try:
        msgspec.json.decode(again)
    except (msgspec.MsgspecError, UnicodeError):
        return clean
    return again


def _walked(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_walked(v, redact) for v in value]
    if isinstance(value, dict):
        return {redact(k) if isinstance(k, str) else k: _walked(v, redact) for k, v in value.items()}
    return value

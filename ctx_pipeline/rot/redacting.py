"""Secrets out of JSON texts, so that what is left still decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.rot.content import decoded

if TYPE_CHECKING:
    from collections.abc import Callable


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

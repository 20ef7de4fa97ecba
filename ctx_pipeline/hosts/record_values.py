"""Values of a record, of whatever type they turn out to be, made fit for a column."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._values import without_blobs
from ctx_pipeline.model.codec import LATEST, micros

if TYPE_CHECKING:
    from collections.abc import Mapping

_EARLIEST = 946_684_800_000_000
MOST_TOKENS = 10**12
"""Tokens of a call from which a number is none."""
_MOST_DOLLARS = 1_000_000
_NANO = 1_000_000_000


def text(value: Any) -> str | None:
    """Return a text that can be stored; None for any other value."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def words(value: Any) -> str:
    """Return a text without blanks around it; empty for any other value."""
    return (text(value) or "").strip()


def tokens(value: Any) -> int:
    """Return a number of tokens that can be believed, else 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else 0


def number(value: Any) -> float | None:
    """Return a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float(MOST_TOKENS) ** 2:
        return None
    return float(value)


def nano_dollars(value: Any) -> int | None:
    """Return dollars as nano-dollars; None for what is no price of a call."""
    dollars = number(value)
    return None if dollars is None or dollars >= _MOST_DOLLARS else round(dollars * _NANO)


def when(value: Any) -> int | None:
    """Return microseconds since 1970 of milliseconds or of an ISO text; None for a time outside 2000 to 2100."""
    if isinstance(value, str):
        return micros(value) or (when(int(value)) if value.isascii() and value.isdecimal() and len(value) < 16 else None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LATEST:
        return None
    found = int(value * 1_000)
    return found if _EARLIEST <= found < LATEST else None


def exit_status(value: Any) -> int | None:
    """Return the exit status of a program."""
    return value if type(value) is int and -(2**31) <= value < 2**32 else None


def mapping(value: Any) -> dict[str, Any]:
    """Return an object, an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return an array, an empty one for any other value."""
    return value if isinstance(value, list) else []


def written(value: Any) -> str:
    """Return a text as it is, any other value as JSON without large base64 strings."""
    if isinstance(value, str):
        return without_blobs(text(value) or "")
    try:
        said = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError, TypeError):
        return ""
    return without_blobs(said.encode("utf-8", "replace").decode())


def read_json(data: bytes | str) -> Any:
    """Return the value of a JSON text, None where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def flat(value: Any, depth: int = 6) -> str:
    """Return the words in a text, in blocks of texts, or in an object that holds them."""
    if isinstance(value, str):
        return text(value) or ""
    if depth and isinstance(value, list):
        return "\n".join(part for item in value if (part := flat(item, depth - 1)))
    if depth and isinstance(value, dict):
        return next((part for name in ("text", "value", "content", "message") if (part := flat(value.get(name), depth - 1))), "")
    return ""


def text_of(record: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is a text with something in it."""
    return next((v for name in names if (v := text(record.get(name)))), None)


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects in an array; none for any other value."""
    return [item for item in items(value) if isinstance(item, dict)]


def decoded(value: Any) -> dict[str, Any]:
    """Return an object, or the one that a JSON text holds; an empty one where there is none."""
    return mapping(read_json(value) if isinstance(value, str | bytes) else value)


def no_object(value: Any) -> str:
    """Return why a JSON value is no record, in the words of JSON."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return f"expected an object, found {names.get(type(value), 'null')}"

"""Until when a memory holds, and when not to use it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory

VALID_UNTIL, NOT_WHEN = "valid_until", "not_when"
"""Names in the structured body: the last day (UTC, ISO 8601) and the situation in words."""

_LONGEST = 300


def a_day(value: Any) -> str | None:
    """Return a day as ISO 8601; None for what is none."""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        return value.isoformat()
    try:
        return date.fromisoformat(str(value).strip()[:10]).isoformat()
    except ValueError:
        return None


def limits(payload: Any) -> dict[str, str]:
    """Return what a note or an acceptance says of the end of a memory, as it stands in the structured body."""
    day, when = a_day(payload.get(VALID_UNTIL)), payload.get(NOT_WHEN)
    told = " ".join(when.split())[:_LONGEST] if isinstance(when, str) else ""
    return ({VALID_UNTIL: day} if day else {}) | ({NOT_WHEN: told} if told else {})


def ended(memory: Memory, now: int) -> bool:
    """Tell whether the last day of a memory is over at a time in microseconds since 1970."""
    # most memories have no end, and reading every body would cost a prompt more than finding them
    if not memory.structured or f'"{VALID_UNTIL}"' not in memory.structured:
        return False
    day = a_day(memory.body.get(VALID_UNTIL))
    return day is not None and datetime.fromtimestamp(now / 1_000_000, UTC).date().isoformat() > day


def not_when(memory: Memory) -> str:
    """Return when not to use a memory; empty where nobody said."""
    if not memory.structured or f'"{NOT_WHEN}"' not in memory.structured:
        return ""
    told = memory.body.get(NOT_WHEN)
    return told if isinstance(told, str) else ""

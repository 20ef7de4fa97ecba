"""Limits that Codex's own records say were reached, and the plan that they name."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.limit_notes import PLAN, REQUESTS, LimitNote, named

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNTED = "token_count/rate_limits"
_PLAN = re.compile(r"(?i)\b(?:hit|reached) your usage limit\b|\busage_limit_(?:reached|exceeded)\b")
_RATE = re.compile(r"(?i)\b429 Too Many Requests\b|\brate limit reached\b")
_NAMED = re.compile(rb'"plan_type":\s?"([A-Za-z_]{1,40})"')
_FULL = 100.0


def reached(subtype: str, text: str, ts: int) -> Iterator[LimitNote]:
    """Yield the limits that an event says were reached: used up in the windows that it counts, or by an error."""
    if subtype != _COUNTED:
        if _PLAN.search(text):
            yield LimitNote(PLAN)
        elif _RATE.search(text):
            yield LimitNote(REQUESTS)
        return
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return
    for name in ("primary", "secondary"):
        limit = said.get(name) if isinstance(said, dict) else None
        used = limit.get("used_percent") if isinstance(limit, dict) else None
        if isinstance(limit, dict) and isinstance(used, int | float) and not isinstance(used, bool) and used >= _FULL:
            minutes = limit.get("window_minutes")
            yield LimitNote(PLAN, named(minutes) if isinstance(minutes, int) else "", _reset(limit, ts))


def _reset(limit: dict[str, Any], ts: int) -> int | None:
    at, left = limit.get("resets_at"), limit.get("resets_in_seconds")
    if isinstance(at, int) and 0 < at < 1 << 33:
        return at * 1_000_000
    return ts + left * 1_000_000 if isinstance(left, int) and 0 < left < 1 << 25 else None


def plan(data: bytes) -> str | None:
    """Return the plan that the last lines of a rollout name."""
    found = _NAMED.findall(data)
    return found[-1].decode() if found else None

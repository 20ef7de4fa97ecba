"""Tokens of each model call, once.

A token_count event is written again whenever rate limits change, with equal totals; it
counts where the totals are new. From autumn 2026 a token_usage_record stands beside it
for the same call and is taken instead.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ctx_pipeline.model.host_records import PLAN, REQUESTS, LimitNote, named
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.hosts.codex.record_types import Info, Payload, Usage


Key = tuple[int, int, int, int, int]

GUESSED_MODEL = "gpt-5"
"""Default model of the builds of early September 2025, which wrote tokens but no model."""

_ZERO: Key = (0, 0, 0, 0, 0)


class Call(Struct, gc=False):
    """Tokens of one call in the columns of model_calls, and what identifies it."""

    key: str
    """response id, or the running totals"""
    input: int
    output: int
    cache_write: int
    cache_read: int
    reasoning: int
    context: int


def columns(key: str, usage: Key) -> Call:
    """Return a call's tokens: cached and written ones taken out of input, reasoning left inside output."""
    total, cached, written, output, reasoning = usage
    if total < cached + written or cached < 0 or written < 0:
        total, cached = max(0, total), min(max(0, cached), max(0, total))
        written = min(max(0, written), total - cached)
    return Call(key, total - cached - written, max(0, output), written, cached, max(0, reasoning), total)


class Counter:
    """Follows the running totals of one thread."""

    def __init__(self, records: Iterable[Payload]) -> None:
        self._recorded: set[Key] = {r.thread_token_usage.key() for r in records if r.thread_token_usage}
        self._responses: set[str] = set()
        self._totals: Key | None = None
        self._sum: Key = _ZERO
        self._seen: set[Key] = set()
        self._records_begun = False

    def count(self, info: Info | None) -> Call | None:
        """Return the call of a token_count event; None for a repeat and where a record says the same."""
        if info is None:
            return None
        total, last = info.total_token_usage, info.last_token_usage
        if total is None:
            if last is None or last.key() == _ZERO:
                return None
            usage = last.key()
            self._sum = _added(self._sum, usage)
            return None if self._records_begun else columns("sum:" + _text(self._sum), usage)
        totals = total.key()
        before, self._totals = self._totals, totals
        if totals in self._seen:
            return None
        self._seen.add(totals)
        self._sum = totals
        usage = last.key() if last else _grown(before, totals)
        if usage == _ZERO or self._records_begun or totals in self._recorded:
            return None
        return columns(_text(totals), usage)

    def record(self, payload: Payload) -> Call | None:
        """Return the call of a token_usage_record; None for a repeat."""
        self._records_begun = True
        usage: Usage | None = payload.usage
        if usage is None:
            return None
        totals = payload.thread_token_usage.key() if payload.thread_token_usage else usage.key()
        key = payload.response_id or _text(totals)
        if key in self._responses:
            return None
        self._responses.add(key)
        return columns(key, usage.key())


def _text(key: Key) -> str:
    return f"{key[0]}.{key[1]}.{key[2]}.{key[3]}.{key[4]}"


def _added(a: Key, b: Key) -> Key:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4])


def _grown(before: Key | None, now: Key) -> Key:
    if before is None or any(n < b for n, b in zip(now, before, strict=True)):
        return now
    return (now[0] - before[0], now[1] - before[1], now[2] - before[2], now[3] - before[3], now[4] - before[4])


# Limits that Codex's own records say were reached, and the plan that they name.


LIMITS = "token_count/rate_limits"
"""Subtype of the events that hold what is used of the limits, one for each change."""
_PLAN = lazy_pattern(r"(?i)\b(?:hit|reached) your usage limit\b|\busage_limit_(?:reached|exceeded)\b")
_RATE = lazy_pattern(r"(?i)\b429 Too Many Requests\b|\brate limit reached\b")
_NAMED = lazy_pattern(rb'"plan_type":\s?"([A-Za-z_]{1,40})"')
_FULL = 100.0


def reached(subtype: str, text: str, ts: int) -> Iterator[LimitNote]:
    """Yield the limits that an event says were reached: used up in the windows that it counts, or by an error."""
    if subtype != LIMITS:
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

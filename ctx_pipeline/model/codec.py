"""Stable ids, times and content hashes: the same input gives the same text on every machine."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MINUTES: dict[str, int] = {}
_pack = msgspec.msgpack.Encoder().encode

LATEST = 4_102_444_800_000_000
"""Microseconds of 2100-01-01: later clocks are treated as unknown."""


def micros(text: str | None) -> int | None:
    """Return microseconds since 1970 UTC of an ISO 8601 time, None when it is none.

    A time without a zone is taken as UTC. Times before 2000 or after 2100 are None.
    """
    if not text:
        return None
    if len(text) == 24 and text[23] == "Z" and text[19] == ".":
        minute = text[:16]
        base = _MINUTES.get(minute)
        if base is None:
            base = _parse(minute + ":00Z")
            if base is None:
                return None
            if len(_MINUTES) > 100_000:
                _MINUTES.clear()
            _MINUTES[minute] = base
        seconds, millis = text[17:19], text[20:23]
        if seconds.isdecimal() and millis.isdecimal():
            return base + int(seconds) * 1_000_000 + int(millis) * 1_000
    return _parse(text)


def _parse(text: str) -> int | None:
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        value = (when - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError, TypeError):
        return None
    return value if 946_684_800_000_000 <= value < LATEST else None


def iso(ts: int | None) -> str | None:
    """Return the ISO 8601 text (UTC, ``Z``) of microseconds since 1970."""
    if ts is None:
        return None
    when = _EPOCH + timedelta(microseconds=ts)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond:06d}Z"


def month_of(ts: int) -> str:
    """Return the UTC month ``YYYY-MM`` of microseconds since 1970."""
    return (_EPOCH + timedelta(microseconds=ts)).strftime("%Y-%m")


def digest(*parts: object, size: int = 32) -> str:
    """Return a hex SHA-256 prefix over the parts, encoded without ambiguity."""
    return hashlib.sha256(_pack(parts)).hexdigest()[:size]


def rows_hash(rows: Iterable[tuple]) -> str:
    """Return the hex SHA-256 over rows in the order given (MessagePack, one after the other)."""
    state = hashlib.sha256()
    for row in rows:
        state.update(_pack(row))
    return state.hexdigest()

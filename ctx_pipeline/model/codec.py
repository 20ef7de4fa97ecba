"""Stable ids, times, content hashes and plain values: the same input gives the same text on every machine."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import tzinfo


# Stable ids, times and content hashes: the same input gives the same text on every machine.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_from_iso = datetime.fromisoformat

OF_A_COPY = 50
"""Events of a session with one time from which on it is that of a copy: no agent writes so many at one moment."""

LATEST = 4_102_444_800_000_000
"""Microseconds of 2100-01-01: later clocks are treated as unknown."""


def micros(text: str | None) -> int | None:
    """Return microseconds since 1970 UTC of an ISO 8601 time, None when it is none.

    A time without a zone is taken as UTC. Times before 2000 or after 2100 are None.
    """
    if not text:
        return None
    try:
        when = _from_iso(text)
        since = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError, TypeError):
        return None
    value = since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
    return value if 946_684_800_000_000 <= value < LATEST else None


def row_micros(at: Any) -> int | None:
    """Return a time of a row as microseconds since 1970; rows hold these or datetimes in UTC."""
    if at is None or isinstance(at, int):
        return at
    moment: datetime = at if at.tzinfo else at.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def iso(ts: int | None) -> str | None:
    """Return the ISO 8601 text (UTC, ``Z``) of microseconds since 1970."""
    if ts is None:
        return None
    when = _EPOCH + timedelta(microseconds=ts)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond:06d}Z"


def month_of(ts: int) -> str:
    """Return the UTC month ``YYYY-MM`` of microseconds since 1970."""
    return (_EPOCH + timedelta(microseconds=ts)).strftime("%Y-%m")


@cache
def _tools() -> tuple[Callable[[object], bytes], Callable[..., Any]]:
    """Return MessagePack's encoder and SHA-256; most commands that only show times never need them."""
    from hashlib import sha256

    from msgspec.msgpack import Encoder

    return Encoder().encode, sha256


def digest(*parts: object, size: int = 32) -> str:
    """Return a hex SHA-256 prefix over the parts, encoded without ambiguity."""
    pack, sha256 = _tools()
    try:
        packed = pack(parts)
    except UnicodeEncodeError:  # a file name that is not UTF-8 comes with surrogates from os.scandir
        packed = pack([part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts])
    return str(sha256(packed).hexdigest())[:size]


def rows_hash(rows: Iterable[tuple]) -> str:
    """Return the hex SHA-256 over rows in the order given (MessagePack, one after the other)."""
    pack, sha256 = _tools()
    state = sha256()
    for row in rows:
        state.update(pack(row))
    return str(state.hexdigest())


# Records as plain values: what --json, MCP and exports print.


def plain(value: Any, *derived: str) -> Any:
    """Return a record as a dictionary of its fields and of the named properties, all the way down; other values as they are."""
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, Plain):
        return value.to_json()
    kind: Any = type(value)
    names = _names(kind)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in (*names, *derived)}
    if isinstance(value, dict):
        return {key: plain(held) for key, held in value.items()}
    return [plain(one, *derived) for one in value] if isinstance(value, list | tuple) else value


_SCALARS = frozenset({str, int, float, bool})


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a record of a kind; None for what is no record."""
    return getattr(kind, "_fields", None) or (tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None)


class Plain:
    """A data class whose JSON is its fields, or ``shown``: names of fields and properties in their order."""

    __slots__ = ()
    shown: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        names = self.shown or tuple(f.name for f in fields(self))  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in names}


def time_of(moment: str | None, zone: str | None = None) -> str:
    """Return a moment on the clock of a zone (the machine's without one) with what that is off UTC: ``2026-03-05 11:00 +01:00``."""
    if not moment:
        return "no time"
    here = datetime.fromisoformat(moment).astimezone(_zone(zone))
    off = here.isoformat()[-6:]
    return f"{here:%Y-%m-%d %H:%M} {'UTC' if off == '+00:00' else off}"


def _zone(name: str | None) -> tzinfo | None:
    if not name:
        return None
    from zoneinfo import ZoneInfo  # most have none in their settings

    return ZoneInfo(name)

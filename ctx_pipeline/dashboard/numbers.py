"""Figures as people read them: grouped digits, units, never more precision than they bear."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_NANO = 1_000_000_000
_SCALES = ((1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


def count(value: int) -> str:
    """Return a whole number with grouped digits: ``12,345``."""
    return f"{value:,}"


def short(value: float) -> str:
    """Return a number in three figures and a scale: ``950``, ``12.3k``, ``4.56M``."""
    for scale, letter in _SCALES:
        if abs(value) >= scale * 0.9995:
            scaled = value / scale
            return f"{scaled:.{_decimals(scaled)}f}{letter}"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    size = abs(value)
    return 0 if size >= 99.95 else 1 if size >= 9.995 else 2


def money(nano: int) -> str:
    """Return nano-dollars as dollars: ``$0``, ``<$0.01``, ``$4.20``, ``$1,234``."""
    if nano == 0:
        return "$0"
    dollars = nano / _NANO
    if dollars < 0.01:
        return "<$0.01"
    return f"${dollars:,.2f}" if dollars < 1000 else f"${dollars:,.0f}"


def share(part: float, whole: float) -> str:
    """Return a share in per cent: ``0%``, ``<1%``, ``37%``; a dash where there is nothing to share."""
    if not whole:
        return "\N{EN DASH}"
    percent = 100 * part / whole
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"


def size(octets: int) -> str:
    """Return bytes as ``512 B``, ``12.3 kB``, ``4.56 MB``, ``1.20 GB``."""
    for scale, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if octets >= scale:
            return f"{octets / scale:.{_decimals(octets / scale)}f} {unit}"
    return f"{octets} B"


def reading(value: float | None, unit: str) -> str:
    """Return a signal's figure with its unit; a share below one becomes per cent."""
    if value is None:
        return "\N{EN DASH}"
    if unit in {"share", "ratio", "fraction"}:
        return share(value, 1)
    if unit in {"s", "second", "seconds"}:
        return duration(value)
    if unit == "dollars":
        nano = round(value * 1_000_000_000)
        return f"-{money(-nano)}" if nano < 0 else money(nano)
    return short(value)


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: ``42 s``, ``3 min``, ``2 h 05``, ``4 d 3 h``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d}"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def plural(value: int, noun: str, more: str = "") -> str:
    """Return a count with its noun: ``1 session``, ``2 sessions``."""
    return f"{count(value)} {noun if value == 1 else more or noun + 's'}"


def day(moment: datetime) -> str:
    """Return a day as ``21 Nov 2026``."""
    return f"{moment.day} {moment:%b %Y}"


def milliseconds(moment: datetime | None) -> int | None:
    """Return a naive UTC time as milliseconds since 1970, as JavaScript counts."""
    return None if moment is None else (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

"""Figures as people read them: grouped digits and units, bars whose geometry is SVG and whose words are HTML."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ctx_pipeline.model.display import money

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# Small drawings: bars whose geometry is SVG and whose words are HTML, so that text keeps its size on any screen.


_HEIGHT = 100.0


@dataclass(frozen=True)
class Column:
    """One column of a stacked chart: values by series, and words shown when it is pointed at."""

    values: tuple[float, ...]
    words: str


def stacked(columns: Sequence[Column], classes: Sequence[str], ticks: Callable[[float], str], *, title: str) -> Markup:
    """Return a stacked column chart; ``classes`` colour the series, ``ticks`` writes the scale's three figures."""
    top = nice_ceiling(max((sum(c.values) for c in columns), default=0))
    width = 10 * max(1, len(columns))
    names = [escape(name) for name in classes]
    drawn = []
    for place, column in enumerate(columns):
        base = _HEIGHT
        # texts and not markup, which would look at each of hundreds of numbers for signs to escape
        parts = [f'<g><rect class="hover" x="{place * 10}" y="0" width="10" height="100"/>']
        for value, name in zip(column.values, names, strict=True):
            if value > 0:
                height = max(0.6, value / top * _HEIGHT)
                base -= height
                parts.append(f'<rect class="{name}" x="{place * 10 + 1}" y="{max(0, base):.2f}" width="8" height="{height:.2f}"/>')
        drawn.append(f"{''.join(parts)}<title>{escape(column.words)}</title></g>")
    scale = Markup("").join(Markup("<span>{}</span>").format(ticks(top * part)) for part in (1, 0.5, 0))
    return Markup(
        '<div class="chart"><div class="scale">{}</div>'
        '<svg class="plot" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" tabindex="0" aria-label="{}">'
        '<path class="grid" d="M0 0H{}M0 50H{}"/>{}</svg></div>'
    ).format(scale, width, title, width, width, Markup("".join(drawn)))  # noqa: S704 - every text in it is escaped


def axis(labels: Sequence[str], most: int = 7) -> Markup:
    """Return the line of words below a chart of as many columns: at most ``most``, each below its column, the last among them."""
    step = max(1, math.ceil((len(labels) - 1) / (most - 1)))
    words = []
    for i in range((len(labels) - 1) % step, len(labels), step):
        edge = i == 0 and len(labels) > most
        place = 0.0 if edge else 100 * (i + 0.5) / len(labels)
        words.append(Markup('<text{} x="{:.2f}%" y="11">{}</text>').format(Markup(' class="edge"') if edge else "", place, labels[i]))
    return Markup('<svg class="axis">{}</svg>').format(Markup("").join(words))


def bar(part: float, whole: float, name: str = "c0") -> Markup:
    """Return a thin bar for ``part`` of ``whole``."""
    length = 0 if whole <= 0 else max(0.0, min(100.0, 100 * part / whole))
    return Markup(
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="{}" width="{:.1f}" height="4"/></svg>'
    ).format(name, length)


def nice_ceiling(value: float) -> float:
    """Return the least of 1, 2, 4, 6, 10 times a power of ten that is not below the value; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 10) if value <= step * power * (1 + 1e-9))


# Figures as people read them: grouped digits, units, never more precision than they bear.


_SCALES = ((1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


def cost(nano: int | None) -> str:
    """Return nano-dollars as dollars and cents; words for None, of calls without a price."""
    return "no price" if nano is None else money(nano)


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
        return money(round(value * 1_000_000_000))
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


def words(command: str) -> Markup:
    """Return a command, escaped, that a narrow place breaks between its words and not inside ``--until``."""
    return Markup(" ").join(Markup('<span class="word">{}</span>').format(word) for word in command.split(" "))


def milliseconds(moment: datetime | None) -> int | None:
    """Return a naive UTC time as milliseconds since 1970, as JavaScript counts."""
    return None if moment is None else (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

"""Small drawings: bars whose geometry is SVG and whose words are HTML, so that text keeps its size on any screen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    drawn = []
    for place, column in enumerate(columns):
        base = _HEIGHT
        rects = []
        for value, name in zip(column.values, classes, strict=True):
            if value > 0:
                height = max(0.6, value / top * _HEIGHT)
                base -= height
                rects.append(
                    Markup('<rect class="{}" x="{}" y="{:.2f}" width="8" height="{:.2f}"/>').format(
                        name, place * 10 + 1, max(0, base), height
                    )
                )
        hover = Markup('<rect class="hover" x="{}" y="0" width="10" height="100"/>').format(place * 10)
        drawn.append(Markup("<g>{}{}<title>{}</title></g>").format(hover, Markup("").join(rects), column.words))
    scale = Markup("").join(Markup("<span>{}</span>").format(ticks(top * part)) for part in (1, 0.5, 0))
    return Markup(
        '<div class="chart"><div class="scale">{}</div>'
        '<svg class="plot" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" tabindex="0" aria-label="{}">'
        '<path class="grid" d="M0 0H{}M0 50H{}"/>{}</svg></div>'
    ).format(scale, width, title, width, width, Markup("").join(drawn))


def axis(labels: Sequence[str], most: int = 7) -> Markup:
    """Return the line of words below a chart: at most ``most``, evenly spread, the first and the last among them."""
    if len(labels) > most:
        places = [round(i * (len(labels) - 1) / (most - 1)) for i in range(most)]
        labels = [labels[i] for i in places]
    return Markup('<div class="axis">{}</div>').format(Markup("").join(Markup("<span>{}</span>").format(text) for text in labels))


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

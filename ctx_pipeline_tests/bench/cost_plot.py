"""Cost against size: rows that were measured over several homes, as a table and as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _RIGHT = 860, 460, 60, 24, 48, 230
_INKS = ("#0b6e99", "#b3541e", "#3d7d3a", "#7a4bb0", "#a8323e", "#5c6670", "#94720a", "#1f8a83")
_DRAWN = ("run, first", "run, one more session", "run, nothing new", "sync, one more session", "ctx", "usage daily", "work", "doctor")
"""rows whose processor seconds are drawn"""


class Size(NamedTuple):
    """One home that was measured."""

    sessions: int
    megabytes: float

    def __str__(self) -> str:
        """Return it as a table's heading says it."""
        size = f"{self.megabytes / 1000:g} GB" if self.megabytes >= 1000 else f"{self.megabytes:g} MB"
        return f"{size}, {self.sessions:,} sessions"


def table(costs: Mapping[str, Mapping[Size, tuple[float, str]]]) -> str:
    """Return a Markdown table with a row for what was measured and a column for each size, and how many times the first the last is."""
    sizes = sorted({size for row in costs.values() for size in row}, key=lambda size: (size.megabytes, size.sessions))
    lines = [f"| | {' | '.join(map(str, sizes))} | last / first |", f"|---{'|---:' * (len(sizes) + 1)}|"]
    for name, row in costs.items():
        told = [f"{row[size][0]:,.2f} {row[size][1]}".rstrip() if size in row else "" for size in sizes]
        ends = [row[size][0] for size in (sizes[0], sizes[-1]) if size in row]
        lines.append(f"| {name} | {' | '.join(told)} | {ends[1] / ends[0] if len(ends) == 2 and ends[0] else 0:.1f} |")
    return "\n".join(lines)


def plot(costs: Mapping[str, Mapping[Size, tuple[float, str]]]) -> str:
    """Return an SVG of the processor seconds against the megabytes of the homes, both on logarithmic scales."""
    lines = {
        words: sorted((size.megabytes, found[0]) for size, found in row.items() if found[0] > 0)
        for words in _DRAWN
        if (row := costs.get(f"size: {words}, processor"))
    }
    if not any(lines.values()):
        raise ValueError("nothing was measured that can be drawn")
    across = _scale([x for line in lines.values() for x, _ in line], _LEFT, _WIDTH - _RIGHT)
    up = _scale([y for line in lines.values() for _, y in line], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        *(_tick(across.at(x), None, f"{x / 1000:g} GB" if x >= 1000 else f"{x:g} MB") for x in across.ticks),
        *(_tick(None, up.at(y), f"{y:g} s") for y in up.ticks),
    ]
    ends: list[float] = []
    for ink, (words, line) in zip(_INKS, sorted(lines.items(), key=lambda one: -one[1][-1][1] if one[1] else 0), strict=False):
        points = [(across.at(x), up.at(y)) for x, y in line]
        parts.append(f'<polyline fill="none" stroke="{ink}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{ink}"/>' for x, y in points]
        beside = max([points[-1][1] + 4, *(end + 15 for end in ends[-1:])])
        ends.append(beside)
        parts.append(
            f'<text x="{points[-1][0] + 10:.1f}" y="{beside:.1f}" fill="{ink}">ctx {words.removeprefix("ctx")}'.rstrip() + "</text>"
        )
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 10}" fill="#444444">processor seconds against the bytes of the history</text></svg>')
    return "\n".join(parts) + "\n"


class _Scale(NamedTuple):
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = math.log10(min(values)), math.log10(max(values))
    steps = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for factor in (1, 2, 5)]
    return _Scale(low, high, start, end, tuple(step for step in steps if low <= math.log10(step) <= high))


def _tick(x: float | None, y: float | None, words: str) -> str:
    if x is not None:
        line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#e4e4e4"/>'
        return f'{line}<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle" fill="#444444">{words}</text>'
    line = f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>'
    return f'{line}<text x="{_LEFT - 8}" y="{(y or 0) + 4:.1f}" text-anchor="end" fill="#444444">{words}</text>'

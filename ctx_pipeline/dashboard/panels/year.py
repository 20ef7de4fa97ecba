"""Panel: the year as a heat map, a square a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.data import Usage
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from datetime import date

    from ctx_pipeline.dashboard.data import PageData

LEVELS = 4


def records(data: PageData) -> dict[str, Any]:
    """Return [day, calls, tokens, nano-dollars] of every active day, oldest first, and the highest calls a day of each color.

    Nano-dollars are None where no call of the day has a price.
    """
    days: dict[date, Usage] = {}
    for line in data.days:
        days[line.day] = days.get(line.day, Usage()).plus(line.usage)
    active = {day: usage for day, usage in sorted(days.items()) if usage.calls}
    return {
        "days": [[day.isoformat(), u.calls, u.tokens, u.cost] for day, u in active.items()],
        "steps": thresholds([u.calls for u in active.values()]),
    }


def thresholds(values: list[int]) -> list[int]:
    """Return the highest value of each of four levels, of which each holds about a quarter of the days; fewer where days are alike."""
    ranked = sorted(values)
    return sorted({ranked[max(0, -(-len(ranked) * part // LEVELS) - 1)] for part in range(1, LEVELS + 1)}) if ranked else []


@panel(title="The year", order=40, data=records)
def build(data: PageData) -> str:
    """A square a day, stronger in color with more model calls; point at one for its figures."""
    return template("year.html", total=len(data.days))

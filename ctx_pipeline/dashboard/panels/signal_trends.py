"""Panel: which signals moved, month by month."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.dashboard.charts import bar
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel
from ctx_pipeline.model.readings import Trend, trend

if TYPE_CHECKING:
    from markupsafe import Markup

    from ctx_pipeline.dashboard.data import PageData, SignalLine

_MOST = 20
_MONTHS = 6
_ORDER = {"worse": 0, "better": 1, "": 2}


class Moved(NamedTuple):
    """A signal with its trend, and its last months as (month, mean or share, bar)."""

    line: SignalLine
    trend: Trend
    months: list[tuple[str, float, Markup]]


@panel(title="What changed", order=65)
def build(data: PageData) -> str:
    """The mean of the last month against the three before it; what got worse stands first."""
    known = {line.signal: line for line in data.signals}
    moved = []
    for signal, members in groupby(data.signal_months, key=lambda m: m.signal):
        line = known.get(signal)
        months = [m for m in members if m.level is not None]
        seen = trend([(m.month, m.measured, m.level) for m in months], line.better) if line else None
        if line is None or seen is None or seen.direction == "steady":
            continue
        last = months[-_MONTHS:]
        top = max(abs(m.level or 0.0) for m in last)
        moved.append(Moved(line, seen, [(m.month, m.level or 0.0, bar(abs(m.level or 0.0), top, "bar-fill")) for m in last]))
    moved.sort(key=lambda m: (_ORDER[m.trend.verdict], -abs(m.trend.change or 0.0), m.line.signal))
    return template("signal_trends.html", moved=moved[:_MOST], more=max(0, len(moved) - _MOST))

"""Panel: how each session went about its work, in figures of its trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.dashboard.signal_records import halves
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData


def records(data: PageData) -> dict[str, Any]:
    """Return the trajectory signals and, for each session by its key, their values in that order; None where one has no value."""
    names = sorted({name for line in data.scores for name in line.signals})
    known = discovery.signals()
    keys = {(s.host, s.session_id): s.key for s in data.sessions}
    rows = []
    for line in data.scores:
        values = dict(zip(line.signals, line.values, strict=True))
        if (line.host, line.session_id) in keys:
            rows.append([keys[line.host, line.session_id], *map(values.get, names)])
    return {"signals": [_signal(known[name]) if name in known else [name, "numeric", "", ""] for name in names], "rows": rows}


def _signal(signal: Any) -> list[str]:
    return [signal.name, signal.kind, signal.unit, halves(signal.describe)[0]]


@panel(title="Trajectories", order=65, data=records, page="Trajectories")
def build(data: PageData) -> str:
    """How sessions went about their work, figure by figure; the first lines are the medians of those shown, by agent."""
    return template("scores.html", total=len(data.scores))

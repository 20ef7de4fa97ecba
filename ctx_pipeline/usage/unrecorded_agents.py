"""Subagents of which the history holds no record, in the sessions of a report: no total holds what they spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.started_agents import Unrecorded, starting_calls, unrecorded_agents
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.store_marker import begun
from ctx_pipeline.usage.session_figures import Figure, figures, on_border, quarter_of
from ctx_pipeline.usage.usage_figures import fits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.rollup import Filters


def unrecorded(settings: Settings, filters: Filters) -> Unrecorded:
    """Return the subagents without a record of the selected sessions; none without a store, and of a model, which no call tells."""
    bounds = filters.bounds()
    if not begun(settings.home) or filters.model is not None or not on_border(bounds):
        return Unrecorded(0)
    with reading(settings) as (store, chosen):
        found = figures(store, chosen, UNRECORDED, bounds=bounds, only=fits(store, chosen, filters))
        return Unrecorded(*_sum(value for _, values in found for value in values))


def _unrecorded(view: SessionView, _settings: Settings) -> dict[int | None, Any]:
    """Return the subagents of a session without a record, and the tokens that their answers tell, by when the first was started."""
    found = unrecorded_agents(view)
    return {quarter_of(micros(starting_calls(view)[0].started)): [*found]} if found.agents else {}


def _sum(values: Iterable[Any]) -> list[int]:
    return [sum(column) for column in zip([0, 0], *values, strict=True)]


UNRECORDED = Figure(
    "unrecorded_agents",
    1,
    _unrecorded,
    _sum,
    {
        "events": ("event_id", "text"),
        "tool_calls": ("tool", "is_error", "started", "call_event", "result_event"),
        "threads": ("kind",),
    },
    ("tool_result",),
)
"""What is kept of each session: its subagents without a record."""

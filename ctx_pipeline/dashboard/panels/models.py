"""Panel: which model the money went to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.charts import bar
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData

MOST = 12


@panel(title="Cost by model", order=40)
def build(data: PageData) -> str:
    """A model without a known price is listed with its tokens and adds nothing to the cost."""
    shown = [m for m in data.models if m.usage.tokens or m.usage.cost_nano][:MOST]
    top = max((m.usage.cost_nano for m in shown), default=0)
    lines = [(m, data.host_titles.get(m.host), bar(m.usage.cost_nano, top, "bar-fill")) for m in shown]
    return template("models.html", lines=lines, total=data.usage.cost_nano, more=len(data.models) - len(shown))

"""Panel: what each project took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.charts import bar
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData

MOST = 12


@panel(title="Projects", order=30)
def build(data: PageData) -> str:
    """Sessions are grouped by the repository they worked in; choose one to see its sessions."""
    shown = data.projects[:MOST]
    top = max((p.usage.cost_nano for p in shown), default=0)
    lines = [(p, bar(p.usage.cost_nano, top, "bar-fill")) for p in shown]
    return template("projects.html", lines=lines, more=len(data.projects) - len(shown))

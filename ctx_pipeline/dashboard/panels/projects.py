"""Panel: what each project took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.figures import bar, share
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData

MOST = 12


@panel(title="Projects", order=30)
def build(data: PageData) -> str:
    """Sessions are grouped by the repository they worked in; choose one to see its sessions."""
    shown = data.projects[:MOST]
    whole = data.usage.cost_nano
    lines = [(p, bar(p.usage.cost_nano, whole, "bar-fill"), share(p.usage.cost_nano, whole)) for p in shown]
    return template("projects.html", lines=lines, more=len(data.projects) - len(shown))

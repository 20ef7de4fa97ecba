"""Panel: what needs a look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData


@panel(title="All findings", order=10, page="Findings")
def build(data: PageData) -> str:
    """Drawn from this history alone; each line carries the command that shows more."""
    return template("findings.html", findings=data.findings)

"""Panel: every session, to search, sort and open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData


@panel(title="Sessions", order=20)
def build(data: PageData) -> str:
    """Choose a session to see what happened in it."""
    projects = sorted({s.project for s in data.sessions if s.project}, key=str.casefold)[:500]
    return template("sessions.html", total=len(data.sessions), hosts=data.used_hosts, projects=projects)

"""Panel: what was learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import PageData

MOST = 9


@panel(title="Memories", order=70)
def build(data: PageData) -> str:
    """Lessons that sessions support, the best supported first; a flagged one is never given to an agent."""
    keys = {f"{s.host}/{s.session_id}": s for s in data.sessions}
    lines = [(m, [keys[name] for name in m.sessions if name in keys][:3]) for m in data.memories[:MOST]]
    return template("memories.html", lines=lines, total=data.memory_total, status=sorted(data.memory_status.items()))

"""Panel: what was learned, on what it rests, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.dashboard.figures import milliseconds
from ctx_pipeline.dashboard.page import template
from ctx_pipeline.model.declared import panel

if TYPE_CHECKING:
    from ctx_pipeline.dashboard.data import MemoryLine, PageData

USEFUL = 5
"""Memories that are listed as the most useful ones."""


def records(data: PageData) -> dict[str, Any]:
    """Return the memories with the keys of their sessions; times are milliseconds since 1970."""
    keys = {f"{s.host}/{s.session_id}": s.key for s in data.sessions}
    return {"total": data.memory_total, "memories": [_record(m, keys, data) for m in data.memories]}


def _record(m: MemoryLine, keys: dict[str, str], data: PageData) -> dict[str, Any]:
    plain = ("memory_id", "kind", "text", "when_to_use", "status", "scope", "repository", "confidence", "priority", "support", "uses")
    return {
        **{name: getattr(m, name) for name in (*plain, "source", "risk", "utility", "superseded_by", "evidence")},
        "flags": list(m.flags),
        "methods": list(m.methods),
        "links": [[target, target not in data.dangling.get(m.memory_id, ())] for target in m.links],
        "sessions": [keys[name] for name in m.sessions if name in keys],
        "last": milliseconds(m.last_ts),
    }


@panel(title="Lessons", order=70, data=records, page="Lessons")
def build(data: PageData) -> str:
    """Lessons with the sessions and events that show them; a flagged one is never given to an agent."""
    known = {m.memory_id: m for m in data.memories}
    useful = sorted((m for m in data.memories if m.uses), key=lambda m: (-m.utility, -m.uses, m.memory_id))[:USEFUL]
    status = sorted(data.memory_status.items(), key=lambda pair: (_ORDER.get(pair[0], 9), pair[0]))
    judged = [(j, known.get(j.memory_id)) for j in data.judgements[:8]]
    return template(
        "memories.html", total=data.memory_total, status=status, useful=useful, judged=judged, dangling=sorted(data.dangling.items())[:8]
    )


_ORDER = {"candidate": 0, "accepted": 1, "needs_review": 2, "retired": 3, "rejected": 4}

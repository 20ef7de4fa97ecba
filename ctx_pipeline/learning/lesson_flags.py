"""What a reader must know of stored memories: superseded, contradicted, about files that are gone or changed, or said again."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline.memory.lifetime import ended
from ctx_pipeline.mining.filters.contradictions import contradiction
from ctx_pipeline.mining.filters.staleness import staleness
from ctx_pipeline.model.memories import StoredCandidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import Memory

_ENDED = ("rejected", "retired")


def marks(memories: Sequence[Memory]) -> dict[str, list[str]]:
    """Return memory id -> what a reader must know of it, in words; memories without a mark are left out.

    Both of two memories that say the opposite are marked, whatever their order; a
    memory that was rejected or retired contradicts nobody. Files are looked for on
    this machine, below the folder in which the last session ran.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for m in memories:
        if m.superseded_by:
            found[m.memory_id].append(f"superseded by {m.superseded_by}")
    rows = [_as_candidate(m) for m in memories if m.status not in _ENDED and not m.superseded_by]
    for apply in (contradiction, staleness):
        for memory_id, said in apply(rows).marks.items():
            found[memory_id] += said
    now = time.time_ns() // 1000
    for m in memories:
        found[m.memory_id] += [f"ended on {m.body['valid_until']}"] if ended(m, now) else []
        found[m.memory_id] += repeated_since(m)
    return {memory_id: said for memory_id, said in sorted(found.items()) if said}


def repeated_since(memory: Memory) -> list[str]:
    """Return how often a rule was said once more after it was proposed, accepted, or stood in a rules file; empty for all else."""
    body = memory.body
    found = []
    for since, name, count in (
        ("it was proposed", "proposed_ts", "again"),
        (f"it stood in {body.get('written_in')}", "written_ts", "again_since_written"),
        ("it was accepted", "accepted_ts", "again_since_accepted"),
    ):
        if isinstance(body.get(name), int) and isinstance(body.get(count), int):
            times = body[count]
            found += [f"said again {times} time{'s' if times > 1 else ''} since {since} ({_day(body[name])})"] if times else []
    return found


def sayings(memory: Memory) -> list[dict[str, Any]]:
    """Return what later sessions said of a rule: time, session and quote, oldest first."""
    told = memory.body.get("said")
    return [s for s in told if isinstance(s, dict)] if isinstance(told, list) else []


def _as_candidate(memory: Memory) -> StoredCandidate:
    return StoredCandidate(
        memory.memory_id,
        "",
        "",
        "",
        0,
        memory.kind,
        memory.text,
        memory.when_to_use,
        memory.structured,
        list(memory.evidence),
        memory.confidence,
        memory.priority,
        memory.scope,
        memory.risk,
        memory.repository,
        memory.cwd,
        memory.last_ts,
    )


def _day(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1_000_000, UTC).date().isoformat()

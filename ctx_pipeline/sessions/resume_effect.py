"""Whether a resume block helps: how much was done between a compaction and the next change, with one and without."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.recorded import micros
from ctx_pipeline.facts.file_accesses import CHANGES, READ, accesses_by_call
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.sessions.resume import RESUMED
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.settings import Settings

_COLUMNS = {"events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype")}
_EMPTIES = "micro"
"""Part of the name of a compaction after which no block is given: it only empties old results."""


class Side(NamedTuple):
    """The compactions on one side: how many were followed by a change, and the median calls before it."""

    compactions: int
    changed: int
    median_calls: float | None
    median_reads: float | None


def resume_effect(*, settings: Settings) -> dict[str, Side]:
    """Return ``with`` and ``without`` a block: tool calls, and reads among them, from each compaction to the first change behind it."""
    steps: dict[str, list[tuple[int, int] | None]] = {"with": [], "without": []}
    with reading(settings) as (store, _):
        facts = store.journal.facts(RESUMED) if store.journal.is_there() else []
        told: dict[tuple[str, str], list[int]] = {}
        for fact in facts:
            told.setdefault((str(fact.payload.get("host")), str(fact.payload.get("session_id"))), []).append(from_iso(fact.at) or 0)
        for cell in store.lake.manifests("normalized"):
            for view in store.lake.read_sessions(cell, None, ("events", "tool_calls"), _COLUMNS, {"compaction"}):
                marks = [e for e in view.events if _EMPTIES not in (e.subtype or "")]
                answered = {_last(marks, at) for at in told.get((view.host, view.session_id), ())}
                for mark in marks:
                    steps["with" if mark.event_id in answered else "without"].append(_steps(view, mark))
    return {side: _summed(found) for side, found in steps.items()}


def _last(marks: Sequence[Any], at: int) -> str | None:
    """Return the event of the last compaction before a moment, which is the one that a block then answered."""
    before = [(micros(m.ts), m.event_id) for m in marks if (micros(m.ts) or 0) <= at]
    return max(before, key=lambda pair: pair[0] or 0)[1] if before else None


def _steps(view: Any, mark: Any) -> tuple[int, int] | None:
    """Return the calls and the reads behind a compaction up to the first change; None where none followed."""
    calls = reads = 0
    known = view.once(accesses_by_call)
    for call in view.tool_calls:
        if call.thread_id != mark.thread_id or call.seq < mark.seq:
            continue
        did = {a.did for a in known.get(call.call_event, ())}
        if did & CHANGES:
            return calls, reads
        calls += 1
        reads += READ in did
    return None


def _summed(found: Sequence[tuple[int, int] | None]) -> Side:
    known = [pair for pair in found if pair is not None]
    calls, reads = ([pair[place] for pair in known] for place in (0, 1))
    return Side(len(found), len(known), statistics.median(calls) if calls else None, statistics.median(reads) if reads else None)

"""The context window over time: a thread's model calls, tool results and compactions in one order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.declared import Reading
from ctx_pipeline.tokens.model_tokens import Calibration, calibrate

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

TABLES = ("events", "tool_calls", "model_calls")
KINDS = ("tool_call", "tool_result", "answer", "reasoning", "compaction", "prompt")
EVENTS = ("event_id", "thread_id", "seq", "ts", "kind", "call_key", "call_id")
TOOL_CALLS = ("thread_id", "tool", "call_event", "result_event", "out_chars", "seq")
MODEL_CALLS = (
    "call_key",
    "thread_id",
    "ts",
    "model",
    "output",
    "cache_write_5m",
    "cache_write_1h",
    "cache_read",
    "context_tokens",
    "owner",
)
COLUMNS = {"events": EVENTS, "tool_calls": TOOL_CALLS, "model_calls": MODEL_CALLS}
"""What a timeline is made of; no text."""

_PRIOR = Calibration(0.3, 0.15, 0, "characters")
"""Tokens a character of tool output: the median over published sessions of both hosts was 0.29 and 0.31."""

_PAIRS = 5
_LEAST = 400
"""Characters below which what no file shows (reminders, counters) is most of the step."""


class Call(NamedTuple):
    """One model call: where it stands in its thread, and how full the window was."""

    key: str
    seq: int
    ts: int | None
    model: str
    context: int
    output: int
    read: int
    written: int
    written_1h: int
    event: str | None
    """first event that the call produced"""


class Result(NamedTuple):
    """A tool result that stands in the window from its event on."""

    tool: str
    seq: int
    chars: int
    event: str
    call_event: str


@dataclass
class Timeline:
    """One thread with at least one model call of its own that recorded its prompt."""

    thread_id: str
    calls: list[Call]
    results: list[Result] = field(default_factory=list)
    compactions: list[Any] = field(default_factory=list)
    """event rows"""
    prompts: list[Any] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    """billed tokens of each result: its characters times the factor of the model that read it"""
    scale: dict[str, Calibration] = field(default_factory=dict)
    """model -> tokens a character of tool output"""
    steps: list[tuple[Call, Call, int, slice]] = field(default_factory=list)
    """neighbouring calls between which the prompt grew, by how many tokens, and which results came in"""

    def resolve(self) -> None:
        """Bring the results into their order and make what looks things up by place."""
        self.results.sort(key=lambda r: r.seq)
        self._call_seqs = [c.seq for c in self.calls]
        self._result_seqs = [r.seq for r in self.results]
        self._cleared = [c.seq for c in self.compactions]
        self.steps = [(a, b, b.context - a.context, self.between(a, b)) for a, b in pairwise(self.calls) if b.context > a.context]

    def after(self, seq: int) -> int:
        """Return the number of calls at or before a place, which is the index of the first one after it."""
        return bisect_right(self._call_seqs, seq)

    def between(self, a: Call, b: Call) -> slice:
        """Return which results came in after one call and before another."""
        first = bisect_right(self._result_seqs, a.seq)
        return slice(first, bisect_left(self._result_seqs, b.seq, first))

    def cleared(self, seq: int) -> int | None:
        """Return the seq of the first compaction after a place."""
        place = bisect_right(self._cleared, seq)
        return self._cleared[place] if place < len(self._cleared) else None


def timelines(view: SessionView) -> list[Timeline]:
    """Return the threads of a session, the main one first; those without a model call of their own are left out."""
    first: dict[str, tuple[int, str]] = {}
    places: dict[str, tuple[str, int]] = {}
    found: dict[str, Timeline] = {}
    for event in view.events:
        key = event.call_key
        if key is not None and key not in first:
            first[key] = (event.seq, event.event_id)
    for event in view.of_kinds("tool_result"):
        places[event.event_id] = (event.thread_id, event.seq)
    calls: dict[str, list[tuple[Any, ...]]] = {}
    for c in view.model_calls:
        if c.owner and c.context_tokens > 0:
            seq, event = first.get(c.call_key, (None, None))
            calls.setdefault(c.thread_id, []).append((c, seq, event))
    for thread, members in calls.items():
        found[thread] = Timeline(thread, _ordered(members))
    for t in view.tool_calls:
        place = places.get(t.result_event) if t.result_event else None
        if place and place[0] in found:
            found[place[0]].results.append(Result(t.tool, place[1], t.out_chars, t.result_event, t.call_event))
    for event in view.of_kinds("compaction", "prompt"):
        if event.thread_id in found:
            line = found[event.thread_id]
            (line.compactions if event.kind == "compaction" else line.prompts).append(event)
    for line in found.values():
        line.resolve()
    order = dict.fromkeys([e.thread_id for e in view.events] + list(found))
    made = [found[t] for t in order if t in found]
    _calibrate(made)
    return made


def _ordered(members: list[tuple[Any, ...]]) -> list[Call]:
    """Return calls in the order of their events; one that no event names stands after the last one of an earlier time."""
    members.sort(key=lambda m: (m[1] is None, m[1] or 0, m[0].ts or 0))
    times: list[int] = []
    seqs: list[int] = []
    for c, seq, _ in members:
        if seq is not None:
            times.append(max(c.ts or 0, times[-1] if times else 0))
            seqs.append(seq)
    made = []
    for c, seq, event in members:
        at = seq
        if at is None:
            place = bisect_right(times, c.ts or 0)
            at = seqs[place - 1] if place else -1
        written = c.cache_write_5m + c.cache_write_1h
        made.append(Call(c.call_key, at, c.ts, c.model, c.context_tokens, c.output, c.cache_read, written, c.cache_write_1h, event))
    if len(seqs) < len(made):
        made.sort(key=lambda c: (c.seq, c.ts or 0))
    return made


def _calibrate(lines: list[Timeline]) -> None:
    """Fit tokens a character on the steps between which only tool results came in."""
    pairs: dict[str, list[tuple[int, int]]] = {}
    for line in lines:
        asked = sorted({e.seq for e in (*line.prompts, *line.compactions)})
        for a, b, grown, came in line.steps:
            chars = sum([r.chars for r in line.results[came]])
            if chars > _LEAST and grown > a.output and bisect_right(asked, a.seq) == bisect_left(asked, b.seq):
                pairs.setdefault(b.model, []).append((chars, grown - a.output))
    for line in lines:
        for model in {c.model for c in line.calls}:
            known = pairs.get(model, [])
            line.scale[model] = calibrate(known, encoding="characters") if len(known) >= _PAIRS else _PRIOR
        last = len(line.calls) - 1
        line.sizes = [r.chars * line.scale[line.calls[min(line.after(r.seq), last)].model].factor for r in line.results]


def scales(lines: list[Timeline]) -> dict[str, Any]:
    """Return model -> factor (tokens a character), its mean error as a share, and the pairs it was fitted on (0: assumed)."""
    return {
        model or "unknown": {"factor": round(c.factor, 4), "error": round(c.error, 3), "pairs": c.pairs}
        for line in lines
        for model, c in line.scale.items()
    }


def call_rates(view: SessionView) -> list[list[Any]]:
    """Return for each thread the price of each of its calls (``rate_of`` of the analyses), None where none is known."""
    rate_of = view.analysis("rate_of")
    return [[rate_of(c.model, c.ts, c.context) if rate_of else None for c in line.calls] for line in view.once(timelines)]


def none() -> Reading:
    """Return the reading of a session without a model call of its own that recorded its prompt."""
    return Reading(None, reason="no model call of its own recorded its prompt")

"""How full the context window was, how it grew, what filled it, and what it cost to carry tool results along."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.windows import peak
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.timeline import COLUMNS, KINDS, TABLES, Call, Result, Timeline, call_rates, none, scales, timelines

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_SAMPLES = 40
_SUPER = 1.5
_LEVEL = 0.5
_FLAT = 1.2
_FEW = 4
_NANO = 1_000_000_000
_SIZED = {**COLUMNS, "events": (*COLUMNS["events"], "text"), "threads": ("thread_id", "context_window")}


def _peak(lines: list[Timeline]) -> Call:
    return max((c for line in lines for c in line.calls), key=lambda c: c.context)


def _sampled(values: list[int]) -> list[int]:
    step = max(1, -(-len(values) // _SAMPLES))
    return values[::step]


@signal(group="context", unit="tokens", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def context_peak_tokens(view: SessionView) -> Reading:
    """The largest prompt that a model call of the session had, as billed: fresh input, cache writes and cache reads.

    Every later call carries it again. Above about 100,000 tokens models answer worse and
    each call costs a multiple of the first; look at what filled it. ``fill`` in the
    details is the size at each call of that thread, thinned to forty.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    peak = _peak(lines)
    line = next(line for line in lines if peak in line.calls)
    details = {"model": peak.model, "calls": len(line.calls), "fill": _sampled([c.context for c in line.calls])}
    return Reading(float(peak.context), (peak.event,) if peak.event else (), metadata=details)


@signal(version=3, group="context", unit="ratio", better="lower", reads=(*TABLES, "threads"), kinds=KINDS, columns=_SIZED)
def context_peak_share(view: SessionView) -> Reading:
    """The largest prompt as a share of what the window holds, 0 to 1.

    Above 0.8 the host is about to compact, and what it drops is its choice, not yours.
    The size is the one that the host recorded, else the one published for the model;
    without either the share is unknown. A prompt beyond the published window was served
    by the provider's window of a million tokens and is measured against that. Where the
    host compacted by itself below the published size, the smaller window counts;
    ``window_source`` in the details says which of these it was. Claude Code runs some
    models in one size or another by the person's plan: without a proof the share is unknown.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    best = view.once(peak)
    if best is None:
        return Reading(None, reason="the window of the model is not known")
    event = next((c.event for line in lines for c in line.calls if c.key == best.call.call_key), None)
    details = {
        "window": best.window.tokens,
        "window_source": best.window.source,
        "tokens": best.call.context_tokens,
        "model": best.call.model,
    }
    return Reading(best.share, tuple(filter(None, (event, best.compaction))), metadata=details)


@signal(group="context", unit="tokens", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def context_growth_per_call(view: SessionView) -> Reading:
    """The median by which the prompt of a thread with most calls grew from one call to the next.

    A few hundred is a conversation, several thousand is an agent that reads whole files
    or prints long logs. Steps at which it shrank (compactions) are left out. Unknown
    with fewer than two calls.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    line = max(lines, key=lambda found: len(found.calls))
    steps = [(grown, b) for _, b, grown, _ in line.steps]
    if not steps:
        return Reading(None, reason="no call has a larger prompt than the one before")
    largest = sorted(steps, key=lambda s: -s[0])[:3]
    return Reading(
        float(statistics.median(grown for grown, _ in steps)),
        tuple(b.event for _, b in largest if b.event),
        metadata={"steps": len(steps), "largest": largest[0][0]},
    )


@signal(group="context", kind="categorical", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def context_growth_shape(view: SessionView) -> Reading:
    """How the prompts of the longest thread grew: flat, plateau, linear, superlinear, or short for fewer than four calls.

    The second half of the calls is compared with the first: more than one and a half
    times as much added is superlinear, less than half a plateau. Superlinear means that
    each step brings in more than the one before, which ends in a compaction.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    line = max(lines, key=lambda found: len(found.calls))
    prompts = [c.context for c in line.calls]
    details = {"calls": len(prompts), "factor": round(max(prompts) / prompts[0], 2)}
    if len(prompts) < _FEW:
        return Reading("short", metadata=details)
    if max(prompts) <= prompts[0] * _FLAT:
        return Reading("flat", metadata=details)
    added = [max(0, b - a) for a, b in pairwise(prompts)]
    first, second = statistics.fmean(added[: len(added) // 2]), statistics.fmean(added[len(added) // 2 :])
    shape = "superlinear" if second > first * _SUPER else "plateau" if second < first * _LEVEL else "linear"
    return Reading(shape, metadata=details)


def _layers(view: SessionView) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Return tokens by layer of what the windows gained, tokens of results by tool, and each tool's largest result."""
    layers = dict.fromkeys(("tools", "answers", "rest"), 0.0)
    tools: dict[str, float] = {}
    largest: dict[str, tuple[float, str]] = {}
    for line in view.once(timelines):
        for a, _, grown, which in line.steps:
            sizes = line.sizes[which]
            of_tools = min(float(grown), sum(sizes))
            said = min(float(a.output), grown - of_tools)
            layers["tools"] += of_tools
            layers["answers"] += said
            layers["rest"] += grown - of_tools - said
            for r, tokens in zip(line.results[which], sizes, strict=True):
                tools[r.tool] = tools.get(r.tool, 0.0) + tokens
                largest[r.tool] = max(largest.get(r.tool, (0.0, "")), (tokens, r.event))
    return layers, tools, {tool: event for tool, (_, event) in largest.items()}


@signal(group="context", unit="ratio", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def tool_output_share(view: SessionView) -> Reading:
    """The share of what the context windows gained that was tool output, 0 to 1.

    Above 0.6 the window is filled by what tools print and not by the work: quieter
    commands, narrower reads and searches help more than a better prompt. Sizes are
    characters times the tokens a character of that model, fitted on this session's own
    bills; ``scale`` in the details has the factor, its mean error and the number of
    steps it rests on (0: an average of other sessions).
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    layers, tools, largest = view.once(_layers)
    gained = sum(layers.values())
    if not gained:
        return Reading(None, reason="no call has a larger prompt than the one before")
    ranked = sorted(tools, key=lambda tool: -tools[tool])[:5]
    details: dict[str, Any] = {
        "tokens": round(layers["tools"]),
        "of": round(gained),
        "tools": {tool: round(tools[tool]) for tool in ranked},
        "scale": scales(lines),
    }
    error = max((c.error for line in lines for c in line.scale.values()), default=0.0)
    return Reading(layers["tools"] / gained, tuple(largest[t] for t in ranked), confidence=max(0.3, 1 - error), metadata=details)


@signal(group="context", kind="categorical", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def context_largest_layer(view: SessionView) -> Reading:
    """What the windows gained most of: tools (their output), answers (what the model wrote) or rest (prompts and what the host put in).

    ``rest`` as the largest layer means that instructions, reminders or pasted text grow
    the window, which no file of the agent shows in full; the details have the tokens of
    each layer.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    layers, _, _ = view.once(_layers)
    if not sum(layers.values()):
        return Reading(None, reason="no call has a larger prompt than the one before")
    return Reading(max(layers, key=lambda name: layers[name]), metadata={name: round(tokens) for name, tokens in layers.items()})


class Carried(NamedTuple):
    """A result, its size, and the calls that had it in their prompt."""

    result: Result
    tokens: float
    first: int
    last: int
    """range of indexes into the thread's calls"""
    line: Timeline

    @property
    def total(self) -> float:
        """Tokens over all calls that read the result."""
        return self.tokens * (self.last - self.first)


def carried(view: SessionView) -> list[Carried]:
    """Return every result that a later call read, the most carried first; a compaction ends the carrying."""
    found = []
    for line in view.once(timelines):
        for result, tokens in zip(line.results, line.sizes, strict=True):
            first = line.after(result.seq)
            end = line.cleared(result.seq)
            last = len(line.calls) if end is None else line.after(end)
            if last > first and result.chars:
                found.append(Carried(result, tokens, first, last, line))
    return sorted(found, key=lambda c: (-c.total, c.result.event))


def _details(found: list[Carried], lines: list[Timeline]) -> dict[str, Any]:
    shown = [{"tool": c.result.tool, "tokens": round(c.tokens), "calls": c.last - c.first, "event": c.result.event} for c in found[:5]]
    return {"results": len(found), "largest": shown, "scale": scales(lines)}


@signal(group="context", unit="tokens", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def tool_result_carry_tokens(view: SessionView) -> Reading:
    """Tokens that tool results took in all prompts together: the size of each times the calls that had it in the window.

    A result of 10,000 tokens at the start of a session with 50 calls is 500,000 here. Set
    it against the session's prompt tokens: more than half means that old output is most
    of what you pay for. A compaction ends the carrying. Sizes are scaled characters, see
    ``tool_output_share``.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    found = view.once(carried)
    return Reading(
        float(round(sum(c.total for c in found))),
        tuple(c.result.event for c in found[:5]),
        confidence=0.8,
        metadata=_details(found, lines),
    )


@signal(group="context", version=2, unit="dollars", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def tool_result_carry_cost(view: SessionView) -> Reading:
    """What carrying tool results cost: read from the cache at each later call, at the list price of that call.

    The first reading of a result is billed as fresh input or a cache write and is not in
    it. A call whose prompt came less from the cache than the result is large pays the
    price of input. Unknown where no price is known.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    if view.analysis("rate_of") is None:
        return Reading(None, reason="no prices were given")
    total = 0.0
    priced = 0
    found = view.once(carried)
    prefix: dict[int, list[float]] = {}
    for line, rates_of_calls in zip(lines, view.once(call_rates), strict=True):
        sums = [0.0]
        for call, rates in zip(line.calls, rates_of_calls, strict=True):
            hit = call.read / call.context
            sums.append(sums[-1] + (rates.cache_read * hit + rates.input * (1 - hit) if rates else 0.0))
            priced += rates is not None
        prefix[id(line)] = sums
    if not priced:
        return Reading(None, reason="no price is known for the models of this session")
    for c in found:
        sums = prefix[id(c.line)]
        total += c.tokens * (sums[c.last] - sums[min(c.first + 1, c.last)])
    return Reading(round(total) / _NANO, tuple(c.result.event for c in found[:5]), confidence=0.8, metadata=_details(found, lines))


@signal(group="context", unit="ratio", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def largest_result_carry_share(view: SessionView) -> Reading:
    """The share of all prompt tokens of the session that its most carried tool result took, 0 to 1.

    One result above 0.2 is worth a narrower command: the details say which tool it was,
    how large, and how many calls dragged it along.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    found = view.once(carried)
    if not found:
        return Reading(None, reason="no tool result was read by a later call")
    prompts = sum(c.context for line in lines for c in line.calls)
    return Reading(min(1.0, found[0].total / prompts), (found[0].result.event,), confidence=0.8, metadata=_details(found[:1], lines))

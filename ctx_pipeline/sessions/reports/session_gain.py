"""What one session was billed, what of that was avoidable, and what the cache saved there: worked out, and kept in pieces."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ctx_pipeline.compression.source import NOTICE_TOKENS
from ctx_pipeline.errors import NothingFound
from ctx_pipeline.facts.file_accesses import CHANGES, READ, accesses_by_call, file_accesses
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.tables import FILE_ACCESSES, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.sessions.reports.repeated_reads import WHOLE, covered
from ctx_pipeline.signals.context_cache import rebuilds
from ctx_pipeline.signals.context_window import Carried, carried
from ctx_pipeline.signals.inputs.timeline import timelines
from ctx_pipeline.usage.cache_efficiency import STREAMS, by_stream
from ctx_pipeline.usage.session_figures import Figure, quarter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pricing.price_book import Rates
    from ctx_pipeline.settings import Settings


# What of a session's bill was avoidable, by mechanism: surely, likely, at most. Never more than was billed.


LONG_OUTPUT = 2_000
"""Tokens of a tool's output above which the rest could have been left out."""

MECHANISMS = {
    "repeated reads": "read again though it was still in the context, unchanged",
    "carried after use": "a file's text sent along after its last use",
    "cache rebuilds": "the cache ran out or the model was changed",
    "long outputs": f"what tools printed beyond {LONG_OUTPUT:,} tokens",
}
"""Mechanism -> what happened."""

_AVOIDABLE = ("expired", "model changed")


OWN = ("blocks", "answers", "schemas")
"""What this program itself puts into a window: what hooks tell, what its tools answer, and what its tools are."""

_SCHEMA_TOKENS = 1_500
"""Tokens of the schemas of a set of tools where no server showed any yet; they count in sessions that used one."""

_OWN_TOOL = re.compile(r"(?:^|__)ctx(?:__|[./])\w")
CHARACTERS_A_TOKEN = 4


class HookTokens(NamedTuple):
    """What hooks told a session, and what they took out of its outputs, in tokens."""

    blocks: int = 0
    shortened: int = 0
    schemas: int = _SCHEMA_TOKENS
    """of the tools that a server showed last"""


class Bounds(NamedTuple):
    """Nano-dollars that would not have been billed: surely, likely, at most; and tokens of the likely case."""

    certain: int = 0
    likely: int = 0
    upper: int = 0
    tokens: int = 0

    def plus(self, other: Bounds) -> Bounds:
        """Return the sum."""
        return Bounds(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass
class SessionGain:
    """One session's bill by token stream, and what of it was avoidable."""

    host: str
    session_id: str
    calls: int = 0
    unpriced: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    nano: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    """sums to what was billed, to the nano-dollar"""
    saved_by_cache: int = 0
    """nano-dollars: cached prompts at the price of fresh input, less what the cache cost; below 0 where it cost more"""
    mechanisms: dict[str, Bounds] = field(default_factory=dict)
    own_tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OWN, 0))
    own_nano: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OWN, 0))
    """what these cost, carried along included: a part of what was billed"""
    shortened: int = 0
    """tokens that hooks took out of outputs"""

    @property
    def spent(self) -> int:
        """Nano-dollars billed."""
        return sum(self.nano.values())


def session_gain(
    view: Any,
    rate_of: Callable[[str, int | None, int], Rates | None],
    cost_of: Callable[[Any], int | None],
    *,
    within: tuple[int | None, int | None] = (None, None),
    hooks: HookTokens = HookTokens(),  # noqa: B008 - a tuple never changes
) -> SessionGain:
    """Return what a session's calls (of a time, from the first moment up to before the last) cost, and what was avoidable.

    ``cost_of`` gives the nano-dollars of a call. What a mechanism is worth is reckoned at
    the rates of the calls that paid for it, and cut at what the prompts of the session
    were billed.
    """
    found, lines = _pieces(view, rate_of, cost_of, lambda ts: in_time(ts, within) or None)
    return joined(view.host, view.session_id, found.values(), [line for line in lines if in_time(line[0], within)], hooks)


def _piece() -> dict[str, Any]:
    """Return what a stretch of a session adds to its gain: sums of plain numbers."""
    return {
        "calls": 0,
        "unpriced": 0,
        "saved": 0,
        "tokens": [0] * len(STREAMS),
        "nano": [0] * len(STREAMS),
        "answers": [0, 0],
        "mechanisms": [[0] * len(Bounds._fields) for _ in MECHANISMS],
    }


def _pieces(
    view: Any,
    rate_of: Callable[[str, int | None, int], Rates | None],
    cost_of: Callable[[Any], int | None],
    place: Callable[[int | None], Hashable | None],
) -> tuple[dict[Any, dict[str, Any]], list[list[Any]]]:
    """Return a session's gain in pieces, by what ``place`` gives for the moment of a call (None: left out), and its threads.

    A thread is the moment of its first call, the number of calls that would carry a block which it begins with, and what a
    token of such a block costs at the first and at all others.
    """
    found: dict[Any, dict[str, Any]] = defaultdict(_piece)
    prices = _Prices(rate_of)
    for call in view.model_calls:
        if call.owner and (at := place(micros(call.ts))) is not None:
            _bill(found[at], call, rate_of, cost_of)
    _mechanisms(found, view, prices, place)
    for c in view.once(carried):
        if _OWN_TOOL.search(c.result.tool or "") and (at := place(next_call(c).ts)) is not None:
            _plus(found[at]["answers"], (round(c.tokens), round(prices.whole(c))))
    lines = []
    for line in view.once(timelines):
        if line.calls:
            end = line.cleared(-1)
            last = len(line.calls) if end is None else line.after(end)
            block = Carried(cast("Any", None), 1.0, 0, last, line)
            lines.append([line.calls[0].ts, last, prices.fresh(block), prices.carry(block, 1)] if last else [line.calls[0].ts, 0, 0.0, 0.0])
    return found, lines


def _plus(sums: list[int], amounts: Iterable[int]) -> None:
    for number, amount in enumerate(amounts):
        sums[number] += amount


def joined(
    host: str, session_id: str, found: Iterable[Mapping[str, Any]], lines: Sequence[Sequence[Any]], hooks: HookTokens
) -> SessionGain:
    """Return the gain of a session from its pieces and the threads that begin in them.

    What hooks told and the schemas of tools stand in the window from the first call of the first thread on.
    """
    gain = SessionGain(host, session_id, shortened=hooks.shortened)
    sums = [Bounds() for _ in MECHANISMS]
    for one in found:
        gain.calls += one["calls"]
        gain.unpriced += one["unpriced"]
        gain.saved_by_cache += one["saved"]
        for name, tokens, nano in zip(STREAMS, one["tokens"], one["nano"], strict=True):
            gain.tokens[name] += tokens
            gain.nano[name] += nano
        gain.own_tokens["answers"] += one["answers"][0]
        gain.own_nano["answers"] += one["answers"][1]
        sums = [b.plus(Bounds(*more)) for b, more in zip(sums, one["mechanisms"], strict=True)]
    gain.mechanisms = dict(zip(MECHANISMS, sums, strict=True))
    _cut(gain.mechanisms, max(0, gain.spent - gain.nano["output"]))
    for _, last, first, carry in lines[:1]:
        for name, tokens in (("blocks", hooks.blocks), ("schemas", hooks.schemas if gain.own_tokens["answers"] else 0)):
            if tokens and last:
                gain.own_tokens[name] += tokens
                gain.own_nano[name] += round(tokens * first + tokens * carry)
    return gain


def _bill(
    piece: dict[str, Any], call: Any, rate_of: Callable[[str, int | None, int], Rates | None], cost_of: Callable[[Any], int | None]
) -> None:
    counts = (call.input, call.cache_write_5m, call.cache_write_1h, call.cache_read, call.output)
    piece["calls"] += 1
    _plus(piece["tokens"], counts)
    cost = cost_of(call)
    if cost is None:
        piece["unpriced"] += 1
        return
    rates = rate_of(call.model, micros(call.ts), call.context_tokens)
    _plus(piece["nano"], by_stream(counts, cost, rates))
    if rates is not None:
        piece["saved"] += round(rates.saved(read=call.cache_read, written_5m=call.cache_write_5m, written_1h=call.cache_write_1h))


def _mechanisms(found: dict[Any, dict[str, Any]], view: Any, prices: _Prices, place: Callable[[int | None], Hashable | None]) -> None:
    def add(at: Hashable, name: str, *bounds: int) -> None:
        _plus(found[at]["mechanisms"][_ORDER[name]], bounds)

    again = repeated(view)
    last_use = _last_uses(view)
    for c in view.once(carried):
        at = place(next_call(c).ts)
        if at is None:
            continue
        # in place of what stood there a notice would have been sent
        share = max(0.0, again.get(c.result.call_event, 0.0) - NOTICE_TOKENS / max(c.tokens, 1.0))
        if share:
            worth = round(share * prices.whole(c))
            add(at, "repeated reads", worth, worth, worth, round(share * c.tokens))
        ends = last_use.get(c.result.call_event)
        if ends is not None:
            first = max(c.first + 1, c.line.after(ends))
            if first < c.last:
                worth = round((1 - share) * prices.carry(c, first))
                add(at, "carried after use", 0, worth, worth, round((1 - share) * c.tokens * (c.last - first)))
        elif c.tokens > LONG_OUTPUT:
            add(at, "long outputs", 0, 0, round(prices.whole(c) * (1 - LONG_OUTPUT / c.tokens)), 0)
    for r in view.once(rebuilds):
        at = place(r.call.ts) if r.cause in _AVOIDABLE else None
        rates = prices.of(r.call) if at is not None else None
        if at is not None and rates is not None:
            dearer = (rates.cache_write_5m if r.call.written else rates.input) - rates.cache_read
            add(at, "cache rebuilds", 0, 0, round(r.tokens * max(0.0, dearer)), 0)


_ORDER = {name: number for number, name in enumerate(MECHANISMS)}


def next_call(c: Carried) -> Any:
    """Return the call that read a result first."""
    return c.line.calls[c.first]


class _Prices:
    """What carrying costs at the rates of the calls that carry."""

    def __init__(self, rate_of: Callable[[str, int | None, int], Rates | None]) -> None:
        self._rate_of = rate_of
        self._sums: dict[int, list[float]] = {}

    def of(self, call: Any) -> Rates | None:
        """Return the rates of a call."""
        return self._rate_of(call.model, call.ts, call.context)

    def fresh(self, c: Carried) -> float:
        """Return what a token of a result cost at the first call, written or fresh."""
        call = next_call(c)
        rates = self.of(call)
        return (
            0.0 if rates is None else (rates.cache_write_1h if call.written_1h else rates.cache_write_5m if call.written else rates.input)
        )

    def whole(self, c: Carried) -> float:
        """Return what a result cost: written or fresh at the first call, carried at the others."""
        return c.tokens * self.fresh(c) + self.carry(c, c.first + 1)

    def carry(self, c: Carried, first: int) -> float:
        """Return what carrying a result cost from a call on."""
        sums = self._sums.get(id(c.line))
        if sums is None:
            sums = [0.0]
            for call in c.line.calls:
                rates = self.of(call)
                hit = call.read / call.context
                sums.append(sums[-1] + (rates.cache_read * hit + rates.input * (1 - hit) if rates else 0.0))
            self._sums[id(c.line)] = sums
        return c.tokens * (sums[c.last] - sums[min(first, c.last)])


def repeated(view: Any) -> dict[str, float]:
    """Return call event -> the share of a read's lines that stood in its window, unchanged, when it was asked for.

    A compaction or a clearing ends all that stood there, a change what stood there of its
    file. A turn that was taken back is not seen here (``ctx cache causes`` sees it).
    """
    takes: dict[str, list[int]] = defaultdict(list)
    for e in view.of_kinds("compaction"):
        takes[e.thread_id].append(e.seq)
    held: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    found: dict[str, float] = {}
    accesses = view.once(accesses_by_call)
    for access in file_accesses(view):
        key = (access.thread_id, access.path)
        if access.did in CHANGES:
            held.pop(key, None)
            continue
        if access.did != READ or not access.told:
            continue
        standing = [lines for seq, lines in held[key] if not any(seq < take < access.seq for take in takes[access.thread_id])]
        # a part of the whole is known to stand there only where its lines are told
        share = covered(access.lines or WHOLE, standing)
        share = 0.0 if share < 1 and not access.lines else share
        if share:
            reads = sum(a.did == READ for a in accesses[access.call_event])
            found[access.call_event] = found.get(access.call_event, 0.0) + share / reads
        held[key].append((access.seq, access.lines or WHOLE))
    return found


def _last_uses(view: Any) -> dict[str, int]:
    """Return call event of a read -> ``seq`` of the last call in its thread that touched or named one of its files."""
    last: dict[tuple[str, str], int] = {}
    reads: dict[str, list[tuple[str, str]]] = {}
    for access in file_accesses(view):
        key = (access.thread_id, access.path)
        last[key] = max(last.get(key, -1), access.seq)
        if access.did == READ:
            reads.setdefault(access.call_event, []).append(key)
    return {event: max(last[key] for key in keys) for event, keys in reads.items()}


def _cut(mechanisms: dict[str, Bounds], most: int) -> None:
    """Cut what was avoidable at most, the surest mechanisms last, to what was billed; what is likely and sure is never above it."""
    over = sum(b.upper for b in mechanisms.values()) - most
    for name in reversed(list(mechanisms)):
        b = mechanisms[name]
        upper = b.upper - max(0, min(over, b.upper))
        over -= b.upper - upper
        likely = min(b.likely, upper)
        mechanisms[name] = Bounds(min(b.certain, likely), likely, upper, b.tokens)


def in_time(ts: int | None, within: tuple[int | None, int | None]) -> bool:
    """Tell whether a moment lies between two others, the last one not included; without both any does."""
    first, last = within
    if first is None and last is None:
        return True
    return ts is not None and (first is None or ts >= first) and (last is None or ts < last)


def summed(gains: Sequence[SessionGain]) -> SessionGain:
    """Return the sum of several sessions."""
    total = SessionGain("", "")
    for g in gains:
        total.calls += g.calls
        total.unpriced += g.unpriced
        total.saved_by_cache += g.saved_by_cache
        for name in STREAMS:
            total.tokens[name] += g.tokens[name]
            total.nano[name] += g.nano[name]
        total.shortened += g.shortened
        for name in OWN:
            total.own_tokens[name] += g.own_tokens[name]
            total.own_nano[name] += g.own_nano[name]
        for name, bounds in g.mechanisms.items():
            total.mechanisms[name] = total.mechanisms.get(name, Bounds()).plus(bounds)
    return total


def prices_of(settings: Settings, model: str | None) -> tuple[Callable[[str, int | None, int], Rates | None], Callable[[Any], int | None]]:
    """Return what gives the rates of a call, and what gives its cost; with ``model`` both at that model's prices."""
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.pricing.price_book import rates_by

    book = PriceBook.of(settings)
    rate_of = rates_by(lambda: book)
    mode = settings.cost_mode

    def recorded(call: Any) -> int | None:
        return cost_of(mode, call.recorded_cost, call.cost)

    if model is None:
        return rate_of, recorded
    if rate_of(model, None, 0) is None:
        raise NothingFound(f"no price is known for {model[:80]!r}", hint="ctx prices list")

    def other(call: Any) -> int | None:
        counts = {n: getattr(call, n) for n in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")}
        return book.cost_nano(model, micros(call.ts), **counts, context_tokens=call.context_tokens)[0]

    return lambda _model, ts, context: rate_of(model, ts, context), other


# The same by quarter of an hour, as it is kept.


TABLES = ("events", "tool_calls", "model_calls", "file_accesses")
COLUMNS = {"events": ("event_id", "thread_id", "seq", "ts", "kind", "call_key", "call_id", "subtype")}
KINDS = ("tool_call", "tool_result", "answer", "reasoning", "compaction", "prompt")


def _quarters(view: SessionView, settings: Settings) -> dict[int | None, Any]:
    """Return a session's gain by quarter of an hour, each with the threads that begin in it and their place among all."""
    found, lines = _pieces(view, *prices_of(settings, None), _placed)
    pieces: dict[int | None, Any] = {None if at == _UNDATED else at: {**piece, "lines": []} for at, piece in found.items()}
    for number, line in enumerate(lines):
        pieces.setdefault(quarter_of(line[0]), {**_piece(), "lines": []})["lines"].append([number, line])
    return pieces


_UNDATED = "undated"


def _placed(ts: int | None) -> Hashable:
    return _UNDATED if ts is None else quarter_of(ts)


def _summed_pieces(pieces: Iterable[Any]) -> dict[str, Any]:
    total = {**_piece(), "lines": []}
    for one in pieces:
        for name in ("calls", "unpriced", "saved"):
            total[name] += one[name]
        for name in ("tokens", "nano", "answers"):
            _plus(total[name], one[name])
        for sums, more in zip(total["mechanisms"], one["mechanisms"], strict=True):
            _plus(sums, more)
        total["lines"] += one["lines"]
    return total


GAIN = Figure(
    "gain",
    1,
    _quarters,
    _summed_pieces,
    {"model_calls": MODEL_CALLS.names, "file_accesses": FILE_ACCESSES.names, **COLUMNS, "tool_calls": TOOL_CALLS.names},
    KINDS,
)
"""What is kept of each session: its bill, what of it was avoidable before the cut at what was billed, and its threads."""

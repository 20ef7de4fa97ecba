"""What was spent, what of it was avoidable, and what the cache saved: for a session or a period, from the billed calls alone."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ctx_pipeline import discovery
from ctx_pipeline.compression.hook_output import SHORTENED
from ctx_pipeline.compression.source import NOTICE_TOKENS
from ctx_pipeline.context.recorded import micros
from ctx_pipeline.errors import NothingFound, UsageError
from ctx_pipeline.facts.file_accesses import CHANGES, READ, accesses_by_call, file_accesses
from ctx_pipeline.learning.injection import INJECTED
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.tables import FILE_ACCESSES, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.sessions.handoff import RESUMED
from ctx_pipeline.sessions.repeated_reads import WHOLE, covered
from ctx_pipeline.sessions.session_choice import select_session
from ctx_pipeline.signals.context_cache import rebuilds
from ctx_pipeline.signals.context_window import Carried, carried
from ctx_pipeline.signals.inputs.timeline import timelines
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.cache_efficiency import STREAMS, by_stream
from ctx_pipeline.usage.periods import Period, before, period
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import moment
from ctx_pipeline.usage.session_figures import Figure, figures, on_border, quarter_of
from ctx_pipeline.usage.usage_figures import places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pricing.price_book import Rates
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


# What of a session's bill was avoidable, by mechanism: surely, likely, at most. Never more than was billed.


LONG_OUTPUT = 2_000
"""Tokens of a tool's output above which the rest could have been left out."""

MECHANISMS = {
    "repeated reads": f"lines that stood in the window, unchanged, were read once more; a notice of {NOTICE_TOKENS} tokens would have done",
    "carried after use": "a file's text was sent along in calls after the last that touched or named the file",
    "cache rebuilds": "the provider's cache ran out or the model was changed, and the prompt was paid for anew",
    "long outputs": f"what tools printed beyond {LONG_OUTPUT:,} tokens",
}
"""Mechanism -> what happened."""

_AVOIDABLE = ("expired", "model changed")


OWN = ("blocks", "answers", "schemas")
"""What this program itself puts into a window: what hooks tell, what its tools answer, and what its tools are."""

_SCHEMA_TOKENS = 1_500
"""Tokens of the schemas of a set of tools, at most; they count in sessions that used one."""

_OWN_TOOL = re.compile(r"(?:^|__)ctx(?:__|[./])\w")
_CHARACTERS_A_TOKEN = 4


class HookTokens(NamedTuple):
    """What hooks told a session, and what they took out of its outputs, in tokens."""

    blocks: int = 0
    shortened: int = 0


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
    return _joined(view.host, view.session_id, found.values(), [line for line in lines if in_time(line[0], within)], hooks)


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


def _joined(
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
        for name, tokens in (("blocks", hooks.blocks), ("schemas", _SCHEMA_TOKENS if gain.own_tokens["answers"] else 0)):
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


SCHEMA = 1
"""Version of the JSON shape."""

BASELINE = "session.baseline"
"""Kind of the facts that mark where counting begins anew."""

_TABLES = ("events", "tool_calls", "model_calls", "file_accesses")
_COLUMNS = {"events": ("event_id", "thread_id", "seq", "ts", "kind", "call_key", "call_id", "subtype")}
_KINDS = ("tool_call", "tool_result", "answer", "reasoning", "compaction", "prompt")


@dataclass(frozen=True)
class Gain:
    """The figures of one period, and of the one before it."""

    period: Period
    total: SessionGain
    sessions: int
    model: str | None
    """at whose prices everything is told; None: those of the calls"""
    previous: SessionGain | None
    since_baseline: str | None

    @property
    def avoidable(self) -> tuple[int, int, int]:
        """Nano-dollars: surely, likely, at most; none above what was billed."""
        found = list(self.total.mechanisms.values())
        return sum(b.certain for b in found), sum(b.likely for b in found), sum(b.upper for b in found)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        t = self.total
        certain, likely, upper = self.avoidable
        return {
            "schema": SCHEMA,
            "period": self.period.name,
            "since": self.period.since and self.period.since.isoformat(),
            "until": self.period.until and self.period.until.isoformat(),
            "host": t.host or None,
            "session_id": t.session_id or None,
            "sessions": self.sessions,
            "calls": t.calls,
            "unpriced_calls": t.unpriced,
            "spent_nano": t.spent,
            "streams": [{"stream": n, "tokens": t.tokens[n], "nano": t.nano[n]} for n in STREAMS],
            "saved_by_cache_nano": t.saved_by_cache,
            "avoidable_nano": {"certain": certain, "likely": likely, "upper": upper},
            "mechanisms": [
                {
                    "mechanism": n,
                    "certain_nano": b.certain,
                    "likely_nano": b.likely,
                    "upper_nano": b.upper,
                    "tokens": b.tokens,
                    "why": MECHANISMS[n],
                }
                for n, b in t.mechanisms.items()
            ],
            "own": [{"what": n, "tokens": t.own_tokens[n], "nano": t.own_nano[n]} for n in OWN],
            "shortened_tokens": t.shortened,
            "net_tokens": t.shortened - sum(t.own_tokens.values()),
            "score": score(t),
            "parts": parts(t),
            "previous_score": score(self.previous) if self.previous else None,
            "trend": self.trend,
            "estimate": self.model is not None,
            "model": self.model,
            "since_baseline": self.since_baseline,
        }

    @property
    def trend(self) -> str | None:
        """Up, down or level against the period before: three points or less are level; None where one has no score."""
        now, then = score(self.total), score(self.previous) if self.previous else None
        if now is None or then is None:
            return None
        return "level" if abs(now - then) <= 3 else "up" if now > then else "down"


def parts(total: SessionGain) -> dict[str, float | None]:
    """Return the two parts of the score, 0 to 1; None without data.

    ``kept`` is the share of the bill that was not likely avoidable, ``cached`` the share of
    prompt tokens that came from the cache.
    """
    likely = sum(b.likely for b in total.mechanisms.values())
    prompt = sum(total.tokens[n] for n in STREAMS if n != "output")
    return {
        "kept": round(1 - likely / total.spent, 4) if total.spent else None,
        "cached": round(total.tokens["cache_read"] / prompt, 4) if prompt else None,
    }


def score(total: SessionGain) -> int | None:
    """Return the gain score, 0 to 100: 60 points for ``kept`` and 40 for ``cached``; None where nothing was billed."""
    found = parts(total)
    if found["kept"] is None or found["cached"] is None:
        return None
    return round(60 * found["kept"] + 40 * found["cached"])


def gain(
    name: str = "session",
    *,
    session: str | None = None,
    model: str | None = None,
    host: str | None = None,
    project: str | None = None,
    timezone: str | None = None,
    baseline: bool = False,
    today: date | None = None,
    cwd: str | None = None,
    settings: Settings,
) -> Gain:
    """Return the gain of a session (the newest here), or of all sessions in a day, week or month of the zone, or ever.

    ``model`` tells everything at that model's list prices. With ``baseline`` only what
    came after the last mark counts. ``host`` and ``project`` go with a period.
    Raises UsageError and UnknownName.
    """
    zone = timezone or settings.timezone
    one = period(name, zone=zone, today=today)
    if one.name != "session" and session:
        raise UsageError("--session and a period exclude each other", hint="leave one of them out")
    if one.name == "session" and (host or project):
        raise UsageError("--host and --project choose among the sessions of a period", hint="add --period week, or name a --session")
    rate_of, cost_of = prices_of(settings, model)
    key = discovery.host(host).key if host else None
    with reading(settings) as (store, _):
        mark = last_baseline(store) if baseline else None
        if baseline and mark is None:
            raise NothingFound("no baseline was marked", hint="ctx gain reset marks one")
        if one.name == "session":
            choice = select_session(store, settings, session, cwd=cwd)
            row = store.ledger.session(choice.host, choice.session_id)
            views = list(store.lake.read_sessions(row.partition, {choice.session_id}, _TABLES, _COLUMNS, set(_KINDS))) if row else []
            of_session = _hook_tokens(store)
            found = [
                session_gain(v, rate_of, cost_of, within=(from_iso(mark), None), hooks=of_session(v.host, v.session_id)) for v in views
            ]
            total = found[0] if found else SessionGain(choice.host, choice.session_id)
            return Gain(one, total, len(found), model, None, mark)
        told = [_within(one, zone)]
        earlier = before(one)
        if earlier is not None and mark is None:
            told.append(_within(earlier, zone))
        if mark is not None:
            start = from_iso(mark) or 0
            told[0] = (max(start, told[0][0] or 0), told[0][1])
        of_session = _hook_tokens(store)
        if model is None and all(map(on_border, told)):
            gains = [list(_gains(store, settings, within, host=key, project=project, hooks=of_session)) for within in told]
        else:
            gains = [[] for _ in told]
            for view in _views(store, key, project, told):
                for members, within in zip(gains, told, strict=True):
                    made = session_gain(view, rate_of, cost_of, within=within, hooks=of_session(view.host, view.session_id))
                    if made.calls:
                        members.append(made)
    previous = summed(gains[1]) if len(gains) > 1 and gains[1] else None
    return Gain(one, summed(gains[0]), len(gains[0]), model, previous, mark)


def _gains(
    store: Store,
    settings: Settings,
    within: tuple[int | None, int | None],
    *,
    host: str | None,
    project: str | None,
    hooks: Callable[[str, str], HookTokens],
) -> Iterator[SessionGain]:
    """Yield the gain of each session with a call in a time, from what is kept of sessions."""
    places = places_of(store, settings) if project is not None else {}

    def only(key: tuple[str, str]) -> bool:
        return host in {None, key[0]} and (project is None or project in project_names(*places[key][:2]))

    for key, values in figures(store, settings, GAIN, bounds=within, only=only):
        lines = [line for value in values for line in value["lines"] if in_time(line[1][0], within)]
        made = _joined(*key, values, [line for _, line in sorted(lines, key=lambda one: one[0])], hooks(*key))
        if made.calls:
            yield made


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
    {"model_calls": MODEL_CALLS.names, "file_accesses": FILE_ACCESSES.names, **_COLUMNS, "tool_calls": TOOL_CALLS.names},
    _KINDS,
)
"""What is kept of each session: its bill, what of it was avoidable before the cut at what was billed, and its threads."""


def _hook_tokens(store: Store) -> Callable[[str, str], HookTokens]:
    """Return what gives for a session what hooks told it and took out of its outputs."""
    blocks: Counter[tuple[str, str]] = Counter()
    shortened: Counter[tuple[str, str]] = Counter()
    for kind in (INJECTED, RESUMED, SHORTENED):
        for fact in store.journal.facts(kind):
            p = fact.payload
            key = (str(p.get("host")), str(p.get("session_id")))
            if kind == SHORTENED:
                shortened[key] += (p["characters_before"] - p["characters_after"]) // _CHARACTERS_A_TOKEN
            elif not p.get("withheld") and p.get("event") not in ("retrieve", "weave"):
                blocks[key] += int(p.get("tokens") or 0)
    return lambda host, session: HookTokens(blocks[host, session], shortened[host, session])


def last_baseline(store: Store) -> str | None:
    """Return when counting was begun anew last; None where it never was."""
    found = store.journal.newest(BASELINE, 1)
    return found[0].at if found else None


def _within(one: Period, zone: str | None) -> tuple[int | None, int | None]:
    return moment(one.since, zone), moment(one.until, zone, after=True)


def _views(store: Store, host: str | None, project: str | None, told: list[tuple[int | None, int | None]]) -> Iterator[Any]:
    """Yield the sessions that were at work in one of the times."""
    for cell in store.lake.manifests("normalized"):
        if host not in {None, cell.host}:
            continue
        rows = store.lake.read_rows("sessions", cell, "normalized")
        wanted = {
            r.session_id
            for r in rows
            if (project is None or project in project_names(r.project, r.repository))
            and any(_overlaps(micros(r.first_ts), micros(r.last_ts), within) for within in told)
        }
        if wanted:
            yield from store.lake.read_sessions(cell, wanted, _TABLES, _COLUMNS, set(_KINDS))


def _overlaps(first: int | None, last: int | None, within: tuple[int | None, int | None]) -> bool:
    start, end = within
    if first is None or last is None:
        return start is None and end is None
    return (start is None or last >= start) and (end is None or first < end)


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

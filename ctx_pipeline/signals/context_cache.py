"""What the provider's prompt cache saved, and when it had to be built again, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.usage_rules import LOST, rebuilt
from ctx_pipeline.signals.inputs.timeline import COLUMNS, KINDS, TABLES, Call, Timeline, call_rates, none, timelines

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_FIVE_MINUTES = 300_000_000
_HOUR = 3_600_000_000
_NANO = 1_000_000_000


class Rebuild(NamedTuple):
    """A call that paid anew for a prompt which the cache had held."""

    call: Call
    tokens: int
    """of the held prompt, not read from the cache"""
    cause: str


def rebuilds(view: SessionView) -> list[Rebuild]:
    """Return the calls that rebuilt the cache, by thread and time."""
    found = []
    for line in view.once(timelines):
        for a, b in zip(line.calls, line.calls[1:], strict=False):
            held = a.read + a.written
            if rebuilt(held, b.read):
                found.append(Rebuild(b, min(held, b.context) - b.read, _cause(line, a, b)))
    return found


def _cause(line: Timeline, a: Call, b: Call) -> str:
    if any(a.seq < c.seq < b.seq for c in line.compactions) or b.context < a.context * LOST:
        return "compaction"
    if a.model != b.model:
        return "model changed"
    lasts = _HOUR if a.written_1h else _FIVE_MINUTES
    if a.ts is not None and b.ts is not None and b.ts - a.ts > lasts:
        return "expired"
    return "prompt changed"


def _cached(lines: list[Timeline]) -> bool:
    return any(c.read or c.written for line in lines for c in line.calls)


@signal(group="context", unit="ratio", better="higher", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def cache_hit_share(view: SessionView) -> Reading:
    """The share of all prompt tokens of the session that came from the provider's cache, 0 to 1.

    Above 0.9 is usual for an agent that works without long breaks; each tenth below it
    makes the prompts markedly dearer, since a cached token costs about a tenth. Unknown
    where no call of the session wrote or read a cache.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    if not _cached(lines):
        return Reading(None, reason="no call of the session used a cache")
    read = sum(c.read for line in lines for c in line.calls)
    prompt = sum(c.context for line in lines for c in line.calls)
    return Reading(min(1.0, read / prompt), metadata={"cached": read, "prompt": prompt})


@signal(group="context", version=2, unit="dollars", better="higher", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def cache_saved_cost(view: SessionView) -> Reading:
    """What the cache saved: the same prompts at the price of fresh input, less what was paid for reading and writing the cache.

    Negative when more was written than ever read again, as in many short sessions.
    Unknown where no price is known.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    if not _cached(lines):
        return Reading(None, reason="no call of the session used a cache")
    saved = 0.0
    priced = 0
    for line, rates_of_calls in zip(lines, view.once(call_rates), strict=True):
        for c, rates in zip(line.calls, rates_of_calls, strict=True):
            if rates:
                priced += 1
                saved += c.read * (rates.input - rates.cache_read)
                saved -= (c.written - c.written_1h) * (rates.cache_write_5m - rates.input)
                saved -= c.written_1h * (rates.cache_write_1h - rates.input)
    if not priced:
        return Reading(None, reason="no price is known for the models of this session")
    return Reading(round(saved) / _NANO, metadata={"calls": priced})


@signal(group="context", unit="calls", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def cache_rebuild_count(view: SessionView) -> Reading:
    """Model calls that read less than half of what the call before them had left in the cache.

    Each pays for the prompt anew. The causes are in the details: ``compaction`` (the
    prompt was replaced), ``model changed``, ``expired`` (more than five minutes, or an
    hour where that was paid for, since the call before), ``prompt changed`` (something
    near its beginning differs: a tool list, a system prompt, a changed file).
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    if not _cached(lines):
        return Reading(None, reason="no call of the session used a cache")
    found = view.once(rebuilds)
    return Reading(
        float(len(found)),
        tuple(r.call.event for r in found if r.call.event),
        metadata={"causes": dict(sorted(Counter(r.cause for r in found).items()))} if found else None,
    )


@signal(group="context", unit="tokens", better="lower", reads=TABLES, kinds=KINDS, columns=COLUMNS)
def cache_rebuild_tokens(view: SessionView) -> Reading:
    """Tokens that the cache had held and that were paid for again at its rebuilds.

    Set it against ``context_peak_tokens``: ten times the peak means ten rebuilds of a
    full window. The details split it by cause, as in ``cache_rebuild_count``.
    """
    lines = view.once(timelines)
    if not lines:
        return none()
    if not _cached(lines):
        return Reading(None, reason="no call of the session used a cache")
    found = view.once(rebuilds)
    causes: Counter[str] = Counter()
    for r in found:
        causes[r.cause] += r.tokens
    largest = sorted(found, key=lambda r: -r.tokens)
    return Reading(
        float(sum(causes.values())),
        tuple(r.call.event for r in largest if r.call.event),
        metadata={"causes": dict(sorted(causes.items()))} if found else None,
    )

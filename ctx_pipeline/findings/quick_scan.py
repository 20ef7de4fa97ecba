"""A quick look into the newest sessions of the homes: what re-sent tool output cost there, and which secrets stand in them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.usage import live_usage as live

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.settings import Settings

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_E = {name: place for place, name in enumerate(EVENTS.names)}

NEWEST = 8 << 20
"""Bytes of the newest files that are looked into."""
_A_TOKEN = 4
"""Characters of a token, about."""


@dataclass(slots=True)
class QuickScan:
    """What the newest sessions show."""

    sessions: int = 0
    cost_nano: int = 0
    tool_output_nano: int = 0
    """of the cost: tool output that was sent again with a later call, read from the cache; an estimate"""
    secrets: Counter[str] = field(default_factory=Counter)
    """detector -> findings"""


def quick_scan(
    settings: Settings, sources: Iterable[live.LiveSource] | None = None, *, bytes_at_most: int = NEWEST, secrets: bool = True
) -> QuickScan:
    """Return what the newest files of the homes show, as many as fit; nothing is written.

    ``sources`` are the files where they were listed already. ``secrets`` looks for these as well, with the patterns of ingest.
    """
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.redaction.liveness import is_live, named

    result, book = QuickScan(), PriceBook.of(settings)
    usable: set[str] = set()
    redactor = Redactor(settings.patterns) if secrets else None
    for session in _newest(settings, live.sources(settings) if sources is None else sources, bytes_at_most):
        (counted,) = live.read([session], whole=True)
        if counted.parsed is None:
            continue
        result.sessions += 1
        rows = [row for row in counted.calls if row[_C["owner"]]]
        priced = zip(rows, book.cost_rows(rows), strict=True)
        costs = {row[_C["call_key"]]: (row, cost) for row, (cost, _) in priced if cost is not None}
        result.cost_nano += sum(cost for _, cost in costs.values())
        result.tool_output_nano += _resent(counted.parsed.events, {key: row for key, (row, _) in costs.items()}, book)
        if redactor is None:
            continue
        texts = [text for event in counted.parsed.events if (text := event[_E["text"]])]
        for text in map(texts.__getitem__, redactor.suspects(texts)):
            found = [(name, start, end) for name, start, end in redactor.find(text) if is_live(name, text, start, end)]
            usable |= {named(name, text[start:end]) for name, start, end in found}
    result.secrets.update(name.partition(":")[0] for name in usable)
    return result


def _newest(settings: Settings, sources: Iterable[live.LiveSource], bytes_at_most: int) -> list[live.LiveSession]:
    """Return the sessions of the newest files that together are not larger, the newest session first."""
    newest, held = [], 0
    for source in sorted(sources, key=lambda s: -s.mtime_ns):
        held += source.size
        if held > bytes_at_most:
            break
        newest.append(source)
    sessions = live.sessions(newest, settings)
    sessions.sort(key=lambda s: -max(source.mtime_ns for source, _ in s.sources))
    return sessions


def _resent(events: Iterable[tuple], calls: Mapping[str, tuple], book: PriceBook) -> int:
    """Return nano-dollars of cache reads that were tool output of earlier calls.

    In each thread the characters that stand before a call's first event are its window,
    emptied by a compaction; what of the call's prompt they do not make (instructions,
    tool definitions) counts as no tool output.
    """
    output: Counter[str] = Counter()
    nano = 0
    seen: set[str] = set()
    for event in events:
        thread, kind, key, text = (event[_E[name]] for name in ("thread_id", "kind", "call_key", "text"))
        row = calls.get(key) if key and key not in seen else None
        if row is not None:
            seen.add(key)
            share = min(1.0, output[thread] / _A_TOKEN / max(1, row[_C["context_tokens"]]))
            told = {name: row[_C[name]] for name in ("context_tokens", "tier", "speed")}
            cost, _ = book.cost_nano(row[_C["model"]], row[_C["ts"]], cache_read=row[_C["cache_read"]], **told)
            nano += int((cost or 0) * share)
        if kind == "compaction":
            output[thread] = 0
        elif kind == "tool_result":
            output[thread] += len(text or "")
    return nano

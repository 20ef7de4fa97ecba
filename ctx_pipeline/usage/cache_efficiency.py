"""What the provider's cache did for model calls: hits, rebuilds and savings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import rebuilt
from ctx_pipeline.pricing.price_book import rates_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.live_usage import Counted

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_TS, _MODEL, _THREAD = _C["ts"], _C["model"], _C["thread_id"]
_READ, _WRITTEN_5M, _WRITTEN_1H, _CONTEXT = _C["cache_read"], _C["cache_write_5m"], _C["cache_write_1h"], _C["context_tokens"]

PROMPT = ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
"""Columns that together are everything sent."""


def hit_share(row: dict[str, Any]) -> float | None:
    """Return the part of a row's prompt tokens that came from the cache; None where nothing was sent."""
    sent = sum(int(row[name] or 0) for name in PROMPT)
    return int(row["cache_read_tokens"] or 0) / sent if sent else None


def effects(owned: Iterable[tuple[Counted, Sequence[tuple]]], settings: Settings) -> dict[int, tuple[int, float]]:
    """Return ``id(row)`` -> (1 where the call rebuilt its thread's cache else 0, nano-dollars that the cache saved it).

    A call without a price saves nothing.
    """

    def book() -> PriceBook:
        from ctx_pipeline.pricing import PriceBook

        return PriceBook.of(settings)

    rate_of = rates_by(book)
    found: dict[int, tuple[int, float]] = {}
    for _, rows in owned:
        held: dict[str, int] = {}
        for row in sorted(rows, key=lambda r: (r[_TS] is None, r[_TS] or 0)):
            read, written = row[_READ], row[_WRITTEN_5M] + row[_WRITTEN_1H]
            again = False
            if row[_CONTEXT] > 0:
                again = rebuilt(held.get(row[_THREAD], 0), read)
                held[row[_THREAD]] = read + written
            rates = rate_of(row[_MODEL], row[_TS], row[_CONTEXT]) if read or written else None
            saved = rates.saved(read=read, written_5m=row[_WRITTEN_5M], written_1h=row[_WRITTEN_1H]) if rates else 0.0
            found[id(row)] = (int(again), saved)
    return found

"""What one token of a call costs, by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.pricing.book import PriceBook

_MILLION = 1_000_000


class Rates(NamedTuple):
    """What a token costs, in nano-dollars."""

    input: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float

    def saved(self, *, read: int, written_5m: int, written_1h: int) -> float:
        """Return what the cache saved: its tokens at the price of fresh input, less what reading and writing them cost."""
        return (
            read * (self.input - self.cache_read)
            - written_5m * (self.cache_write_5m - self.input)
            - written_1h * (self.cache_write_1h - self.input)
        )


def rates_by(book: Callable[[], PriceBook]) -> Callable[[str, int | None, int], Rates | None]:
    """Return what gives the rates of (model, time, prompt tokens), None where no price is known.

    The book is opened at the first question.
    """
    known: dict[tuple[str, str | None], Rates | None] = {}
    opened: list[PriceBook] = []

    def rate_of(model: str, ts: int | None, context: int) -> Rates | None:
        if not opened:
            opened.append(book())
        _, price = opened[0].cost_nano(model, ts, context_tokens=context)
        if price is None:
            return None
        if (model, price) not in known:
            counts: list[dict[str, Any]] = [{name: _MILLION, "context_tokens": context} for name in Rates._fields]
            known[model, price] = Rates(*((opened[0].cost_nano(model, ts, **count)[0] or 0) / _MILLION for count in counts))
        return known[model, price]

    return rate_of

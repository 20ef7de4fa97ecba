"""What the cost of some calls was paid for: input, output, cache written and read; and what a usual week or month has of each."""

from __future__ import annotations

from datetime import date, timedelta
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.usage.cache_efficiency import by_stream, rates_of
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.periods import monday_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.pricing.price_book import Rates
    from ctx_pipeline.settings import Settings

BEFORE = {"week": 8, "month": 6}
"""Weeks or months before the one that is explained which make the usual."""
LEAST = 2
"""Those with calls among them below which there is no usual."""
STREAMS = ("input", "cache_write", "cache_read", "output")
_OF = {"input": ("input",), "cache_write": ("cache_write_5m", "cache_write_1h"), "cache_read": ("cache_read",), "output": ("output",)}
_C = {column.name: place for place, column in enumerate(MODEL_CALLS.columns)}
_COUNTS = itemgetter(*(_C[name] for name in ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")))


class Stream(NamedTuple):
    """Tokens of one stream, and what they cost."""

    tokens: int
    cost_nano: int

    def to_json(self) -> dict[str, Any]:
        """Return it with the cost in dollars."""
        return {"tokens": self.tokens, "cost_usd": self.cost_nano / 1e9}


class Usual(NamedTuple):
    """The mean of the weeks or months with calls among those :data:`BEFORE` one."""

    periods: int
    """of how many"""
    calls: int
    cost_nano: int
    tokens: dict[str, int]
    """one of :data:`STREAMS` -> tokens"""

    def to_json(self) -> dict[str, Any]:
        """Return it with the cost in dollars."""
        return {"periods": self.periods, "calls": self.calls, "cost_usd": self.cost_nano / 1e9, "tokens": self.tokens}


def cost_streams(calls: Iterable[tuple[tuple, int | None]], settings: Settings) -> dict[str, Stream]:
    """Return what calls, rows with their cost in nano-dollars, paid for; what a price holds beside tokens stands with the output."""
    rate_of = rates_of(settings)
    tokens, costs = dict.fromkeys(STREAMS, 0), dict.fromkeys(STREAMS, 0)
    order = ("input", "cache_write", "cache_write", "cache_read", "output")
    sums, paid = [0] * len(order), [0] * len(order)
    # one price of a model is of one list and one size of prompt: its rates are the same in every call
    known: dict[tuple[str, str | None], Rates | None] = {}
    for row, cost in calls:
        counts = _COUNTS(row)
        key = model, price = row[_C["model"]], row[_C["price"]]
        if price is None or key not in known:
            known[key] = rate_of(model, row[_C["ts"]], row[_C["context_tokens"]])
        sums = list(map(add, sums, counts))
        paid = list(map(add, paid, by_stream(counts, cost or 0, known[key])))
    for name, count, part in zip(order, sums, paid, strict=True):
        tokens[name] += count
        costs[name] += part
    return {name: Stream(tokens[name], costs[name]) for name in STREAMS}


def usual(kind: str, what: str, settings: Settings, **chosen: Any) -> Usual | None:
    """Return the mean of the weeks or months before one (2026-W28, 2026-07, or its first day), as the filters of :func:`usage` choose.

    None where fewer than :data:`LEAST` of them had calls.
    """
    first = monday_of(what) or date.fromisoformat(what if len(what) > len("2026-07") else f"{what}-01")
    begins = set()
    for _ in range(BEFORE[kind]):
        last = first - timedelta(days=1)
        first = last.replace(day=1) if kind == "month" else last - timedelta(days=6)
        begins.add(first.isoformat())
    rows = [row for row in usage(f"{kind}ly", settings=settings, **chosen).rows if row["date"] in begins and row["calls"]]
    periods = len({row["date"] for row in rows})
    if periods < LEAST:
        return None
    calls, cost = (round(sum(row[name] for row in rows) / periods) for name in ("calls", "cost_nano"))
    tokens = {name: round(sum(row[f"{part}_tokens"] for row in rows for part in parts) / periods) for name, parts in _OF.items()}
    return Usual(periods, calls, cost, tokens)

"""What calls cost more because their prompt is above a size from which the provider takes a higher price."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.tables import MODEL_CALLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.pricing import PriceBook

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches", "tier", "speed")


def long_prompts(rows: Iterable[tuple], book: PriceBook) -> list[dict[str, Any]]:
    """Return one record for each size: its calls, their list price, and how much of it the higher price is; the largest first.

    ``rows`` are of ``model_calls``. The rest is what the same tokens cost at the price of a short prompt.
    """
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    sizes: dict[str | None, int | None] = {}
    for row in rows:
        price_id, cost = row[_C["price"]], row[_C["cost"]]
        if price_id not in sizes:
            terms = dict(term.partition("=")[::2] for term in book.describe(price_id).terms) if price_id else {}
            sizes[price_id] = int(terms["over"]) if "over" in terms else None
        over = sizes[price_id]
        if over is None or cost is None:
            continue
        usual, _ = book.cost_nano(row[_C["model"]], row[_C["ts"]], **{name: row[_C[name]] for name in _COUNTS})
        for place, amount in enumerate((1, cost, cost - (usual if usual is not None else cost))):
            found[over][place] += amount
    return [
        {"over_tokens": over, "calls": calls, "calculated_usd": cost / 1e9, "extra_usd": extra / 1e9}
        for over, (calls, cost, extra) in sorted(found.items(), key=lambda one: -one[1][2])
    ]

"""What the provider's cache did for model calls: hits, rebuilds and savings."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import cost_of, rebuilt
from ctx_pipeline.pricing.price_book import rates_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.pricing.price_book import Rates
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.lake.queries import LakeConnection
    from ctx_pipeline.usage.rollup import Filters

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_TS, _MODEL, _THREAD, _KEY = _C["ts"], _C["model"], _C["thread_id"], _C["call_key"]
_billed = itemgetter(*(_C[name] for name in ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")))
_READ, _WRITTEN_5M, _WRITTEN_1H, _CONTEXT = _C["cache_read"], _C["cache_write_5m"], _C["cache_write_1h"], _C["context_tokens"]

PROMPT = ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
"""Columns that together are everything sent."""


STREAMS = ("fresh_input", "cache_write_5m", "cache_write_1h", "cache_read", "output")
"""Where the tokens of a call are billed; what a call's price holds beside them (web searches, another tier) stands with the output."""


def by_stream(counts: Sequence[int], cost: int, rates: Rates | None) -> list[int]:
    """Return the nano-dollars of each stream of a call (both in the order of ``STREAMS``); they sum to its cost.

    ``rates`` are those of the call's day and size. What they do not explain, such as another tier, is output's.
    """
    left, found = cost, []
    per = (rates.input, rates.cache_write_5m, rates.cache_write_1h, rates.cache_read) if rates else (0.0,) * 4
    for count, rate in zip(counts, per, strict=False):
        part = min(left, round(count * rate))
        found.append(part)
        left -= part
    return [*found, left]


def stored_cache_read_cost(connection: LakeConnection, filters: Filters, settings: Settings) -> int:
    """Return the nano-dollars that the calls in the tables paid for what came from the cache."""
    from ctx_pipeline.storage.warehouse.usage_sql import PRICED_SQL, cache_read_cost_sql

    rate_of = rates_of(settings)
    known = [(model, price, rate_of(model, ts, context)) for model, price, ts, context in connection.execute(PRICED_SQL).fetchall()]
    priced = [(model, price, r.input, r.cache_write_5m, r.cache_write_1h, r.cache_read) for model, price, r in known if r]
    sql, parameters = cache_read_cost_sql(
        priced, filters.cost_mode, bounds=filters.bounds(), host=filters.host, project=filters.project, model=filters.model
    )
    (found,) = connection.execute(sql, parameters).fetchall()
    return int(found[0])


def paid_for_cache(settings: Settings, mode: str) -> Callable[[tuple], tuple[int]]:
    """Return what gives the nano-dollars that a call paid for what came from the cache, at a cost mode."""
    rate_of, recorded, calculated = rates_of(settings), _C["recorded_cost"], _C["cost"]

    def paid(row: tuple) -> tuple[int]:
        cost = cost_of(mode, row[recorded], row[calculated]) if row[_READ] else None
        return (0,) if cost is None else (by_stream(_billed(row), cost, rate_of(row[_MODEL], row[_TS], row[_CONTEXT]))[3],)

    return paid


def hit_share(row: dict[str, Any]) -> float | None:
    """Return the part of a row's prompt tokens that came from the cache; None where nothing was sent."""
    sent = sum(int(row[name] or 0) for name in PROMPT)
    return int(row["cache_read_tokens"] or 0) / sent if sent else None


def effects_of(settings: Settings) -> Callable[[Sequence[tuple]], Callable[[tuple], tuple[int, int]]]:
    """Return what gives, of the calls of a session, the function from a call to what the cache did for it.

    That is 1 where the call rebuilt its thread's cache, else 0, and the nano-dollars that the cache saved it.
    """
    rate_of = rates_of(settings)

    def of_session(rows: Sequence[tuple]) -> Callable[[tuple], tuple[int, int]]:
        found = dict(zip(map(id, rows), effects_in_session(rows, rate_of), strict=True))
        return lambda row: found[id(row)]

    return of_session


def effects_in_session(rows: Sequence[tuple], rate_of: Callable[[str, int | None, int], Rates | None]) -> list[tuple[int, int]]:
    """Return for each call of one session what :func:`effects_of` does; times are microseconds, a call without a price saves nothing."""
    found = [(0, 0)] * len(rows)
    held: dict[str, int] = {}
    for place in sorted(range(len(rows)), key=lambda at: (rows[at][_TS] is None, rows[at][_TS] or 0, rows[at][_KEY])):
        row = rows[place]
        read, written = row[_READ], row[_WRITTEN_5M] + row[_WRITTEN_1H]
        again = False
        if row[_CONTEXT] > 0:
            again = rebuilt(held.get(row[_THREAD], 0), read)
            held[row[_THREAD]] = read + written
        rates = rate_of(row[_MODEL], row[_TS], row[_CONTEXT]) if read or written else None
        saved = rates.saved(read=read, written_5m=row[_WRITTEN_5M], written_1h=row[_WRITTEN_1H]) if rates else 0
        found[place] = (int(again), round(saved))
    return found


def rates_of(settings: Settings) -> Callable[[str, int | None, int], Rates | None]:
    """Return what gives the rates of (model, time, prompt tokens), None where no price is known."""

    def book() -> PriceBook:
        from ctx_pipeline.pricing import PriceBook

        return PriceBook.of(settings)

    return rates_by(book)

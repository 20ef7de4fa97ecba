"""What the provider's cache did for the calls of a usage report: hits, rebuilds and savings, beside the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctx_pipeline.api.tally import key_of, moment
from ctx_pipeline.api.usage import GROUPS, calls, chosen_filters, usage
from ctx_pipeline.model.cache_rebuilds import rebuilt
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.pricing.rates import rates_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.api.live import Counted
    from ctx_pipeline.api.usage import Usage
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.settings import Settings

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_TS, _MODEL, _THREAD = _C["ts"], _C["model"], _C["thread_id"]
_READ, _WRITTEN_5M, _WRITTEN_1H, _CONTEXT = _C["cache_read"], _C["cache_write_5m"], _C["cache_write_1h"], _C["context_tokens"]
_HOST = _C["host"]

PROMPT = ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
"""Columns that together are everything sent."""


def with_cache(by: str, *, settings: Settings | None = None, stored: bool = False, **asked: Any) -> Usage:
    """Return :func:`ctx_pipeline.api.usage.usage` with three more figures in each row and in the totals.

    ``cache_hit_share``: part of the prompt tokens that came from the cache, 0 to 1, None
    where nothing was sent. ``cache_rebuilds``: calls that read less than half of what the
    call before them in their thread had left there. ``cache_saved_nano``: nano-dollars,
    the same prompts at the price of fresh input less what was paid for the cache; calls
    without a price save nothing. The other columns are those of the same report.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    report = usage(by, settings=chosen, stored=stored, **asked)
    filters = chosen_filters(chosen, **asked)
    name, key_for = key_of(GROUPS[by][0], filters.timezone)
    first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)
    found: dict[tuple[Any, ...], list[float]] = {}
    for counted, row, again, saved in _judged(chosen, host=filters.host, stored=stored):
        if filters.project not in {None, counted.project, counted.repository} or filters.model not in {None, row[_MODEL]}:
            continue
        ts = row[_TS]
        if (first is not None or last is not None) and (ts is None or (first or 0) > ts or (last is not None and ts >= last)):
            continue
        place = (key_for(row, counted), row[_HOST], row[_MODEL], counted.repository if by == "project" else "")
        sums = found.setdefault(place, [0, 0.0])
        sums[0] += again
        sums[1] += saved
    rows = []
    for one in report.rows:
        sums = found.get((one[name] if name else None, one["host"], one["model"], one.get("repository", "")), [0, 0.0])
        rows.append(_told(one, int(sums[0]), round(sums[1])))
    totals = _told(report.totals, sum(r["cache_rebuilds"] for r in rows), sum(r["cache_saved_nano"] for r in rows))
    return replace(report, rows=rows, totals=totals)


def hit_share(row: dict[str, Any]) -> float | None:
    """Return the part of a row's prompt tokens that came from the cache; None where nothing was sent."""
    sent = sum(int(row[name] or 0) for name in PROMPT)
    return int(row["cache_read_tokens"] or 0) / sent if sent else None


def _told(row: dict[str, Any], rebuilds: int, saved: int) -> dict[str, Any]:
    share = hit_share(row)
    return {**row, "cache_hit_share": None if share is None else round(share, 4), "cache_rebuilds": rebuilds, "cache_saved_nano": saved}


def _judged(settings: Settings, *, host: str | None, stored: bool) -> Iterator[tuple[Counted, tuple, bool, float]]:
    """Yield every call that counts, whether it rebuilt its thread's cache, and what the cache saved it in nano-dollars."""

    def book() -> PriceBook:
        from ctx_pipeline.pricing import PriceBook

        return PriceBook.of(settings)

    rate_of = rates_by(book)
    for counted, rows in calls(settings, host=host, stored=stored).owned:
        held: dict[str, int] = {}
        for row in sorted(rows, key=lambda r: (r[_TS] is None, r[_TS] or 0)):
            read, written = row[_READ], row[_WRITTEN_5M] + row[_WRITTEN_1H]
            again = False
            if row[_CONTEXT] > 0:
                again = rebuilt(held.get(row[_THREAD], 0), read)
                held[row[_THREAD]] = read + written
            rates = rate_of(row[_MODEL], row[_TS], row[_CONTEXT]) if read or written else None
            saved = rates.saved(read=read, written_5m=row[_WRITTEN_5M], written_1h=row[_WRITTEN_1H]) if rates else 0.0
            yield counted, row, again, saved

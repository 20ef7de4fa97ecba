"""Whether every way of adding usage up comes to the same: the identity that all reports stand on."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.usage.engine import COUNTS, calls_for, usage
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.rollup import SUMS

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

SUMMED = tuple(name for name in COUNTS if name != "calls")


def sums(*, settings: Settings | None = None) -> dict[str, dict[str, int]]:
    """Return tokens and nano-dollars of the stored calls: as ``billed`` (row by row), and by tool, server, thread, session and day."""
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.usage_sql import billed_sql

    chosen = settings or settings_module.load()
    with reading(chosen) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        row = connection.execute(billed_sql(chosen.cost_mode)).fetchone()
    found = {"billed": _totals(dict(zip(SUMS, map(int, row or ()), strict=False)))}
    read = calls_for(GROUPINGS["tool"], chosen, stored=True)
    for by in ("tool", "server"):
        found[by] = _totals(usage(by, stored=True, settings=chosen, read=read).totals)
    for by in ("thread", "session", "daily"):
        found[by] = _totals(usage(by, stored=True, settings=chosen).totals)
    return found


def _totals(totals: dict[str, int]) -> dict[str, int]:
    return {name: int(totals[name] or 0) for name in (*SUMMED, "cost_nano")}

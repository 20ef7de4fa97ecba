"""Writes ``signals/summary.md`` and ``signals/aggregates.json``: what the readings of all sessions add up to."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline.dashboard.signal_records import markdown, summaries
from ctx_pipeline.storage.warehouse import signal_sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from ctx_pipeline.storage import Store

SUMMARY = "signals/summary.md"
AGGREGATES = "signals/aggregates.json"


def write(store: Store, warehouse: DuckDBPyConnection | None = None) -> None:
    """Write both files, from the tables of a warehouse that was just built or else from the lake."""
    if warehouse is not None:
        records = summaries(lambda name: signal_sql.rows(warehouse, name, built=True))
    else:
        with closing(store.lake.connect()) as connection:
            store.lake.views(connection)
            records = summaries(lambda name: signal_sql.rows(connection, name))
    store.files.write(SUMMARY, markdown(records).encode())
    store.files.write(AGGREGATES, json.dumps({"version": 1, "signals": records}, ensure_ascii=False, indent=1).encode())

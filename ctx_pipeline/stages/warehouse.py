"""Rebuilds the warehouse when anything below it changed, and says what is in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import ctx_pipeline
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.stages import CellReport, StageReport, code_versions, signal_summary
from ctx_pipeline.stages.plan import WAREHOUSE, WHOLE, input_of
from ctx_pipeline.storage import warehouse as file

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

CODE_VERSION = str(file.SCHEMA_VERSION)


def build_warehouse(store: Store, settings: Settings, *, connect: file.Connect | None = None, force: bool = False) -> StageReport:
    """Make ``serving/ctx.duckdb`` anew and swap it in, unless it was made of exactly the live parts.

    ``connect`` gives a connection to the file being made (a Dagster resource, for one);
    without it the package opens its own. Totals are the rows of each aggregate table.
    """
    began = time.perf_counter()
    with store.ledger.lease(WAREHOUSE.key):
        made_of = input_of(store, settings, WAREHOUSE.key)
        version = code_versions.shown(CODE_VERSION, settings)
        relations = file.views(store.lake)
        expected = file.fingerprint(relations, timezone=settings.timezone, cost_mode=settings.cost_mode)
        meta = {} if force else file.read_meta(store.warehouse_path)
        row = store.ledger.asset_cell(WAREHOUSE.key, WHOLE)
        if meta.get("fingerprint") == expected and row is not None and row.code_version == version:
            status, content, rows = "unchanged", row.content_hash, {}
            count = row.rows
        else:
            named = {part.path for table in TABLES for part in store.lake.parts(table)}
            built = file.build(
                relations,
                store.warehouse_path,
                timezone=settings.timezone,
                cost_mode=settings.cost_mode,
                versions={"package": ctx_pipeline.__version__},
                open_file=connect or file.connect,
            )
            store.lake.sweep(keep=named)
            with file.connect(store.warehouse_path, read_only=True) as connection:
                signal_summary.write(store, connection)
            status, content, rows = "done", built.content_hash, built.rows
            count = sum(rows.values())
        store.ledger.record_asset(WAREHOUSE.key, WHOLE, input_fp=made_of, code_version=version, content_hash=content, rows=count)
    seconds = time.perf_counter() - began
    return StageReport("warehouse", {"": CellReport(status, rows, content, seconds)}, rows, seconds)

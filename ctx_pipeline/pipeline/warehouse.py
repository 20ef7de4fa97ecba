"""Rebuilds the warehouse when anything below it changed, and says what is in it."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import msgspec

import ctx_pipeline
from ctx_pipeline.dashboard.signal_records import AGGREGATES, MEASURED, made_of, markdown, summaries
from ctx_pipeline.dashboard.signal_records import TABLES as READ
from ctx_pipeline.errors import StoreError, StoreLocked
from ctx_pipeline.model.declared import Deferred
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.pipeline import CellReport, StageReport, code_versions
from ctx_pipeline.pipeline.plan import WAREHOUSE, WHOLE, input_of
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage.lake import SWEEP_AFTER
from ctx_pipeline.storage.warehouse import database as file
from ctx_pipeline.storage.warehouse import signal_sql
from ctx_pipeline.usage.repositories import repository_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake import LakeSnapshot


# Writes signals/summary.md and signals/aggregates.json: what the readings of all sessions add up to.


SUMMARY = "signals/summary.md"


def write(store: Store, warehouse: DuckDBPyConnection | None = None, lake: LakeSnapshot | None = None) -> None:
    """Write both files, from the tables of a warehouse that was just built of a snapshot of the lake, or else from the lake."""
    if warehouse is not None:
        records = summaries(lambda name: signal_sql.rows(warehouse, name, built=True))
    else:
        with closing(store.lake.connect()) as connection:
            store.lake.views(connection, READ)
            records = summaries(lambda name: signal_sql.rows(connection, name))
    store.files.write(SUMMARY, markdown(records).encode())
    kept_of = made_of([(lake or store.lake).relation_sql(name) for name in MEASURED])
    # the standard library indents in Python alone
    store.files.write(
        AGGREGATES, msgspec.json.format(msgspec.json.encode({"version": 1, "made_of": kept_of, "signals": records}), indent=1)
    )


CODE_VERSION = str(file.SCHEMA_VERSION)

_COLLECTED = "serving/collected.txt"
"""Says when parts that no manifest names were last removed, in seconds since 1970."""

_BETWEEN_COLLECTIONS = SWEEP_AFTER / 4
"""Seconds between two looks for such parts, which walk all files of the lake; each stays for SWEEP_AFTER anyway."""


def _collected(store: Store) -> float:
    """Return when garbage was last collected; 0 where nobody knows."""
    try:
        return float(store.files.read(_COLLECTED))
    except (StoreError, ValueError):
        return 0.0


def build_warehouse(store: Store, settings: Settings, *, connect: file.Connect | None = None, force: bool = False) -> StageReport:
    """Make ``serving/ctx.duckdb`` anew and swap it in, unless it was made of exactly the live parts.

    ``connect`` gives a connection to the file being made (a Dagster resource, for one);
    without it the package opens its own. Totals are the rows of each aggregate table.
    """
    began, began_at = time.perf_counter(), time.time()
    with store.ledger.lease(WAREHOUSE.key):
        made_of = input_of(store, settings, WAREHOUSE.key)
        version = code_versions.shown(code_versions.of_stage(WAREHOUSE.key), settings)
        lake = store.lake.snapshot()
        relations = file.views(lake)
        expected = file.fingerprint(relations, timezone=settings.timezone, cost_mode=settings.cost_mode)
        meta = {} if force else file.known_meta(store.warehouse_path)
        row = store.ledger.asset_cell(WAREHOUSE.key, WHOLE)
        held = [meta.get(name) for name in ("fingerprint", "input_fp", "code_version", "content_hash")]
        current = held[:3] == [expected, made_of, version]
        rows: dict[str, int] = {}
        if not current:
            rows = file.build(
                relations,
                store.warehouse_path,
                timezone=settings.timezone,
                cost_mode=settings.cost_mode,
                project_names=repository_names,
                versions={
                    "package": ctx_pipeline.__version__,
                    "input_fp": made_of,
                    "code_version": version,
                    file.DETECTORS: Redactor(settings.patterns).version,
                },
                open_file=connect or file.connect,
                lake=lake,
                anew=force,
            ).rows
            if force or not 0 <= began_at - _collected(store) < _BETWEEN_COLLECTIONS:
                store.lake.collect_garbage(keep={part.path for table in TABLES for part in lake.parts(table)})
                store.files.write(_COLLECTED, str(began_at).encode())
        if not current or row is None or [row.input_fp, row.code_version, row.content_hash] != held[1:]:
            with file.connect(store.warehouse_path, read_only=True) as connection:
                write(store, connection, lake)
        made = file.made(store.warehouse_path)
        if made is None:
            raise StoreError(f"{store.warehouse_path} was made and cannot be read", hint="ctx run", path=str(store.warehouse_path))
        _keep_figures(store, settings)
        store.ledger.record_asset(WAREHOUSE.key, WHOLE, *made)
    seconds = time.perf_counter() - began
    return StageReport("warehouse", {"": CellReport(UNCHANGED if current else DONE, rows, made.content_hash, seconds)}, rows, seconds)


_keep_figures: Callable[..., int] = Deferred("ctx_pipeline.sessions.reports.kept_figures:keep")
"""Figures of single sessions, which reports add up: they are made above the pipeline, where the reports are."""


_FEW = 40
"""Sessions whose figures a sync makes; of more the next one makes as many again, or the next run all."""


def keep_figures(store: Store, settings: Settings) -> None:
    """Keep the figures of a few sessions that changed, unless another process is making the warehouse, which does it too."""
    if store.warehouse_path.exists():
        with suppress(StoreLocked), store.ledger.lease(WAREHOUSE.key, wait=0):
            _keep_figures(store, settings, most=_FEW)

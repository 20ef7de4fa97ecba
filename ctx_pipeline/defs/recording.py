"""From a stage's report to what Dagster shows: one event a cell, numbers only."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg

from ctx_pipeline.defs.partitions import cell_of
from ctx_pipeline.errors import CtxError, SourceError, StoreLocked
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.pipeline.reports import reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.defs.resources import Pipeline
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline import StageReport

RETRIES = dg.RetryPolicy(max_retries=2, delay=1.0, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.FULL)
"""For a busy disk or database. Whatever else goes wrong goes wrong again: :func:`steady` takes that out of the policy's reach."""

_TYPES = {"str": "string", "int": "int", "float": "double", "bool": "boolean", "time": "timestamp", "list": "list<string>"}


@contextmanager
def steady() -> Iterator[None]:
    """Let errors of I/O through to the retry policy; turn every other into a Failure that is not retried.

    The Failure carries our own messages, or the type and place of an unforeseen error: its
    text might quote a session, and the event log is not a private store.
    """
    try:
        yield
    except (SourceError, StoreLocked, dg.Failure):
        raise
    except CtxError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    except OSError as error:
        if isinstance(error, BlockingIOError | InterruptedError | TimeoutError | ConnectionError) or error.errno is not None:
            raise
        raise dg.Failure(reason(error), allow_retries=False) from None
    except Exception as error:  # noqa: BLE001 - the border to Dagster
        raise dg.Failure(reason(error), allow_retries=False) from None


def materialize_cells(context: dg.AssetExecutionContext, pipeline: Pipeline, step: str, **options: Any) -> Iterator[dg.MaterializeResult]:
    """Run a step over the cells of this run and yield one result for each selected asset.

    What is held, an asset in a partition, is not materialized: all others of the run get
    their event, then the step fails and names the held ones, so that only they turn red.
    """
    keys = list(context.partition_keys)
    assets = sorted(context.selected_asset_keys)
    with steady():
        reports = pipeline.step(step, cells=[cell_of(key) for key in keys], **options)
        facts = {(asset, key): metadata(pipeline, asset, cell_of(key), reports) for asset in assets for key in keys}
    failed = {key: error for report in reports for key, error in report.failed_partitions.items() if key in set(keys)}
    if failed:
        for (asset, key), values in facts.items():
            told = [report.cells[key] for report in reports if key in report.cells]
            if not any(cell.failure_of(asset.to_user_string()) for cell in told):
                version = {"dagster/code_version": str(context.assets_def.specs_by_key[asset].code_version)}
                context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=values, tags=version))
        raise dg.Failure(
            f"failed partitions: {', '.join(sorted(failed))}",
            metadata={"held": dg.MetadataValue.json(dict(sorted(failed.items())))},
            allow_retries=False,
        )
    for asset in assets:
        for key in keys:
            context.add_asset_metadata(facts[asset, key], asset_key=asset, partition_key=key)
        yield dg.MaterializeResult(asset_key=asset)


def materialize_whole(context: dg.AssetExecutionContext, pipeline: Pipeline, step: str, **options: Any) -> dg.MaterializeResult:
    """Run the step of an unpartitioned asset and return its result; it fails where the step held the asset back."""
    with steady():
        reports = pipeline.step(step, **options)
        facts = metadata(pipeline, context.asset_key, WHOLE, reports)
    errors = [error for report in reports for error in report.failed_partitions.values()]
    if errors:
        raise dg.Failure(errors[0], allow_retries=False)
    return dg.MaterializeResult(metadata=facts)


def metadata(pipeline: Pipeline, asset: dg.AssetKey, cell: Cell, reports: Sequence[StageReport]) -> dict[str, Any]:
    """Return the numbers of one cell of one asset: rows, content hash, and what the step counted.

    Well below 2 kB, since it lies in the event log once for every cell and asset; the UI plots the numbers by partition.
    """
    row = pipeline.store.ledger.asset_cell(asset.to_user_string(), cell)
    facts: dict[str, Any] = {}
    if row is not None:
        facts = {"dagster/row_count": int(row.rows or 0), "content_hash": str(row.content_hash)[:16]}
        facts |= _files(pipeline, asset, cell)
    elif cell != WHOLE:
        facts = {"sessions": len(pipeline.store.ledger.sessions(cells=[cell]))}
    for report in reports:
        told = report.cells.get("" if cell == WHOLE else cell.key)
        if told is None:
            continue
        facts["status"] = "done" if told.wrote(asset.to_user_string()) else "unchanged"
        facts["seconds"] = round(float(told.seconds or report.seconds), 3)
        # what one step counted over several families is the figure of none of them
        if len(told.made) > 1:
            facts["sessions_read"] = told.counts.get("sessions", 0)
        else:
            facts |= {name: value for name, value in sorted(told.counts.items())[:12] if isinstance(value, int | float)}
        facts |= dict(sorted(told.figures.items())[:24])
    return facts


def _files(pipeline: Pipeline, asset: dg.AssetKey, cell: Cell) -> dict[str, Any]:
    """Return the bytes and the folder of what an asset has in a partition of the lake."""
    group, *rest = asset.path
    manifest = pipeline.store.lake.manifest(group if group == "normalized" else asset.to_user_string(), cell)
    parts = [part for part in manifest.parts if group != "normalized" or part.table == rest[0]] if manifest else []
    if not parts:
        return {}
    return {"bytes": sum(part.bytes for part in parts), "path": dg.MetadataValue.path(str((pipeline.store.home / parts[0].path).parent))}


def column_schema(table: str) -> dg.TableSchema:
    """Return a table's columns, types and meaning as Dagster shows them."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=column.name,
                type=_TYPES[column.type],
                description=f"{column.doc} [{column.unit}]" if column.unit else column.doc,
                constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=TABLES[table].key == (column.name,)),
            )
            for column in TABLES[table].columns
        ]
    )

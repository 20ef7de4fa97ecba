"""From a stage's report to what Dagster shows: one event a cell, numbers only."""

from __future__ import annotations

import importlib.util
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError, SourceError, StoreLocked
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.pipeline.reports import reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.defs.resources import Pipeline
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


def _recorded_mark() -> str | None:
    """Return the metadata key of an output whose events its step has already recorded; None where this Dagster has none.

    Dagster gives one data version to all partitions of a range (its issue 34013) and knows
    no public way to say them one by one. With this mark, which its own observable sources
    use, it adds no events of its own. Without it, ranges are recorded by Dagster itself, with
    its own versions; a run of one partition always is.
    """
    try:
        from dagster._core.definitions import source_asset
    except ImportError:
        return None
    return getattr(source_asset, "SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION", None)


_OBSERVED_BY = {dg.AssetKey(["raw", "segments"])}
"""Assets of what was observed: of a partition that was only observed Dagster says the version of nothing as that of its input."""


def materialize_cells(
    context: dg.AssetExecutionContext, pipeline: Pipeline, step: str, **options: Any
) -> Iterator[dg.AssetMaterialization | dg.MaterializeResult]:
    """Run a step over the cells of this run and yield what was made of each selected asset in each of them.

    One cell is a result of each asset, which Dagster records. Of a range, and of what reads
    observed partitions, each cell is an event of ours, and the results add none.

    What is held, an asset in a partition, is not materialized: all others of the run get
    their event, then the step fails and names the held ones, so that only they turn red.
    """
    keys = list(map(str, context.partition_keys))
    assets = sorted(context.selected_asset_keys)
    with steady():
        reports = pipeline.step(step, cells=[Cell.of(key) for key in keys], **options)
        mark = _recorded_mark() if len(keys) > 1 or _OBSERVED_BY.intersection(assets) else None
        events = list(_events(context, pipeline, reports, assets, keys))
    if mark:
        yield from events
    else:
        yield from _results(context, events, one=len(keys) == 1)
    failed = {key: error for report in reports for key, error in report.failed_partitions.items() if key in set(keys)}
    if failed:
        raise dg.Failure(
            f"failed partitions: {', '.join(sorted(failed))}",
            metadata={"held": dg.MetadataValue.json(dict(sorted(failed.items())))},
            allow_retries=False,
        )
    if mark:
        for asset in assets:
            yield dg.MaterializeResult(asset_key=asset, metadata={mark: True})


def _results(context: dg.AssetExecutionContext, events: Sequence[dg.AssetMaterialization], *, one: bool) -> Iterator[dg.MaterializeResult]:
    """Return a result for each asset, from which Dagster makes the events itself; only one partition can have its content hash."""
    for asset in dict.fromkeys(event.asset_key for event in events):
        mine = [event for event in events if event.asset_key == asset]
        if one:
            yield dg.MaterializeResult(
                asset_key=asset, metadata=mine[0].metadata, data_version=dg.DataVersion((mine[0].tags or {})[_DATA_VERSION])
            )
        else:
            for event in mine:
                context.add_asset_metadata(event.metadata, asset_key=asset, partition_key=event.partition)
            yield dg.MaterializeResult(asset_key=asset)


def _events(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    reports: Sequence[StageReport],
    assets: Sequence[dg.AssetKey],
    keys: Sequence[str],
) -> Iterator[dg.AssetMaterialization]:
    """Return what was made of each asset in each cell: its numbers, its content hash as data version, and what it was made of."""
    specs = context.assets_def.specs_by_key
    upstream = {dep.asset_key for asset in assets for dep in specs[asset].deps}
    pointers = {dep: _newest(context.instance, dep, keys) for dep in upstream}
    for asset in assets:
        for key in keys:
            cell = Cell.of(key)
            if any(report.cells[key].failure_of(asset.to_user_string()) for report in reports if key in report.cells):
                continue
            tags = {_CODE_VERSION: str(specs[asset].code_version), _DATA_VERSION: _version(pipeline, asset, cell), _OUR_VERSION: "true"}
            for dep in (dep.asset_key for dep in specs[asset].deps):
                seen, version = pointers[dep].get(key, ("NULL", ""))
                tags[f"{_INPUT_POINTER}/{dep.to_user_string()}"] = seen
                tags[f"{_INPUT_VERSION}/{dep.to_user_string()}"] = version or _version(pipeline, dep, cell)
            yield dg.AssetMaterialization(asset, partition=key, metadata=metadata(pipeline, asset, cell, reports), tags=tags)


_CODE_VERSION = "dagster/code_version"
_DATA_VERSION = "dagster/data_version"
_OUR_VERSION = "dagster/data_version_is_user_provided"
_INPUT_VERSION = "dagster/input_data_version"
_INPUT_POINTER = "dagster/input_event_pointer"
_NEVER_SEEN = "INITIAL"
"""Dagster's version of what it has no event of"""


def _newest(instance: dg.DagsterInstance, asset: dg.AssetKey, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return partition -> id of the newest event of an asset, and its data version where the asset is only observed."""
    if asset.path[0] != "source":
        found = instance.event_log_storage.get_latest_storage_id_by_partition(asset, dg.DagsterEventType.ASSET_MATERIALIZATION, set(keys))
        return {key: (str(number), "") for key, number in found.items()}
    observed = {}
    for key in keys:
        for record in instance.fetch_observations(dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[key]), limit=1).records:
            event = record.event_log_entry.asset_observation
            observed[key] = (str(record.storage_id), (event.tags.get(_DATA_VERSION) if event else None) or _NEVER_SEEN)
    return observed


def _version(pipeline: Pipeline, asset: dg.AssetKey, cell: Cell) -> str:
    """Return the content hash of an asset in a cell, as long as it need be to be told from others."""
    row = pipeline.store.ledger.asset_cell(asset.to_user_string(), cell)
    return str(row.content_hash)[:16] if row is not None and row.content_hash else _NEVER_SEEN


def materialize_whole(context: dg.AssetExecutionContext, pipeline: Pipeline, step: str, **options: Any) -> dg.MaterializeResult:
    """Run the step of an unpartitioned asset and return its result; it fails where the step held the asset back."""
    with steady():
        reports = pipeline.step(step, **options)
        facts = metadata(pipeline, context.asset_key, WHOLE, reports)
        version = _version(pipeline, context.asset_key, WHOLE)
    errors = [error for report in reports for error in report.failed_partitions.values()]
    if errors:
        raise dg.Failure(errors[0], allow_retries=False)
    return dg.MaterializeResult(metadata=facts, data_version=dg.DataVersion(version))


def metadata(pipeline: Pipeline, asset: dg.AssetKey, cell: Cell, reports: Sequence[StageReport]) -> dict[str, Any]:
    """Return the numbers of one cell of one asset: rows, bytes, sessions that were worked out again, and what the step counted.

    Well below 2 kB, since it lies in the event log once for every cell and asset; the UI plots the numbers by partition.
    """
    row = pipeline.store.ledger.asset_cell(asset.to_user_string(), cell)
    facts: dict[str, Any] = {}
    if row is not None:
        facts = {"dagster/row_count": int(row.rows or 0), **_files(pipeline, asset, cell)}
    elif cell != WHOLE:
        facts = {"sessions": len(pipeline.store.ledger.sessions(cells=[cell]))}
    for report in reports:
        told = report.cells.get("" if cell == WHOLE else cell.key)
        if told is None:
            continue
        facts["status"] = "done" if told.wrote(asset.to_user_string()) else "unchanged"
        facts["seconds"] = round(float(told.seconds or report.seconds), 3)
        again = told.recomputed.get(asset.to_user_string())
        facts["sessions_recomputed"] = told.counts.get("parsed", told.counts.get("sessions", 0)) if again is None else sum(again.values())
        if again:
            facts["recomputed_because"] = ", ".join(f"{why}: {count}" for why, count in sorted(again.items()))
        # what one step counted over several families is the figure of none of them
        if len(told.made) <= 1:
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


def source_links(asset: str) -> list[dg.LocalFileCodeReference]:
    """Return where the code of an asset stands: each signal of its file, its method, else the module of its stage."""
    kind, _, name = asset.partition("/")
    functions: list[tuple[str, Any]] = []
    if kind == "signals" and name in (families := discovery.families()):
        functions = [(signal.name, signal.function) for signal in families[name].signals]
    elif kind == "mined" and name in (methods := discovery.methods()):
        functions = [(name, methods[name].extract)]
    found = [(label, getattr(inspect.unwrap(function), "__code__", None)) for label, function in functions]
    links = [
        dg.LocalFileCodeReference(file_path=code.co_filename, line_number=code.co_firstlineno, label=label) for label, code in found if code
    ]
    if links or functions:
        return links
    module = _MODULES.get(kind) or code_versions.STAGES.get(asset, code_versions.STAGES.get(kind, ("",)))[0]
    place = importlib.util.find_spec(f"ctx_pipeline.{module}") if module else None
    return [dg.LocalFileCodeReference(file_path=place.origin, line_number=1, label=module)] if place and place.origin else []


_MODULES = {"normalized": "pipeline.ingest", "facts": "pipeline.facts"}


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

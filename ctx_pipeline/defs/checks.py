"""Checks of the normalized tables and of the signals, each recorded for the partitions that it looked at."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from ctx_pipeline.defs.recording import steady
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.model.raw import Cell


class Check(NamedTuple):
    """A check: where it is shown, whether it blocks, and what it says."""

    asset: str
    blocking: bool
    describe: str


CHECKS = {
    "unique_event_ids": Check("events", True, "No event id occurs twice in a partition."),
    "session_in_one_cell": Check("sessions", True, "No session lies in more than one partition."),
    "bytes_conserved": Check("events", False, "The bytes read while normalizing are the bytes that raw holds."),
    "parse_rate": Check("events", False, "At least 99 % of the records decode; the others are quarantined and listed by `ctx doctor`."),
    "formats_understood": Check(
        "events", False, "Every version of a host is understood as well as its others; which is not: `ctx doctor --formats`."
    ),
    "known_types": Check("events", False, "No record, block or value of an unknown type; they are kept, counted and listed here."),
    "calls_have_results": Check("tool_calls", False, "At least 90 % of the tool calls have a result."),
}

SIGNAL_ERRORS = "signal_errors"


def build(cells: dg.PartitionsDefinition) -> dg.AssetChecksDefinition:
    """Return the checks of the normalized tables as one step, so that the partitions are read once."""
    specs = {
        name: dg.AssetCheckSpec(
            name=name,
            asset=dg.AssetKey(["normalized", check.asset]),
            blocking=check.blocking,
            description=check.describe,
            partitions_def=cells,
        )
        for name, check in CHECKS.items()
    }

    # a click on one table asks for the checks of that table alone
    @dg.multi_asset_check(name="normalized_contract", specs=list(specs.values()), can_subset=True)
    def normalized_contract(context: dg.AssetCheckExecutionContext, pipeline: dg.ResourceParam[Pipeline]) -> Iterator[Any]:
        from ctx_pipeline.storage.warehouse import contract_checks

        keys = list(context.partition_keys)
        with steady():
            found = contract_checks.run(pipeline.store, [Cell.of(key) for key in keys])
        asked = [spec for spec in specs.values() if spec.key in context.selected_asset_check_keys]
        made = {asset: _materialized(context.instance, asset, keys) for asset in {spec.asset_key for spec in asked}}
        for spec in asked:
            for key in keys:
                finding = found[Cell.of(key)][spec.name]
                yield dg.AssetCheckEvaluation(
                    asset_key=spec.asset_key,
                    check_name=spec.name,
                    passed=finding.passed,
                    partition=key,
                    blocking=spec.blocking,
                    severity=dg.AssetCheckSeverity.ERROR if spec.blocking else dg.AssetCheckSeverity.WARN,
                    target_materialization_data=made[spec.asset_key].get(key),
                    metadata={name: dg.MetadataValue.json(v) if isinstance(v, dict) else v for name, v in finding.numbers.items()},
                )
            # a result would be recorded without a partition where the run has more than one
            yield dg.Output(None, output_name=spec.get_python_identifier())

    return normalized_contract


def _materialized(
    instance: dg.DagsterInstance, asset: dg.AssetKey, keys: Iterable[str]
) -> dict[str, AssetCheckEvaluationTargetMaterializationData]:
    """Return partition -> its newest materialization, as a check's evaluation names it."""
    latest = instance.event_log_storage.get_latest_storage_id_by_partition(
        asset, dg.DagsterEventType.ASSET_MATERIALIZATION, set(map(str, keys))
    )
    if not latest:
        return {}
    wanted = dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION, asset_key=asset, storage_ids=list(latest.values()))
    records = instance.event_log_storage.get_event_records(wanted)
    return {str(record.partition_key): _named(record) for record in records}


def _named(record: dg.EventLogRecord) -> AssetCheckEvaluationTargetMaterializationData:
    """Return a materialization as a check's evaluation names it."""
    return AssetCheckEvaluationTargetMaterializationData(
        run_id=record.event_log_entry.run_id, storage_id=record.storage_id, timestamp=record.timestamp
    )


def of_signals(families: Iterable[str]) -> list[dg.AssetChecksDefinition]:
    """Return one check a signal family as one step; each looks at all partitions, so that a mended signal turns green with its next run."""
    specs = [
        dg.AssetCheckSpec(
            name=SIGNAL_ERRORS,
            asset=dg.AssetKey(["signals", family]),
            description="No signal of the family failed in a session; which did, and where: `ctx doctor`.",
        )
        for family in families
    ]

    @dg.multi_asset_check(name=SIGNAL_ERRORS, specs=specs, can_subset=True)
    def signal_errors(context: dg.AssetCheckExecutionContext, pipeline: dg.ResourceParam[Pipeline]) -> Iterator[Any]:
        from ctx_pipeline.pipeline.session_errors import stored_errors

        with steady():
            errors = stored_errors(pipeline.store, pipeline.settings)
        asked = [spec for spec in specs if spec.key in context.selected_asset_check_keys]
        # Dagster itself would look for what a check is about check by check, by statements of a hundredth of a second
        newest = {r.asset_entry.asset_key: r.asset_entry for r in context.instance.get_asset_records([spec.asset_key for spec in asked])}
        for spec in asked:
            mine = [error for error in errors if error.asset.partition("@")[0] == spec.asset_key.to_user_string()]
            sessions = {(error.host, error.session_id) for error in mine}
            about = newest[spec.asset_key].last_materialization_record if spec.asset_key in newest else None
            yield dg.AssetCheckEvaluation(
                asset_key=spec.asset_key,
                check_name=spec.name,
                passed=not mine,
                severity=dg.AssetCheckSeverity.WARN,
                target_materialization_data=_named(about) if about else None,
                metadata={
                    "sessions": len(sessions),
                    "partitions": dg.MetadataValue.json(sorted({error.asset.partition("@")[2] for error in mine})[:20]),
                    "raised": dg.MetadataValue.json(sorted({error.reason for error in mine})[:20]),
                }
                if mine
                else {},
            )
            yield dg.Output(None, output_name=spec.get_python_identifier())

    return [signal_errors] if specs else []

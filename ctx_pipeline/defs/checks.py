"""Checks of the normalized tables: contracts block what lies below, drift warns."""

from collections.abc import Iterator
from typing import NamedTuple

import dagster as dg

from ctx_pipeline.defs.partitions import cell_of
from ctx_pipeline.defs.recording import steady
from ctx_pipeline.defs.resources import Pipeline


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


def build(cells: dg.PartitionsDefinition) -> dg.AssetChecksDefinition:
    """Return all checks as one step, so that the cells are read once."""

    @dg.multi_asset_check(
        name="normalized_contract",
        specs=[
            dg.AssetCheckSpec(
                name=name,
                asset=dg.AssetKey(["normalized", check.asset]),
                blocking=check.blocking,
                description=check.describe,
                partitions_def=cells,
            )
            for name, check in CHECKS.items()
        ],
        # a click on one table asks for the checks of that table alone
        can_subset=True,
    )
    def normalized_contract(context: dg.AssetCheckExecutionContext, pipeline: dg.ResourceParam[Pipeline]) -> Iterator[dg.AssetCheckResult]:
        from ctx_pipeline.storage.warehouse import contract_checks

        with steady():
            found = contract_checks.run(pipeline.store, [cell_of(key) for key in context.partition_keys])
        asked = {key.name for key in context.selected_asset_check_keys}
        for name, check in CHECKS.items():
            if name not in asked:
                continue
            finding = found[name]
            yield dg.AssetCheckResult(
                asset_key=dg.AssetKey(["normalized", check.asset]),
                check_name=name,
                passed=finding.passed,
                severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
                metadata={
                    key: dg.MetadataValue.json(value) if isinstance(value, dict) else value for key, value in finding.numbers.items()
                },
            )

    return normalized_contract

"""The one thing that launches by itself: a condition that asks the plan.

Dagster's own marks cannot decide this. They look at the latest month only (a session
resumed from an old month would be ignored for ever), stop at one hundred upstream
partitions, and know nothing of `ctx run` and `ctx sync` in other processes. The ledger
does, so the condition's leaf is the same plan that `ctx status` prints.

What it does, line by line of the truth table in the tests:

- a late append to an old month: the cell and everything below it are requested once;
- a new signal: nothing; filling history is a person's act (`ctx backfill`, or a click);
- a new code version: the cells that were made by the old one, of that asset only;
- `ctx run` elsewhere did the work: nothing;
- a cell that failed or is held back: nothing until its input or its code changes again.
"""

from __future__ import annotations

import json
from typing import Any

import dagster as dg

from ctx_pipeline.defs import planned
from ctx_pipeline.pipeline.plan import NEW_ASSET, WHOLE

SENSOR = "automation"


class PlanAsksFor(dg.AutomationCondition[Any]):
    """True for cells that the plan calls missing or stale and that were not requested for the same input and code before."""

    @property
    def name(self) -> str:
        """Name in the UI."""
        return "plan asks for"

    @property
    def description(self) -> str:
        """One line in the UI."""
        return "The plan calls the partition missing or stale, and it was not requested for this input and code before"

    def evaluate(self, context: dg.AutomationContext) -> dg.AutomationResult:
        """Return the candidate cells to request; the cursor keeps the token of each cell's last request."""
        candidates = context.candidate_subset
        tick = planned.at(context.evaluation_time)
        found = tick.plan.assets.get(context.key.to_user_string())
        needs = found.cells if found else {}
        wanted = {cell.key: n.token for cell, n in needs.items() if n.state != "fresh" and n.reason != NEW_ASSET}
        asked = {key: token for key, token in json.loads(context.cursor or "{}").items() if key in wanted}
        fresh = {key for key, token in wanted.items() if asked.get(key) != token}
        if candidates.is_partitioned:
            now = {str(key) for key in candidates.expensively_compute_partition_keys()} & fresh
            subset = candidates.compute_intersection_with_partition_keys(frozenset(now))
            tick.cells_requested = tick.cells_requested or bool(now)
        else:
            now = {WHOLE.key} & fresh if candidates.size and not tick.cells_requested else set()
            subset = candidates if now else context.get_empty_subset()
        asked |= {key: wanted[key] for key in now}
        return dg.AutomationResult(context, subset, cursor=json.dumps(asked, sort_keys=True))


def when_inputs_or_code_change() -> dg.AutomationCondition:
    """Request what the plan asks for, once, while nothing works on it or above it.

    The tail waits until no cell is requested or under way, so that an append is one run of
    its cell and then one run of the tail. ``will_be_requested`` of Dagster cannot say that:
    it is false between assets of different partitions. Two assets of the tail lie below
    another one, hence the look one step further up.
    """
    conditions = dg.AutomationCondition
    idle: dg.AutomationCondition[Any] = ~conditions.in_progress() & ~conditions.any_deps_in_progress()
    idle &= ~conditions.any_deps_match(conditions.any_deps_in_progress())
    return (idle & PlanAsksFor()).with_label("when_inputs_or_code_change")


def sensor(*, running: bool = False) -> dg.AutomationConditionSensorDefinition:
    """Return the sensor that evaluates the condition every 30 seconds; off unless told otherwise.

    It runs in the code server, because the condition is our own class, and asks for a
    backfill where more than one cell of an asset is requested: one run a range.
    """
    return dg.AutomationConditionSensorDefinition(
        name=SENSOR,
        target=dg.AssetSelection.all(),
        use_user_code_server=True,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        run_tags={"ctx/by": SENSOR},
        description="The only thing that launches runs: asks the plan which partitions have new input or code.",
    )

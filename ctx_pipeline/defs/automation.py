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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dagster as dg

from ctx_pipeline import settings as settings_file
from ctx_pipeline.defs.partitions import boxes
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.pipeline.capture.retention import require_disk_space
from ctx_pipeline.pipeline.plan import NEW_ASSET, WHOLE

if TYPE_CHECKING:
    from datetime import datetime

    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.settings import Settings


# The plan as sensors, schedule and automation see it: one scan for all that ask in the same moment.


@dataclass(slots=True)
class Tick:
    """One evaluation of all conditions."""

    moment: datetime
    home: Path
    plan: Plan
    cells_requested: bool = False
    """a partitioned asset was requested in this tick; upstream assets are evaluated first"""


_last: Tick | None = None


def at(moment: datetime) -> Tick:
    """Return the tick of one moment; all assets are judged by the same scan and plan.

    Files written to within ``settings.debounce_seconds`` are left out: a live session
    would otherwise be requested at every tick.
    """
    global _last  # noqa: PLW0603 - the daemon asks once an asset, with the same moment
    settings = settings_file.load()
    if _last is None or (_last.moment, _last.home) != (moment, settings.home):
        _last = Tick(moment, settings.home, look())
    return _last


def look() -> Plan:
    """Return the plan of this moment for the store that the environment names.

    Raises StoreFull where something is to do and the disk is nearly full: nobody watches what would be launched.
    """
    pipeline = Pipeline()
    try:
        plan = pipeline.plan(settle_seconds=pipeline.settings.debounce_seconds)
        if not plan.nothing_to_do:
            require_disk_space(pipeline.settings)
        return plan
    finally:
        pipeline.close()


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
        tick = at(context.evaluation_time)
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


# The nightly run: what the plan calls dirty, by boxes; off until a person switches it on.


EVERYTHING = "everything"

LOCAL_TIME = Path("/etc/localtime")
"""A link to the machine's own zone, where there is one."""


def job() -> UnresolvedAssetJobDefinition:
    """Return the job of all assets; a run of it covers a box of cells and then the tail."""
    return dg.define_asset_job(
        EVERYTHING,
        selection=dg.AssetSelection.all(),
        description="Every partitioned asset over a partition range, then the unpartitioned ones.",
    )


def build(settings: Settings, *, running: bool = False) -> dg.ScheduleDefinition:
    """Return the schedule at ``settings.nightly``, off unless told otherwise."""
    hour, _, minute = settings.nightly.partition(":")

    @dg.schedule(
        name="nightly",
        cron_schedule=f"{int(minute)} {int(hour)} * * *",
        execution_timezone=_zone(settings.timezone),
        job_name=EVERYTHING,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
        description=f"Materializes every stale partition at {settings.nightly}, old months included; asks the plan, not the newest window.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        moment = context.scheduled_execution_time
        return requests(look(), f"{moment:%Y-%m-%d}" if moment else "")

    return nightly


def _zone(name: str | None) -> str | None:
    """Return a zone that Dagster can follow: the one that is set, else the machine's own, as timers have it; None is UTC."""
    name = name or LOCAL_TIME.resolve().as_posix().partition("zoneinfo/")[2]
    try:
        return name if name and ZoneInfo(name) else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def requests(plan: Plan, night: str) -> list[dg.RunRequest] | dg.SkipReason:
    """Return a run request for each box of dirty cells, each with the tail, which costs a look where nothing changed.

    Leases serialize the tail, so the last run to end has seen every box.
    """
    found = boxes(plan.partitioned_cells(off_path=True))
    if found:
        return [dg.RunRequest(run_key=f"{night} {box.title}", tags={**box.tags, "ctx/by": "nightly"}) for box in found]
    tail = plan.tail(off_path=True)
    if tail:
        return [
            dg.RunRequest(run_key=f"{night} tail", asset_selection=[dg.AssetKey(k.split("/")) for k in tail], tags={"ctx/by": "nightly"})
        ]
    return dg.SkipReason("nothing new")

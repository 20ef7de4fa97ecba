"""The one thing that launches by itself: a sensor that asks the plan.

Dagster's own conditions cannot decide this. Its marks stop at one hundred upstream
partitions and know nothing of `ctx run` and `ctx sync` in other processes, and every
evaluation of a condition over this graph leaves megabytes in ``schedules.db``. The ledger
knows, so the sensor reads the same plan that `ctx status` prints.

What it does, line by line of the truth table in the tests:

- a late append to an old month: one run of its cell and of all below it, up to the page;
- a new signal: nothing, also where a person filled some of its months; history is filled by `ctx backfill`, or by a click;
- a new code version: the cells that were made by the old one, of that asset only;
- `ctx run` elsewhere did the work: nothing;
- a run of its own, or of `ctx run`, under way: nothing until it has ended;
- a cell that failed or is held back: nothing until its input or its code changes again;
- a session that is written to without a pause: captured every ten minutes.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dagster as dg

from ctx_pipeline.defs import partitions
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.defs.run_records import LAUNCHED_BY, under_way
from ctx_pipeline.defs.sensors import observation
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline.capture.retention import require_disk_space
from ctx_pipeline.pipeline.plan import NEW_ASSET, OFF_PATH, RAW, WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.settings import Settings

SENSOR = "automation"
EVERYTHING = "everything"
INTERVAL_SECONDS = 20

LIVE_SECONDS = 600
"""A source that is written to without a pause is captured when it has waited this long."""

LAST = {"dagster/priority": "-1"}
"""Run tag: after the runs that wait beside it"""


def look(pipeline: Pipeline, *, due: Collection[str] = ()) -> Plan:
    """Return the plan of this moment; sources that are still written to wait, but for the ``due`` ones.

    Raises StoreFull where something is to do and the disk is nearly full: nobody watches what would be launched.
    """
    plan = pipeline.plan(settle_seconds=pipeline.settings.debounce_seconds, due=due)
    if not plan.nothing_to_do:
        require_disk_space(pipeline.settings)
    return plan


def job(keys: Collection[str]) -> UnresolvedAssetJobDefinition:
    """Return the job of all assets; a run of it covers a range of cells and then the tail."""
    return dg.define_asset_job(
        EVERYTHING,
        selection=dg.AssetSelection.assets(*(key.split("/") for key in sorted(keys))),
        description="Every partitioned asset over a partition range, then the unpartitioned ones.",
    )


def sensor(keys: Collection[str], opened: Callable[[], Pipeline] = Pipeline, *, running: bool = False) -> dg.SensorDefinition:
    """Return the sensor, off unless told otherwise; ``keys`` are the assets that this code location knows, ``opened`` its pipeline."""

    @dg.sensor(
        name=SENSOR,
        job_name=EVERYTHING,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        description="The only thing that launches runs: asks the plan which partitions have new input or code.",
    )
    def automation(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        pipeline = opened()
        try:
            return tick(context.instance, context.cursor, pipeline, keys)
        finally:
            pipeline.close()

    return automation


def tick(
    instance: dg.DagsterInstance, cursor: str | None, pipeline: Pipeline, keys: Collection[str], *, now: float | None = None
) -> dg.SensorResult | dg.SkipReason:
    """Return the runs that the plan asks for and that were not requested for the same input and code before.

    The cursor keeps the token of each last request, and since when sources that are still
    written to have waited. What is captured by these runs is observed first.
    """
    if busy := under_way(instance, keys):
        return dg.SkipReason(f"waits for run {busy}")
    clock = time.time() if now is None else now
    kept = json.loads(cursor or "{}")
    live: dict[str, float] = kept.get("live", {})
    plan = look(pipeline, due=[name for name, since in live.items() if clock - since >= LIVE_SECONDS])
    wanted = {
        f"{key}@{cell.key}": (key, cell, needs.token)
        for key, planned in plan.assets.items()
        if key in keys and planned.asset.stage not in OFF_PATH
        for cell, needs in planned.cells.items()
        if needs.state != "fresh" and needs.reason != NEW_ASSET
    }
    asked = {name: token for name, token in kept.get("asked", {}).items() if name in wanted}
    new = {name: found for name, found in wanted.items() if asked.get(name) != found[2]}
    cells: dict[Cell, set[str]] = defaultdict(set)
    for key, cell, _ in new.values():
        cells[cell].add(key)
    tail = cells.pop(WHOLE, set())
    runs = _ranges(instance, plan, cells, by=SENSOR)
    if len(runs) == 1:
        runs = [_with_tail(plan, runs[0], keys)]
    elif not runs and tail:
        runs = [_request([key for key in plan.assets if key in tail], {LAUNCHED_BY: SENSOR})]
    last = {key.to_user_string() for key in runs[0].asset_selection or ()} if len(runs) == 1 else set()
    asked |= {name: token for name, (key, cell, token) in new.items() if cell != WHOLE or key in last}
    seen = [cell for cell, chosen in cells.items() if RAW.key in chosen and cell in plan.waiting]
    return dg.SensorResult(
        run_requests=runs,
        skip_reason=None if runs else _quiet(plan, keys),
        asset_events=[observation(cell, plan.waiting[cell], len(plan.live)) for cell in seen],
        dynamic_partitions_requests=partitions.requested(sorted(cells)) if cells else None,
        cursor=json.dumps({"asked": asked, "live": {name: live.get(name, clock) for name in plan.live}}, sort_keys=True),
    )


def _quiet(plan: Plan, keys: Collection[str]) -> str:
    """Return why nothing is launched; of a signal that was added since the definitions were loaded no run can be asked for."""
    unknown = sorted(key for key, node in plan.assets.items() if key not in keys and any(c.state != "fresh" for c in node.cells.values()))
    if unknown:
        return f"added since the definitions were loaded, so reload them in ctx ui: {', '.join(unknown[:5])}"
    return "the plan asks for nothing new"


def _ranges(
    instance: dg.DagsterInstance, plan: Plan, cells: Mapping[Cell, Iterable[str]], *, by: str, night: str = ""
) -> list[dg.RunRequest]:
    """Return a request for each range of cells that need the same assets, with a key where it is asked for once a night."""
    alike: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell, needed in cells.items():
        alike[tuple(key for key in plan.assets if key in set(needed))].append(cell)
    known = partitions.add(instance, cells)
    return [
        _request(assets, {**box.tags, LAUNCHED_BY: by}, f"{night} {box.title} {digest(assets, size=6)}" if night else None)
        for assets, same in alike.items()
        for box in partitions.boxes(same, known)
    ]


def _request(assets: Iterable[str], tags: Mapping[str, str], run_key: str | None = None) -> dg.RunRequest:
    return dg.RunRequest(run_key=run_key, asset_selection=[dg.AssetKey(key.split("/")) for key in assets], tags=dict(tags))


def _with_tail(plan: Plan, request: dg.RunRequest, keys: Collection[str]) -> dg.RunRequest:
    """Return the request with the unpartitioned assets that lie below what it makes, or that wait for themselves."""
    made = {key.to_user_string() for key in request.asset_selection or ()}
    waiting = set(plan.tail())
    for key, planned in plan.assets.items():
        node = planned.asset
        if key in keys and not node.partitioned and node.stage not in OFF_PATH and (key in waiting or made.intersection(node.upstream)):
            made.add(key)
    return _request([key for key in plan.assets if key in made], request.tags, request.run_key)


# The nightly run: what the plan calls dirty, by ranges, and then the rest; off until a person switches it on.


LOCAL_TIME = Path("/etc/localtime")
"""A link to the machine's own zone, where there is one."""


def build(
    settings: Settings, keys: Collection[str], opened: Callable[[], Pipeline] = Pipeline, *, running: bool = False
) -> dg.ScheduleDefinition:
    """Return the schedule at ``settings.nightly``, off unless told otherwise."""
    hour, _, minute = settings.nightly.partition(":")

    @dg.schedule(
        name="nightly",
        cron_schedule=f"{int(minute)} {int(hour)} * * *",
        execution_timezone=_zone(settings.timezone),
        job_name=EVERYTHING,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
        description=f"Materializes what is stale at {settings.nightly}, old months included; asks the plan, not the newest window.",
    )
    def nightly(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        moment = context.scheduled_execution_time
        pipeline = opened()
        try:
            return requests(context.instance, look(pipeline), f"{moment:%Y-%m-%d}" if moment else "", keys)
        finally:
            pipeline.close()

    return nightly


def _zone(name: str | None) -> str | None:
    """Return a zone that Dagster can follow: the one that is set, else the machine's own, as timers have it; None is UTC."""
    name = name or LOCAL_TIME.resolve().as_posix().partition("zoneinfo/")[2]
    try:
        return name if name and ZoneInfo(name) else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return None


def requests(instance: dg.DagsterInstance, plan: Plan, night: str, keys: Collection[str]) -> list[dg.RunRequest] | dg.SkipReason:
    """Return a run request for each range of dirty cells, and one of the rest, which waits for them where there is more than one.

    Runs of the night go one after the other (``tag_concurrency_limits`` in ``dagster.yaml``).
    """
    cells: dict[Cell, set[str]] = defaultdict(set)
    for key, planned in plan.assets.items():
        if planned.asset.partitioned and key in keys:
            for cell in planned.dirty():
                cells[cell].add(key)
    runs = _ranges(instance, plan, cells, by="nightly", night=night)
    tail = [key for key in plan.tail(off_path=True) if key in keys]
    if len(runs) == 1:
        whole = _with_tail(plan, runs[0], keys)
        chosen = {key.to_user_string() for key in whole.asset_selection or ()} | set(tail)
        return [_request([key for key in plan.assets if key in chosen], whole.tags, whole.run_key)]
    if runs or tail:
        below = [key for key, p in plan.assets.items() if not p.asset.partitioned and p.asset.stage not in OFF_PATH and key in keys]
        rest = [key for key in plan.assets if key in tail or (runs and key in below)]
        return [*runs, _request(rest, {LAUNCHED_BY: "nightly", **LAST}, f"{night} rest")]
    return dg.SkipReason("nothing new")

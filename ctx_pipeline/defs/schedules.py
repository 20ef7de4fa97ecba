"""The nightly run: what the plan calls dirty, by boxes; off until a person switches it on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dagster as dg

from ctx_pipeline.defs import planned
from ctx_pipeline.defs.partitions import boxes

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.settings import Settings

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
        return requests(planned.look(), f"{moment:%Y-%m-%d}" if moment else "")

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

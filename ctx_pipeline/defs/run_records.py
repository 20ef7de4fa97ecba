"""Dagster's records of runs: who launched one, which are under way, and which old ones may go."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.process.process_identity import ended

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import dagster as dg

_DAY = 86_400


class Pruned(NamedTuple):
    """What became of the old runs."""

    removed: int
    kept: int
    """old ones that hold the newest materialization of something"""


def remove(
    instance: dg.DagsterInstance,
    *,
    before: float,
    most: int | None = None,
    seconds: float | None = None,
    mine: Mapping[str, Sequence[str]] | None = None,
) -> Pruned:
    """Remove runs of ours that ended before a moment, the oldest first, but for those that a cell's newest materialization stands in.

    ``most`` and ``seconds`` bound how many go at once; the others go the next time.
    """
    import dagster as dg

    removed = kept = 0
    done = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    old = dg.RunsFilter(statuses=done, updated_before=datetime.fromtimestamp(before, UTC), tags=mine or OURS)
    if not instance.get_runs(old, limit=1):
        return Pruned(0, 0)
    held = _newest(instance)
    limit = None if most is None else most + len(held)
    until = None if seconds is None else time.monotonic() + seconds
    for record in instance.get_run_records(old, limit=limit, ascending=True):
        run_id = record.dagster_run.run_id
        if run_id in held:
            kept += 1
        elif (most is None or removed < most) and (until is None or time.monotonic() < until):
            instance.delete_run(run_id)
            removed += 1
    return Pruned(removed, kept)


# What Dagster writes about itself, kept small by us: it has no limit for runs and their events, and its own
# daemon does not clean up after sensors of a code server.


KEEP_DAYS = 30
KEEP_RUNS = 100
"""Runs that are kept, whatever their age."""
SLACK = 20
"""How many more there may be until a command removes some"""
MOST_REMOVED = 2_000
"""Runs in one tick"""
TICK_SECONDS = 30.0
"""How long a tick removes; it has a minute"""
COMMAND_SECONDS = 1.0
"""How long a command does"""

LOCATION = ".dagster/repository"
"""Run tag in which Dagster names the code location, whoever launched the run"""
_REPOSITORY = "__repository__"
LABEL = f"{_REPOSITORY}@ctx_pipeline.definitions"
OURS = {LOCATION: [LABEL, f"{_REPOSITORY}@ctx_pipeline.defs.hub_location"]}
"""That tag on the runs of this graph and of the hub's"""

LAUNCHED_BY = "ctx/by"
"""Run tag: the command, sensor or schedule that launched it"""
PROCESS = "ctx/process"
"""Run tag of a run in the process of a command: which one that is"""


def ours(run: dg.DagsterRun) -> bool:
    """Tell whether a run is one of this graph: an instance may hold those of other projects, which are none of our business."""
    return LAUNCHED_BY in run.tags or run.tags_for_storage().get(LOCATION) in OURS[LOCATION]


def under_way(instance: dg.DagsterInstance, keys: Collection[str] = ()) -> str:
    """Return the id of a run of ours that has not ended, empty where there is none; what a killed command left is none, and so told.

    ``keys`` are the assets of a code location with a name of its own: a run of one of them counts too.
    A run that was executed again bears the tags of the first one: its process is another.
    """
    import dagster as dg

    states = dg.DagsterRunStatus
    going = [states.QUEUED, states.NOT_STARTED, states.STARTING, states.STARTED, states.CANCELING]
    for run in instance.get_runs(dg.RunsFilter(statuses=going)):
        if not ours(run) and not any(key.to_user_string() in keys for key in run.asset_selection or ()):
            continue
        if PROCESS not in run.tags or run.parent_run_id is not None or ended(run.tags[PROCESS]) is not True:
            return run.run_id
        instance.report_run_failed(run, "the process of the command has ended")
    return ""


def tidy_if_many(instance: dg.DagsterInstance) -> None:
    """Remove some old runs where there are many: a history that only commands write, with no sensor on, stays small too."""
    import dagster as dg

    if instance.get_runs_count(dg.RunsFilter(tags=OURS)) > KEEP_RUNS + SLACK:
        tidy(instance, seconds=COMMAND_SECONDS)


def tidy(instance: dg.DagsterInstance, *, seconds: float = TICK_SECONDS, label: str = LABEL) -> Pruned:
    """Remove runs of ours older than 30 days and all but the newest 100; tell dead ones as failed.

    ``label`` is what Dagster calls a code location of one's own that holds this graph: its runs are ours too.
    """
    import dagster as dg

    under_way(instance)
    mine = {LOCATION: [*OURS[LOCATION], label]}
    newest = instance.get_run_records(dg.RunsFilter(tags=mine), limit=KEEP_RUNS + 1)
    before = time.time() - KEEP_DAYS * _DAY
    if len(newest) > KEEP_RUNS:
        before = max(before, newest[-1].update_timestamp.timestamp())
    return remove(instance, before=before, most=MOST_REMOVED, seconds=seconds, mine=mine)


def _newest(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs that hold the newest materialization of an asset, or of one of its cells."""
    import dagster as dg

    found: set[str] = set()
    for key in instance.all_asset_keys():
        latest = instance.get_latest_materialization_event(key)
        if latest is not None:
            found.add(latest.run_id)
        ids = list(instance.event_log_storage.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION).values())
        for start in range(0, len(ids), 500):
            chosen = dg.EventRecordsFilter(
                event_type=dg.DagsterEventType.ASSET_MATERIALIZATION, asset_key=key, storage_ids=ids[start : start + 500]
            )
            found.update(record.event_log_entry.run_id for record in instance.event_log_storage.get_event_records(chosen))
    return found

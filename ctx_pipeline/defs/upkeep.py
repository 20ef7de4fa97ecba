"""The upkeep of Dagster's own records: what it runs by itself, and which old runs may go."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.defs import launch
from ctx_pipeline.model.codec import iso

if TYPE_CHECKING:
    import dagster as dg

    from ctx_pipeline.settings import Settings

_DAY = 86_400


class Switch(NamedTuple):
    """Something that Dagster runs by itself: a sensor, the automation or the schedule."""

    name: str
    kind: str
    on: bool
    last: str | None
    """time of its last tick (ISO 8601, UTC)"""


class Pruned(NamedTuple):
    """What became of the old runs."""

    removed: int
    kept: int
    """old ones that hold the newest materialization of something"""


def switches(settings: Settings) -> list[Switch]:
    """Return everything that was ever switched on or ticked in the store's instance; nothing where there is no instance yet."""
    if not (settings.home / "dagster" / "dagster.yaml").is_file():
        return []
    found = []
    with launch.instance(settings) as instance:
        for state in instance.all_instigator_state():
            ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
            last = iso(int(ticks[0].timestamp * 1e6)) if ticks else None
            found.append(
                Switch(state.instigator_name, state.instigator_type.value.lower().replace("_", " "), state.status.value == "RUNNING", last)
            )
    return sorted(found)


def prune(settings: Settings, *, days: int) -> Pruned:
    """Remove finished runs that ended more than so many days ago, but for those that a cell's newest materialization stands in."""
    import dagster as dg

    removed = kept = 0
    limit = datetime.fromtimestamp(time.time() - days * _DAY, UTC)
    with launch.instance(settings) as instance:
        held = _newest(instance)
        done = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
        old = instance.get_run_records(dg.RunsFilter(statuses=done, updated_before=limit))
        for record in old:
            run_id = record.dagster_run.run_id
            if run_id in held:
                kept += 1
            else:
                instance.delete_run(run_id)
                removed += 1
    return Pruned(removed, kept)


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

"""What Dagster runs by itself in a store's instance, and which old runs go when a person asks for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.defs import launch
from ctx_pipeline.defs.instance_settings import of_person
from ctx_pipeline.defs.run_records import Pruned, remove
from ctx_pipeline.model.codec import iso

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_DAY = 86_400


class Switch(NamedTuple):
    """Something that Dagster runs by itself: a sensor, the automation or the schedule."""

    name: str
    kind: str
    on: bool
    last: str | None
    """time of its last tick (ISO 8601, UTC)"""


def switches(settings: Settings) -> list[Switch]:
    """Return everything that was ever switched on or ticked in the store's instance; nothing where there is no instance yet."""
    home = settings.home / "dagster"
    if of_person(settings) is None and not ((home / "dagster.yaml").is_file() and launch.wants_a_look(home)):
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
    with launch.instance(settings) as instance:
        return remove(instance, before=time.time() - days * _DAY)

"""The plan as sensors, schedule and automation see it: one scan for all that ask in the same moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_file
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.pipeline.capture.disk_space import require_disk_space

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from ctx_pipeline.pipeline.plan import Plan


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

"""All stages in their order, without Dagster: what tests use, and `ctx run` where the graph is not installed."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ctx_pipeline.pipeline.repair.damaged_outputs import note, release_damaged
from ctx_pipeline.pipeline.repair.missing_outputs import reconcile_missing_outputs
from ctx_pipeline.pipeline.run_report import RunReport, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.settings import Settings

__all__ = ["STEPS", "Outcome", "RunReport", "graph_installed", "run_stages", "step", "summary"]

STEPS: dict[str, tuple[str, str]] = {
    "capture": ("pipeline.capture", "capture"),
    "normalize": ("pipeline.ingest", "normalize"),
    "ingest": ("pipeline.ingest", "ingest"),
    "index_search": ("pipeline.index", "index_search"),
    "facts": ("pipeline.facts", "make_facts"),
    "measure": ("pipeline.measure", "measure"),
    "mine": ("pipeline.mine", "mine"),
    "derive": ("pipeline.background", "derive"),
    "count": ("pipeline.count", "count"),
    "score_lesson_use": ("pipeline.lessons.lesson_outcomes", "score_lesson_use"),
    "consolidate": ("pipeline.consolidate", "consolidate"),
    "index_memory": ("pipeline.index", "index_memory"),
    "warehouse": ("pipeline.warehouse", "build_warehouse"),
    "render": ("pipeline.render", "render"),
    "effect": ("learning.backtest.evaluation", "measure_effect"),
}
"""step -> module and function; each is (store, settings, ...) -> StageReport"""

TELLING = frozenset({"ingest", "capture", "normalize", "facts", "measure", "mine", "derive"})
"""steps that take ``progress``"""

_SHOWN = {"index_search": "search", "score_lesson_use": "lessons", "consolidate": "lessons", "index_memory": "lessons"}
"""What a person is told of a step while it runs; the others make the page."""
TAIL_STEPS = ("index_search", "score_lesson_use", "consolidate", "index_memory", "warehouse", "render")
MADE_LAST = TAIL_STEPS[1:]
"""those that an ingest does not do itself"""


@dataclass(slots=True)
class Outcome:
    """What one call did: the reports of the stages, and the runs it left in a Dagster instance."""

    reports: list[StageReport] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    """run ids in the instance, in order; none without Dagster"""
    held: dict[str, str] = field(default_factory=dict)
    """cell key or unpartitioned stage -> why it was not committed"""
    cells_materialized: int = 0
    """different cells of partitioned assets that were recorded"""
    seconds: float = 0.0

    @property
    def failed(self) -> list[str]:
        """One line for each cell or asset that was not committed."""
        return [f"{key}: {error}" for key, error in sorted(self.held.items())]

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {"cells_materialized": self.cells_materialized, "runs": self.runs, "held": self.held, "seconds": round(self.seconds, 3)}


def graph_installed() -> bool:
    """Tell whether runs can be recorded in the asset graph: the extra ``graph`` brings Dagster."""
    return find_spec("dagster") is not None


def step(name: str, store: Any, settings: Settings, **options: Any) -> list[StageReport]:
    """Run one step by its name and return its reports."""
    module, function = STEPS[name]
    found = getattr(importlib.import_module(f"ctx_pipeline.{module}"), function)(store, settings, **options)
    return list(found) if isinstance(found, list | tuple) else [found]


def run_stages(
    store: Any,
    settings: Settings,
    *,
    cells: Sequence[Cell] | None = None,
    scan: Any = None,
    progress: Callable[[str, int, int], None] | None = None,
    todo: Plan | None = None,
) -> RunReport:
    """Bring every asset up to date, or only some cells of the partitioned ones; return what is in the store.

    ``todo`` is the plan, where there is one: it tells what is made for its code alone.
    A stage that finds nothing to do costs a look into the ledger.
    """
    from ctx_pipeline.pipeline.forget.sessions import keep_forgotten_out

    began = time.perf_counter()
    store.journal.demand()
    release_damaged(store, settings)
    reconcile_missing_outputs(store)
    with keep_forgotten_out(store, settings):
        outcome = Outcome(step("ingest", store, settings, scan=scan, cells=cells, progress=progress))
    outcome.reports += step("derive", store, settings, cells=cells, progress=progress)
    for name in TAIL_STEPS:
        if progress:
            progress(_SHOWN.get(name, "page"), 0, 1)
        outcome.reports += step(name, store, settings)
        if progress:
            progress(_SHOWN.get(name, "page"), 1, 1)
    for report in outcome.reports:
        outcome.held |= {key or report.stage: error for key, error in report.failed_partitions.items()}
    outcome.cells_materialized = len({key for r in outcome.reports for key, cell in r.cells.items() if key and cell.status == "done"})
    note(store)
    return summary(store, settings, outcome, seconds=time.perf_counter() - began, todo=todo)

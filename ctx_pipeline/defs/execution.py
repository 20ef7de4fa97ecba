"""Runs of the asset job in this process: boxes of cells, bad cells by themselves, then the tail."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any, Self

import dagster as dg

from ctx_pipeline.defs.location import build
from ctx_pipeline.defs.partitions import boxes, definition, key_of
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.pipeline.plan import OFF_PATH
from ctx_pipeline.pipeline.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ctx_pipeline.defs.partitions import Box
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.settings import Settings

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run config; printing debug lines takes as long as the run itself. Failures come back as results."""

_STEPS_SHOWN = {"STEP_START", "STEP_SUCCESS", "STEP_FAILURE", "STEP_SKIPPED"}


class Execution:
    """The asset job over one instance. ``outcome`` gathers what the runs did."""

    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        *,
        pipeline: Pipeline | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        by: str = "ctx run",
    ) -> None:
        self._by = by
        self._instance = instance
        self._progress = progress
        self._pipeline = pipeline or Pipeline(settings, progress=progress)
        self._definitions = build(self._pipeline)
        self._job = self._definitions.resolve_implicit_global_asset_job_def()
        self._partitions = definition(self._pipeline.settings.first_month)
        self._recorded: set[Cell] = set()
        self.outcome = Outcome()

    def __enter__(self) -> Self:
        """Return the execution itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Hand the reports over and close the store."""
        self.outcome.reports += self._pipeline.reports
        self.outcome.cells_materialized = len(self._recorded)
        self._pipeline.close()

    def ingest(self) -> list[StageReport]:
        """Capture, normalize and index what waits, so that the cells are known."""
        return self._pipeline.step("ingest")

    def take(self, *reports: Sequence[StageReport]) -> None:
        """Take what other processes did: their counts are what is recorded of cells that the steps here find done."""
        for some in reports:
            self.outcome.reports += some
            self._pipeline.earlier += some

    def plan(self) -> Plan:
        """Return what a run would do now."""
        return self._pipeline.plan()

    def run_cells(
        self, cells: Iterable[Cell], *, held: Mapping[Cell, str] | None = None, stage: str = "", assets: Sequence[str] | None = None
    ) -> None:
        """Materialize the partitioned assets, or only some, over the cells.

        Cells that Dagster has no partition for (a host no longer installed, a month that
        has not begun) go through the stages without it.
        """
        known = {cell for cell in cells if self._partitions.has_partition_key(key_of(cell))}
        strange = sorted(set(cells) - known)
        keys = assets if assets is not None else self._partitioned_keys()
        bad = dict(held or {})
        for box in boxes(known, apart=bad):
            self._run_box(box, keys, known, bad)
        if strange:
            for step in [stage] if stage else ["capture", "normalize", "facts", "measure", "mine"]:
                self._pipeline.step(step, cells=strange)

    def run_tail(self, made: Collection[str] = (), *, full: bool = False) -> None:
        """Plan anew and materialize, in one run, the unpartitioned assets that need it or whose stage has just ``made`` them."""
        plan = self.plan()
        needed = set(plan.tail())
        nodes = [node.asset for node in plan.assets.values() if not node.asset.partitioned and node.asset.stage not in OFF_PATH]
        self.run_whole([node.key for node in nodes if full or node.key in needed or node.stage in made])

    def run_whole(self, assets: Sequence[str]) -> None:
        """Materialize unpartitioned assets in one run."""
        if not assets:
            return
        before = len(self._pipeline.reports)
        result = self._run(assets, tags={}, title="page")
        held = {report.stage: error for report in self._pipeline.reports[before:] for error in report.failed_partitions.values()}
        self.outcome.held |= held
        if not result.success and not held:
            self.outcome.held |= _failures(result)

    def _partitioned_keys(self) -> list[str]:
        return [key for key, node in self._pipeline.graph().items() if node.partitioned and node.stage not in OFF_PATH]

    def _run_box(self, box: Box, keys: Sequence[str], wanted: set[Cell], bad: dict[Cell, str]) -> None:
        """Run a box; where cells of it are held, run the good ones again without them, then each bad one alone."""
        inside = [cell for cell in wanted if cell.host == box.host and box.first <= cell.month <= box.last]
        before = len(self._pipeline.reports)
        result = self._run(keys, tags=box.tags, title=box.title)
        if result.success:
            self._recorded.update(inside)
            return
        said = {key: error for report in self._pipeline.reports[before:] for key, error in report.failed_partitions.items()}
        found = {cell: said[cell.key] for cell in inside if cell.key in said}
        if box.first == box.last:
            self.outcome.held |= {cell.key: error for cell, error in found.items()} or {f"{box.host}|{box.first}": _why(result)}
            return
        if not found:
            self.outcome.held[box.title] = _why(result)
            return
        for again in boxes(inside, apart={**bad, **found}):
            self._run_box(again, keys, wanted, {**bad, **found})

    def _run(self, keys: Sequence[str], *, tags: Mapping[str, str], title: str) -> dg.ExecuteInProcessResult:
        run_id = str(uuid.uuid4())
        steps = _Steps(title, self._progress)
        self._instance.add_event_listener(run_id, steps)
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            result = self._job.execute_in_process(
                run_config=QUIET,
                instance=self._instance,
                run_id=run_id,
                asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
                tags={**tags, "ctx/by": self._by},
                raise_on_error=False,
            )
        finally:
            logging.disable(level)
        self.outcome.runs.append(run_id)
        return result


class _Steps:
    """An event listener of a run that turns started and ended steps into progress."""

    def __init__(self, title: str, progress: Callable[[str, int, int], None] | None) -> None:
        self._title = title
        self._progress = progress
        self._started = 0
        self._ended = 0

    def __call__(self, entry: dg.EventLogEntry) -> None:
        kind = entry.dagster_event_type.value if entry.dagster_event_type else ""
        if self._progress is None or kind not in _STEPS_SHOWN:
            return
        self._started += kind == "STEP_START"
        self._ended += kind != "STEP_START"
        self._progress(self._title, self._ended, max(self._started, self._ended))


def _why(result: Any) -> str:
    return "; ".join(_failures(result).values()) or "the run failed; see its page in ctx ui"


def _failures(result: Any) -> dict[str, str]:
    """Return step -> the description of its failure."""
    found = {}
    for event in result.all_events:
        if event.event_type_value == "STEP_FAILURE":
            data = event.step_failure_data
            failure = data.user_failure_data
            found[event.step_key] = str(
                failure.description if failure and failure.description else data.error.message if data.error else ""
            )
    return found

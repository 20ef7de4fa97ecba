"""Runs of the asset job in this process: boxes of cells, bad cells by themselves, then the tail."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from ctx_pipeline.defs import partitions
from ctx_pipeline.defs.location import build
from ctx_pipeline.defs.resources import FORCE, Pipeline
from ctx_pipeline.defs.run_records import LABEL, LAUNCHED_BY, PROCESS
from ctx_pipeline.defs.run_records import LOCATION as LOCATION_TAG
from ctx_pipeline.model.process.process_identity import label
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.plan import OFF_PATH
from ctx_pipeline.pipeline.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ctx_pipeline.defs.partitions import Box
    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.pipeline.plan import Plan
    from ctx_pipeline.settings import Settings

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run config; printing debug lines takes as long as the run itself. Failures come back as results."""

LOCATION = "ctx_pipeline.definitions"
"""Name of the code location: the module that ``workspace.yaml`` and ``pyproject.toml`` name."""

_ORIGIN = RemoteRepositoryOrigin(
    ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(executable_path=sys.executable, module_name=LOCATION), LOCATION),
    SINGLETON_REPOSITORY_NAME,
)

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
        force: bool = False,
    ) -> None:
        self._tags = {
            LAUNCHED_BY: by,
            PROCESS: label(os.getpid()),
            "user": by,
            LOCATION_TAG: LABEL,
            **({FORCE: "true"} if force else {}),
        }
        self._instance = instance
        self._progress = progress
        self._pipeline = pipeline or Pipeline(settings, progress=progress)
        # the versions that are kept: where no code changed, no extension is imported to record what others made
        self._definitions = build(self._pipeline, self._pipeline.versions(), shown=False)
        self._job = self._definitions.resolve_implicit_global_asset_job_def()
        self._recorded: set[Cell] = set()
        self._beside: list[StageReport] = []
        self._one_moment = ExitStack()
        self.outcome = Outcome()

    def __enter__(self) -> Self:
        """Return the execution itself."""
        # Dagster lists all partitions anew at each use unless it is told that it is still the same moment
        self._one_moment.enter_context(dg.partition_loading_context(effective_dt=datetime.now(UTC)))
        return self

    def __exit__(self, *error: object) -> None:
        """Hand the reports over and close the store."""
        self._one_moment.close()
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
            self._beside += some

    def plan(self) -> Plan:
        """Return what a run would do now."""
        return self._pipeline.plan()

    def run_cells(
        self,
        cells: Iterable[Cell] | Mapping[Cell, Collection[str]],
        *,
        assets: Collection[str] | None = None,
        held: Mapping[Cell, str] | None = None,
    ) -> None:
        """Materialize in each cell the assets that are named for it, else ``assets``, else all partitioned ones.

        Cells of the same assets are run as ranges, so that a run records what it was asked
        for and nothing else.
        """
        wanted = cells if isinstance(cells, Mapping) else dict.fromkeys(cells, assets or self._partitioned_keys())
        for box, keys in self._ranges(wanted, apart=held or ()):
            self._run_box(box, keys, held or {})

    def _ranges(self, cells: Mapping[Cell, Collection[str]], *, apart: Collection[Cell]) -> list[tuple[Box, list[str]]]:
        alike: dict[frozenset[str], set[Cell]] = {}
        graph = self._pipeline.graph()
        known = partitions.add(self._instance, cells)
        for cell, named in sorted(cells.items()):
            alike.setdefault(frozenset(named), set()).add(cell)
        return [
            (box, [key for key in graph if key in chosen])
            for chosen, same in alike.items()
            for box in partitions.boxes(same, known, apart=apart)
        ]

    def made(self, reports: Iterable[StageReport]) -> dict[Cell, set[str]]:
        """Return cell -> partitioned assets that stages in other processes wrote or failed to write."""
        found: dict[Cell, set[str]] = {}
        for report in reports:
            keys = [key for key, node in self._pipeline.graph().items() if node.partitioned and node.stage == report.stage]
            for cell, told in report.cells.items():
                touched = {key for key in keys if told.wrote(key) or told.failure_of(key)} if cell else set()
                if touched:
                    found.setdefault(Cell.of(cell), set()).update(touched)
        return found

    def run_tail(self, made: Collection[str] = (), *, full: bool = False) -> None:
        """Plan anew and materialize, in one run, the unpartitioned assets that need it or whose stage has just ``made`` them."""
        plan = self.plan()
        needed = set(plan.tail())
        nodes = [node.asset for node in plan.assets.values() if not node.asset.partitioned and node.asset.stage not in OFF_PATH]
        self.run_whole([node.key for node in nodes if full or node.key in needed or node.stage in made])

    def run_together(self, cells: Mapping[Cell, Collection[str]], plan: Plan, before_tail: Callable[[], object]) -> bool:
        """Materialize cells as :meth:`run_cells` does, and in the last of these runs all that lies below; tell whether that was made.

        The ``plan`` found nothing to make in these cells. ``before_tail`` is called when the run
        comes to the tail, which other processes may still be at.
        """
        self._pipeline.made_beside = True
        *ranges, (box, keys) = self._ranges(cells, apart=())
        for one in ranges:
            self._run_box(*one, {})
        if self.outcome.held:
            self._run_box(box, keys, {})
            return False
        made = {key for named in cells.values() for key in named}
        tail: list[str] = []
        waiting = set(plan.tail())
        for key, node in self._pipeline.graph().items():
            if not node.partitioned and node.stage not in OFF_PATH and (key in waiting or made.intersection(node.upstream)):
                tail.append(key)
                made.add(key)

        def wait() -> None:
            before_tail()
            self._tell_beside(run_id)

        run_id = str(uuid.uuid4())
        self._pipeline.before_tail = wait
        before = len(self._pipeline.reports)
        result = self._run([*keys, *tail], tags=box.tags, title=box.title, run_id=run_id)
        self._pipeline.before_tail = None
        if result.success or (not _blocked(result) and _materialized(result).issuperset((key, c.key) for key in keys for c in box.cells)):
            self._recorded.update(box.cells)
            self._note_tail(result, before)
            return True
        self._after_failure(box, keys, {}, result, before)
        return False

    def run_whole(self, assets: Sequence[str]) -> None:
        """Materialize unpartitioned assets in one run."""
        if not assets:
            return
        before = len(self._pipeline.reports)
        self._note_tail(self._run(assets, tags={}, title="page"), before)

    def _note_tail(self, result: dg.ExecuteInProcessResult, before: int) -> None:
        """Note what a run held back of the unpartitioned assets."""
        held = {report.stage: error for report in self._pipeline.reports[before:] for error in report.failed_partitions.values()}
        self.outcome.held |= held
        if not result.success and not held:
            self.outcome.held |= _failures(result)

    def _partitioned_keys(self) -> list[str]:
        return [key for key, node in self._pipeline.graph().items() if node.partitioned and node.stage not in OFF_PATH]

    def _run_box(self, box: Box, keys: Sequence[str], bad: Mapping[Cell, str]) -> None:
        """Run a range; where something of it is held, or a check blocks it, run the rest again without that."""
        before = len(self._pipeline.reports)
        result = self._run(keys, tags=box.tags, title=box.title)
        if result.success:
            self._recorded.update(box.cells)
            return
        self._after_failure(box, keys, bad, result, before)

    def _after_failure(
        self, box: Box, keys: Sequence[str], bad: Mapping[Cell, str], result: dg.ExecuteInProcessResult, before: int
    ) -> None:
        why, held = _blocked(result), set()
        graph = self._pipeline.graph()
        for report in self._pipeline.reports[before:]:
            of_stage = [key for key in keys if graph[key].stage == report.stage]
            for cell in box.cells:
                told = report.cells.get(cell.key)
                failed = [key for key in of_stage if told and told.failure_of(key)]
                if told and failed:
                    why[cell] = told.error
                    held |= {(key, cell) for key in failed}
        if not why:
            self.outcome.held[box.title if len(box.cells) > 1 else box.cells[0].key] = _why(result)
            return
        self.outcome.held |= {cell.key: error for cell, error in why.items()}
        done = _materialized(result)
        # what lies below tables or facts waits for them; a family or a method that fails takes nothing with it
        stopped = {cell for cell in why if not held or any(graph[key].stage not in ("measure", "mine") for key, c in held if c == cell)}
        self._recorded.update(cell for cell in box.cells if cell not in stopped)
        left = {
            cell: rest
            for cell in box.cells
            if cell not in stopped and (rest := [k for k in keys if (k, cell) not in held and (k, cell.key) not in done])
        }
        if held or len(left) < len(box.cells):
            self.run_cells(left, held={**bad, **why})

    def _run(self, keys: Sequence[str], *, tags: Mapping[str, str], title: str, run_id: str = "") -> dg.ExecuteInProcessResult:
        run_id = run_id or str(uuid.uuid4())
        steps = _Steps(title, self._progress)
        self._instance.add_event_listener(run_id, steps)
        self._instance.add_event_listener(run_id, self._give_origin)
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            result = self._job.execute_in_process(
                run_config=QUIET,
                instance=self._instance,
                run_id=run_id,
                asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
                tags={**tags, **self._tags},
                raise_on_error=False,
            )
        finally:
            logging.disable(level)
        self.outcome.runs.append(run_id)
        return result

    def _give_origin(self, entry: dg.EventLogEntry) -> None:
        """Say at a run's start of which code location it is, so that the timeline shows it and the UI can execute it again.

        What was done before it in other processes is said too, with its seconds: the steps only record it.
        """
        if entry.dagster_event and entry.dagster_event.event_type == dg.DagsterEventType.RUN_START:
            run = self._instance.get_run_by_id(entry.run_id)
            if run is not None:
                self._instance.run_storage.replace_job_origin(run, RemoteJobOrigin(_ORIGIN, run.job_name))
                self._tell_beside(entry.run_id)

    def _tell_beside(self, run_id: str) -> None:
        run = self._instance.get_run_by_id(run_id)
        took = [f"{report.stage} {report.seconds:.2f} s" for report in self._beside]
        if run is not None and took:
            self._beside = []
            self._instance.report_engine_event(f"Done in processes beside this one: {', '.join(took)}", run)


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


def _materialized(result: Any) -> set[tuple[str, str]]:
    """Return (asset, partition) of what a run recorded."""
    events = [event for event in result.all_events if event.event_type_value == "ASSET_MATERIALIZATION"]
    return {(event.asset_key.to_user_string(), str(event.partition)) for event in events if event.asset_key}


def _blocked(result: Any) -> dict[Cell, str]:
    """Return cell -> the checks that it failed and that stop what lies below."""
    found: dict[Cell, str] = {}
    for event in result.all_events:
        if event.event_type_value == "ASSET_CHECK_EVALUATION":
            check = event.asset_check_evaluation_data
            if check.blocking and not check.passed and check.severity == dg.AssetCheckSeverity.ERROR and check.partition:
                cell = Cell.of(str(check.partition))
                found[cell] = "; ".join([*([found[cell]] if cell in found else []), f"check {check.check_name} failed"])
    return found


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

"""What assets are given: the store, the settings and the steps; built without reading a home."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field

from ctx_pipeline import settings as settings_file
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline import plan as planning
from ctx_pipeline.pipeline import run as running
from ctx_pipeline.storage import connections
from ctx_pipeline.storage.warehouse import database

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.settings import Settings


FORCE = "ctx/force"
"""Run tag: every step of the run makes anew also what is fresh."""


class Pipeline:
    """The stages over one store. Everything is opened on first use, so that definitions load on an empty machine.

    ``settings`` None means: what the environment says when a run begins. ``reports``
    collects what the steps said, for the caller of an in-process run.
    """

    def __init__(
        self, settings: Settings | None = None, *, progress: Callable[[str, int, int], None] | None = None, force: bool = False
    ) -> None:
        self._settings = settings
        self._force = force
        self.progress = progress
        self.reports: list[StageReport] = []
        self.earlier: list[StageReport] = []
        """what other processes said of this run's stages"""
        self.before_tail: Callable[[], object] | None = None
        """called once, before the first step that other processes may still be at"""
        self.made_beside = False
        """whether the plan found nothing left to make: what other processes said of partitions is recorded without a second look"""

    @cached_property
    def settings(self) -> Settings:
        """The person's settings."""
        return self._settings or settings_file.load()

    @cached_property
    def store(self) -> Any:
        """The store under ``$CTX_HOME``."""
        from ctx_pipeline.storage import open_store

        return open_store(self.settings)

    def step(self, name: str, **options: Any) -> list[StageReport]:
        """Run one step of :data:`ctx_pipeline.pipeline.run.STEPS`; return and keep its reports."""
        if name in running.MADE_LAST and self.before_tail is not None:
            wait, self.before_tail = self.before_tail, None
            wait()
        made = [report for report in self.earlier if report.stage == name and not report.failed_partitions]
        if not (self._force or options.get("force")) and self._others_made(name, made, options.get("cells", ())):
            # its modules are not imported here to find that out
            return made
        if options.pop("force", False) or (self._force and name != "ingest"):
            if name == "normalize":
                self.store.ledger.forget_decoded(options["cells"])
            elif name != "capture":  # what was captured is never made anew
                options["force"] = True
        if self.progress and name in running.TELLING:
            options["progress"] = self.progress
        if name in ("capture", "ingest"):
            from ctx_pipeline.pipeline.forget.sessions import keep_forgotten_out

            with keep_forgotten_out(self.store, self.settings):
                found = running.step(name, self.store, self.settings, **options)
        else:
            found = running.step(name, self.store, self.settings, **options)
        for report in found:
            self._recall(report)
        self.reports += found
        return found

    def _others_made(self, name: str, made: Sequence[StageReport], cells: Collection[Cell]) -> bool:
        """Tell whether other processes of this run have just made what a step would, by what they said of it."""
        if name in running.MADE_LAST:
            return bool(made)
        said = {key for report in made for key in report.cells}
        return self.made_beside and bool(cells) and said.issuperset(cell.key for cell in cells)

    def _recall(self, report: StageReport) -> None:
        """Put in what an earlier report says of cells that this one finds done."""
        for earlier in self.earlier:
            if earlier.stage == report.stage:
                done = {key: cell for key, cell in earlier.cells.items() if cell.status == "done"}
                report.cells = done | {key: cell for key, cell in report.cells.items() if key not in done or cell.status != "unchanged"}

    def scan(self) -> Any:
        """Return one stat pass over the homes."""
        from ctx_pipeline.pipeline import capture

        return capture.scan(self.store, self.settings)

    def plan(self, *, settle_seconds: float | None = None, due: Collection[str] = ()) -> planning.Plan:
        """Return what a run would do now, by a scan, the ledger and what is on the disk."""
        from ctx_pipeline.pipeline.repair.missing_outputs import reconcile_missing_outputs

        reconcile_missing_outputs(self.store)
        return planning.plan(self.store, self.settings, self.scan(), versions=self.versions(), settle_seconds=settle_seconds, due=due)

    def versions(self) -> code_versions.Versions:
        """Return the versions of all code."""
        return code_versions.versions(self.store.files, self.settings)

    def graph(self) -> dict[str, planning.Asset]:
        """Return every asset by key, upstream ones first."""
        return planning.graph(self.versions())

    def close(self) -> None:
        """Close the store if it was opened."""
        if "store" in self.__dict__:
            self.store.close()
            del self.__dict__["store"]


class PipelineResource(dg.ConfigurableResource[Pipeline]):
    """The pipeline over a store, for any code location: assets are given a :class:`Pipeline`, closed when the run has ended."""

    store: str = Field(default="", description="Folder of the store; empty: what CTX_HOME names when a run begins.")
    force: bool = Field(default=False, description="Make anew also what is fresh, in every step of the run.")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Pipeline]:  # noqa: ARG002 - Dagster's signature
        """Return the stages over the store."""
        pipeline = self.opened()
        try:
            yield pipeline
        finally:
            pipeline.close()

    def opened(self) -> Pipeline:
        """Return the stages over the store, for the caller to close."""
        return Pipeline(settings_file.load(home=self.store) if self.store else None, force=self.force)

    def forceable(self) -> dg.ResourceDefinition:
        """Return the resource whose runs may choose ``force`` alone: a store's signals are code, so no run names another one."""

        @dg.resource(config_schema={"force": dg.Field(bool, default_value=self.force, description=_described("force"))})
        def pipeline(context: dg.InitResourceContext) -> Iterator[Pipeline]:
            with PipelineResource(store=self.store, force=context.resource_config["force"]).yield_for_execution(context) as found:
                yield found

        return pipeline


def _described(field: str) -> str:
    return str(PipelineResource.model_fields[field].description)


class WarehouseResource(DuckDBResource):
    """The warehouse file, opened with this package's settings: it waits while another process holds the file."""

    @contextmanager
    def get_connection(self) -> Iterator[DuckDBPyConnection]:
        """Return a connection that loads no extension and reads no file outside the store."""
        with super().get_connection() as connection:
            connections.confine(connection, **database.places(Path(self.database)))
            yield connection


def serving(settings: Settings) -> dg.ResourceDefinition:
    """Return the resource of the warehouse file; the configuration of a run cannot change a setting of its connection."""
    resource = WarehouseResource(
        database=str(settings.home / "serving" / "ctx.duckdb"),
        connection_config={**connections.CONFIG, "memory_limit": database.MEMORY},
    )
    return dg.ResourceDefinition(lambda _: resource, config_schema={}, description=WarehouseResource.__doc__)


def beside(resource: DuckDBResource, path: Path) -> AbstractContextManager[DuckDBPyConnection]:
    """Return a connection with the resource's settings to another file: the warehouse is built beside the one in use."""
    return type(resource)(database=str(path), connection_config=resource.connection_config).get_connection()

"""What ``ctx run``, ``ctx backfill`` and ``ctx ui`` call: the asset job in this process, and the UI."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ctx_pipeline.defs.instance_settings import RUNS_ENVIRONMENT, config_folder, in_force, of_person, prepare_home
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.process.gc_pause import importing
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import FACTS_ASSET
from ctx_pipeline.pipeline.repair.rebuild import set_aside, whole
from ctx_pipeline.storage.connections import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import dagster as dg

    from ctx_pipeline.defs.resources import Pipeline
    from ctx_pipeline.pipeline import StageReport
    from ctx_pipeline.pipeline.background import Ahead
    from ctx_pipeline.pipeline.run import Outcome
    from ctx_pipeline.settings import Settings

    Progress = Callable[[str, int, int], None]


# Dagster's record of runs: disposable, so a damaged one is set aside and begun anew.


_RUNS = "history"
_FILES = {f"{_RUNS}/event_log.db": "event_logs", f"{_RUNS}/runs.db": "runs", "schedules/schedules.db": "jobs"}
"""database below the instance's folder -> a table that it has from its first use on"""


def set_aside_damaged(home: Path) -> list[str]:
    """Rename the databases of an instance that cannot be read, so that Dagster begins them anew; return a sentence for each.

    Runs and their events belong together: both go where one is damaged, empty or missing.
    """
    bad = _unreadable(home)
    runs = [name for name in _FILES if name.startswith(_RUNS)]
    there = [name for name in runs if (home / name).exists()]
    said = []
    if there and bad.intersection(runs):
        moved = set_aside(home / _RUNS)
        said.append(f"the history of runs in {home / _RUNS} is damaged: it was set aside as {moved} and begins anew")
    for name in sorted(bad.difference(runs)):
        if (home / name).exists():
            moved = set_aside(home / name)
            said.append(f"{home / name} is damaged: it was set aside as {moved}; what was switched on in ctx ui is off again")
    return said


def _unreadable(home: Path) -> set[str]:
    return {name for name, table in _FILES.items() if not _readable(home / name, table)}


def _readable(path: Path, table: str) -> bool:
    """Tell whether a database can be read and has a table, as far as a look at its pages shows."""
    if not path.exists() or not whole(path):
        return False
    try:
        with closing(reading(path)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None
    except sqlite3.Error:
        return False


def wants_a_look(home: Path) -> bool:
    """Tell, without Dagster, whether an instance of ours is damaged, or a sensor, the automation or a schedule was ever switched on.

    True where the file cannot say.
    """
    path = home / "schedules/schedules.db"
    if any((home / name).exists() for name in _FILES) and _unreadable(home) - ({"schedules/schedules.db"} if not path.exists() else set()):
        return True
    if not path.exists():
        return False
    try:
        with closing(reading(path)) as connection:
            found = connection.execute("SELECT EXISTS (SELECT 1 FROM jobs) OR EXISTS (SELECT 1 FROM instigators)").fetchone()
    except sqlite3.Error:
        return True
    return bool(found[0])


@contextmanager
def environment_of_runs(home: Path, **more: str) -> Iterator[None]:
    """Set what Dagster's processes read for the instance of a folder, and ``more``; at the end the environment is as it was."""
    ours = {"DAGSTER_HOME": str(home), **RUNS_ENVIRONMENT, **more}
    before = {name: os.environ.get(name) for name in ours}
    os.environ |= ours
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the persistent instance; the environment of this process is as before when it closes."""
    home = prepare_home(settings)
    chosen = in_force(home)
    mask = os.umask(0o077)
    with environment_of_runs(home), ExitStack() as stack:
        stack.callback(os.umask, mask)
        import dagster as dg

        from ctx_pipeline.defs import partitions
        from ctx_pipeline.storage import open_store

        # two processes that make the schema of a new instance at once lock each other out
        with importing("alembic"), open_store(settings) as store, store.ledger.lease("dagster/instance"):
            for line in set_aside_damaged(home) if of_person(settings) is None else ():
                sys.stderr.write(f"{line}\n")
            found = stack.enter_context(_opened(home, chosen))
            found.get_run_records(limit=1)
            found.get_latest_materialization_event(dg.AssetKey(["raw", "segments"]))
            partitions.synchronize(found, store.ledger.cells())
        yield found


def _opened(home: Path, chosen: Mapping[str, Any] | None) -> dg.DagsterInstance:
    """Return the instance of a folder, with these settings in place of those of its file."""
    import dagster as dg
    import yaml

    if chosen is None:
        return dg.DagsterInstance.get()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:  # 0600, and read at once
        yaml.safe_dump(dict(chosen), file)
        file.flush()
        return dg.DagsterInstance.from_config(str(home), config_filename=file.name)


def run(
    settings: Settings,
    *,
    ahead: Ahead | None = None,
    progress: Progress | None = None,
    full: bool = False,
    pipeline: Pipeline | None = None,
) -> Outcome:
    """Bring every asset up to date in this process, recorded in the instance that ``ctx ui`` shows later.

    ``ahead`` are stages under way in other processes (without them all is done here):
    what they made is recorded though the plan finds it fresh, and the cells they held are
    run by themselves. ``full`` goes through every cell. Dirty cells are run in boxes of
    consecutive months, the last of them with the tail where others made all of it; else the
    tail is planned anew and run once.
    """
    began = time.perf_counter()
    with importing("dagster"):
        from ctx_pipeline.defs.execution import Execution
        from ctx_pipeline.defs.run_records import tidy_if_many

    with instance(settings) as found, Execution(settings, found, pipeline=pipeline, progress=progress) as job:
        ingested = ahead.wait("ingest", progress) if ahead else job.ingest()
        derived = ahead.wait("derive", progress) if ahead else []
        job.take(ingested if ahead else [], derived)
        made = [*ingested, *derived]
        held = {Cell.of(key): error for r in made for key, error in r.failed_partitions.items() if key}
        plan = job.plan()
        complete = False
        last: list[StageReport] = []

        def wait_for_tail() -> None:
            if ahead and not last:
                last.extend(ahead.wait("tail", progress))
                job.take(last)

        if full:
            job.run_cells({cell for node in plan.assets.values() if node.asset.partitioned for cell in node.cells}, held=held)
        else:
            wanted = job.made(made)
            left = plan.dirty_assets()
            for cell, assets in left.items():
                wanted.setdefault(cell, set()).update(assets)
            if wanted and not (left or held):
                complete = job.run_together(wanted, plan, wait_for_tail)
            else:
                job.run_cells(wanted, held=held)
            if left:
                # what only new code changed makes stale what is below it, and not before
                job.run_cells({c: below for c, below in job.plan().dirty_assets().items() if c.key not in job.outcome.held}, held=held)
        if not complete:
            wait_for_tail()
            job.run_tail({r.stage for r in (*ingested, *last) if r.changed or r.totals}, full=full)
        tidy_if_many(found)
    job.outcome.seconds = time.perf_counter() - began
    return job.outcome


def backfill(
    settings: Settings,
    asset: str,
    *,
    cells: Sequence[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
    pipeline: Pipeline | None = None,
) -> Outcome:
    """Fill the missing and stale cells of one asset, all of them with ``force``; of what is above it only facts that are missing are made.

    ``cells`` are partition keys such as ``claude|2026-03``. Raises UnknownName for an
    asset or a cell that does not exist.
    """
    began = time.perf_counter()
    from ctx_pipeline.defs.execution import Execution

    with (
        instance(settings) as found,
        Execution(settings, found, pipeline=pipeline, progress=progress, by="ctx backfill", force=force) as job,
    ):
        plan = job.plan()
        if asset not in plan.assets:
            raise UnknownName("asset", asset, plan.assets)
        node = plan.assets[asset]
        known = {cell.key: cell for cell in node.cells}
        for key in cells or ():
            if key not in known or not node.asset.partitioned:
                raise UnknownName("partition", key, known)
        wanted = {known[key] for key in cells} if cells else set(known.values())
        wanted = wanted if force else wanted & set(node.dirty())
        if node.asset.partitioned:
            facts = plan.assets[FACTS_ASSET]
            if asset != FACTS_ASSET and (behind := wanted & set(facts.dirty())):
                job.run_cells(behind, assets=[FACTS_ASSET])
            job.run_cells(wanted, assets=[asset])
        elif wanted:
            job.run_whole([asset])
    job.outcome.seconds = time.perf_counter() - began
    return job.outcome


def asset_keys(settings: Settings) -> list[str]:
    """Return the keys of the asset graph as Dagster loads it, sorted."""
    from ctx_pipeline.defs.location import build
    from ctx_pipeline.defs.resources import Pipeline

    graph = build(Pipeline(settings)).resolve_asset_graph()
    return sorted(key.to_user_string() for key in graph.get_all_asset_keys())


def ui(settings: Settings, *, port: int = 3000, watch: bool = False) -> None:
    """Serve the asset graph over the person's instance, tell its address, and return when it is interrupted.

    With ``watch`` the observing sensors, the automation and the nightly schedule run for as
    long as it does, but for those that were switched off in the UI. Raises StoreError for a
    port that is taken.
    """
    from ctx_pipeline import loopback
    from ctx_pipeline.defs import web

    with suppress(KeyboardInterrupt), loopback.listen(port) as listener:
        if sys.stderr.isatty():
            sys.stderr.write("starting Dagster, about ten seconds …")
            sys.stderr.flush()
        with web.surroundings(settings, prepare_home(settings), watch=watch), instance(settings) as found:
            web.serve(found, config_folder() / "workspace.yaml", listener)

"""What ``ctx run``, ``ctx backfill`` and ``ctx ui`` call: the asset job in this process, and the UI."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError, UnknownName
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import FACTS_ASSET
from ctx_pipeline.pipeline.repair.rebuild import set_aside, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import dagster as dg

    from ctx_pipeline.defs.resources import Pipeline
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
    bad = {name for name, table in _FILES.items() if not _readable(home / name, table)}
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


def demand(home: Path) -> None:
    """Raise StoreError for a ``dagster.yaml`` that cannot be read; a person's own is never overwritten."""
    import yaml

    path = home / "dagster.yaml"
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise StoreError(
            f"{path} cannot be read: {next(iter(str(error).splitlines()), '')}",
            hint="it is not the one that ctx writes, so it stays: fix it, or move it away and run again",
            path=str(path),
        ) from error
    if found is not None and not isinstance(found, dict):
        raise StoreError(f"{path} holds no settings", hint="it is not the one that ctx writes, so it stays: fix it, or move it away")


def _readable(path: Path, table: str) -> bool:
    """Tell whether a database can be read and has a table, as far as a look at its pages shows."""
    if not path.exists() or not whole(path):
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None
    except sqlite3.Error:
        return False


def ever_switched(home: Path) -> bool:
    """Tell whether a sensor, the automation or a schedule of an instance of ours was ever switched on or ticked; without Dagster.

    True where the file cannot say.
    """
    path = home / "schedules/schedules.db"
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT EXISTS (SELECT 1 FROM jobs) OR EXISTS (SELECT 1 FROM instigators)").fetchone()
    except sqlite3.Error:
        return True
    return bool(found[0])


_LASTING = """
# one SQLite file for all runs: half the time and a quarter of the disk of one file a run
event_log_storage:
  module: ctx_pipeline.defs.event_log
  class: KeptConnectionEventLog
  config:
    base_dir: {history}
run_storage:
  module: ctx_pipeline.defs.event_log
  class: KeptConnectionRuns
  config:
    base_dir: {history}
"""


def config_folder() -> Path:
    """Return the folder with ``dagster.yaml`` and ``workspace.yaml``: in the wheel, else the checkout's top."""
    packaged = Path(__file__).parent / "config"
    return packaged if (packaged / "dagster.yaml").exists() else Path(__file__).parents[2]


def of_person(settings: Settings) -> Path | None:
    """Return the folder that ``DAGSTER_HOME`` names, where it is another one than the store's own."""
    named = settings.environ.get("DAGSTER_HOME", "").strip()
    found = Path(named).expanduser() if named else None
    return None if found is None or found.resolve() == (settings.home / "dagster").resolve() else found


def prepare_home(settings: Settings) -> Path:
    """Return the folder of the Dagster instance. Dagster is not imported.

    That is the one of ``DAGSTER_HOME``, as it is: nothing in it is written by us. Without
    it, ``$CTX_HOME/dagster`` (0700) with our ``dagster.yaml``.
    """
    import json

    from ctx_pipeline.storage.files import Files

    if (named := of_person(settings)) is not None:
        if not named.is_dir():
            raise StoreError(f"DAGSTER_HOME names {named}, which is no folder", hint=f"make it: mkdir -p {named}, or unset DAGSTER_HOME")
        return named.resolve()
    home = settings.home / "dagster"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.chmod(0o700)
    text = (config_folder() / "dagster.yaml").read_text("utf-8") + _LASTING.format(history=json.dumps(str(home / "history")))
    target = home / "dagster.yaml"
    if _of_ours(target, text):
        Files(settings.home).write("dagster/dagster.yaml", text.encode())
    return home


def _of_ours(target: Path, text: str) -> bool:
    """Tell whether the file is to be written: there is none, or one of ours that is not as it should be. A person's own stays."""
    try:
        found = target.read_bytes()
    except FileNotFoundError:
        return True
    ours, first = text.encode(), text.encode().splitlines()[0]
    # a cut or a changed byte leaves one of the two ends; a person's own file has neither
    mine = not found.strip() or found.startswith(first) or ours.startswith(found) or found.endswith(ours[-len(first) :])
    return mine and found != ours


@contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the persistent instance; the environment of this process is as before when it closes."""
    home = prepare_home(settings)
    if (home / "dagster.yaml").exists():
        demand(home)
    before = {name: os.environ.get(name) for name in ("DAGSTER_HOME", "DAGSTER_DISABLE_TELEMETRY")}
    os.environ |= {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1"}
    mask = os.umask(0o077)
    try:
        import dagster as dg

        from ctx_pipeline.defs import partitions
        from ctx_pipeline.storage import open_store

        with ExitStack() as stack:
            # two processes that make the schema of a new instance at once lock each other out
            with open_store(settings) as store, store.ledger.lease("dagster/instance"):
                for line in set_aside_damaged(home) if of_person(settings) is None else ():
                    sys.stderr.write(f"{line}\n")
                found = stack.enter_context(dg.DagsterInstance.get())
                found.get_run_records(limit=1)
                found.get_latest_materialization_event(dg.AssetKey(["raw", "segments"]))
                partitions.synchronize(found, store.ledger.cells())
            yield found
    finally:
        os.umask(mask)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
    consecutive months, then the tail is planned anew and run once.
    """
    began = time.perf_counter()
    from ctx_pipeline.defs.execution import Execution

    with instance(settings) as found, Execution(settings, found, pipeline=pipeline, progress=progress) as job:
        ingested = ahead.wait("ingest", progress) if ahead else job.ingest()
        derived = ahead.wait("derive", progress) if ahead else []
        job.take(ingested if ahead else [], derived)
        made = [*ingested, *derived]
        held = {Cell.of(key): error for r in made for key, error in r.failed_partitions.items() if key}
        plan = job.plan()
        if full:
            job.run_cells({cell for node in plan.assets.values() if node.asset.partitioned for cell in node.cells}, held=held)
        else:
            wanted = job.made(made)
            left = plan.dirty_assets()
            for cell, assets in left.items():
                wanted.setdefault(cell, set()).update(assets)
            job.run_cells(wanted, held=held)
            if left:
                # what only new code changed makes stale what is below it, and not before
                job.run_cells({c: below for c, below in job.plan().dirty_assets().items() if c.key not in job.outcome.held}, held=held)
        tail = ahead.wait("tail", progress) if ahead else []
        job.take(tail)
        job.run_tail({r.stage for r in (*ingested, *tail) if r.changed or r.totals}, full=full)
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

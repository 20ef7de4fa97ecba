"""`ctx run` works ahead in other processes, and Dagster's history says what they did."""

from __future__ import annotations

import json
import pathlib
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.months import write_month
from ctx_pipeline_tests.factories.shipped import SAMPLES, environment

if TYPE_CHECKING:
    from pathlib import Path

_BROKEN = """
import sys
from ctx_pipeline.pipeline import background
def broken(*_): raise ValueError("no")
part = sys.argv.pop(1)
assert hasattr(background, part)
setattr(background, part, broken)
from ctx_pipeline.cli import main
main(sys.argv[1:])
"""


_IMPORTED = """
import atexit, json, sys
from ctx_pipeline.cli import main
makes = ("pipeline.consolidate", "pipeline.warehouse", "pipeline.render", "mining.repeated_corrections", "signals.outcomes")
made = ["ctx_pipeline." + name for name in makes]
atexit.register(lambda: print(json.dumps([name for name in made if name in sys.modules]), file=sys.stderr))
main(["run", "--json"])
"""


def history(ctx: Ctx) -> dict:
    import dagster as dg

    from ctx_pipeline import settings
    from ctx_pipeline.defs import launch

    found: dict = {}
    with launch.instance(settings.load(ctx.environ)) as instance:
        for run in instance.get_runs():
            for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION, limit=1000).records:
                event = record.event_log_entry.dagster_event.event_specific_data.materialization
                told = {name: value.value for name, value in event.metadata.items()}
                found.setdefault(event.asset_key.to_user_string(), {})[event.partition or ""] = told
    return found


def content(ctx: Ctx) -> list[tuple]:
    with sqlite3.connect(ctx.store / "ledger.db") as ledger:
        rows = ledger.execute("SELECT asset, host, month, content_hash, rows FROM asset_cells ORDER BY 1, 2, 3")
        # the page counts the days that are left to each transcript
        return [row for row in rows if row[0] != "dashboard/site"]


@pytest.mark.feature("run.ahead", "dagster.event-metadata", "graph.lineage")
def test_the_history_has_every_asset_and_cell_with_what_was_counted(ran: Ctx):
    found = history(ran)

    assert {"raw/segments", "normalized/events", "signals/outcomes", "mined/error_resolutions"} <= set(found)
    assert {"search/index", "memory/consolidated", "memory/index", "warehouse/duckdb", "dashboard/site"} <= set(found)
    with sqlite3.connect(ran.store / "ledger.db") as ledger:
        cells = {f"{host}|{month}" for host, month in ledger.execute("SELECT DISTINCT host, month FROM sessions")}
    assert cells <= set(found["normalized/events"])
    assert cells <= set(found["mined/error_resolutions"])
    cell = min(cells)
    assert found["normalized/events"][cell]["status"] == "done"
    assert found["normalized/events"][cell]["dagster/row_count"] > 0
    assert found["normalized/events"][cell]["parsed"] > 0
    assert found["signals/outcomes"][cell]["dagster/row_count"] > 0
    assert found["signals/outcomes"][cell]["seconds"] > 0
    assert found["mined/error_resolutions"][cell]["sessions_recomputed"] > 0
    assert found["dashboard/site"][""]["chunks_written"] > 0
    assert all(sys.getsizeof(json.dumps(facts)) < 2_000 for of_cells in found.values() for facts in of_cells.values())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.feature("run.ahead-fails", "stages.parity")
@pytest.mark.parametrize("part", ["_derive", "_unpartitioned"])
def test_what_the_other_process_cannot_do_is_done_here(ran: Ctx, tmp_path: Path, part: str):
    import shutil
    import subprocess

    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, tmp_path / host)
    other = Ctx(tmp_path, environment(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", _BROKEN, part, "run", "--json"], env=other.environ, capture_output=True, text=True, check=False, timeout=250
    )

    assert done.returncode == 0, done.stderr
    rows = {row[:3]: row[4] for row in content(other)}
    assert rows == {row[:3]: row[4] for row in content(ran)}
    assert set(history(other)) == set(history(ran))


@pytest.mark.feature("run.ahead")
def test_what_other_processes_made_is_recorded_without_the_modules_that_make_it(ran: Ctx, tmp_path: Path):
    import shutil
    import subprocess

    shutil.copytree(SAMPLES / "claude", tmp_path / "claude")
    other = Ctx(tmp_path, environment(tmp_path))
    other("run")  # the first one reads all code for its versions
    shutil.copytree(SAMPLES / "codex", tmp_path / "codex")
    done = subprocess.run([sys.executable, "-c", _IMPORTED], env=other.environ, capture_output=True, text=True, check=True, timeout=250)

    assert json.loads(done.stderr.splitlines()[-1]) == []
    found = history(other)
    assert found["dashboard/site"][""]["chunks_written"] > 0
    assert set(found) == set(history(ran))
    for cell, told in found["normalized/events"].items():
        assert told["parsed"] > 0, cell
        assert all(found[asset][cell]["status"] == "done" for asset in ("signals/outcomes", "mined/error_resolutions"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.feature("stages.parity")
def test_hook_then_run_and_run_alone_write_the_same(ran: Ctx, tmp_path: Path):
    import shutil

    for host in ("claude", "codex"):
        shutil.copytree(ran.folder / host, tmp_path / host)
    other = Ctx(tmp_path, {**ran.environ, "CTX_HOME": str(tmp_path / "store")})
    other("sync")
    other("run")

    assert content(other) == content(ran)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.feature("run.ahead-fails")
def test_an_ingest_that_fails_says_so_and_leaves_no_process(ran: Ctx, tmp_path: Path):
    import shutil
    import subprocess

    shutil.copytree(SAMPLES / "claude", tmp_path / "claude")
    other = Ctx(tmp_path, environment(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", _BROKEN, "_ingest", "run"], env=other.environ, capture_output=True, text=True, check=False, timeout=250
    )

    assert done.returncode == 1
    assert "ingest failed: ValueError" in done.stderr
    assert "Traceback" not in done.stderr


_APART = """
import os, sys
from ctx_pipeline.pipeline import background
from ctx_pipeline.pipeline.ingest import pool
pool.POOL_ABOVE = int(sys.argv.pop(1))
failing = sys.argv.pop(1)
told = sys.argv.pop(1)
def noted(name, work):
    def wrapped(*given):
        with open(told, "a") as file:
            file.write(f"{given[2] if name == 'tail' and len(given) > 2 else name} {os.getpid()}\\n")
        if failing == "dies" and name == "ingest":
            os._exit(7)
        if failing == "raises" and name == "ingest":
            raise ValueError("a secret")
        return work(*given)
    return wrapped
background._ingest = noted("ingest", background._ingest)
background._derive = noted("derive", background._derive)
background._unpartitioned = noted("tail", background._unpartitioned)
from ctx_pipeline.cli import main
main(sys.argv[1:])
"""


def one_session(folder: Path) -> dict[str, str]:
    (folder / "codex").mkdir(parents=True)
    write_month(folder / "claude", "2026-03", 1)
    return environment(folder)


@pytest.mark.feature("ingest.apart")
def test_each_part_of_a_large_history_has_a_process_of_its_own_that_ends_with_it(tmp_path: Path):
    told = {}
    for above in ("0", "1000000000"):
        environ = one_session(tmp_path / above)
        done = processes.run([sys.executable, "-c", _APART, above, "", str(tmp_path / f"{above}.txt"), "run", "--json"], env=environ)
        assert done.returncode == 0, done.stderr
        told[above] = dict(line.split() for line in (tmp_path / f"{above}.txt").read_text().splitlines())
        assert json.loads(done.stdout)["sessions"] == 1
    assert list(told["0"]) == ["ingest", "derive", "tables", "page"]
    assert len(set(told["0"].values())) == 4
    assert list(told["1000000000"]) == ["ingest", "derive", "tail"]
    assert len(set(told["1000000000"].values())) == 1


@pytest.mark.feature("ingest.apart")
@pytest.mark.parametrize(
    ("failing", "said"),
    [("raises", "ingest failed: ValueError in <string>, line"), ("dies", "the ingest process ended early (status 7)")],
)
def test_what_ends_a_large_ingest_is_said_and_the_next_run_goes_on(tmp_path: Path, failing: str, said: str):
    environ = one_session(tmp_path)
    notes = str(tmp_path / "told.txt")
    broken = processes.run([sys.executable, "-c", _APART, "0", failing, notes, "run", "--json"], env=environ)
    assert broken.returncode != 0
    assert said in broken.stderr + broken.stdout
    assert "a secret" not in broken.stderr + broken.stdout
    whole = processes.run([sys.executable, "-c", _APART, "0", "", notes, "run", "--json"], env=environ)
    assert (whole.returncode, json.loads(whole.stdout)["sessions"]) == (0, 1)


_LAST = """
import sys
from ctx_pipeline.cli import one_run
from ctx_pipeline.pipeline import background
one_run._DAGSTER_LATE, one_run._DAGSTER_LAST = int(sys.argv.pop(1)), int(sys.argv.pop(1))
told = sys.argv.pop(1)
wait = background.Ahead.wait
def noted(self, part, progress=None):
    found = wait(self, part, progress)
    with open(told, "a") as file:
        file.write(f"{part} {'dagster' in sys.modules}\\n")
    return found
background.Ahead.wait = noted
from ctx_pipeline.cli import main
main(sys.argv[1:])
"""


@pytest.mark.feature("ingest.dagster-last")
def test_dagster_is_imported_after_all_is_made_where_much_is_to_be_read(tmp_path: Path):
    more = "1000000000"
    for name, late, last, without in (("last", "-1", "-1", 3), ("late", "-1", more, 2), ("first", more, more, 0)):
        environ = one_session(tmp_path / name)
        done = processes.run([sys.executable, "-c", _LAST, late, last, str(tmp_path / f"{name}.txt"), "run", "--json"], env=environ)
        assert done.returncode == 0, done.stderr
        waits = [line.split() for line in (tmp_path / f"{name}.txt").read_text().splitlines()]
        parts = ["ingest", "derive", "tail"]
        assert waits == [*([part, "False"] for part in parts[:without]), *([part, "True"] for part in parts)]
        assert json.loads(done.stdout)["sessions"] == 1
        assert (pathlib.Path(environ["CTX_HOME"], "dagster")).is_dir()

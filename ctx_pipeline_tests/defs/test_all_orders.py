"""A command, a daemon's run and a process that is killed write the same cell: in every order the same content comes of it."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from itertools import permutations

import pytest

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import contract_checks
from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories.shipped import environment

MARCH = Cell("claude", "2026-03")
GAP_SECONDS = 0.3

COMMAND = "from ctx_pipeline.cli import main; main(['run', '--json'])"

DAEMON = """
from ctx_pipeline import settings
from ctx_pipeline.defs import launch
from ctx_pipeline.defs.execution import Execution
from ctx_pipeline.model.raw import Cell
chosen = settings.load()
with launch.instance(chosen) as instance, Execution(chosen, instance, by="daemon") as job:
    job.run_cells([Cell("claude", "2026-03")])
    job.run_tail()
raise SystemExit(bool(job.outcome.held))
"""

KILLED = """
import os, signal, sys
from ctx_pipeline import settings
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline.storage.ledger import Ledger

owner, name = {"Lake": Lake, "Ledger": Ledger}[sys.argv[1]], sys.argv[2]
whole = getattr(owner, name)

def last(*args, **options):
    whole(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, last)
chosen = settings.load()
with open_store(chosen) as store:
    run_stages(store, chosen)
"""

POINTS = [
    ("Lake", "write_part"),
    ("Ledger", "commit_capture"),
    ("Lake", "commit"),
    ("Ledger", "record_asset"),
    ("Ledger", "record_normalized"),
    ("Lake", "write_rows"),
]
"""Where the killed process dies, another place in every order."""


def content(store) -> dict[str, str]:
    """Return asset and cell -> content hash of everything that a run makes."""
    assets = {asset for asset, _ in store.ledger.recorded()} - {"raw/segments", "search/index", "memory/index", "dashboard/site"}
    return {f"{asset} {cell.key}": row.content_hash for asset in assets for cell, row in store.ledger.asset_cells(asset).items()}


@pytest.fixture
def undisturbed(settings, tmp_path):
    """The content of a store that one process alone has made of the same home."""
    with open_store(replace(settings, home=tmp_path / "undisturbed")) as store:
        run_stages(store, replace(settings, home=tmp_path / "undisturbed"))
        return content(store)


@pytest.mark.slow
@pytest.mark.feature("leases.all-orders")
@pytest.mark.parametrize(("order", "point"), list(zip(permutations(("command", "daemon", "killed")), POINTS, strict=True)), ids=str)
def test_nothing_is_lost_and_nothing_twice_whoever_comes_first(settings, tmp_path, undisturbed, order, point):
    scripts = {"command": [COMMAND], "daemon": [DAEMON], "killed": [KILLED, *point]}
    running = {}
    for name in order:
        running[name] = preloaded.begin("-c", *scripts[name], env=environment(tmp_path), cwd=tmp_path)
        time.sleep(GAP_SECONDS)
    ended = {name: process.result().returncode for name, process in running.items()}

    assert (ended["command"], ended["daemon"]) == (0, 0)
    # it dies in the middle, or comes so late that nothing is left to do
    assert ended["killed"] in {-signal.SIGKILL, 0}
    with open_store(settings) as store:
        run_stages(store, settings)
        assert content(store) == undisturbed
        assert store.ledger.totals()["sessions"] == 2
        assert store.ledger.live_leases() == {}
        assert [f.event.text for f in store.search.search(store.lake, "parser", limit=50)] == ["mend the parser, part 0"] * 2
        found = contract_checks.run(store, store.ledger.cells())
        assert {name for checked in found.values() for name, finding in checked.items() if not finding.passed} == set()
        assert len(store.lake.read_rows(NORMALIZED[0], MARCH)) == 2

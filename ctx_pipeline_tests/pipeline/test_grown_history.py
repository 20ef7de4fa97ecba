"""A history that grew in any order, or was killed between two parts, has the content of one that was made from nothing."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.plan import plan
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.killed import contents
from ctx_pipeline_tests.factories.months import settings_of, write_month
from ctx_pipeline_tests.pipeline.test_killed_tail import NEW, OLD, Killer, added
from ctx_pipeline_tests.waiting import remove

STEPS = (("2026-03", 1, 1), ("2026-03", 1, 3), ("2026-03", 2, 2), ("2026-04", 3, 1))
"""(month, session, prompts): the second is the first one grown."""

TAIL = ("memory/consolidated", "memory/index", "warehouse/duckdb")


def made(environ: dict[str, str], home: Path) -> dict[str, str]:
    """Run every stage and return the content hashes of the store."""
    settings = settings_of({**environ, "CTX_HOME": str(home)})
    with open_store(settings) as store:
        run_stages(store, settings)
        rows = {asset: store.ledger.asset_cell(asset, Cell("", "")) for asset in TAIL}
        return contents(store, plan(store, settings).assets) | {asset: row.content_hash for asset, row in rows.items() if row}


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.feature("run.any-order")
@pytest.mark.parametrize("order", [(2, 0, 3, 1), (3, 0, 1, 2)])
def test_a_run_after_each_session_in_any_order_ends_with_the_content_of_one_run(environ, tmp_path, order):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    for month, number, prompts in map(STEPS.__getitem__, order):
        write_month(home, month, number, prompts=prompts)
        grown = made(environ, tmp_path / "grown")

    assert len([name for name in grown if name.startswith("signals/activity@")]) == 2
    assert set(TAIL) <= set(grown)
    assert grown == made(environ, tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.feature("run.killed-parts")
def test_a_kill_between_two_parts_of_a_partition_leaves_nothing_behind(tmp_path):
    added(tmp_path, OLD, "zebrafinch", "ruff")
    killer = Killer(tmp_path)
    before = tmp_path / "before"
    killer.run(before)
    added(tmp_path, NEW, "kingfisher", "pytest")
    shutil.copytree(before, tmp_path / "whole")
    events = [e for e in dict.fromkeys(killer.run(tmp_path / "whole")) if e.startswith("swap lake/")]
    derived = [
        e for e in events if any(f"/{name}/" in e or f"/{name}." in e for name in ("readings", "candidates", "signals", "mined", "facts"))
    ]
    assert len(derived) > 20
    killer.run(tmp_path / "clean")
    expected = killer.look(tmp_path / "clean")
    assert killer.look(tmp_path / "whole") == expected

    for event in random.Random(17).sample(derived, 4):
        store = tmp_path / "killed"
        shutil.copytree(before, store)
        assert killer.ask("run", store, ["before", event, 1])[0] == -signal.SIGKILL, event
        killer.run(store)
        assert killer.look(store) == expected, event
        remove(store)

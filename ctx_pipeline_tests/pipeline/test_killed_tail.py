"""Killed on either side of any swap or record of the tail, the next run ends as if nothing had happened; so it does with an old file."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories import killed
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.waiting import remove

if TYPE_CHECKING:
    from pathlib import Path

OLD = "aaaaaaaa-0000-4000-8000-000000000001"
NEW = "bbbbbbbb-0000-4000-8000-000000000002"

FILES = [
    "search.db",
    "memory.db",
    "cases.db",
    "serving/ctx.duckdb",
    "lake/_manifests/memory.consolidated/=.json",
    "site",
]
RECORDED = ["search/index", "memory/used", "memory/consolidated", "memory/index", "warehouse/duckdb", "dashboard/site"]


class Killer:
    """Runs the program of :mod:`ctx_pipeline_tests.factories.killed` over the home below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, do: str, store: Path, at: list | None = None, **more: str) -> tuple[int, dict | None]:
        asked = {"store": str(store), "homes": {"claude": str(self._folder / "claude")}, "at": at, "do": do, **more}
        words = ["-c", killed.PROGRAM, json.dumps(asked)]
        done = preloaded.run(words, env=environment(self._folder), cwd=self._folder, stdin=None, seconds=250)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    def run(self, store: Path) -> list[str]:
        """Run every stage and return the events."""
        ended, found = self.ask("run", store)
        assert ended == 0
        assert found is not None
        return found["events"]

    def look(self, store: Path) -> dict:
        ended, found = self.ask("look", store)
        assert ended == 0
        assert found is not None
        return found["found"]


@pytest.fixture
def killer(tmp_path):
    added(tmp_path, OLD, "zebrafinch", "ruff")
    return Killer(tmp_path)


def added(tmp_path: Path, session: str, mark: str, tool: str) -> None:
    """Add a session of which there is something to tell in every asset."""
    cwd = f"/home/dev/{mark}"
    transcript = build.ClaudeHome(tmp_path / "claude").session(session, slug=cwd.replace("/", "-"), cwd=cwd)
    transcript.prompt(f"add a flag --{mark} to the settings parser in cli.py")
    transcript.call(f"toolu_{mark}1", "Edit", "updated", file_path=f"{cwd}/cli.py", old_string="a", new_string="b")
    missing = f"Exit code 127\nbash: line 1: {tool}: command not found"
    transcript.call(f"toolu_{mark}2", "Bash", missing, is_error=True, command=f"{tool} -q")
    transcript.call(f"toolu_{mark}3", "Bash", "3 passed", command=f"uv run {tool} -q")
    transcript.call(f"toolu_{mark}4", "Bash", "3 passed", command="make test")
    transcript.answer(build.text(f"The {mark} parser works now."))
    transcript.save()


def grown(tmp_path: Path) -> None:
    added(tmp_path, NEW, "kingfisher", "pytest")


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.feature("run.killed-tail")
def test_a_kill_beside_any_swap_or_record_of_the_tail_leaves_nothing_old(tmp_path, killer):
    before = tmp_path / "before"
    killer.run(before)
    grown(tmp_path)
    shutil.copytree(before, tmp_path / "whole")
    events = killer.run(tmp_path / "whole")
    clean = tmp_path / "clean"
    killer.run(clean)
    expected = killer.look(clean)
    assert NEW in expected["shown"]
    assert any(NEW in str(memory) for memory in expected["memories"])
    assert any(NEW in str(case) for case in expected["cases"])
    tail = [e for e in dict.fromkeys(events) if _of_the_tail(e)]
    assert {f"record {asset}" for asset in RECORDED} <= set(tail)
    assert {f"swap {name}" for name in FILES if name != "search.db"} <= set(tail)

    # from the second record on the tables are there already, and only the tail is left to do
    half = tmp_path / "half"
    shutil.copytree(before, half)
    assert killer.ask("run", half, ["before", "record memory/used", 1])[0] == -signal.SIGKILL
    wrong = {}
    # right after an event the disk is as right before the next
    for side, event in [*(("before", e) for e in tail), ("after", tail[-1])]:
        store = tmp_path / "killed"
        shutil.copytree(before if event == "record search/index" else half, store)
        assert killer.ask("run", store, [side, event, 1])[0] == -signal.SIGKILL, (side, event)
        killer.run(store)
        found = killer.look(store)
        if different := [key for key, value in expected.items() if found[key] != value]:
            wrong[side, event] = different
        remove(store)
    assert wrong == {}


def _of_the_tail(event: str) -> bool:
    what, _, name = event.partition(" ")
    if what == "record":
        return name in RECORDED
    return name in {*FILES, "uses.json", "summary.json", "signals/summary.md", "signals/aggregates.json"}


@pytest.mark.slow
@pytest.mark.feature("run.record-follows-file")
def test_an_old_file_under_a_new_record_is_made_again(tmp_path, killer):
    store, old = tmp_path / "store", tmp_path / "old"
    killer.run(store)
    shutil.copytree(store, old)
    grown(tmp_path)
    killer.run(store)
    expected = killer.look(store)
    assert expected["todo"] == expected["lost"] == []
    assert NEW in expected["shown"]
    wrong = {}
    for name in FILES:
        target = store / name
        if target.is_dir():
            remove(target)
            shutil.copytree(old / name, target)
        else:
            for log in ("-wal", "-shm"):
                target.with_name(target.name + log).unlink(missing_ok=True)
            shutil.copy2(old / name, target)
        seen = killer.look(store)
        assert seen["lost"], name
        killer.run(store)
        found = killer.look(store)
        if different := [key for key, value in expected.items() if found[key] != value]:
            wrong[name] = different
    assert wrong == {}

"""Signals that come, change and go, and an upgrade of the package, while `ctx ui --watch` runs, with real processes.

    python -m pytest -s ctx_pipeline_tests/defs/story_of_a_running_daemon.py

Takes minutes, so it is run by name; what it printed stands in docs/graph.md.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import ctx_pipeline
from ctx_pipeline.defs import launch
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.months import write_month
from ctx_pipeline_tests.waiting import eventually

SECONDS = 240.0

SIGNAL = '''"""{name}: prompts."""

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.examples import session


@signal(version=1, group="activity", kind="boolean", unit="", better="neither", reads=("events",))
def {name}(view):
    """Whether few prompts were typed."""
    return Reading(bool(len(view.prompts) < {limit}))


EXAMPLES = {{"{name}": [(session().prompt("one"), True)]}}
'''


class Watched:
    """A store, a copy of the package that may be edited, and what is asked of both from outside."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.package = folder / "checkout" / "ctx_pipeline"
        self.store = Path(environ["CTX_HOME"])
        self.signals = self.store / "config" / "signals"
        shutil.copytree(Path(ctx_pipeline.__file__).parent, self.package, ignore=shutil.ignore_patterns("*.msgpack", "__pycache__"))
        for name in ("dagster.yaml", "workspace.yaml"):
            shutil.copy(launch.config_folder() / name, self.package.parent / name)
        self.environment = {**os.environ, **environ, "PYTHONPATH": str(self.package.parent)}
        self.began = time.monotonic()

    def ctx(self, *words: str) -> str:
        done = processes.run([sys.executable, "-m", "ctx_pipeline", *words], env=self.environment, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, name: str, limit: int) -> None:
        self.signals.mkdir(parents=True, exist_ok=True)
        (self.signals / f"{name}.py").write_text(SIGNAL.format(name=name, limit=limit))

    def dirty(self) -> dict[str, set[str]]:
        """Return asset -> states of its partitions, as another process tells them."""
        assets = json.loads(self.ctx("status", "--json"))["assets"]
        return {a["asset"]: {c["state"] for c in a["cells"]} for a in assets if a["filled_by"] == "run" and a["cells"]}

    def values(self, name: str) -> list[str]:
        rows = json.loads(self.ctx("sql", "--json", f"SELECT value FROM readings WHERE signal = '{name}' ORDER BY session_id"))
        return [str(row["value"]) for row in (rows["rows"] if isinstance(rows, dict) else rows)]

    def runs(self) -> list[tuple[str, str]]:
        """Return who launched each run and its status, the oldest first."""
        with closing(sqlite3.connect(self.store / "dagster" / "history" / "runs.db")) as database:
            return database.execute(
                "SELECT t.value, r.status FROM runs r JOIN run_tags t USING (run_id) WHERE t.key = 'ctx/by' ORDER BY r.id"
            ).fetchall()

    def ticks(self, name: str = "automation") -> int:
        with closing(sqlite3.connect(self.store / "dagster" / "schedules" / "schedules.db")) as database:
            bodies = [row[0] for row in database.execute("SELECT tick_body FROM job_ticks WHERE status IN ('SKIPPED', 'SUCCESS')")]
        return sum(f'"{name}"' in body for body in bodies)

    def two_ticks(self) -> None:
        """Wait until the automation has looked twice: once it may have been at it already."""
        before = self.ticks()
        assert eventually(lambda: self.ticks() >= before + 2, SECONDS)

    def made_anew(self, name: str, expected: list[str]) -> bool:
        """Wait until the automation has made a signal of the code that the files hold, and the page after it."""
        return eventually(lambda: self.values(name) == expected and not self.dirty(), SECONDS) and self.runs()[-1][0] == "automation"

    def say(self, what: str) -> None:
        sys.stderr.write(f"{time.monotonic() - self.began:6.1f} s  {what}; runs by {[by for by, _ in self.runs()]}\n")


@pytest.fixture
def watched(tmp_path, environ):
    root = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(root, "2026-03", 1, prompts=4)
    write_month(root, "2026-04", 2, prompts=6)
    made = Watched(tmp_path, environ)
    made.write("patience", 4)
    made.ctx("run")
    assert made.values("patience") == ["0.0", "0.0"]
    said = tmp_path / "ui.out"
    with said.open("w") as out:
        command = [sys.executable, "-m", "ctx_pipeline", "ui", "--watch", "--port", "0"]
        process = subprocess.Popen(
            command, env=made.environment, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        assert eventually(lambda: "http://" in said.read_text(), SECONDS), said.read_text()
        yield made
    finally:
        processes.end(process)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_signals_come_change_and_go_and_the_package_is_upgraded_under_a_running_watch(watched):
    before = watched.runs()
    watched.say("watching")

    watched.write("haste", 9)
    watched.two_ticks()
    assert watched.runs() == before, "history is filled by a person"
    assert watched.dirty() == {"signals/haste": {"missing"}}
    assert "2 partitions filled" in watched.ctx("backfill", "--signal", "haste")
    assert watched.values("haste") == ["1.0", "1.0"]
    watched.say("haste was added, seen and filled")

    watched.write("patience", 5)
    assert watched.made_anew("patience", ["1.0", "0.0"])
    watched.say("patience was edited from 4 to 5, and made anew by the automation")

    (watched.signals / "haste.py").unlink()
    watched.ctx("run")
    watched.two_ticks()
    assert "haste" not in watched.ctx("status", "--json")
    assert watched.dirty() == {}
    watched.say("haste was removed")

    activity = watched.package / "signals" / "activity.py"
    text = activity.read_text()
    assert "_count(e.event_id for e in view.prompts)" in text
    activity.write_text(text.replace("for e in view.prompts)", "for e in view.prompts if e.seq > 1_000)"))
    assert watched.made_anew("user_message_count", ["0.0", "0.0"])
    watched.say("the package was upgraded, and what it changed was made anew")
    assert {status for _, status in watched.runs()} == {"SUCCESS"}

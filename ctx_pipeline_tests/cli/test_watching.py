"""``ctx run --watch`` as a process that goes on: what an agent writes is made of everything, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from ctx_pipeline.cli import watching as watching_module
from ctx_pipeline.cli.watching import LONGEST_SECONDS, SHORTEST_SECONDS, pause
from ctx_pipeline.errors import StoreError
from ctx_pipeline.pipeline.background import INGEST, WarmProcess, resident_bytes
from ctx_pipeline.pipeline.capture import Scan
from ctx_pipeline.pipeline.capture.changes import Changes
from ctx_pipeline.settings import load
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.waiting import SECONDS, eventually

DISCOUNTS = "projects/-home-sam-code-bookshop-api/51b369cc-0a63-4a24-aa2a-c6ba8b05c225.jsonl"
SIGNAL = '''
from ctx_pipeline.signals.base import reading, register


@register("prompts_seen", group="usage", kind="numeric")
def prompts_seen(ctx):
    """Prompts of a session."""
    return reading(ctx, prompts_seen, value=float(sum(e.kind == "prompt" for e in ctx.events)))
'''


class Watching:
    """A running ``ctx run --watch`` and the lines that it says."""

    def __init__(self, ctx: Ctx, *words: str, cwd: Path | None = None) -> None:
        command = [sys.executable, "-P", "-m", "ctx_pipeline", "run", "--watch", "--every", "0.1", *words]
        self.process: subprocess.Popen[str] = processes.start(
            command,
            env=ctx.environ,
            cwd=cwd or ctx.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)

    def until(self, part: str) -> str:
        """Return the first line from now on that holds a text."""
        while part not in (line := self._lines.get(timeout=SECONDS)):
            pass
        return line

    def report(self) -> dict[str, Any]:
        """Return the report of the next run."""
        return json.loads(self.until('{"sessions_parsed"'))

    def ended(self) -> int:
        """Return the exit status."""
        return self.process.wait(SECONDS)


def _add(ctx: Ctx, text: str) -> None:
    path = ctx.folder / "claude" / DISCOUNTS
    last = json.loads(path.read_text().splitlines()[-3])
    more = {**last, "uuid": f"11111111-2222-4333-8444-{abs(hash(text)) % 10**12:012d}", "type": "user"}
    with path.open("a") as file:
        file.write(json.dumps(more | {"message": {"role": "user", "content": text}}) + "\n")


def _hashes(ctx: Ctx) -> dict[str, str]:
    with open_store(load(ctx.environ), read_only=True) as store:
        assets = (
            "normalized/events",
            "facts/sessions",
            "signals/outcomes",
            "mined/error_resolutions",
            "memory/consolidated",
            "dashboard/site",
        )
        return {f"{a} {cell.key}": row.content_hash for a in assets for cell, row in store.ledger.asset_cells(a).items()}


@pytest.mark.slow
@pytest.mark.feature("cli.run-watch")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_what_an_agent_writes_is_made_of_everything_as_a_run_from_nothing_would(ctx: Ctx, tmp_path: Path, ending: signal.Signals):
    watching = Watching(ctx, "--json")
    first = watching.report()
    _add(ctx, "one more thing")
    second = watching.report()
    if ending == signal.SIGTERM:
        _add(ctx, "and another one")
        assert watching.report()["sessions_parsed"] == 1
    watching.process.send_signal(ending)

    assert watching.ended() == 0
    assert first["sessions_parsed"] == 6
    assert (second["sessions_parsed"], second["failed"]) == (1, [])
    fresh = Ctx(ctx.folder, {**ctx.environ, "CTX_HOME": str(tmp_path / "fresh")})
    fresh("run")
    assert _hashes(ctx) == _hashes(fresh) != {}
    assert ctx.json("run")["cells_materialized"] == 0
    assert len(ctx.json("search", "another" if ending == signal.SIGTERM else "one more thing")["hits"]) > 0


@pytest.mark.slow
@pytest.mark.feature("cli.run-watch-anew")
def test_it_begins_anew_for_another_signal_and_goes_on_through_broken_settings(ctx: Ctx, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "click.py").write_text("raise SystemExit('imported from the folder it stands in')")
    watching = Watching(ctx, cwd=elsewhere)
    watching.until("watching 2 folders")
    config = ctx.store / "config.toml"
    config.write_text("timezone = [")
    _add(ctx, "one more thing")
    broken = watching.until("goes on watching")
    config.unlink()
    made = watching.until("1 session read")
    folder = ctx.store / "config" / "signals"
    folder.mkdir(parents=True)
    (folder / "prompts_seen.py").write_text(SIGNAL)
    _add(ctx, "and another one")
    watching.until("begins anew")
    watching.until("watching 2 folders")
    told = ctx("list", "--signal", "prompts_seen").stdout
    watching.process.send_signal(signal.SIGTERM)

    assert "config.toml" in broken
    assert "1 partition" in made
    assert watching.ended() == 0
    assert "prompts_seen" in told


@pytest.mark.slow
@pytest.mark.feature("cli.run-watch-anew")
def test_it_begins_anew_when_the_process_that_works_for_it_was_killed(ctx: Ctx):
    watching = Watching(ctx)
    watching.until("watching 2 folders")
    workers = processes.run(["pgrep", "-P", str(watching.process.pid)]).stdout.split()
    os.kill(int(workers[0]), signal.SIGKILL)
    _add(ctx, "one more thing")
    said = watching.until("goes on watching")
    watching.until("begins anew")
    made = watching.until("1 session read")
    watching.process.send_signal(signal.SIGTERM)

    assert len(workers) == 1
    assert "ended early" in said
    assert "1 partition" in made
    assert watching.ended() == 0


@pytest.mark.slow
@pytest.mark.feature("cli.run-watch-anew")
def test_it_ends_at_a_signal_that_comes_while_it_begins_anew(ctx: Ctx):
    code = """if True:
        import os, signal, sys
        from ctx_pipeline import cli
        from ctx_pipeline.cli import watching

        tell, watching.MOST_BYTES = watching._RunLines.line, 0

        def ended_at(told, text, **named):
            if text == "begins anew":
                signal.signal(signal.SIGTERM, lambda *_: None)  # as Dagster leaves it
                os.kill(os.getpid(), signal.SIGTERM)
            tell(told, text, **named)

        watching._RunLines.line = ended_at
        sys.argv = ["ctx", "run", "--watch", "--every", "0.1"]
        cli.main()
    """
    process = processes.start(
        [sys.executable, "-c", code], env=ctx.environ, cwd=ctx.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said, _ = process.communicate(timeout=SECONDS)

    assert "begins anew" in said
    assert process.returncode == 0


@pytest.mark.feature("cli.run-watch")
def test_it_ends_with_the_process_that_began_it(ctx: Ctx):
    inner = [sys.executable, "-P", "-m", "ctx_pipeline", "run", "--watch", "--json", "--parent"]
    code = (
        f"import os, subprocess; p = subprocess.Popen({inner!r} + [str(os.getpid())]); print('pid', p.pid, flush=True); p.stdout; input()"
    )
    outer = processes.start(
        [sys.executable, "-c", code], env=ctx.environ, cwd=ctx.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert outer.stdout is not None
    pid = int(outer.stdout.readline().split()[1])
    assert json.loads(outer.stdout.readline())["sessions_parsed"] == 6
    outer.kill()

    assert processes.gone(pid)


@pytest.mark.feature("cli.run-watch-anew")
def test_a_program_that_is_replaced_is_waited_for_until_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, arriving = tmp_path / "program", iter(range(5))
    folder.mkdir()

    def install(_: float) -> None:
        if (number := next(arriving, None)) is not None:
            (folder / f"part{number}.py").write_text("")

    monkeypatch.setattr(watching_module.time, "sleep", install)
    watching_module._wait_until_written(folder, [])

    assert len([*folder.iterdir()]) == 5
    assert next(arriving, None) is None


@pytest.mark.feature("cli.run-watch")
def test_ctrl_c_while_a_class_is_made_ends_it_as_any_other_does():
    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises((RuntimeError, KeyboardInterrupt)) as found:
        type("Made", (), {"field": Interrupted()})

    assert watching_module._is_interrupt(found.value)
    assert not watching_module._is_interrupt(RuntimeError("another"))


@pytest.mark.feature("cli.run-watch")
def test_a_pause_that_nothing_will_keep_is_refused(bare: Ctx):
    refused = bare("run", "--every", "5", ok=False)

    assert refused.returncode == 2
    assert "--every goes with --watch" in refused.stderr


@pytest.mark.feature("cli.run-watch")
def test_a_pause_is_ten_times_what_a_run_took_in_limits():
    assert [pause(took) for took in (0.01, 3, 48)] == [SHORTEST_SECONDS, 30, LONGEST_SECONDS]
    assert pause(3, 0.5) == 0.5


@pytest.mark.feature("cli.run-watch")
def test_changes_are_told_also_those_between_two_questions(tmp_path: Path):
    (tmp_path / "one").mkdir()
    with Changes([tmp_path, tmp_path / "none"]) as changes:
        quiet = changes.wait(0.3)
        (tmp_path / "one" / "file.jsonl").write_text("{}\n")
        told = changes.wait(10)
        again = changes.wait(0.3)
        same = changes.watches([tmp_path, tmp_path / "none"])
        (tmp_path / "none").mkdir()

        assert (quiet, told, again, same) == (False, True, False, True)
        assert not changes.watches([tmp_path, tmp_path / "none"])
    with Changes([]) as nothing:
        assert nothing.wait(0.1), "one looks where the system tells nothing"
    over = Changes([tmp_path], over=lambda: True)
    assert not over.wait(60)


@pytest.mark.feature("cli.run-watch")
def test_a_warm_process_that_is_gone_is_said_and_one_that_works_says_how_large_it_is(ctx: Ctx):
    settings = load(ctx.environ)
    with WarmProcess() as warm:
        with warm.begun(settings, Scan(), INGEST) as ahead:
            assert [report.stage for report in ahead.wait(INGEST)]
        assert resident_bytes() / 50 < warm.bytes
        if shutil.which("ps"):
            assert resident_bytes("/none") == pytest.approx(resident_bytes(), rel=0.2)
        warm._process.kill()
        assert eventually(lambda: not warm._process.is_alive())
        with pytest.raises(StoreError, match="ended early"), warm.begun(settings, Scan(), INGEST) as ahead:
            ahead.wait(INGEST)

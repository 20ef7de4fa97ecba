"""The whole flow with the network cut, and with agents on PATH that nobody asked anything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ctx_pipeline
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories import agents

PACKAGE = Path(ctx_pipeline.__file__).parent
SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"

WATCH = """
import os, sys

def watch(event, given):
    if event == "socket.connect":
        address = given[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        address = given[:2]
    else:
        return
    if isinstance(address, tuple):
        with open(os.environ["CALLS"], "a") as file:
            file.write(f"{event} {address} {sys.argv}\\n")
        raise OSError(101, "Network is unreachable")

sys.addaudithook(watch)
"""
"""As ``sitecustomize``, in every process: what would leave it is noted and refused. Sockets of the file system stay."""

FLOW = (
    "run --json",
    "run --json",
    "sync",
    "status",
    "list",
    f"import claude --session-id {SESSION} --force --no-render",
    f"show claude {SESSION}",
    f"render claude {SESSION}",
    f"history claude {SESSION}",
    "",
    "usage daily --json",
    "usage statusline",
    f"explain {SESSION}",
    "prices list",
    "search why does the export fail",
    "sql 'select count(*) from events'",
    "signal list",
    "signal run",
    "mine",
    "mine --method all",
    "memory list",
    "memory retrieve --query 'how do I run the tests'",
    "memory weave --query 'how do I run the tests'",
    "memory backtest",
    "backfill --asset tokens/exact",
    "backfill --asset memory/effect",
    "dashboard build",
    "hooks status",
    "rot summary",
    "doctor",
    "export parquet {out}",
)
"""What a person types in a day, one after the other in one process; what it starts is watched as well."""

TYPED = """
import json, shlex, sys
from click.testing import CliRunner
from ctx_pipeline.cli import cli

codes = {}
for line in json.load(sys.stdin):
    done = CliRunner().invoke(cli, shlex.split(line))
    codes[line] = [done.exit_code, done.stdout[-400:], done.stderr[-400:] + repr(done.exception or "")]
print(json.dumps(codes))
"""


@pytest.fixture
def cut(tmp_path: Path):
    """Return what types commands into a shell without a network; agents of both hosts are installed in it."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    for host in ("claude", "codex"):
        shutil.copytree(PACKAGE / "samples" / host, tmp_path / f".{host}")
        agents.install(tmp_path / "agents" / host, host, [])
    environ = {
        "PATH": os.pathsep.join([*(str(tmp_path / "agents" / host) for host in ("claude", "codex")), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join((str(tmp_path / "watch"), str(PACKAGE.parent))),
        "HOME": str(tmp_path),
        "CTX_HOME": str(tmp_path / "store"),
        "CALLS": str(tmp_path / "calls"),
        "TZ": "UTC",
    }

    def typed(*lines: str) -> dict[str, list]:
        (tmp_path / "lines").write_text(json.dumps(lines))
        with (tmp_path / "lines").open() as given:
            process = processes.start(
                [*_without_network(), sys.executable, "-c", TYPED],
                env=environ, cwd=tmp_path, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            out, err = process.communicate(timeout=250)
        assert process.returncode == 0, err[-3000:]
        return json.loads(out.splitlines()[-1])

    return typed


def _without_network() -> list[str]:
    """Return what starts a program in a network of its own that leads nowhere; nothing where this system allows none."""
    words = ["unshare", "--net", "--map-root-user"]
    if shutil.which(words[0]) and subprocess.run([*words, "true"], capture_output=True, check=False, timeout=250).returncode == 0:
        return words
    return []


@pytest.mark.slow
@pytest.mark.feature("package.offline", "retro.quest-free")
def test_a_whole_day_of_commands_needs_no_network_and_asks_no_agent(cut, tmp_path: Path):
    told = cut(*(line.format(out=tmp_path / "out") for line in FLOW))

    assert {line: answer for line, answer in told.items() if answer[0] != 0} == {}
    assert json.loads(told["run --json"][1])["sessions"] == 6
    assert len(list((tmp_path / "out").rglob("*.parquet"))) >= 5
    assert not (tmp_path / "calls").exists(), (tmp_path / "calls").read_text()
    assert list((tmp_path / "agents").rglob("seen.json")) == []


@pytest.mark.slow
@pytest.mark.feature("retro.quest-free")
def test_only_a_method_that_is_named_asks_the_agent(cut, tmp_path: Path):
    cut("sync", "mine --method all", "mine --method claude_headless --dry-run")
    before = [p.parent.name for p in (tmp_path / "agents").rglob("seen.json")]
    cut("mine --method claude_headless --limit 1")

    assert before == []
    assert [p.parent.name for p in (tmp_path / "agents").rglob("seen.json")] == ["claude"]


def test_the_watch_notes_what_would_leave(cut, tmp_path: Path):
    told = cut("prices refresh --online")

    assert told["prices refresh --online"][0] != 0
    assert "socket." in (tmp_path / "calls").read_text()

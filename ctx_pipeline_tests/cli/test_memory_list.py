"""``ctx memory list``: whole texts, a line each in a pipe and wrapped on a terminal; what a newer memory superseded only when asked."""

from __future__ import annotations

import os
import sys

import pytest

from ctx_pipeline.model.memories import Memory
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.cli.conftest import Ctx

LONG = "`make check` fails until `make setup` has run: " + ", ".join(f"step{n:02}" for n in range(40))


@pytest.fixture
def kept(bare: Ctx) -> Ctx:
    bare.store.mkdir(mode=0o700)
    index = MemoryIndex(bare.store / "memory.db")
    index.rebuild(
        [
            Memory("mem-new", "tool_lesson", f"{LONG}\n  and\tmore", scope="user", support=3),
            Memory("mem-old", "tool_lesson", "run make", scope="user", support=1, superseded_by="mem-new"),
        ]
    )
    index.close()
    return bare


@pytest.mark.feature("cli.memory-list")
def test_a_pipe_gets_each_text_whole_on_its_line_and_superseded_memories_only_when_they_are_asked_for(kept: Ctx):
    head, line, last = kept("memory", "list").stdout.splitlines()
    assert head.split() == ["id", "kind", "status", "sessions", "project", "text"]
    assert line.split(maxsplit=3)[:3] == ["mem-new", "tool_lesson", "candidate"]
    assert line.endswith(f"{LONG} and more")
    assert last == "1 superseded: --all"
    told = kept.json("memory", "list")
    assert ([m["memory_id"] for m in told["memories"]], told["superseded_left_out"]) == (["mem-new"], 1)

    everything = kept("memory", "list", "--all").stdout
    assert "superseded by mem-new  run make" in everything
    assert "--all" not in everything
    told = kept.json("memory", "list", "--all")
    assert ([m["memory_id"] for m in told["memories"]], told["superseded_left_out"]) == (["mem-new", "mem-old"], 0)


@pytest.mark.feature("cli.memory-list")
def test_a_terminal_gets_the_text_wrapped_to_its_width_below_the_id(kept: Ctx):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "ctx_pipeline", "memory", "list", "--all"]
    environ = {**kept.environ, "COLUMNS": "60", "NO_COLOR": "1", "TERM": "dumb"}
    started = processes.start(command, env=environ, cwd=kept.folder, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    printed = b""
    while piece := _read(ours):
        printed += piece
    os.close(ours)
    assert started.wait(processes.SECONDS) == 0
    lines = [line.removesuffix("\x1b[0m").removeprefix("\x1b[1m") for line in printed.decode().splitlines()]
    assert lines[0] == "mem-new tool_lesson candidate 3 sessions"
    assert all(len(line) <= 60 for line in lines)
    text = " ".join(line.strip() for line in lines[1 : lines.index("mem-old tool_lesson candidate 1 session")])
    assert text == f"{LONG} and more"
    assert lines[-2:] == ["  run make", "  mind: superseded by mem-new"]


def _read(terminal: int) -> bytes:
    """Return what was printed; nothing once the program has closed its end, which Linux tells as an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


@pytest.mark.feature("mining.cases")
def test_a_case_is_shown_by_its_id_and_nobody_judges_it(kept: Ctx):
    (kept.folder / "claude" / "projects").mkdir(parents=True)
    kept.environ["CLAUDE_CONFIG_DIR"] = str(kept.folder / "claude")
    index = MemoryIndex(kept.store / "cases.db")
    index.rebuild([Memory("case-12ab34", "case", "“add a flag”: edit `cli.py`; `make test` passed", scope="user", support=1)])
    index.close()
    assert kept("memory", "show", "case-12").stdout.startswith("memory_id: case-12ab34\n")
    for verb in ("accept", "reject"):
        refused = kept("memory", verb, "case-12ab34", ok=False)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "hint: ctx memory show case-12ab34" in refused.stderr

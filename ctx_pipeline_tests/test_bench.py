"""The benchmark measures what it says it measures; its figures are nobody's test.

Every row is run once with next to no work (``--trial``), file by file.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline.mcp_server.server import build
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.bench import __main__ as main_module
from ctx_pipeline_tests.bench.__main__ import excess, shown
from ctx_pipeline_tests.bench.bench_mcp import ASKED, NOT_ASKED, WHOLE
from ctx_pipeline_tests.bench.budgets import BUDGETS, Budget
from ctx_pipeline_tests.bench.rows import Row

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "context": ("window:", "store:", "search: 10k", "tree:", "history:"),
    "dagster": ("definitions:", "Dagster run", "nothing new:"),
    "day": ("day:",),
    "dialogues": (),
    "hooks": ("hook:", "memory weave"),
    "ingest": ("ingest:", "sync:", "read:", "search: query"),
    "install": ("install:",),
    "mcp": ("mcp:",),
    "memory": ("memory: retrieve", "memory: import"),
    "memory_questions": (),
    "page": ("page:",),
    "redaction": ("redaction:",),
    "rot": ("callback,", "analyze"),
    "run": ("ctx --help", "ctx run:", "ctx search"),
    "scan": ("scan:", "ledger:"),
    "search": ("search: a new",),
    "secrets": ("secrets:",),
    "sizes": (),
    "signals": ("signal:", "what all signals"),
    "team": ("team:",),
    "usage": ("ctx usage", "ctx ("),
}
"""File -> what the names of its rows that have a bound begin with."""

DESIGNED = {
    "ingest: first time": 6,
    "ctx run: everything, first time": 18,
    "ctx run: memory of its processes": 700,
    "ingest: store / raw": 0.55,
    "ctx run: nothing new, whole process": 0.2,
    "sync: one new session of each host, whole process": 0.35,
    "ctx run: one new session of each host, through Dagster": 6,
    "ctx usage daily, no state": 0.8,
    "ctx usage daily, after a run": 0.3,
    "search: query, median": 10,
    "ctx search, whole process, median": 0.15,
    "hook: at a prompt, wall, median": 0.15,
    "ctx --help, whole process": 0.12,
    "callback, added to one model call, content off": 0.1,
    "tree: seal 10k components": 5,
    "signal: a new one filled over 50 MB, whole process": 6,
    "scan: 100,000 files, nothing new, ledger opened and loaded": 1,
}
"""Row -> the number that the design set."""


def measured(only: str, folder: Path, **environ: str) -> list[dict[str, Any]]:
    """Return the rows that a trial prints."""
    (folder / "home").mkdir()
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "CTX_HOME": str(folder / "unused"),
        "PYTHONPATH": str(ROOT),
        "TZ": "UTC",
    }
    command = [sys.executable, "-m", "ctx_pipeline_tests.bench", "--trial", "--json", "--only", only]
    done = processes.run(command, cwd=ROOT, env=own | environ)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def bounded(file: str) -> set[str]:
    return {name for name in BUDGETS if name.startswith(FILES[file])} if FILES[file] else set()


DIFFERENCES = frozenset({"what all signals add to a run, processor"})
"""Rows that are one measurement less another: over the small home of a trial they can be less than the noise of both."""


@pytest.mark.slow
@pytest.mark.feature("bench.rows", "bench.trial", "bench.install", "bench.scan", "bench.weave", "bench.callback", "bench.context")
@pytest.mark.parametrize("file", FILES)
def test_every_row_still_measures_something_and_says_its_bound_and_its_ratio_to_the_floor(file: str, tmp_path: Path):
    rows = {row["row"]: row for row in measured(f"{file}.", tmp_path)}

    assert rows
    assert bounded(file) - set(rows) == set(), "rows with a bound that nothing prints"
    for name, row in rows.items():
        taken = row["unit"] in ("s", "ms") and name not in DIFFERENCES
        assert row["measured"] > 0 if taken else math.isfinite(row["measured"]), name
        assert (row["of_floor"] is not None) == (row["unit"] in ("s", "ms")), name
        if name in BUDGETS:
            assert row["unit"] == BUDGETS[name].unit, name
            assert (row["budget"] is None) == (BUDGETS[name].most is None), name
            assert (row["of_budget"] is None) == (not BUDGETS[name].most), name
    assert not (tmp_path / "unused").exists(), "a benchmark worked in the store of the person who runs it"


@pytest.mark.feature("bench.rows")
def test_every_file_of_the_benchmark_is_tried_and_every_bound_belongs_to_one_of_them():
    there = {path.stem.removeprefix("bench_") for path in (ROOT / "ctx_pipeline_tests" / "bench").glob("bench_*.py")}

    assert there == set(FILES)
    assert set(BUDGETS) == set().union(*map(bounded, FILES))


@pytest.mark.feature("bench.above-budget")
def test_a_row_above_its_budget_is_named_and_one_at_it_is_not():
    name = "mcp: ctx_verify, median"

    assert excess(shown(Row(name, 50.001, "ms"), None)) == [f"{name}: 50.001 ms, of 50.000 at most"]
    for row in (Row(name, 50, "ms"), Row("page: drawn anew, over a home, processor", 10**6), Row("mcp: of no bound", 10**6, "ms")):
        assert excess(shown(row, None)) == []


@pytest.mark.feature("bench.above-budget")
@pytest.mark.parametrize(("milliseconds", "ended"), [(60, 1), (40, 0)])
def test_the_benchmark_ends_with_1_and_names_the_row_where_one_is_above_its_budget(
    milliseconds: int, ended: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(main_module, "functions", lambda _: {"mcp.rows": lambda: [Row("mcp: ctx_verify, median", milliseconds, "ms")]})
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setenv("CTX_HOME", os.environ.get("CTX_HOME", ""))
    try:
        main_module.main()
        status = 0
    except SystemExit as error:
        status = int(str(error.code))

    assert status == ended
    assert ("mcp: ctx_verify, median: 60.000 ms" in capsys.readouterr().err) == bool(ended)


@pytest.mark.feature("bench.sizes")
@pytest.mark.parametrize(
    "typed",
    ["--plot x.svg", "--size 1m --sessions 4 --plot x.svg --only ingest.read", "--size 1m --size 2m --json", "--size 1m --trial",
     "--size 1m --sessions 4 --sessions 5"],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_it_is(typed: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["bench", *typed.split()])
    with pytest.raises(SystemExit) as ended:
        main_module.main()

    assert ended.value.code == 2


@pytest.mark.feature("bench.above-budget")
def test_every_tool_of_the_server_is_measured_against_its_budget(chosen):
    served = {tool.name for tool in asyncio.run(build(chosen, lambda *_: {}, lambda *_: {}).list_tools())}

    assert served == {tool for tool, _ in ASKED.values()} | set(NOT_ASKED)
    assert {f"mcp: {name}, median" for name in ASKED} <= set(BUDGETS)
    assert {f"mcp: {name}, first after a sync, processor, least" for name in WHOLE} <= set(BUDGETS)


@pytest.mark.feature("docs.decisions")
def test_a_bound_that_is_not_the_one_that_was_designed_has_its_reason_written_down():
    decisions = (ROOT / "docs" / "decisions.md").read_text("utf-8")
    told = {
        tuple(map(float, found))
        for found in re.findall(r"^\*\*[^*]*?is ([\d.]+) m?s\b[^*]*\bnot ([\d.]+\d|\d+)[^*]*\*\* \S", decisions, re.MULTILINE)
    }
    changed = {(BUDGETS[name].most, designed) for name, designed in DESIGNED.items() if BUDGETS[name].most != designed}

    assert changed
    assert changed - told == set()


@pytest.mark.feature("bench.rows")
def test_a_home_of_another_size_has_its_share_of_the_budget():
    assert Budget(8, megabytes=500).over(125) == 2
    assert Budget(0.2).over(125) == 0.2
    assert Budget(None, megabytes=500).over(125) is None


@pytest.mark.slow
@pytest.mark.feature("bench.peers")
def test_a_tool_that_is_installed_is_measured_in_the_same_run_and_stands_beside_ours(tmp_path: Path):
    peer = tmp_path / "bin" / "ccusage"
    peer.parent.mkdir()
    peer.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    peer.chmod(peer.stat().st_mode | stat.S_IXUSR)

    rows = {row["row"]: row for row in measured("usage.", tmp_path, PATH=f"{peer.parent}:{os.environ['PATH']}")}

    theirs, ours = rows["ccusage daily --offline --json"], rows["ctx usage daily, no state"]
    assert (tmp_path / "asked").read_text().splitlines() == ["daily --offline --json"]
    assert ours["of_peer"] == ours["measured"] / theirs["measured"]


@pytest.mark.feature("bench.help")
def test_the_table_shows_a_row_with_its_figure_its_budget_and_its_shares(tmp_path: Path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "a.jsonl").write_text('{"type": "user"}\n' * 50)
    command = [sys.executable, "-m", "ctx_pipeline_tests.bench", "--home", str(tmp_path), "--only", "help_rows"]
    done = processes.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})

    lines = done.stdout.splitlines()
    assert lines[0].startswith("floor: read and decode 0 MB in one process: ")
    (row,) = [line for line in lines if line.startswith("ctx --help, whole process")]
    figure, unit, budget, _, share, ratio = row.removeprefix("ctx --help, whole process").split()
    assert (unit, budget) == ("s", "0.120")
    assert float(share) == pytest.approx(float(figure) / 0.12, abs=0.02)
    assert float(ratio) > 0

"""Every command that prints a table, on terminals of several widths: no line is cut by the terminal."""

from __future__ import annotations

import re
import sys

import pytest

from ctx_pipeline.cli.output import cells
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.cli.test_surface import NO_TABLE, commands
from ctx_pipeline_tests.terminal import on_terminal

SESSION = "51b369cc"
LINES = [
    "",
    "list --sort cost",
    "list --all",
    "list --file discounts.py",
    f"show {SESSION}",
    f"show {SESSION} --all",
    f"show {SESSION} --turns",
    "cost",
    f"cost {SESSION}",
    *(f"usage {by}" for by in [*GROUPINGS, "blocks", "limits", "outcomes"] if by != "quarter"),
    "usage session --cache",
    "usage outcomes --by session",
    f"files {SESSION}",
    f"files {SESSION} --reads",
    "explain 2026-10-03",
    "explain 2026-10-03 --against ccusage",
    "work",
    "hints",
    f"history {SESSION}",
    f"history {SESSION} --tokens",
    f"session status {SESSION}",
    f"session load {SESSION}",
    "session list",
    f"session checkpoints {SESSION}",
    f"session diff {SESSION} c823d9cd",
    "session profile",
    f"session playbook {SESSION}",
    "heatmap status --all",
    "heatmap directory --all",
    "heatmap co-reads --all",
    "heatmap times --all",
    f"cache --session {SESSION}",
    f"cache causes --session {SESSION}",
    "gain --period all",
    f"gain --session {SESSION}",
    f"metrics {SESSION}",
    "wrapped all",
    "verify --no-record",
    "verify --history 2",
    "artifacts",
    "prices list",
    "prices show claude-sonnet-4-5 gpt-5",
    "search freezegun --facets",
    "sql 'select * from sessions'",
    "signal list",
    f"signal show {SESSION}",
    "signal summary",
    "signal summary --by month",
    "signal evidence user_correction_count",
    f"mine {SESSION}",
    "methods",
    "memory list",
    "memory doctor",
    "memory retrieve freezegun",
    "memory cases freezegun",
    f"memory record {SESSION}",
    "learn --all",
    "hooks status",
    f"rot analyze {SESSION} --threads",
    f"rot analyze {SESSION}",
    "dashboard view",
    "config show",
    "encrypt",
    "quest list",
    "quest verify",
    "doctor",
    "doctor --formats",
    "doctor --redactions",
    "schedule status",
    "status",
]
ELSEWHERE = {
    *(
        f"ctx {name}"
        for name in ("hooks preview", "setup", "run", "sync", "backfill", "ui", "open", "resume", "import", "adopt", "compress", "analyze")
    ),
    *(
        f"ctx {name}"
        for name in (
            "benchmark",
            "forget",
            "recall",
            "publish",
            "backup",
            "quest buy-freeze",
            "restore",
            "repair",
            "team pull",
            "hub sample",
            "hub deploy",
            "hub worker",
            "hub shards",
            "team leave",
            "prices refresh",
            "rot summary",
            "rot deep-analyze",
        )
    ),
    *(f"ctx session {name}" for name in ("save", "task", "finding", "decision", "cleanup", "snapshot", "restore", "resume")),
    *(f"ctx session {name}" for name in ("export", "import")),
    *(f"ctx signal {name}" for name in ("check", "new", "run")),
    *(f"ctx memory {name}" for name in ("accept", "reject", "retire", "backtest", "export", "export-skill", "import-authored", "init")),
    *(f"ctx memory {name}" for name in ("reindex", "show", "update-utility", "weave")),
    *(f"ctx {name}" for name in ("hooks install", "hooks uninstall", "mcp install", "mcp uninstall", "schedule install")),
    *(f"ctx {name}" for name in ("schedule run-now", "schedule uninstall", "dashboard build", "dashboard open", "dashboard serve")),
    *(f"ctx {name}" for name in ("config path", "config set", "export markdown", "export opentraces", "export parquet", "export retro")),
    *(f"ctx {name}" for name in ("team join", "team share", "team show", "hub doctor", "hub refresh", "hub show", "hub upkeep")),
}
"""They write, or print a document or single lines."""
PROGRAM = """
import shlex, sys
from ctx_pipeline.cli.root import run
for line in sys.argv[1:]:
    print(f"\\x02{line}", flush=True)
    try:
        run(shlex.split(line))
    except SystemExit as ended:
        sys.stdout.flush()
        sys.stderr.flush()
        if ended.code:
            print(f"\\x03{ended.code}", flush=True)
"""
COMMAND = re.compile(r" *(?:resume: |Resume it with: )?(?:cd \S+ && )?(?:ctx|claude|codex) ")
"""A command to copy is never broken."""


def too_wide(line: str, columns: int) -> bool:
    """Tell whether the terminal breaks a line that could have been shortened: one with words of which none is longer than half of it."""
    return cells(line) > columns and not COMMAND.match(line) and max(map(cells, line.split())) < columns - 20


@pytest.mark.feature("cli.table-fits")
def test_the_walk_has_every_command_that_prints_a_table():
    walked = {path for path in commands() if any(f"ctx {line} ".startswith(f"{path} ") for line in LINES)}

    assert set(commands()) - walked == NO_TABLE | ELSEWHERE


@pytest.mark.slow
@pytest.mark.feature("cli.table-fits", "cli.lines-fit")
@pytest.mark.parametrize(("columns", "term"), [(60, "dumb")])
def test_no_command_prints_a_line_that_the_terminal_has_to_break(ran: Ctx, columns: int, term: str):
    environ = ran.environ | {"TERM": term, "NO_COLOR": "1", "COLUMNS": str(columns)}
    printed = on_terminal([sys.executable, "-c", PROGRAM, *LINES], environ, columns)
    parts = dict(part.partition("\n")[::2] for part in printed.split("\x02")[1:])

    assert list(parts) == LINES
    assert {name: text[-300:] for name, text in parts.items() if "\x03" in text} == {}
    assert {name: wide for name, text in parts.items() if (wide := [line for line in text.splitlines() if too_wide(line, columns)])} == {}
    assert "\x1b" not in printed


@pytest.mark.feature("usage.blocks-official")
def test_a_narrow_terminal_shows_the_limits_of_a_window_rather_than_its_burn_rate(ran: Ctx):
    environ = ran.environ | {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "72"}

    head = on_terminal([sys.executable, "-c", PROGRAM, "usage blocks"], environ, 72).split("\x02usage blocks\n")[1].splitlines()[0]

    assert head.split() == ["start", "host", "calls", "tokens", "cost", "limits,", "official"]

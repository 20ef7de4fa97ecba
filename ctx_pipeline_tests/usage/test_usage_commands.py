"""``ctx usage``, ``ctx explain`` and bare ``ctx`` as processes, before anything was captured."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"


class Ctx:
    def __init__(self, folder: Path) -> None:
        for host in ("claude", "codex"):
            shutil.copytree(SAMPLES / host, folder / host)
        self.folder = folder
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "nobody"),
            "CTX_HOME": str(folder / "store"),
            "CLAUDE_CONFIG_DIR": str(folder / "claude"),
            "CODEX_HOME": str(folder / "codex"),
            "TZ": "UTC",
        }

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ctx_pipeline", *words]
        return subprocess.run(
            command, env=self.environ, cwd=self.folder, input=stdin, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def ctx(tmp_path: Path) -> Ctx:
    return Ctx(tmp_path)


@pytest.mark.feature("usage.without-store")
def test_usage_answers_without_a_store_and_makes_none(ctx: Ctx):
    done = ctx("usage", "daily", "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["source"] == "homes"
    assert told["totals"]["calls"] == sum(row["calls"] for row in told["rows"]) > 20
    assert not (ctx.folder / "store").exists()


@pytest.mark.feature("usage.csv")
def test_csv_has_the_rows_of_the_json_under_the_same_names(ctx: Ctx):
    rows = json.loads(ctx("usage", "model", "--json").stdout)["rows"]

    told = list(csv.DictReader(io.StringIO(ctx("usage", "model", "--csv").stdout)))

    assert [(r["model"], int(r["output_tokens"])) for r in told] == [(r["model"], r["output_tokens"]) for r in rows]
    assert list(told[0]) == list(rows[0])


@pytest.mark.feature("usage.table")
def test_the_table_has_a_line_a_day_and_with_breakdown_a_line_for_each_model(ctx: Ctx):
    days = {r["date"] for r in json.loads(ctx("usage", "daily", "--json").stdout)["rows"]}
    models = json.loads(ctx("usage", "daily", "--json").stdout)["rows"]

    short, long = ctx("usage", "daily").stdout.splitlines(), ctx("usage", "daily", "--breakdown").stdout.splitlines()

    assert sum(line[:4] == "2026" for line in short) == len(days)
    assert sum(line[:4] == "2026" for line in long) == len(models) >= len(days)


@pytest.mark.feature("cli.overview")
def test_bare_ctx_prints_a_week_and_help_stays_help(ctx: Ctx):
    bare, helped = ctx(), ctx("--help")

    assert bare.returncode == helped.returncode == 0, bare.stderr
    assert bare.stdout.startswith("last seven days")
    assert "ctx usage daily" in bare.stdout
    assert helped.stdout.startswith("Usage: ctx")


@pytest.mark.feature("usage.without-store")
@pytest.mark.parametrize("words", [["usage", "blocks"], ["usage", "tool"], ["usage", "statusline"], ["explain", "bookshop-api"]])
def test_every_reading_command_works_before_the_first_run(ctx: Ctx, words: list[str]):
    done = ctx(*words, stdin="{}")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.feature("usage.light")
def test_usage_without_a_store_loads_no_heavy_library(ctx: Ctx):
    code = (
        "import sys; from ctx_pipeline.cli import main\n"
        "try: main(['usage', 'daily'])\n"
        "except SystemExit: pass\n"
        "print('loaded', sorted({'numpy', 'pyarrow', 'duckdb', 'pydantic', 'rich', 'dagster'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ctx.environ, cwd=ctx.folder, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "loaded []"


@pytest.mark.feature("usage.statusline")
def test_the_status_line_is_one_line_whatever_it_is_given(ctx: Ctx):
    for stdin in ("", "not json", '{"model": 3, "session_id": ["x"]}', "[" * 5000):
        done = ctx("usage", "statusline", stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 1

"""``ctx run`` as a person types it: the first time, again, after an append, without a home."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

REPORT_KEYS = [
    "sessions",
    "threads",
    "events",
    "model_calls",
    "tool_calls",
    "memories",
    "cells_materialized",
    "sessions_parsed",
    "quarantined",
    "unknown_events",
    "seconds",
    "site",
]
BOOKSHOP = "projects/-home-sam-code-bookshop-api"
DISCOUNTS = f"{BOOKSHOP}/51b369cc-0a63-4a24-aa2a-c6ba8b05c225.jsonl"


@pytest.mark.feature("cli.run-json", "cli.run-first", "cli.run-nothing-new", "cli.run-append")
@pytest.mark.slow
def test_a_first_run_then_nothing_then_one_appended_session(ctx: Ctx):
    first = ctx.json("run")

    assert [k for k in first if k in REPORT_KEYS] == REPORT_KEYS
    assert (first["sessions"], first["threads"], first["sessions_parsed"]) == (6, 7, 6)
    assert first["quarantined"] == 0
    assert first["memories"] > 0
    assert Path(first["site"]).is_file()

    again = ctx.json("run")

    assert (again["cells_materialized"], again["sessions_parsed"]) == (0, 0)
    assert {k: again[k] for k in REPORT_KEYS[:6]} == {k: first[k] for k in REPORT_KEYS[:6]}
    assert again["seconds"] < 1

    path = ctx.folder / "claude" / DISCOUNTS
    last = json.loads(path.read_text().splitlines()[-3])
    more = {
        **last,
        "uuid": "11111111-2222-4333-8444-555555555555",
        "type": "user",
        "message": {"role": "user", "content": "one more thing"},
    }
    with path.open("a") as file:
        file.write(json.dumps(more) + "\n")
    third = ctx.json("run")

    assert third["sessions_parsed"] == 1
    assert third["events"] == first["events"] + 1
    cells = {c for line in ctx.json("sql", CELLS)["rows"] for c in [line["cell"]]}
    assert len(cells) > 1, "the sample homes have one cell only, so the next line says nothing"
    assert third["cells_materialized"] * len(cells) == first["cells_materialized"]


CELLS = "select distinct host || '|' || month as cell from sessions"


@pytest.mark.feature("cli.run-nothing-new")
def test_nothing_new_is_told_without_dagster(ran: Ctx):
    import subprocess
    import sys

    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom ctx_pipeline.cli import cli\n"
        "done = CliRunner().invoke(cli, ['run'])\n"
        "assert done.exit_code == 0, done.output\nassert 'nothing changed' in done.output, done.output\n"
        "heavy = {'dagster', 'pydantic', 'duckdb', 'pyarrow', 'rich', 'numpy'} & {m.partition('.')[0] for m in sys.modules}\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ran.environ, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.feature("cli.run-demo")
@pytest.mark.slow
def test_without_a_home_it_says_whose_are_missing_and_shows_samples_in_a_store_of_their_own(bare: Ctx):
    done = bare("run")

    assert "Claude Code, Cline, Codex, " in done.stderr
    assert "6 sessions" in done.stdout
    assert (bare.store / "demo" / "site" / "index.html").is_file()
    assert not (bare.store / "ledger.db").exists()
    assert bare.json("run", "--demo")["cells_materialized"] == 0


@pytest.mark.feature("store.private-files")
def test_everything_in_the_store_is_for_the_owner_only(ran: Ctx):
    wrong = [
        (str(p.relative_to(ran.store)), oct(stat.S_IMODE(p.lstat().st_mode)))
        for p in [ran.store, *ran.store.rglob("*")]
        if not p.is_symlink() and stat.S_IMODE(p.lstat().st_mode) & 0o077
    ]

    assert wrong == []


@pytest.mark.feature("homes.read-only")
def test_the_homes_are_left_as_they_were(ran: Ctx):
    samples = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"
    for host in ("claude", "codex"):
        before = {p.relative_to(samples / host): p.read_bytes() for p in (samples / host).rglob("*") if p.is_file()}
        after = {p.relative_to(ran.folder / host): p.read_bytes() for p in (ran.folder / host).rglob("*") if p.is_file()}
        assert after == before


@pytest.mark.feature("redaction.everywhere")
def test_a_planted_secret_is_found_in_raw_alone(ran: Ctx):
    secret = b"hunter2-not-a-real-one"
    hits = {p.relative_to(ran.store).parts[0] for p in ran.store.rglob("*") if p.is_file() and secret in p.read_bytes()}

    assert hits <= {"raw"}
    rows = ran.json("sql", "select text from events where text like '%postgres://%'")["rows"]
    assert len(rows) >= 1
    assert all("[REDACTED:" in row["text"] and "hunter2" not in row["text"] for row in rows)

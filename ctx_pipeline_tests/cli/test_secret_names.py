"""A secret in the name of a project folder, a file or an agent is shown nowhere, and the session is still found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.stored_text import files_with

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SESSION = "11111111-1111-4111-8111-111111111111"
PROJECT = "[REDACTED:github-token]"

BEFORE_A_RUN = ["list", "list --json", "usage project", "import claude --latest"]
AFTER_A_RUN = [
    *("list --json", "usage project --json", f"show claude {SESSION}", f"show claude {SESSION} --json", f"render claude {SESSION}"),
    *("explain 2026-03-05 --json", "search parser --json", "doctor", "doctor --json", f"files claude {SESSION} --json", "status --json"),
    f"history claude {SESSION} --json",
    *(f'sql SELECT*FROM"{table}"' for table in ("sessions", "threads", "events", "tool_calls")),
]


@pytest.fixture
def named(tmp_path: Path) -> Ctx:
    """Homes whose folders, files and agents are named after a secret."""
    bare = Ctx(tmp_path, environment(tmp_path))
    home = build.ClaudeHome(Path(bare.environ["CLAUDE_CONFIG_DIR"]))
    slug, cwd = f"-home-dev-{SECRET}", f"/home/dev/{SECRET}"
    session = home.session(SESSION, slug=slug, cwd=cwd)
    session.prompt("Fix the parser please")
    session.call("t1", "Edit", "ok", file_path=f"{cwd}/{SECRET}.py", old_string="x", new_string="y")
    session.answer(build.text("Done."), usage=build.usage())
    session.save()
    home.file(f"projects/{slug}/{SESSION}/subagents/agent-{SECRET}.jsonl", session.data().replace(b'"uuid":"', b'"uuid":"s'))
    home.file(f"projects/{slug}/odd-{SECRET}.jsonl", "{no JSON\n")
    codex.write(Path(bare.environ["CODEX_HOME"]), codex.session(f"thread-{SECRET}", prompt="Look at the parser"), f"thread-{SECRET}")
    return bare


@pytest.mark.feature("redaction.shown-names")
def test_names_that_hold_a_secret_are_shown_without_it(named: Ctx):
    said = {command: named(*command.split()) for command in BEFORE_A_RUN}
    said["run"] = named("run")
    said |= {command: named(*command.split()) for command in AFTER_A_RUN}
    for kind in ("markdown", "retro --no-raw", "parquet"):
        word, *more = kind.split()
        named("export", word, str(named.folder / "out" / word), *more)
    assert [command for command, done in said.items() if SECRET in done.stdout + done.stderr] == []
    assert files_with(named.folder / "out", SECRET) == []
    assert [path.name for path in (named.folder / "out").rglob("*") if SECRET in path.name] == []
    # the ledger knows the files by their real paths
    assert files_with(named.store, SECRET, skip=("raw", "ledger.db")) == []


@pytest.mark.feature("redaction.shown-names")
def test_such_a_session_is_found_by_what_is_shown(named: Ctx):
    before = named.json("usage", "project", "--project", PROJECT)["rows"]
    named("run")
    after = named.json("usage", "project", "--project", PROJECT)["rows"]
    assert [(r["project"], r["calls"]) for r in before] == [(r["project"], r["calls"]) for r in after]
    assert [r["project"] for r in after] == [PROJECT]
    shown = {s["session_id"]: s for s in named.json("list", "--all")["sessions"]}
    assert shown[SESSION]["resume"] == f"claude --resume {SESSION}  # in its folder, whose name holds a secret"
    (odd,) = [name for name, s in shown.items() if name.startswith("redacted-") and s["host"] == "claude"]
    assert shown[odd]["resume"] == ""
    assert json.loads(named("show", "claude", odd, "--json").stdout)["session"]["session_id"] == odd

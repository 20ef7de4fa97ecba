"""The commands of retro's README, typed with our name: its users find their way without reading ours."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import ctx_pipeline
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import UsageError

CLAUDE = "c823d9cd-f224-448f-a457-16b4882b2710"
CODEX = "019a258d-2f4b-41ad-a3ec-8757026226bd"

COMMANDS = f"""
list
list --host claude
list --host codex --limit 50
import claude --session-id {CLAUDE}
import codex --thread-id {CODEX}
import claude --latest
import codex --all
import all
import all --limit-per-host 20
import claude --latest --force
import codex --latest --no-render
render claude {CLAUDE}
render codex {CODEX}
show claude {CLAUDE}
signal list
signal list --group outcome
signal run
signal run --host claude
signal run --host codex --session-id {CODEX}
signal run --signal git_commits_made_during,failed_command_ratio
signal show claude {CLAUDE}
signal show codex {CODEX}
methods
mine codex {CODEX}
mine claude {CLAUDE} --method skill_pro
mine codex {CODEX} --method memp_procedural
mine codex {CODEX} --method all
mine codex {CODEX} --method skill_pro --filter risk_aware
mine '*' '*' --method all --filter risk_aware
mine codex '*' --method skill_pro
memory init
memory reindex
memory doctor
memory import-authored notes
memory retrieve --query "pytest retrieval" --cwd notes
memory retrieve --query "pytest retrieval" --cwd notes --accepted-only
memory weave --query "pytest retrieval" --cwd notes
memory update-utility --memory-id pytest-policy --reward 0.8 --session-id {CLAUDE}
dashboard build
"""

NOTE = """---
id: pytest-policy
kind: tool_lesson
scope: global
status: accepted
risk: low
when_to_use: Use when editing tests.
---
Run pytest after changing retrieval. Link to [[debugging-policy]] when relevant.
"""


@pytest.fixture
def home(environ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for host, name in (("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")):
        shutil.copytree(Path(ctx_pipeline.__file__).parent / "samples" / host, environ[name])
        monkeypatch.setenv(name, environ[name])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "policy.md").write_text(NOTE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.feature("cli.retro-commands")
def test_every_command_of_the_documented_predecessor_does_its_work_under_our_name(home: Path):
    told = {line: CliRunner().invoke(cli, shlex.split(line)) for line in COMMANDS.splitlines() if line}

    assert {line: done.output[-300:] for line, done in told.items() if done.exit_code != 0} == {}
    assert {line for line, done in told.items() if not done.stdout.strip()} == set()
    assert "6 imported, 0 unchanged" in CliRunner().invoke(cli, ["import", "all", "--force", "--no-render"]).stdout
    assert "pytest-policy" in told['memory retrieve --query "pytest retrieval" --cwd notes'].stdout
    assert "Run pytest after changing retrieval." in told['memory weave --query "pytest retrieval" --cwd notes'].stdout


@pytest.mark.feature("cli.import")
def test_which_sessions_of_one_host_has_to_be_said(home: Path):
    done = CliRunner().invoke(cli, ["import", "claude", "--limit", "3"])

    assert isinstance(done.exception, UsageError)
    assert "say which sessions to import" in str(done.exception)

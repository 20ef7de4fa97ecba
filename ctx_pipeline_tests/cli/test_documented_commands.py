"""What a command of retro's README says where it is not typed to the end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import ctx_pipeline
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import UsageError


@pytest.fixture
def home(environ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for host, name in (("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")):
        shutil.copytree(Path(ctx_pipeline.__file__).parent / "samples" / host, environ[name])
        monkeypatch.setenv(name, environ[name])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.feature("cli.import")
def test_which_sessions_of_one_host_has_to_be_said(home: Path):
    done = CliRunner().invoke(cli, ["import", "claude", "--limit", "3"])

    assert isinstance(done.exception, UsageError)
    assert "say which sessions to import" in str(done.exception)

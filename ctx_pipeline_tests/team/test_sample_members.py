"""A team to look at, made of the sample sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli


@pytest.mark.feature("team.sample")
def test_three_sample_members_share_sessions_and_the_hub_counts_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    runner = CliRunner()

    made = json.loads(runner.invoke(cli, ["hub", "sample", str(tmp_path / "team"), "--json"]).output)
    again = json.loads(runner.invoke(cli, ["hub", "sample", str(tmp_path / "team"), "--json"]).output)
    assert runner.invoke(cli, ["hub", "refresh", "--url", made["url"]]).exit_code == 0
    shown = json.loads(runner.invoke(cli, ["hub", "show", "members", "--url", made["url"], "--json"]).output)
    total = json.loads(runner.invoke(cli, ["hub", "show", "total", "--url", made["url"], "--json"]).output)

    assert made == again
    assert made["sessions"] == {"ann": 4, "bob": 2, "eve": 6}
    assert {row["member"] for row in shown["rows"]} == {"ann", "bob", "eve"}
    assert total["rows"][0]["calls"] == 46  # as `ctx run` counts the samples, not 92

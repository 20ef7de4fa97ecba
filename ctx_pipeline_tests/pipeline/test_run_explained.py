"""A run says of each asset how many sessions it worked out again, and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli.run import run
from ctx_pipeline.pipeline import measure
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.months import settings_of, write_month


@pytest.mark.feature("launch.explain")
def test_each_asset_says_how_many_sessions_were_made_and_why(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    write_month(home, "2026-03", 1)
    write_month(home, "2026-03", 2)
    with open_store(settings) as store:
        first = {one["asset"]: one for one in run_stages(store, settings).assets}
        assert first["facts/tables"] == {"asset": "facts/tables", "partitions": 1, "sessions": 2, "why": "2 new sessions"}
        assert first["signals/activity"]["why"] == first["mined/error_resolutions"]["why"] == "2 new sessions"
        assert first["dashboard/site"] == {"asset": "dashboard/site", "partitions": None, "sessions": 2, "why": "new input"}

        write_month(home, "2026-03", 2, prompts=5)
        write_month(home, "2026-03", 3)
        grown = {one["asset"]: one for one in run_stages(store, settings).assets}
        assert grown["normalized/events"]["why"] == "2 new or changed sessions"
        assert grown["facts/tables"]["why"] == grown["signals/activity"]["why"] == "1 changed session, 1 new session"
        assert grown["dashboard/site"]["sessions"] == 2
        assert run_stages(store, settings).assets == []

        forced = measure.measure(store, settings, families=["activity"], force=True)
        assert [cell.recomputed for cell in forced.cells.values()] == [{"signals/activity": {"forced": 3}}]


@pytest.mark.feature("launch.explain")
def test_the_command_shows_it_and_says_where_nothing_was_made(environ, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setitem(os.environ, name, value)
    monkeypatch.setattr("ctx_pipeline.pipeline.run.graph_installed", lambda: False)
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1)

    shown = CliRunner().invoke(run, ["--explain"], catch_exceptions=False).output.splitlines()
    again = CliRunner().invoke(run, ["--explain"], catch_exceptions=False).output.splitlines()

    (facts,) = [line.split() for line in shown if line.startswith("facts/tables")]
    assert facts == ["facts/tables", "1", "1", "of", "1", "1", "new", "session"]
    assert any(line.startswith("signals/* (") for line in shown)
    assert again[-1] == "no asset was made"

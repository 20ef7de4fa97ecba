"""A capture that nobody watches does not start on a disk that is nearly full."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreFull
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.months import write_month


@pytest.fixture
def settings(environ):
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1)
    return settings_module.load(environ)


@pytest.mark.feature("capture.low-space")
def test_a_hooks_sync_refuses_to_start_and_names_both_figures(settings):
    tight = replace(settings, least_free_bytes=1 << 60)
    with open_store(settings) as store:
        with pytest.raises(StoreFull, match=r"fewer than least_free_bytes = 1,152,921,504,606,846,976: nothing was captured") as raised:
            sync(store, tight)
        assert raised.value.hint == "free some disk space, or capture anyway: ctx run"
        assert list(store.files.walk("raw")) == []

        assert run_stages(store, tight).sessions == 1
        # nothing new needs no room
        assert sync(store, tight) == []


@pytest.mark.feature("capture.low-space")
def test_the_command_says_so_and_ends_with_1(settings, environ, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settings.home.mkdir()
    (settings.home / "config.toml").write_text(f"least_free_bytes = {1 << 60}\n")
    done = CliRunner().invoke(cli, ["sync"])

    assert isinstance(done.exception, StoreFull)
    (settings.home / "config.toml").write_text("least_free_bytes = 0\n")
    assert CliRunner().invoke(cli, ["sync"]).exit_code == 0


@pytest.mark.feature("capture.low-space")
def test_what_would_launch_a_run_by_itself_refuses_too(settings, environ, monkeypatch):
    from ctx_pipeline.defs import automation
    from ctx_pipeline.defs.resources import Pipeline

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settings.home.mkdir()
    (settings.home / "config.toml").write_text(f"least_free_bytes = {1 << 60}\ndebounce_seconds = 0\n")
    with pytest.raises(StoreFull):
        automation.look(Pipeline())

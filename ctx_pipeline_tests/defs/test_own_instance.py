"""A person's own Dagster instance: the folder of ``DAGSTER_HOME`` is used as it is, with its storage in SQLite or PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from ctx_pipeline.defs import launch, run_records, upkeep
from ctx_pipeline.errors import StoreError
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.defs.conftest import LOCATION, web_server
from ctx_pipeline_tests.defs.requests import LAUNCH, STATUS
from ctx_pipeline_tests.factories.months import write_month
from ctx_pipeline_tests.factories.services import postgres
from ctx_pipeline_tests.waiting import eventually


def of(settings, folder):
    return replace(settings, environ={**settings.environ, "DAGSTER_HOME": str(folder)})


@pytest.fixture
def server() -> Iterator[str]:
    """A PostgreSQL of its own behind a socket; its address."""
    with postgres() as address:
        yield address


@pytest.mark.feature("dagster.own-home")
def test_the_instance_of_dagster_home_is_used_and_its_settings_stay_as_they_are(settings, tmp_path):
    own = tmp_path / "own"
    text = "telemetry:\n  enabled: false\n# a setting of mine\nrun_retries:\n  enabled: false\n"
    with pytest.raises(StoreError, match="no folder"):
        launch.prepare_home(of(settings, own))
    own.mkdir()
    (own / "dagster.yaml").write_text(text)

    outcome = launch.run(of(settings, own))

    assert not (settings.home / "dagster").exists()
    assert (own / "dagster.yaml").read_text() == text
    with launch.instance(of(settings, own)) as instance:
        assert not instance.run_retries_enabled
        assert {run.run_id for run in instance.get_runs()} == set(outcome.runs)
        assert len(instance.get_materialized_partitions(dg.AssetKey(["signals", "activity"]))) == 2
    assert upkeep.switches(of(settings, own)) == []
    assert launch.prepare_home(of(settings, settings.home / "dagster")) == settings.home / "dagster", "the store's own is ours to write"


@pytest.mark.slow
@pytest.mark.feature("dagster.postgres")
def test_runs_events_and_upkeep_work_with_storage_in_postgresql(settings, tmp_path, server):
    own = tmp_path / "own"
    own.mkdir()
    (own / "dagster.yaml").write_text(f"telemetry:\n  enabled: false\nstorage:\n  postgres:\n    postgres_url: {server}\n")

    outcome = launch.run(of(settings, own))

    assert (outcome.failed, outcome.cells_materialized) == ([], 2)
    assert not list(own.rglob("*.db")), "nothing lies in SQLite"
    with launch.instance(of(settings, own)) as instance:
        assert {run.run_id for run in instance.get_runs()} == set(outcome.runs)
        made = instance.fetch_materializations(dg.AssetKey(["signals", "activity"]), limit=10).records
        assert len(made) == 2
        assert run_records.tidy(instance) == (0, 0)
    assert launch.run(of(settings, own)).runs == []


@pytest.mark.slow
@pytest.mark.feature("dagster.remote-profile")
def test_what_one_machine_asks_for_a_daemon_of_another_machine_makes(settings, tmp_path, server, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "dagster.yaml").write_text(f"telemetry:\n  enabled: false\nstorage:\n  postgres:\n    postgres_url: {server}\n")
    launch.run(of(settings, here))
    write_month(Path(settings.environ["CLAUDE_CONFIG_DIR"]), "2026-04", 2, prompts=2)
    elsewhere = {**os.environ, "DAGSTER_HOME": str(there), "DAGSTER_DISABLE_TELEMETRY": "1", "CTX_HOME": str(settings.home)}
    workspace = launch.config_folder() / "workspace.yaml"

    with web_server(of(settings, here)) as (post, _):
        selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "__ASSET_JOB"}
        chosen = [{"path": ["raw", "segments"]}, {"path": ["normalized", "events"]}, {"path": ["signals", "activity"]}]
        tags = [{"key": "dagster/partition", "value": "claude|2026-04"}]
        params = {
            "selector": selector | {"assetSelection": chosen},
            "mode": "default",
            "runConfigData": {},
            "executionMetadata": {"tags": tags},
        }
        asked = post(LAUNCH, params=params)
        assert asked["__typename"] == "LaunchRunSuccess", asked

        def state():
            return next(run["status"] for run in post(STATUS)["results"] if run["runId"] == asked["run"]["runId"])

        assert state() == "QUEUED", "nobody here makes it"
        command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(workspace)]
        daemon = processes.start(command, env=elsewhere, cwd=there, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: state() in ("SUCCESS", "FAILURE"), seconds=240)
        finally:
            daemon.terminate()
            daemon.wait(60)
            processes.end(daemon)  # its code server outlives it
        assert state() == "SUCCESS"
    with launch.instance(of(settings, here)) as instance:
        made = instance.fetch_materializations(dg.AssetKey(["signals", "activity"]), limit=1).records[0]
        assert (made.run_id, str(made.partition_key)) == (asked["run"]["runId"], "claude|2026-04")
    assert not list(tmp_path.glob("*here/**/*.db"))

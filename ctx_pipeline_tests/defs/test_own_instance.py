"""A person's own Dagster instance: the folder of ``DAGSTER_HOME`` is used as it is, with its storage in SQLite or PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from ctx_pipeline.defs import launch, run_records, upkeep
from ctx_pipeline.errors import StoreError

INITDB = shutil.which("initdb")
DATABASE = "postgres"


def of(settings, folder):
    return replace(settings, environ={**settings.environ, "DAGSTER_HOME": str(folder)})


@pytest.fixture
def server() -> Iterator[str]:
    """A PostgreSQL of its own behind a socket; its address."""
    if INITDB is None or importlib.util.find_spec("dagster_postgres") is None:
        pytest.skip("needs initdb of PostgreSQL and dagster-postgres")
    folder = Path(tempfile.mkdtemp(prefix="ctx-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)

    def run(*words):
        subprocess.run(words, cwd=folder, user=user, check=True, capture_output=True)

    control = [str(Path(INITDB).resolve().with_name("pg_ctl")), "-w", "-D", str(folder / "data")]
    run(INITDB, "-D", str(folder / "data"), "-A", "trust", "-U", "postgres", "--no-sync")
    run(*control, "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "start")
    yield f"postgresql+psycopg2://postgres@/{DATABASE}?host={folder}"
    run(*control, "-m", "immediate", "stop")
    shutil.rmtree(folder)


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

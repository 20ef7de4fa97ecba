"""Dagster's own commands over this code location, in a clean shell."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline.defs import launch
from ctx_pipeline_tests.defs.conftest import placed

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def clean(*command, cwd, **variables):
    """Run a command as `env -i PATH=...` would."""
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=cwd,
        env={"PATH": f"{BIN}:{os.defpath}", **variables},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.feature("dagster.clean-shell")
def test_definitions_load_without_a_home_or_a_variable(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()

    result = clean("python", "-c", "import ctx_pipeline.definitions as d; print(len(d.defs.resolve_all_asset_specs()))", cwd=empty)

    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 12
    assert list(empty.iterdir()) == [], "loading writes nothing"


@pytest.mark.slow
@pytest.mark.feature("dagster.validate")
def test_dagster_validates_the_workspace_of_the_checkout():
    result = clean("dagster", "definitions", "validate", "-w", str(CHECKOUT / "workspace.yaml"), cwd=CHECKOUT)

    assert result.returncode == 0, result.stderr
    assert "Validation successful" in result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.feature("dagster.materialize")
def test_dagster_materializes_one_cell(settings, tmp_path):
    home = placed(settings)

    result = clean(
        "dagster", "asset", "materialize", "-m", "ctx_pipeline.definitions", "--select", "raw/segments,key:normalized/*",
        "--partition", "claude|2026-03", cwd=tmp_path, DAGSTER_HOME=str(home),
        **{name: settings.environ[name] for name in ("HOME", "CTX_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")},
    )  # fmt: skip

    assert result.returncode == 0, result.stderr[-2000:]
    with sqlite3.connect(settings.home / "ledger.db") as ledger:
        rows = ledger.execute("SELECT month, rows FROM asset_cells WHERE asset = 'normalized/events'").fetchall()
    assert rows == [("2026-03", 2)]


@pytest.mark.feature("dagster.packaged-configuration")
def test_workspace_and_instance_configuration_are_found_beside_the_package_or_at_the_top():
    folder = launch.config_folder()

    assert "ctx_pipeline.definitions" in (folder / "workspace.yaml").read_text()
    assert "enabled: false" in (folder / "dagster.yaml").read_text()


@pytest.mark.slow
@pytest.mark.feature("dagster.dg")
def test_what_dg_scaffolds_is_loaded_with_the_graph_and_nothing_is_reported_to_anybody(settings, tmp_path):
    if not (BIN / "dg").exists():
        pytest.skip("needs dagster-dg-cli")
    checkout = tmp_path / "checkout"
    shutil.copytree(CHECKOUT / "ctx_pipeline", checkout / "ctx_pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "dagster.yaml", "workspace.yaml"):
        shutil.copy(CHECKOUT / name, checkout)

    home = launch.prepare_home(settings)

    def dg(*words):
        made = clean("dg", *words, cwd=checkout, PYTHONPATH=str(checkout), HOME=str(tmp_path), DAGSTER_HOME=str(home))
        assert made.returncode == 0, made.stdout + made.stderr
        assert "usage statistics" not in made.stdout + made.stderr
        return made.stdout

    dg("scaffold", "defs", "dagster.asset", "orders.py")
    assert (checkout / "ctx_pipeline" / "defs" / "added" / "orders.py").is_file()
    found = json.loads(dg("list", "defs", "--json"))
    assert {"orders", "raw/segments", "dashboard/site"} <= {asset["asset_key"] for asset in found["assets"]}
    assert "loaded successfully" in dg("check", "defs")

"""Derived data may be deleted: the plan sees it, the next run makes it again, the content is the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ctx_pipeline import settings
from ctx_pipeline.pipeline.plan import plan
from ctx_pipeline.pipeline.repair.missing_outputs import reconcile_missing_outputs
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"
DERIVED = ("lake", "search.db", "memory.db", "serving", "site")


@pytest.fixture
def chosen(environ, tmp_path: Path) -> settings.Settings:
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, tmp_path / host)
    return settings.load(environ)


def hashes(home: Path) -> dict[str, str]:
    return {str(p.relative_to(home)): json.loads(p.read_bytes())["content_hash"] for p in sorted(home.glob("lake/_manifests/*/*.json"))}


def remove(home: Path, name: str) -> None:
    for path in home.glob(f"{name}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.feature("store.rebuilt")
def test_everything_derived_is_made_again_with_the_same_content(chosen: settings.Settings):
    with open_store(chosen) as store:
        run_stages(store, chosen)
    before = hashes(chosen.home)
    for name in DERIVED:
        remove(chosen.home, name)

    with open_store(chosen) as store:
        again = run_stages(store, chosen)

    assert len(before) > 10
    assert hashes(chosen.home) == before
    assert again.sessions_parsed == 6
    with open_store(chosen) as store:
        assert len(store.search.query("freezegun")) > 0
        assert plan(store, chosen).nothing_to_do


@pytest.mark.feature("store.rebuilt")
@pytest.mark.parametrize(
    ("name", "asset"),
    [
        ("search.db", "search/index"),
        ("memory.db", "memory/index"),
        ("cases.db", "memory/consolidated"),
        ("serving", "warehouse/duckdb"),
        ("site", "dashboard/site"),
        ("lake/_manifests/signals.outcomes", "signals/outcomes"),
    ],
)
def test_one_lost_output_is_one_missing_asset_and_no_session_is_read_for_it(chosen: settings.Settings, name: str, asset: str):
    with open_store(chosen) as store:
        run_stages(store, chosen)
        assert reconcile_missing_outputs(store) == []
    remove(chosen.home, name)

    with open_store(chosen) as store:
        lost = reconcile_missing_outputs(store)
        found = plan(store, chosen)

        assert {key for key, _ in lost} == {asset}
        assert "missing" in {needs.state for needs in found.assets[asset].cells.values()}
        assert run_stages(store, chosen).sessions_parsed == 0
        assert reconcile_missing_outputs(store) == []

"""Fixtures of every test: no home of the person, no network store, a store of its own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from ctx_pipeline import discovery, settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes

# DSPy keeps answers below the home of whoever imports it: a second run would be answered from there and ask nobody
_answers = tempfile.TemporaryDirectory(prefix="ctx-dspy-", ignore_cleanup_errors=True)
os.environ["DSPY_CACHEDIR"] = _answers.name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_slow = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

hypothesis_settings.register_profile("long", max_examples=10_000, **_slow)
"""``--hypothesis-profile long``: a hundred times as many drawn examples, new ones in every run."""

hypothesis_settings.register_profile("steady", derandomize=True, database=None, **_slow)
hypothesis_settings.load_profile("steady")

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"

corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not beside this checkout")
"""Mark of tests over the published sessions."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have slow tests: one that begins last leaves all other workers without work."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the person's homes or store."""
    home = tmp_path / "nobody"
    home.mkdir()
    monkeypatch.chdir(".")  # whoever goes elsewhere, the next test begins here
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    homes = (name for host in discovery.hosts().values() for name in (host.files.roots_env, *host.files.more_roots))
    for name in (*homes, "APPDATA", "COLUMNS", "CTX_COST_MODE", "DAGSTER_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    """No test leaves a process behind that the end of the run would wait for."""
    yield
    processes.end_all()


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """An environment whose store and homes lie below the test's own folder."""
    return {
        "HOME": str(tmp_path / "nobody"),
        "CTX_HOME": str(tmp_path / "store"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "CODEX_HOME": str(tmp_path / "codex"),
        "TZ": "UTC",
    }


@pytest.fixture
def chosen(environ: Mapping[str, str]) -> Settings:
    """The settings of that environment."""
    return settings.load(environ)


@pytest.fixture
def store(chosen: Settings) -> Iterator[Store]:
    """Its store, opened for writing."""
    with open_store(chosen) as opened:
        yield opened

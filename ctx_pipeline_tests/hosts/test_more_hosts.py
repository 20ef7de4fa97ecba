"""Several agents on one machine: one run over homes of many formats, told apart and counted in one unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.session_details import show
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import aider, amp, gemini, goose, opencode, pi_agent
from ctx_pipeline_tests.factories.sample_homes import put

CALLS = {"aider": 2, "amp": 4, "gemini_cli": 6, "goose": 2, "opencode": 4, "pi_agent": 5, "qwen_code": 5}
RECORDED = {"opencode": 9_300_000, "pi_agent": 2_000_000, "aider": 9_300_000}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A store with the sessions of every host, brought up to date once."""
    folder = tmp_path_factory.mktemp("machine")
    homes = {
        "aider": put(folder / "aider", aider.home()),
        "amp": put(folder / "amp", amp.home()),
        "gemini_cli": put(folder / "gemini", gemini.gemini_home()),
        "pi_agent": put(folder / "pi", pi_agent.home_with_fork()),
        "qwen_code": put(folder / "qwen", gemini.qwen_home()),
        "goose": goose.write_database(folder / "goose" / "sessions" / "sessions.db").parents[1],
        "opencode": opencode.write_database(folder / "opencode" / "opencode.db", opencode.everything()).parent,
    }
    chosen = Settings(home=folder / "store", timezone="UTC", demo_roots={key: (home,) for key, home in homes.items()})
    with open_store(chosen) as store:
        ingest(store, chosen)
    return chosen


@pytest.mark.feature("usage.by-host")
@pytest.mark.parametrize("stored", [True, False])
def test_usage_by_host_is_the_same_live_and_stored(machine: Settings, stored: bool) -> None:
    chosen = machine if stored else Settings(home=machine.home.parent / "empty", timezone="UTC", demo_roots=machine.demo_roots)
    rows = usage("host", settings=chosen, stored=stored).by_key()

    assert {row["host"]: row["calls"] for row in rows} == CALLS


@pytest.mark.feature("show.cost-mode")
def test_a_session_shows_the_cost_that_usage_counts(machine: Settings) -> None:
    counted = usage("session", settings=machine, stored=True).by_session()
    for (host, session_id), sums in counted.items():
        shown = show(host, session_id, settings=machine)["usage"]
        assert (shown["calls"], shown["cost_nano"] or 0) == (sums["calls"], sums["cost_nano"]), (host, session_id)


@pytest.mark.feature("hosts.recorded-cost")
def test_the_hosts_own_cost_is_taken_where_it_recorded_one(machine: Settings) -> None:
    rows = usage("host", settings=machine, stored=True, cost_mode="display").by_key()

    assert {row["host"]: row["cost_nano"] for row in rows if row["cost_nano"]} == RECORDED


@pytest.mark.feature("hosts.not-installed")
def test_a_host_that_is_not_installed_costs_one_look_at_each_of_its_places(machine: Settings, tmp_path: Path, monkeypatch) -> None:
    from ctx_pipeline import discovery

    looked: list[str] = []
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: looked.append(str(self)) or exists(self))
    nobody = Settings(home=tmp_path / "store", environ={"HOME": str(tmp_path / "nobody")})
    for key in CALLS:
        looked.clear()
        host = discovery.host(key)
        assert nobody.roots_of(host) == ()
        assert len(looked) <= len(host.files.roots_default)

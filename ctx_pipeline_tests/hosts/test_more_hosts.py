"""Several agents on one machine: one run over homes of many formats, told apart and counted in one unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.session_details import show
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import aider, amp, gemini, goose, opencode, pi_agent
from ctx_pipeline_tests.factories.sample_homes import put, sessions_of

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


def _half(files: dict[str, str]) -> dict[str, str]:
    """Return the files as they were when half of each was written: lines, or messages of a document."""
    found = {}
    for rel, text in files.items():
        if rel.endswith(".jsonl"):
            lines = text.splitlines(keepends=True)
            found[rel] = "".join(lines[: len(lines) // 2])
        elif rel.endswith(".json") and "messages" in (document := json.loads(text)):
            document["messages"] = document["messages"][: len(document["messages"]) // 2]
            found[rel] = json.dumps(document, indent=2)
        elif rel.endswith(".md"):
            found[rel] = text[: len(text) // 2]
    return found


@pytest.mark.feature("hosts.growing-homes")
@pytest.mark.parametrize(
    ("key", "files"),
    [
        ("aider", aider.home()),
        ("amp", amp.home()),
        ("gemini_cli", gemini.gemini_home()),
        ("pi_agent", pi_agent.home_with_fork()),
        ("qwen_code", gemini.qwen_home()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_home_that_grew_between_two_runs_counts_as_one_that_was_there_at_once(key: str, files: dict[str, str], tmp_path: Path) -> None:
    sessions_of(key, put(tmp_path / "home", _half(files)), tmp_path / "store")
    grown = sessions_of(key, put(tmp_path / "home", files), tmp_path / "store")
    whole = sessions_of(key, tmp_path / "home", tmp_path / "other")

    facts = ("title", "prompts", "events", "tool_calls", "threads", "calls", "cwd", "status")
    assert {name: [s[f] for f in facts] for name, s in grown.items()} == {name: [s[f] for f in facts] for name, s in whole.items()}


@pytest.mark.feature("hosts.growing-homes")
def test_a_database_that_grew_between_two_runs_counts_as_one_that_was_there_at_once(tmp_path: Path) -> None:
    made, all_of_it = tmp_path / "home" / "opencode.db", opencode.everything()
    sessions, messages, parts = all_of_it
    opencode.write_database(made, (sessions, messages[:2], parts[:9]))
    sessions_of("opencode", made.parent, tmp_path / "store")
    made.unlink()
    opencode.write_database(made, all_of_it)
    grown = sessions_of("opencode", made.parent, tmp_path / "store")
    whole = sessions_of("opencode", made.parent, tmp_path / "other")

    facts = ("title", "prompts", "events", "tool_calls", "calls")
    assert {name: [s[f] for f in facts] for name, s in grown.items()} == {name: [s[f] for f in facts] for name, s in whole.items()}

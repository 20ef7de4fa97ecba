"""What hosts bill in other units stands beside the cost, by host and unit, the same from files and from tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery
from ctx_pipeline.cli.root import cli
from ctx_pipeline.dashboard.panels import accounting
from ctx_pipeline.model.display import amount
from ctx_pipeline.pipeline.capture.scanning import scan
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.page.page_records import current
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import parse_filters, usage
from ctx_pipeline.usage.other_units import Charged, other_units
from ctx_pipeline_tests.contracts.test_hosts_in_the_pipeline import copied

HOSTS = ("copilot", "cursor", "amp", "gemini_cli")


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, tuple[Path, ...]]:
    found = {}
    for key in HOSTS:
        copied(discovery.host(key), tmp_path / key)
        found[key] = (tmp_path / key,)
    return found


def captured(settings: Settings) -> None:
    with open_store(settings) as store:
        scan(store, settings)
        ingest(store, settings)


@pytest.mark.feature("usage.other-units")
def test_units_are_summed_by_host_and_never_enter_the_cost(homes, tmp_path: Path):
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots=homes)
    live = other_units(settings, parse_filters(settings))
    cost = usage("host", settings=settings).totals["cost_nano"]
    captured(settings)

    assert {(one.host, one.unit) for one in live} >= {("copilot", "premium_requests"), ("cursor", "requests"), ("amp", "credits")}
    assert Charged("cursor", "cents", "cents as recorded by Cursor", 8, 1) in live
    assert all(one.host != "gemini_cli" for one in live)
    assert other_units(settings, parse_filters(settings)) == live
    assert other_units(settings, parse_filters(settings), stored=True) == live
    assert usage("host", settings=settings).totals["cost_nano"] == cost


@pytest.mark.feature("usage.other-units")
def test_a_session_that_is_newer_than_the_tables_counts_once(homes, tmp_path: Path):
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots=homes)
    captured(settings)
    thread = next(iter(sorted((tmp_path / "amp" / "threads").glob("*.json"))))
    for path in (tmp_path / "amp" / "threads").glob("*.json"):
        if "usageLedger" in path.read_text():
            thread = path
    before = next(one for one in other_units(settings, parse_filters(settings)) if one.host == "amp")
    told = json.loads(thread.read_text())
    more = {**told["usageLedger"]["events"][0], "id": "later", "credits": 5}
    told["usageLedger"]["events"].append(more)
    thread.write_text(json.dumps(told))

    after = next(one for one in other_units(settings, parse_filters(settings)) if one.host == "amp")

    assert after.amount == pytest.approx(before.amount + 5)
    assert after.sessions == before.sessions


@pytest.mark.feature("usage.other-units")
def test_filters_select_units_by_host_day_and_model(homes, tmp_path: Path):
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots=homes)
    captured(settings)

    assert {one.host for one in other_units(settings, parse_filters(settings, host="amp"))} == {"amp"}
    assert other_units(settings, parse_filters(settings, since="2031-01-01")) == []
    models = {one.host for one in other_units(settings, parse_filters(settings, model="claude-4.5-sonnet"))}
    assert "cursor" in models
    assert "amp" not in models


@pytest.mark.feature("usage.other-units")
def test_the_page_says_them_beside_the_accounts(homes, tmp_path: Path):
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots=homes)
    captured(settings)

    said = accounting.build.build(current(settings))

    assert "Amp also billed" in said
    assert "Cursor also billed 2 requests in 1 session;" in said


@pytest.mark.feature("usage.other-units")
def test_usage_says_them_in_a_line_of_their_own_and_in_json(homes, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("AMP_DATA_DIR", str(homes["amp"][0]))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))

    text = CliRunner().invoke(cli, ["usage", "host"])
    told = CliRunner().invoke(cli, ["usage", "host", "--json"])

    assert text.exit_code == 0, text.output
    assert "amp also billed" in " ".join(text.output.split())
    assert "not in the cost" in " ".join(text.output.split())
    assert [one["unit"] for one in json.loads(told.output)["other_units"]] == ["credits"]


@pytest.mark.feature("usage.other-units")
@pytest.mark.parametrize(("value", "said"), [(4, "4"), (1.6, "1.6"), (0.33, "0.33"), (556_570_000.0, "556,570,000"), (0.00004, "0")])
def test_amounts_are_written_in_full(value: float, said: str):
    assert amount(value) == said

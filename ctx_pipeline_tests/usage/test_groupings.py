"""A grouping is one entry of one registry: reports, ``ctx usage``, ``ctx explain`` and agents have it from there, and all add up alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli.root import cli
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import COST_MODES, COST_RULE, cost_of
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage.warehouse.usage_sql import COST_SQL
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.groupings import GROUPINGS, Grouping
from ctx_pipeline.usage.homes.live_usage import Counted
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline.usage.rollup import SUMS, Filters, Rollup, StoredSum
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.usage.conftest import ingested, without_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Three sessions on two branches, one of them with a tool call."""
    home = ClaudeHome(tmp_path / "claude")
    for number, branch in enumerate(("main", "till", "main")):
        session = home.session(f"{number:08d}-1111-4111-8111-111111111111", mark=f"m{number}", branch=branch)
        session.prompt("go")
        session.answer(text("done"), message_id=f"msg_{number}")
        if number:
            session.call("t1", "Bash", "ok", command="ls")
        session.save()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.root))
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (home.root,)})


@pytest.mark.feature("usage.groupings")
@pytest.mark.parametrize("by", GROUPINGS)
def test_every_grouping_gives_the_same_totals_from_homes_and_tables_and_its_rows_are_explained(settings: Settings, by: str) -> None:
    live = usage(by, settings=without_store(settings))
    stored = usage(by, settings=ingested(settings), stored=True)

    assert live.rows == stored.rows
    assert live.totals == usage("model", settings=settings).totals
    for row in stored.by_key():
        made = explain(row[GROUPINGS[by].column], by=by, settings=settings)
        assert (made.totals["calls"], made.totals["output_tokens"]) == (row["calls"], row["output_tokens"])


@pytest.mark.feature("explain.same-branch")
def test_a_branch_of_several_repositories_is_told_with_the_calls_of_each_row(settings: Settings) -> None:
    other = ClaudeHome(settings.demo_roots["claude"][0]).session("00000009-1111-4111-8111-111111111111", cwd="/code/other", branch="main")
    other.prompt("go")
    other.answer(text("done"), message_id="msg_9")
    other.save()
    ingested(settings)

    rows = {row["repository"]: row["calls"] for row in usage("branch", settings=settings).by_key() if row["branch"] == "main"}
    found = explain("main", by="branch", settings=settings)
    printed = CliRunner().invoke(cli, ["explain", "main", "--by", "branch", "--limit", "0"]).stdout.splitlines()

    assert sorted(rows.values()) == [1, 3]
    assert (found.to_json()["repositories"], found.totals["calls"]) == (rows, 4)
    for name, calls in rows.items():
        assert explain("main", by="branch", project=name, settings=settings).totals["calls"] == calls
    most, least = sorted(rows, key=lambda name: -rows[name])
    assert printed[2] == f"2 rows of ctx usage branch, one a repository: {most} 3 calls, {least} 1 call"
    assert printed[3] == f"one of them: ctx explain main --by branch --project {most}"


@pytest.mark.feature("usage.groupings")
def test_an_entry_in_the_registry_is_a_report_with_and_without_a_store(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    added = Grouping("first_letter", "By the first letter of the branch.", "letter", of_session=lambda s: s.project[:1], none="(none)")
    monkeypatch.setitem(GROUPINGS, "first_letter", added)

    live = usage("first_letter", settings=without_store(settings)).rows
    stored = usage("first_letter", settings=ingested(settings)).rows

    assert live == stored
    assert [len(row["letter"]) for row in stored] == [1]
    assert explain(stored[0]["letter"], by="first_letter", settings=settings).totals["calls"] == stored[0]["calls"]


@pytest.mark.feature("usage.groupings")
def test_an_entry_that_groups_by_the_clock_needs_nothing_else(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GROUPINGS, "half", Grouping("half", "By half of the day.", "half", of_time=lambda t: t.strftime("%p")))

    live, stored = usage("half", settings=without_store(settings)).rows, usage("half", settings=ingested(settings)).rows

    assert live == stored
    assert [(row["half"], row["calls"]) for row in stored] == [("AM", 5)]
    assert explain("AM", by="half", settings=settings).totals["calls"] == 5


@pytest.mark.feature("usage.weekday-hour")
@pytest.mark.parametrize(
    ("zone", "weekday", "hour"),
    [
        ("UTC", "Sunday", "23:00"),
        ("Europe/Berlin", "Monday", "00:00"),
        ("Asia/Kolkata", "Monday", "05:00"),
        ("America/New_York", "Sunday", "19:00"),
    ],
)
def test_the_weekday_and_the_hour_are_those_of_the_zone(zone: str, weekday: str, hour: str) -> None:
    call = micros("2026-10-25T23:40:00Z")  # Berlin has set its clocks back in the night before, New York has not

    assert [GROUPINGS[by].key(zone)(call, Counted("claude", "s", "", None, []), True) for by in ("weekday", "hour")] == [weekday, hour]
    assert GROUPINGS["weekday"].key(zone)(None, Counted("claude", "s", "", None, []), True) is None


@pytest.mark.feature("usage.weekday-hour")
def test_weekdays_stand_in_the_order_of_the_week_and_calls_without_a_time_first() -> None:
    rollup = Rollup(GROUPINGS["weekday"], Filters(timezone="UTC"))
    session = Counted("claude", "s", "", None, [])
    days = [None, *(micros(f"2026-03-0{day}T10:00:00Z") for day in (1, 2, 3, 7))]
    rollup.add_sums(StoredSum(session, "m", ts, True, [1] * len(SUMS)) for ts in reversed(days))

    assert [row["weekday"] for row in rollup.rows()] == [None, "Monday", "Tuesday", "Saturday", "Sunday"]


@pytest.mark.feature("usage.groupings")
def test_by_and_its_name_are_one_command(settings: Settings) -> None:
    ingested(settings)

    named, by = (json.loads(CliRunner().invoke(cli, ["usage", *words, "--json"]).stdout) for words in (["branch"], ["--by", "branch"]))

    assert named == by
    assert [(row["branch"], row["calls"]) for row in by["rows"]] == [("main", 3), ("till", 2)]


@pytest.mark.feature("usage.cost-mode")
def test_the_cost_rule_stands_once_for_python_and_sql() -> None:
    import duckdb

    assert set(COST_RULE) == set(COST_MODES) == set(COST_SQL)
    assert {name for names in COST_RULE.values() for name in names} <= set(MODEL_CALLS.names)
    for mode in COST_MODES:
        for recorded in (None, 0, 7):
            for listed in (None, 0, 5):
                query = f"SELECT {COST_SQL[mode]} FROM (SELECT CAST(? AS BIGINT) AS recorded_cost, CAST(? AS BIGINT) AS cost) c"
                assert duckdb.execute(query, [recorded, listed]).fetchall() == [(cost_of(mode, recorded, listed),)]

"""Fact tables are made once for each session, read by views, asked by SQL and forgotten with their session."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts import command_runs as module
from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.model.tables import FACTS, FACTS_ASSET
from ctx_pipeline.pipeline import facts
from ctx_pipeline.pipeline.background import derive
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view


def sessions():
    return view("a").prompt("go").shell("pytest -q", exit=1, text="1 failed in 0.1s"), view("b").prompt("go").shell("ls", text="x.py")


def rows(store, table="command_runs"):
    return {r.session_id: r for r in store.lake.read_rows(table, CELL, FACTS_ASSET)}


@pytest.fixture
def made(monkeypatch):
    """The sessions whose commands were worked out."""
    asked: list[str] = []

    def counted(session):
        asked.append(session.session_id)
        return command_runs(session)

    monkeypatch.setattr(facts, "MAKERS", {**facts.MAKERS, "command_runs": counted})
    return asked


@pytest.mark.feature("facts.tables")
def test_every_fact_table_has_one_function():
    assert facts.MAKERS.keys() == FACTS.keys()


@pytest.mark.feature("facts.tables")
def test_facts_are_rows_beside_the_normalized_ones_and_open_to_sql(store, chosen):
    normalized(store, *sessions())
    report = make_facts(store, chosen, cells=[CELL])
    assert report.totals == {"sessions": 2, "command_runs": 2, "check_runs": 1, "turns": 2}
    with store.lake.connect() as connection:
        store.lake.views(connection)
        found = connection.execute("SELECT session_id, command, result FROM command_runs ORDER BY 1").fetchall()
        checks = connection.execute("SELECT runner, kind, failed, unit, result FROM check_runs").fetchall()
    assert found == [("a", "pytest -q", "failed"), ("b", "ls", "passed")]
    assert checks == [("pytest", "test", 1, "test", "failed")]


@pytest.mark.feature("facts.incremental")
def test_only_the_session_that_changed_is_read_again(store, chosen, made):
    one, two = sessions()
    normalized(store, one, two)
    make_facts(store, chosen, cells=[CELL])
    assert make_facts(store, chosen, cells=[CELL]).cells[CELL.key].status == "unchanged"
    assert sorted(made) == ["a", "b"]
    made.clear()
    normalized(store, one, two.shell("pwd"))
    make_facts(store, chosen, cells=[CELL])
    assert made == ["b"]
    assert sorted((r.session_id, r.command) for r in store.lake.read_rows("command_runs", CELL, FACTS_ASSET)) == [
        ("a", "pytest -q"),
        ("b", "ls"),
        ("b", "pwd"),
    ]


@pytest.mark.feature("facts.incremental")
def test_another_version_of_a_table_makes_its_rows_again_from_normalized_rows(store, chosen, made, monkeypatch):
    normalized(store, *sessions())
    make_facts(store, chosen, cells=[CELL])
    made.clear()
    monkeypatch.setattr(facts, "FACTS_VERSION", "command_runs.2 check_runs.1")
    make_facts(store, chosen, cells=[CELL])
    assert sorted(made) == ["a", "b"]
    assert rows(store)["a"].result == "failed"


@pytest.mark.feature("facts.edited")
def test_rows_of_edited_code_take_the_place_of_the_stored_ones_also_where_signals_and_methods_are_made_in_the_same_read(
    store, chosen, monkeypatch
):
    normalized(store, *sessions())
    derive(store, chosen, cells=[CELL])
    assert {s: r.result for s, r in rows(store).items()} == {"a": "failed", "b": "passed"}
    failed = {r.session_id: r.value for r in store.lake.read_rows("readings", CELL) if r.signal == "failed_command_count"}
    assert failed == {"a": 1.0, "b": 0.0}
    before = module._row
    monkeypatch.setattr(module, "_row", lambda view, run: before(view, run)._replace(result="failed"))
    monkeypatch.setattr(facts, "version_of", lambda *_: "edited")
    store.ledger.forget_asset("signals/checks", [CELL])  # stale too, so that facts and signals are made in one read
    derive(store, chosen, cells=[CELL])
    assert {s: r.result for s, r in rows(store).items()} == {"a": "failed", "b": "failed"}
    failed = {r.session_id: r.value for r in store.lake.read_rows("readings", CELL) if r.signal == "failed_command_count"}
    assert failed == {"a": 1.0, "b": 1.0}


@pytest.mark.feature("facts.view")
def test_a_view_holds_the_rows_that_were_made_and_else_what_they_are_made_of(store, chosen):
    one, two = sessions()
    normalized(store, one, two)
    make_facts(store, chosen, cells=[CELL])
    loaded = {v.session_id: v for v in store.lake.read_sessions(CELL, None, ("command_runs",))}
    assert [r.command for r in loaded["a"].facts["command_runs"]] == ["pytest -q"]
    assert loaded["a"].events == []
    normalized(store, one, two.shell("pwd"))
    behind = {v.session_id: v for v in store.lake.read_sessions(CELL, None, ("command_runs",), kinds=("prompt",))}
    assert "command_runs" not in behind["b"].facts
    assert [r.command for r in command_runs(behind["b"])] == ["ls", "pwd"]
    assert command_runs(behind["a"]) == loaded["a"].facts["command_runs"]


@pytest.mark.feature("facts.view")
def test_what_another_decoder_read_the_same_way_is_not_worked_out_again(store, chosen, made):
    one, two = sessions()
    normalized(store, one, two, decoder="1+a")
    make_facts(store, chosen, cells=[CELL])
    made.clear()
    normalized(store, one, two, decoder="2+a")
    found = {v.session_id: v for v in store.lake.read_sessions(CELL, None, ("command_runs",))}
    assert [r.command for name in "ab" for r in found[name].facts["command_runs"]] == ["pytest -q", "ls"]
    make_facts(store, chosen, cells=[CELL])
    assert made == []


@pytest.mark.feature("facts.view")
def test_facts_of_a_session_whose_folder_is_another_one_now_are_not_read(store, chosen):
    one, two = sessions()
    normalized(store, one, two)
    make_facts(store, chosen, cells=[CELL])
    moved = view("b", cwd="/elsewhere").prompt("go").shell("ls", text="x.py")
    assert (moved.row().content_hash, moved.row().cwd == two.row().cwd) == (two.row().content_hash, False)
    normalized(store, one, moved)
    assert "command_runs" not in {v.session_id: v for v in store.lake.read_sessions(CELL, None, ("command_runs",))}["b"].facts


@pytest.mark.feature("facts.view")
@pytest.mark.parametrize("columns", [{"threads": ("thread_id", "status")}, {"sessions": ("host", "session_id")}, {}])
def test_facts_are_read_also_where_few_columns_of_what_they_are_made_of_are(store, chosen, columns):
    one, two = sessions()
    normalized(store, one.subagent("a/1").shell("make lint", text="ok"), two)
    make_facts(store, chosen, cells=[CELL])
    found = {v.session_id: v for v in store.lake.read_sessions(CELL, None, ("command_runs", "threads"), columns)}
    assert [sorted(found[name].facts) for name in "ab"] == [["command_runs"]] * 2
    assert [(t.thread_id, t.status) for t in found["a"].threads] == [("a/1", "completed")]
    normalized(store, one, two.shell("pwd", text="/w"))
    behind = {v.session_id: v for v in store.lake.read_sessions(CELL, None, ("command_runs", "threads"), columns)}
    assert ["command_runs" in behind[name].facts for name in "ab"] == [True, False]
    assert [r.command for r in command_runs(behind["b"])] == ["ls", "pwd"]

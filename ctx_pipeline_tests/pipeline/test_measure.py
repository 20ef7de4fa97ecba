"""Readings are taken once for each session, signal and version."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view


@pytest.fixture
def added(monkeypatch):
    """Add a signal file to the package, as a person would; returns what it was asked."""
    asked: list[str] = []
    real = discovery._folder_modules

    def install(version=1, function=None):
        name = "ctx_pipeline.signals.new_family"
        module = types.ModuleType(name)

        def answer_count(session) -> Reading:
            """Answers of the agent.

            Read it as how much the agent talks; there is no good or bad number.
            """
            asked.append(session.session_id)
            return Reading(float(len([e for e in session.events if e.kind == "answer"])))

        chosen = function or answer_count
        chosen.__module__ = name
        module.answer_count = signal(version=version, group="activity", unit="answers", reads=("events",), name="answer_count")(chosen)
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(
            discovery,
            "_folder_modules",
            lambda folder: [*real(folder), *([(Path("new_family.py"), name)] if folder == "ctx_pipeline.signals" else [])],
        )
        discovery.reload()
        return asked

    yield install
    monkeypatch.undo()
    discovery.reload()


def sessions():
    return view("a").prompt("go").shell("pytest", exit=1).answer("red"), view("b").prompt("go").edit("/w/app/x.py")


def readings(store, family, cell=CELL):
    return {(r.session_id, r.signal): r for r in store.lake.read_rows("readings", cell, f"signals/{family}")}


@pytest.mark.feature("stages.measure")
def test_every_signal_gets_a_row_for_every_session(store, chosen):
    normalized(store, *sessions())
    report = measure(store, chosen, cells=[CELL])
    assert report.cells[CELL.key].status == "done"
    assert report.totals == {"readings": 2 * len(discovery.signals()), "sessions": 2, "errors": 0}
    outcomes = readings(store, "outcomes")
    assert outcomes["a", "failed_command_ratio"].value == 1
    assert outcomes["b", "failed_command_ratio"].reason == "no shell command was answered"
    assert readings(store, "activity")["b", "unique_files_edited"].value == 1
    row = store.ledger.asset_cell("signals/outcomes", CELL)
    assert (row.rows, row.code_version) == (
        2 * len(discovery.families()["outcomes"].signals),
        discovery.families()["outcomes"].code_version,
    )
    assert row.content_hash == store.lake.manifest("signals/outcomes", CELL).content_hash


@pytest.mark.feature("stages.measure-incremental")
def test_a_second_time_nothing_is_done(store, chosen):
    normalized(store, *sessions())
    measure(store, chosen, cells=[CELL])
    before = store.ledger.asset_cell("signals/outcomes", CELL)
    report = measure(store, chosen, cells=[CELL])
    assert report.cells[CELL.key].status == "unchanged"
    assert store.ledger.asset_cell("signals/outcomes", CELL) == before


@pytest.mark.feature("stages.measure-incremental")
def test_only_the_session_that_changed_is_measured_again(store, chosen, added):
    asked = added()
    one, two = sessions()
    normalized(store, one, two)
    measure(store, chosen, cells=[CELL])
    assert sorted(asked) == ["a", "b"]
    asked.clear()
    normalized(store, one, two.answer("more"))
    measure(store, chosen, cells=[CELL])
    assert asked == ["b"]
    assert readings(store, "new_family")["b", "answer_count"].value == 1


@pytest.mark.feature("stages.measure-new-signal")
def test_a_new_file_leaves_every_other_family_as_it_is(store, chosen, added):
    normalized(store, *sessions())
    measure(store, chosen, cells=[CELL])
    before = {f: store.ledger.asset_cell(f"signals/{f}", CELL) for f in ("outcomes", "activity")}
    asked = added()
    report = measure(store, chosen, cells=[CELL])
    assert sorted(asked) == ["a", "b"]
    assert report.totals["readings"] == 2
    assert {f: store.ledger.asset_cell(f"signals/{f}", CELL) for f in ("outcomes", "activity")} == before
    assert store.ledger.asset_cell("signals/new_family", CELL).rows == 2


@pytest.mark.feature("stages.measure-new-version")
def test_a_higher_version_measures_its_own_signal_again_and_no_other(store, chosen, added):
    normalized(store, *sessions())
    added()
    measure(store, chosen, cells=[CELL])
    before = store.ledger.asset_cell("signals/outcomes", CELL)
    added(version=2)
    report = measure(store, chosen, cells=[CELL])
    assert report.totals["readings"] == 2
    assert {r.version for r in readings(store, "new_family").values()} == {2}
    assert store.ledger.asset_cell("signals/outcomes", CELL) == before


@pytest.mark.feature("stages.measure-raising-signal")
def test_a_signal_that_raises_is_a_null_with_a_reason_and_the_others_go_on(store, chosen, added):
    def broken(_session):
        """Breaks.

        Nothing can be read from it, which is the point of this example.
        """
        raise KeyError("x")

    added(function=broken)
    normalized(store, *sessions())
    report = measure(store, chosen, cells=[CELL])
    assert report.totals["errors"] == 2
    line = broken.__code__.co_firstlineno + 5
    assert readings(store, "new_family")["a", "answer_count"].reason == f"the signal raised KeyError, line {line}"
    assert readings(store, "outcomes")["a", "failed_command_count"].value == 1


@pytest.mark.feature("stages.measure-selected")
def test_measuring_one_session_keeps_the_readings_of_the_others(store, chosen):
    normalized(store, *sessions())
    measure(store, chosen, cells=[CELL])
    report = measure(store, chosen, families=["activity"], cells=[CELL], sessions=["a"], force=True)
    assert report.totals["sessions"] == 1
    assert len(readings(store, "activity")) == 2 * len(discovery.families()["activity"].signals)
    assert measure(store, chosen, cells=[CELL]).totals["readings"] == 0
    with pytest.raises(UnknownName):
        measure(store, chosen, families=["outcome"])


@pytest.mark.feature("stages.measure-incremental")
def test_a_session_that_is_gone_takes_its_readings_along(store, chosen):
    one, two = sessions()
    normalized(store, one, two)
    measure(store, chosen, cells=[CELL])
    normalized(store, two)
    measure(store, chosen, cells=[CELL])
    assert {s for s, _ in readings(store, "outcomes")} == {"b"}


@pytest.mark.feature("stages.measure-deterministic")
def test_readings_made_anew_have_the_same_content_hash(store, chosen):
    normalized(store, *sessions())
    measure(store, chosen, cells=[CELL])
    before = store.ledger.asset_cell("signals/outcomes", CELL).content_hash
    store.ledger.forget_asset("signals/outcomes")
    store.lake.drop("signals/outcomes", CELL)
    measure(store, chosen, cells=[CELL])
    assert store.ledger.asset_cell("signals/outcomes", CELL).content_hash == before


@pytest.mark.feature("stages.held-cell")
def test_a_damaged_cell_is_held_and_the_others_go_on(store, chosen):
    other = CELL._replace(month="2026-02")
    normalized(store, *sessions())
    normalized(store, view("c").prompt("go"), cell=other)
    for part in store.lake.manifest("normalized", CELL).of_table("tool_calls"):
        store.files.local(part.path).write_bytes(b"not a table")
    report = measure(store, chosen, cells=[CELL, other])
    assert list(report.failed_partitions) == [CELL.key]
    assert "has 11 bytes, not" in report.failed_partitions[CELL.key]
    assert report.cells[other.key].status == "done"
    assert store.ledger.asset_cell("signals/outcomes", CELL) is None

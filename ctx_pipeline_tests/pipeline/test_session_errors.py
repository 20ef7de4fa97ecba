"""What goes wrong with one session is that session's: the others have memories, tables and a page, and it is named."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.maintenance.doctor import examine
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import session_errors
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.pipeline.run_report import summary
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view

WHOLE = Cell("", "")
GOOD, BAD = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"

METHOD = """
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate


def extract(session):
    if session.session_id == "raises":
        raise KeyError("a text of the session")
    yield MemoryCandidate("case", " ".join([session.session_id] * 5), evidence_refs=(session.events[0].event_id,), scope="global")


def combine(candidates):
    if any(c.session_id == "together" for c in candidates):
        raise ValueError("a text of the session")
    return candidates


MINE = Method("fragile", 1, "Raises on some sessions.", extract, combine)
"""


def memories(store):
    return [Memory._make(r) for r in store.lake.read_rows("memories", WHOLE, "memory/consolidated")]


@pytest.fixture
def fragile(chosen):
    """A method of the person's own that raises on one session alone, and on another when all are put together."""
    folder = chosen.home / "config" / "methods"
    folder.mkdir(parents=True)
    (folder / "fragile.py").write_text(METHOD)
    discovery.look_in(chosen.home / "config")
    yield
    discovery.look_in(None)


@pytest.mark.feature("stages.session-errors")
@pytest.mark.parametrize("cwd", ["/" + "a/" * 3_000, "/tmp/" + "b" * 300], ids=["too-deep", "too-long"])
def test_a_folder_that_cannot_be_looked_at_stops_nothing_and_is_named(store, chosen, tmp_path, cwd):
    home = ClaudeHome(tmp_path / "claude")
    for session_id, folder in ((GOOD, "/home/dev/shop"), (BAD, cwd)):
        made = home.session(session_id, cwd=folder)
        made.prompt("run the tests")
        made.call("toolu_1", "Bash", "Exit code 127\nbash: pytest: command not found", is_error=True, command="pytest")
        made.call("toolu_2", "Bash", "3 passed", command="uv run pytest")
        made.answer(text("They pass.")).save()
    report = run_stages(store, chosen)
    assert report.failed == []
    assert {s for m in memories(store) for s in m.sessions} >= {f"claude/{GOOD}", f"claude/{BAD}"}
    for name in ("memory.db", "cases.db", "serving/ctx.duckdb", "site/index.html"):
        assert (store.home / name).is_file()
    (error,) = report.session_errors
    assert (error["host"], error["session_id"], error["asset"]) == ("claude", BAD, "memory/consolidated")
    assert error["reason"] == "the recorded folder cannot be looked at: the path is too long"
    # kept for the runs that change nothing, and without the id of the session
    assert summary(store, chosen, None, seconds=0).to_json()["session_errors"] == report.session_errors
    assert any(BAD in line and "too long" in line for line in examine(store, chosen).lines())
    assert not any(BAD.encode() in store.files.read(rel) for rel in store.files.walk(session_errors.FOLDER))


@pytest.mark.feature("stages.session-errors")
def test_a_session_on_which_a_method_raises_is_named_and_the_others_are_drawn_and_combined(store, chosen, fragile):
    normalized(store, *(view(name).prompt("go") for name in ("a", "b", "raises", "together")))
    assert mine(store, chosen, methods=["fragile"], cells=[CELL]).totals["errors"] == 1
    assert consolidate(store, chosen).totals["errors"] == 1
    assert sorted(m.text for m in memories(store) if m.methods == ["fragile"]) == ["a a a a a", "b b b b b"]
    named = {(e.session_id, e.asset): e.reason for e in session_errors.stored_errors(store, chosen)}
    assert named == {
        ("raises", f"mined/fragile@{CELL.key}"): "the method fragile: KeyError in fragile.py, line 8",
        ("together", "memory/consolidated"): "ValueError in fragile.py, line 14",
    }


@pytest.mark.feature("stages.session-errors")
def test_an_error_that_is_over_is_not_told_any_more(store, chosen, fragile):
    normalized(store, *(view(name).prompt("go") for name in ("a", "together")))
    mine(store, chosen, methods=["fragile"], cells=[CELL])
    consolidate(store, chosen)
    assert len(session_errors.stored_errors(store, chosen)) == 1
    path = chosen.home / "config" / "methods" / "fragile.py"
    path.write_text(METHOD.replace('"together"', '"nobody"').replace('"fragile", 1', '"fragile", 2'))
    discovery.reload()
    mine(store, chosen, methods=["fragile"], cells=[CELL])
    consolidate(store, chosen)
    assert session_errors.stored_errors(store, chosen) == []
    assert list(store.files.walk(session_errors.FOLDER)) == []


@pytest.mark.feature("stages.session-errors")
def test_a_candidate_that_no_code_can_read_is_left_out(store, chosen):
    normalized(
        store, *(view(n).shell("pytest", exit=127, text="bash: pytest: command not found").shell("uv run pytest", text="ok") for n in "ab")
    )
    mine(store, chosen, methods=["error_resolutions"], cells=[CELL])
    asset = "mined/error_resolutions"
    rows = store.lake.read_rows("candidates", CELL, asset)
    bent = [row._replace(structured=json.dumps({"signature": "x", "did": 7})) if row.session_id == "b" else row for row in rows]
    row = store.ledger.asset_cell(asset, CELL)
    store.lake.replace(asset, CELL, {"candidates": bent}, code_version=row.code_version, input_fp=row.input_fp, content_hash="bent")
    consolidate(store, chosen, force=True)
    assert [m.sessions for m in memories(store)] == [["claude/a"]]
    assert {e.session_id for e in session_errors.stored_errors(store, chosen)} == {"b"}

"""Candidates are drawn cell by cell, one asset a method."""

from __future__ import annotations

import pytest

from ctx_pipeline.errors import UnknownName
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view


def cured(name):
    return view(name).shell("pytest", exit=127, text="bash: pytest: command not found").shell("uv run pytest", text="3 passed")


@pytest.mark.feature("stages.mine")
def test_candidates_are_rows_with_evidence_and_a_second_time_nothing_is_done(store, chosen):
    normalized(store, cured("a"), view("b").prompt("hello"))
    report = mine(store, chosen, methods=["error_resolutions"], cells=[CELL])
    assert report.totals == {"sessions": 2, "candidates": 1, "errors": 0}
    (row,) = store.lake.read_rows("candidates", CELL, "mined/error_resolutions")
    assert (row.session_id, row.method, row.kind, row.repository) == ("a", "error_resolutions", "tool_lesson", "/w/app")
    assert row.evidence == ["a.e0", "a.e1", "a.e2", "a.e3"]
    assert mine(store, chosen, methods=["error_resolutions"], cells=[CELL]).cells[CELL.key].status == "unchanged"


@pytest.mark.feature("stages.mine")
def test_a_changed_session_is_mined_again_with_the_same_ids(store, chosen):
    normalized(store, cured("a"))
    mine(store, chosen, cells=[CELL])
    before = store.lake.read_rows("candidates", CELL, "mined/error_resolutions")
    normalized(store, cured("a").answer("done"), cured("b"))
    mine(store, chosen, cells=[CELL])
    after = store.lake.read_rows("candidates", CELL, "mined/error_resolutions")
    assert [r for r in after if r.session_id == "a"] == [before[0]._replace(ts=before[0].ts)]
    assert len(after) == 2


@pytest.mark.feature("stages.mine")
def test_one_method_alone_leaves_the_others_missing(store, chosen):
    normalized(store, cured("a"))
    mine(store, chosen, methods=["repeated_corrections"], cells=[CELL])
    assert store.ledger.asset_cell("mined/error_resolutions", CELL) is None
    assert store.ledger.asset_cell("mined/repeated_corrections", CELL).rows == 0
    with pytest.raises(UnknownName):
        mine(store, chosen, methods=["error_resolution"])

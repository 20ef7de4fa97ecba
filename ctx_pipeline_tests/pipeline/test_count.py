"""Exact token counts: by content, with the model's own encoding, off the path of a run."""

from __future__ import annotations

import pytest
import tiktoken.load

from ctx_pipeline.pipeline import count as counting
from ctx_pipeline.pipeline import plan
from ctx_pipeline.pipeline.count import ASSET, count
from ctx_pipeline.pipeline.forget import rows as forgotten_rows
from ctx_pipeline.tokens.tokenizers import encoding
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view


class Of:
    """A session of one model."""

    def __init__(self, builder, *models):
        self._builder, self._models = builder, list(models)
        self.events, self.calls, self.model_calls, self.threads = builder.events, builder.calls, builder.model_calls, builder.threads

    def row(self):
        return self._builder.row()._replace(models=self._models)


def rows(store):
    return {r.event_id: r for r in store.lake.read_rows("token_counts", CELL, ASSET)}


@pytest.mark.feature("dagster.exact-tokens")
def test_texts_are_counted_by_the_encoding_of_the_sessions_model_and_once_for_equal_content(store, chosen, monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("a download was tried")

    monkeypatch.setattr(tiktoken.load, "read_file", refuse)
    same = "def add(a, b):\n    return a + b\n"
    old = view("old").prompt("hello world").shell("cat", text=same).other("title", "not in the window")
    other = view("other").prompt("hello world").shell("cat", text=same)
    normalized(store, Of(old, "gpt-4-turbo"), Of(other, "claude-opus-4-7"))
    report = count(store, chosen, cells=[CELL])
    found = rows(store)
    assert (found["old.e0"].tokens, found["old.e0"].encoding, found["old.e0"].exact) == (2, "cl100k_base", True)
    assert found["old.e2"].tokens == len(encoding("cl100k_base").encode(same))
    assert (found["other.e0"].encoding, found["other.e0"].exact) == ("o200k_base", False)
    assert "old.e3" not in found
    assert report.totals == {"rows": 6, "encoded": 6, "characters": 2 * len("hello world" + "cat" + same)}
    assert found["old.e2"].content == found["other.e2"].content


@pytest.mark.feature("tokens.exact")
@pytest.mark.feature("dagster.exact-tokens")
def test_only_new_content_is_encoded_again(store, chosen):
    one = view("a").prompt("hello world").shell("cat", text="x y z")
    normalized(store, Of(one, "gpt-5"))
    assert count(store, chosen, cells=[CELL]).totals["encoded"] == 3
    assert count(store, chosen, cells=[CELL]).cells[CELL.key].status == "unchanged"
    normalized(store, Of(one.prompt("and more"), "gpt-5"), Of(view("b").prompt("hello world"), "gpt-5"))
    report = count(store, chosen, cells=[CELL])
    assert (report.totals["rows"], report.totals["encoded"]) == (5, 1)


@pytest.mark.feature("dagster.exact-tokens")
def test_a_run_without_blanks_is_counted_in_pieces_and_says_so(store, chosen):
    long = "ab" * 15_000
    normalized(store, Of(view("a").prompt(long).prompt("a" * 1_999), "gpt-5"))
    count(store, chosen, cells=[CELL])
    found = rows(store)
    pieces = sum(len(encoding("o200k_base").encode(long[at : at + 2_000])) for at in range(0, len(long), 2_000))
    assert (found["a.e0"].tokens, found["a.e0"].exact) == (pieces, False)
    assert found["a.e1"].exact
    assert counting.CODE_VERSION


@pytest.mark.feature("dagster.exact-tokens")
def test_no_run_waits_for_it(store, chosen):
    normalized(store, Of(view("a").prompt("hello"), "gpt-5"))
    store.ledger.sessions()
    made = plan.plan(store, chosen)
    node = made.assets[ASSET]
    assert node.asset.partitioned
    node.cells[CELL] = plan.CellPlan("missing", plan.NEW_INPUT)
    others = [cell for key, p in made.assets.items() if key != ASSET and p.asset.partitioned for cell in p.dirty()]
    assert (CELL in made.partitioned_cells()) is (CELL in others)
    assert CELL in made.partitioned_cells(off_path=True)
    for key, planned in made.assets.items():
        if key != ASSET:
            planned.cells.clear()
    assert made.nothing_to_do


@pytest.mark.feature("dagster.exact-tokens")
def test_forgetting_drops_the_counts_of_its_cells(store, chosen):
    normalized(store, Of(view("a").prompt("hello world"), "gpt-5"))
    count(store, chosen, cells=[CELL])
    forgotten_rows.drop_derived(store, [CELL])
    assert store.lake.manifest(ASSET, CELL) is None
    assert store.ledger.asset_cell(ASSET, CELL) is None

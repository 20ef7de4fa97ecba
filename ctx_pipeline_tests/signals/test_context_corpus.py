"""Compactions that are really in the published sessions, with what a look into the files says of them."""

from __future__ import annotations

import json
import shutil

import pytest

from ctx_pipeline import settings
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.conftest import CORPUS, corpus

ONCE = "062a8bdd-4322-4ffa-bc38-3e8b8bfb5a56"
THRICE = "fdd24234-3c2a-4958-91ed-59c63b12ba1e"
CODEX = "019f2387-40a7-7151-a232-8ebb871f52ba"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(session, signal) -> reading over these three files alone."""
    folder = tmp_path_factory.mktemp("compacted")
    for session in (ONCE, THRICE, CODEX):
        (path,) = CORPUS.rglob(f"*{session}.jsonl")
        target = folder / path.relative_to(CORPUS)
        target.parent.mkdir(parents=True)
        shutil.copyfile(path, target)
    environ = {
        "HOME": str(folder),
        "CTX_HOME": str(folder / "store"),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CODEX_HOME": str(folder / "codex"),
    }
    chosen = settings.load(environ)
    with open_store(chosen) as store:
        step("ingest", store, chosen)
        measure(store, chosen, families=["context_compaction", "context_window"])
        cells = store.ledger.cells()
        return {(r.session_id, r.signal): r for cell in cells for r in store.lake.read_rows("readings", cell)}


@corpus
@pytest.mark.feature("signals.compaction-loss")
def test_every_compaction_in_the_files_is_found_with_its_trigger(found):
    assert {s: found[s, "compaction_count"].value for s in (ONCE, THRICE, CODEX)} == {ONCE: 1, THRICE: 1, CODEX: 2}
    assert {s: found[s, "compaction_trigger"].label for s in (ONCE, THRICE, CODEX)} == {ONCE: "auto", THRICE: "auto", CODEX: "unrecorded"}
    assert len(found[THRICE, "compaction_count"].evidence) == 1
    assert json.loads(found[THRICE, "compaction_count"].metadata)["clearings"] == 2, (
        "the host took out tool results, and the conversation stayed"
    )


@corpus
@pytest.mark.feature("signals.compactions")
@pytest.mark.feature("signals.compaction-loss")
def test_sizes_before_and_after_are_those_of_the_file(found):
    # the host wrote 167,174 before it; the first call behind it has a prompt of 51,732
    assert found[ONCE, "compaction_dropped_tokens"].value == 167_174 - 51_732
    # both shortenings of tool results recorded what they saved: 21,294 and 20,134
    assert '"before": 60364' in found[THRICE, "compaction_dropped_tokens"].metadata
    assert found[ONCE, "compaction_files_read_again"].value == 6


@corpus
@pytest.mark.feature("signals.context-window")
def test_the_scale_of_tool_results_is_fitted_on_the_bills_of_these_sessions(found):
    assert '"pairs": 0' not in found[ONCE, "tool_output_share"].metadata
    assert 0.3 < found[ONCE, "tool_output_share"].value <= 1

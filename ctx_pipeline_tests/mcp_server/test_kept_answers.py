"""An answer over the whole history is worked out once, until something is captured, said or judged, or a minute went by."""

from __future__ import annotations

import pytest

from ctx_pipeline.mcp_server.kept_answers import MOST, KeptAnswers
from ctx_pipeline.storage.journal import Journal

pytestmark = pytest.mark.feature("mcp.kept-answers")


@pytest.fixture
def worked(chosen):
    """Return what answers a question by how often it was worked out."""
    chosen.home.mkdir(parents=True)
    (chosen.home / "ledger.db").write_bytes(b"one")
    made: list[str] = []

    def ask(kept: KeptAnswers, question: str = "usage") -> int:
        def make() -> int:
            made.append(question)
            return len(made)

        return kept.of((question,), make)

    return ask


def test_the_next_page_is_not_worked_out_again_until_something_was_captured_or_said(worked, chosen):
    kept = KeptAnswers(chosen)

    assert [worked(kept), worked(kept), worked(kept, "signals"), worked(kept)] == [1, 1, 2, 1]
    (chosen.home / "ledger.db").write_bytes(b"one more session")
    assert worked(kept) == 3
    journal = Journal(chosen.home / "journal.db")
    journal.append("memory.accepted", {"memory_id": "m"}, actor="person")
    journal.close()
    assert [worked(kept), worked(kept)] == [4, 4]


def test_an_answer_grows_old_and_the_one_that_was_asked_for_longest_ago_goes(worked, chosen):
    assert [worked(KeptAnswers(chosen, seconds=0.0)), worked(KeptAnswers(chosen, seconds=0.0))] == [1, 2]
    kept = KeptAnswers(chosen)
    for n in range(MOST + 1):
        worked(kept, str(n))

    assert worked(kept, str(MOST)) == MOST + 3
    assert worked(kept, "0") == MOST + 4


def test_an_error_is_no_answer_that_is_kept(chosen):
    def fail() -> int:
        raise ValueError("no store")

    kept = KeptAnswers(chosen)
    with pytest.raises(ValueError, match="no store"):
        kept.of(("usage",), fail)
    assert kept.of(("usage",), lambda: 7) == 7

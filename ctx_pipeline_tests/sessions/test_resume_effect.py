"""Whether a resume block helps is measured on what agents did behind compactions."""

from __future__ import annotations

import pytest

from ctx_pipeline.sessions.reports.work import Side, resume_effect
from ctx_pipeline.sessions.states.handoff import RESUMED
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.sessions.conftest import WORK, Shop


@pytest.mark.feature("session.resume")
def test_calls_up_to_the_next_change_are_counted_with_a_block_and_without(own: Shop, monkeypatch):
    # behind the compaction: a read, then CHANGELOG.md is written
    assert resume_effect(settings=own.settings) == {"with": Side(0, 0, None, None), "without": Side(1, 1, 1, 1)}
    with open_store(own.settings) as store:
        store.journal.append(
            RESUMED, {"host": "claude", "session_id": WORK, "compaction": "as the hook names it", "tokens": 100}, actor="hook"
        )

    assert resume_effect(settings=own.settings) == {"with": Side(1, 1, 1, 1), "without": Side(0, 0, None, None)}
    printed = own.ctx(monkeypatch, "session", "resume", "--effect").stdout.splitlines()
    assert printed[0] == "with a block: 1 compaction, 1 followed by a change; median 1 calls, 1 of them reads"
    assert printed[1].endswith("no data")

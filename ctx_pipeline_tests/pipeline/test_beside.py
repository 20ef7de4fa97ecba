"""What outlives its transcript makes no session, and joins it when it comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline import settings
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.claude import ClaudeHome, text

SESSION = "11111111-1111-4111-8111-111111111111"


@pytest.mark.feature("capture.beside")
def test_a_todo_list_without_its_transcript_is_kept_and_makes_no_session(environ, tmp_path: Path):
    home = tmp_path / "claude"
    todos = home / "todos" / f"{SESSION}-agent-{SESSION}.json"
    todos.parent.mkdir(parents=True)
    todos.write_text(json.dumps([{"content": "write the test", "status": "pending"}]))
    chosen = settings.load(environ)
    with open_store(chosen) as store:
        alone = run_stages(store, chosen)

        assert (alone.sessions, alone.cells_materialized) == (0, 0)
        assert [(s.kind, s.session_id, s.captured > 0) for s in store.ledger.sources().values()] == [("todos", None, True)]

        ClaudeHome(home).session(SESSION).prompt("hello").answer(text("hi")).save()
        joined = run_stages(store, chosen)
        again = run_stages(store, chosen)

        assert (joined.sessions, again.cells_materialized) == (1, 0)
        [cell] = store.ledger.cells()
        [view] = store.lake.read_sessions(cell, tables=("events",))
        assert {e.kind for e in view.events} == {"prompt", "answer", "todo"}

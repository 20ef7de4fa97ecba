"""Recorded sessions played again as context trees."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ctx_pipeline.api.windows import window_history
from ctx_pipeline.context.recorded import played
from ctx_pipeline.errors import UnknownName
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.context.test_captured_memory import sessions as sessions  # noqa: PLC0414 - the fixture


def event(seq, kind, text, call_id=None):
    return SimpleNamespace(event_id=f"e{seq}", seq=seq, kind=kind, text=text, call_id=call_id)


EVENTS = [
    event(0, "session_start", None),
    event(1, "prompt", "mend it"),
    event(2, "tool_call", "ls", "c1"),
    event(3, "tool_result", "a.py", "c1"),
    event(4, "answer", "done"),
    event(5, "prompt", "and now"),
    event(6, "compaction", "so far: mended"),
    event(7, "answer", "all good"),
]


def said(context):
    return [b["content"] for b in context.provider_thread()]


@pytest.mark.feature("context.recorded")
def test_a_window_is_there_at_every_turn_and_around_a_compaction():
    history = played(EVENTS)

    assert [(s["trigger"], said(history.at_snapshot(n))) for n, s in history.snapshots.items()] == [
        ("before_prompt 5", ["mend it", "ls", "a.py", "done"]),
        ("before_compaction 6", ["mend it", "ls", "a.py", "done", "and now"]),
        ("after_compaction 6", ["so far: mended"]),
        ("now", ["so far: mended", "all good"]),
    ]
    before = history.at_snapshot(2)
    assert before["d1, 0, 1"].kind == "call"
    assert before.select("+tool_result") == ["e3"]
    assert history.diff(2, 3, ".block") == {"added": ["e6"], "removed": ["e1", "e2", "e3", "e4", "e5"], "changed": []}


@pytest.mark.feature("context.recorded")
def test_a_window_can_be_had_at_any_event():
    assert said(played(EVENTS, upto=3).at_snapshot(1)) == ["mend it", "ls", "a.py"]


@pytest.mark.feature("context.recorded")
def test_a_captured_session_has_its_windows(sessions):
    settings, ids = sessions
    history = window_history("claude", ids[0], settings=settings)

    assert list(history.snapshots.values())[-1]["trigger"] == "now"
    assert len(history.at_snapshot(max(history.snapshots)).find(".block")) > 2
    with pytest.raises(UnknownName, match="thread"):
        window_history("claude", ids[0], thread="nobody", settings=settings)


@corpus
@pytest.mark.feature("context.recorded")
def test_a_real_compaction_is_seen_before_and_after(environ):
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.stages.ingest import ingest
    from ctx_pipeline.storage import open_store

    settings = settings_module.load({**environ, "CLAUDE_CONFIG_DIR": str(CORPUS / "claude"), "CODEX_HOME": str(CORPUS / "nowhere")})
    with open_store(settings) as store:
        ingest(store, settings)
        ids = [s.session_id for s in store.ledger.sessions(host="claude")]
        compacted = {
            view.session_id
            for cell in store.ledger.cells()
            for view in store.lake.read_sessions(cell, None, ("events",), kinds=("compaction",))
            if any(e.kind == "compaction" for e in view.events)
        }
    shown = 0
    for name in sorted(compacted & set(ids))[:5]:
        history = window_history("claude", name, settings=settings)
        triggers = {n: s["trigger"] for n, s in history.snapshots.items()}
        for episode, trigger in triggers.items():
            if trigger.startswith("before_compaction"):
                before, after = history.at_snapshot(episode), history.at_snapshot(episode + 1)
                shown += len(before.find(".block")) > len(after.find(".block")) == 1
    assert shown > 0

"""Captured sessions as a backend: loaded as messages, fitted for another model, saved elsewhere."""

from __future__ import annotations

import shutil
from importlib.resources import files

import pytest

from ctx_pipeline import CapturedMemory, ContextBuilder, SQLiteMemory
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.stages.ingest import ingest
from ctx_pipeline.storage import open_store


@pytest.fixture
def sessions(environ, tmp_path):
    """The sample home, captured; gives settings and the ids of its sessions."""
    shutil.copytree(str(files("ctx_pipeline").joinpath("samples", "claude")), tmp_path / "claude")
    settings = settings_module.load(environ)
    with open_store(settings) as store:
        ingest(store, settings)
        return settings, sorted(s.session_id for s in store.ledger.sessions(host="claude"))


@pytest.mark.feature("context.captured")
def test_a_captured_session_is_loaded_fitted_and_saved(sessions, tmp_path):
    settings, ids = sessions
    memory = CapturedMemory(settings)
    talk = max((memory.sync.load_context(f"claude/{i}") for i in ids), key=len)
    calls = {c["id"] for m in talk for c in m.get("tool_calls", ())}

    assert {m["role"] for m in talk} >= {"user", "assistant", "tool"}
    assert {m["tool_call_id"] for m in talk if m["role"] == "tool"} <= calls
    assert len(calls) > 0
    whole = ContextBuilder.from_model("gpt-4o").build(talk, 10**6)
    fitted = ContextBuilder.from_model("gpt-4o").build(talk, whole.total_tokens // 2)
    kept = {c["id"] for m in fitted.messages for c in m.get("tool_calls", ())}
    assert 0 < fitted.total_tokens <= whole.total_tokens // 2
    assert {m["tool_call_id"] for m in fitted.messages if m["role"] == "tool"} <= kept
    store = SQLiteMemory(tmp_path / "own.db")
    store.sync.save_context("copy", fitted.messages)
    assert store.sync.load_context("copy") == fitted.messages
    store.close()


@pytest.mark.feature("context.captured")
def test_the_last_messages_and_the_first_characters_of_an_id_will_do(sessions):
    settings, ids = sessions
    memory = CapturedMemory(settings)
    whole = memory.sync.load_context(f"claude/{ids[0]}")

    assert memory.sync.load_context(f"claude/{ids[0]}", 2) == whole[-2:]
    with pytest.raises(UnknownName):
        memory.sync.load_context("claude/nobody")
    with pytest.raises(UsageError, match="no captured session"):
        memory.sync.load_context("claude")


@pytest.mark.feature("context.captured")
def test_a_record_is_not_changed(sessions):
    settings, ids = sessions
    memory = CapturedMemory(settings)
    before = memory.sync.load_context(f"claude/{ids[0]}")

    for write in (("save_context", []), ("append_context", []), ("delete_session",), ("delete_interaction", "1")):
        with pytest.raises(UsageError, match="is a record"):
            getattr(memory.sync, write[0])(f"claude/{ids[0]}", *write[1:])
    assert memory.sync.load_context(f"claude/{ids[0]}") == before

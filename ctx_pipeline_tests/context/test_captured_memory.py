"""Captured sessions as a backend: loaded as messages, fitted for another model, saved under a name of one's own."""

from __future__ import annotations

import shutil
import stat
from importlib.resources import files

import pytest

from ctx_pipeline import CapturedMemory, ContextBuilder, InMemoryMemory, SessionStore, SQLiteMemory
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import NothingFound, StoreError, UnknownName, UsageError
from ctx_pipeline.pipeline.capture import capture
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.context.backend_suite import HELLO, BackendSuite
from ctx_pipeline_tests.factories.codex import THREAD
from ctx_pipeline_tests.factories.windows import AGENT, SECRET, SESSION, claude_home, codex_home


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """The sample home of Claude Code and two made ones, captured; gives settings and the ids of Claude's sessions."""
    folder = tmp_path_factory.mktemp("captured")
    shutil.copytree(str(files("ctx_pipeline").joinpath("samples", "claude")), folder / "claude")
    claude_home(folder / "claude")
    codex_home(folder / "codex")
    homes = {"CLAUDE_CONFIG_DIR": str(folder / "claude"), "CODEX_HOME": str(folder / "codex")}
    settings = settings_module.load({"HOME": str(folder / "nobody"), "CTX_HOME": str(folder / "store"), "TZ": "UTC", **homes})
    with open_store(settings) as store:
        ingest(store, settings)
        return settings, sorted(s.session_id for s in store.ledger.sessions(host="claude"))


class TestCaptured(BackendSuite):
    """The suite of every backend, with a file of its own beside the captured sessions."""

    @pytest.fixture
    def memory(self, sessions, tmp_path):
        store = CapturedMemory(sessions[0], own=SQLiteMemory(tmp_path / "own.db"))
        yield store
        store.close()


class TestCapturedBesideAnyBackend(BackendSuite):
    @pytest.fixture
    def memory(self, sessions):
        return CapturedMemory(sessions[0], own=InMemoryMemory())


class TestCapturedInItsHome(BackendSuite):
    """The suite with the file that is used when none is given, before anything was captured."""

    @pytest.fixture
    def memory(self, environ):
        store = CapturedMemory(settings_module.load(environ))
        yield store
        store.close()


@pytest.mark.feature("context.session-backend")
def test_a_captured_session_is_loaded_fitted_and_saved_through_one_backend(sessions):
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

    memory.sync.save_context("for gpt-4o", fitted.messages)
    memory.sync.append_context("for gpt-4o", [HELLO])
    memory.close()
    again = CapturedMemory(settings)
    assert again.sync.load_context("for gpt-4o") == [*fitted.messages, HELLO]
    assert stat.S_IMODE((settings.home / "contexts.db").stat().st_mode) == 0o600
    assert max((again.sync.load_context(f"claude/{i}") for i in ids), key=len) == talk
    again.sync.delete_session("for gpt-4o")
    again.close()


@pytest.mark.feature("context.captured")
def test_messages_are_what_the_model_was_sent(sessions):
    memory = CapturedMemory(sessions[0])

    assert [(m["role"], m["content"]) for m in memory.sync.load_context(f"claude/{SESSION}")] == [
        ("user", "make the parser faster"),
        ("assistant", None),
        ("tool", "x = 1\n" * 50),
        ("assistant", "It is slow because of x."),
        ("user", "then mend it"),
        ("assistant", None),
        ("tool", "There are 7 files."),
        ("user", "The parser was slow; it is being mended."),
        ("assistant", "I go on mending."),
    ]
    assert [m["content"] for m in memory.sync.load_context(f"claude/{SESSION}/{SESSION}/{AGENT}")] == [
        "count the files",
        "There are 7 files.",
    ]
    codex = memory.sync.load_context(f"codex/{THREAD}")
    assert [m["role"] for m in codex] == ["system", "user", "assistant", "tool", "assistant"]
    assert codex[2]["tool_calls"][0]["function"] == {"name": "exec_command", "arguments": '{"cmd": "make"}'}
    assert SECRET not in str(codex)


@pytest.mark.feature("context.captured")
def test_the_last_messages_and_the_first_characters_of_an_id_will_do(sessions):
    settings, ids = sessions
    memory = CapturedMemory(settings)
    whole = memory.sync.load_context(f"claude/{ids[0]}")

    assert memory.sync.load_context(f"claude/{ids[0]}", 2) == whole[-2:]
    assert memory.sync.load_context(f"CC/{ids[0]}") == whole
    with pytest.raises(UnknownName):
        memory.sync.load_context("claude/nobody")
    with pytest.raises(UnknownName, match="thread"):
        memory.sync.load_context(f"claude/{SESSION}/nobody")
    with pytest.raises(NothingFound, match="not a captured session"):
        memory.sync.load_context("claude/")


@pytest.mark.feature("context.captured")
def test_a_record_is_not_changed(sessions, tmp_path):
    settings, ids = sessions
    memory = CapturedMemory(settings, own=SQLiteMemory(tmp_path / "own.db"))
    before = memory.sync.load_context(f"claude/{ids[0]}")

    for write in (("save_context", []), ("append_context", []), ("delete_session",), ("delete_interaction", "1")):
        for name in (f"claude/{ids[0]}", f"Claude-Code/{ids[0]}", "codex/anything"):
            with pytest.raises(UsageError, match="is a record"):
                getattr(memory.sync, write[0])(name, *write[1:])
    assert memory.sync.load_context(f"claude/{ids[0]}") == before
    memory.close()


@pytest.mark.feature("context.session-backend")
def test_reading_and_refused_changes_make_no_file(environ, tmp_path):
    memory = CapturedMemory(settings_module.load(environ))

    assert memory.sync.load_context("mine") == []
    with pytest.raises(ValueError, match=r"does not exist\. Use save_context"):
        memory.sync.append_context("mine", [HELLO])
    with pytest.raises(ValueError, match="does not exist"):
        memory.sync.delete_session("mine")
    with pytest.raises(StoreError, match="nothing was captured yet"):
        memory.sync.load_context("claude/1f2e3d4c")
    assert not (tmp_path / "store").exists()


@pytest.mark.feature("context.session-backend")
def test_a_session_store_works_over_captured_sessions(sessions):
    store = SessionStore(CapturedMemory(sessions[0], own=InMemoryMemory()))

    assert store.sync.load_context(f"claude/{SESSION}", 1)[0]["content"] == "I go on mending."
    store.sync.save_context("copy", store.sync.load_context(f"claude/{SESSION}"))
    assert len(store.sync.load_context("copy")) == 9


@pytest.mark.feature("context.captured")
def test_a_session_whose_events_were_not_read_yet_is_an_error_and_not_empty(environ, tmp_path):
    claude_home(tmp_path / "claude")
    settings = settings_module.load({**environ, "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")})
    with open_store(settings) as store:
        capture(store, settings)

    with pytest.raises(UnknownName, match="event of claude session"):
        CapturedMemory(settings).sync.load_context(f"claude/{SESSION}")

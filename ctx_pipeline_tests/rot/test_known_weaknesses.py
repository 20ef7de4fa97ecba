"""What is known to go wrong in programs of this kind and has no other test: after a lock, at retention, in the view of one session."""

from __future__ import annotations

import copy
import pickle
import sqlite3

import dspy
import pytest
from click.testing import CliRunner

from ctx_pipeline import CtxRotCallback, CtxRotStore
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import StoreError, UnknownName
from ctx_pipeline.rot.terminal import app
from ctx_pipeline_tests.rot.calls import run

NOON = 1_767_268_800.0


class Asking(dspy.Module):
    """A program that only uses a tool."""

    def forward(self, x):
        return dspy.Tool(lambda x: x, name="t")(x=x)


@pytest.mark.feature("rot.locked-store")
def test_runs_while_the_store_is_locked_are_sessions_of_their_own_that_ended(tmp_path):
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    callback = CtxRotCallback(path)
    with dspy.context(callbacks=[callback]):
        for n in range(4):
            Asking()(x=n)
    callback.close()
    other.execute("ROLLBACK")
    other.close()
    with CtxRotStore(path) as store:
        sessions = store.get_session_ids(terminal_state="completed")
        assert [len(store.get_tool_calls_full(s)) for s in sessions] == [1, 1, 1, 1]
        assert store.get_session_ids() == sessions


@pytest.mark.feature("rot.unknown-session")
def test_an_id_that_is_in_a_store_and_captured_is_named_once():
    assert UnknownName("session", "5ba127d6a2e9", ["5ba127d6a2e8", "c0ffee", "5ba127d6a2e8"]).hint == "did you mean 5ba127d6a2e8?"


@pytest.mark.feature("rot.retention")
def test_retention_spares_what_still_runs_and_deletes_what_nobody_ended(tmp_path):
    path = tmp_path / "a.db"
    with CtxRotStore(path) as store:
        store.insert_session("nobody ended it", NOON)
    callback = CtxRotCallback(path)
    run(callback, 3)
    callback.flush()
    running = callback.session_id
    done = CliRunner().invoke(cli, ["rot", "reset", "--db", str(path), "--older-than", "0", "--yes"])
    assert (done.exit_code, done.stdout) == (0, "deleted 1 session\n")
    run(callback, 2)
    callback.close()
    with CtxRotStore(path, read_only=True) as store:
        assert store.get_session_ids() == [running]
        assert len(store.get_tool_calls_full(running)) == 5
        assert not store.is_running(running)


@pytest.mark.feature("rot.foreign-store")
@pytest.mark.parametrize("table", ["users (name)", "sessions (token, data)", "log (line)"])
def test_the_database_of_another_program_is_never_written(tmp_path, caplog, table):
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as other:
        other.execute(f"CREATE TABLE {table}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        CtxRotStore(path)
    callback = CtxRotCallback(path)
    run(callback, 3)
    callback.close()
    assert "another program" in caplog.text
    assert callback.counts.spilled == 5
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.glob("app.db-*")] == []


@pytest.mark.feature("rot.copied")
def test_a_program_whose_model_holds_a_callback_is_copied_whole_and_the_callback_stays_the_same(tmp_path, caplog):
    callback = CtxRotCallback(tmp_path / "a.db")
    program = Asking()
    program.ask = dspy.Predict("question -> answer")
    program.ask.lm = dspy.LM("openai/gpt-4o-mini", api_key="x", callbacks=[callback])
    copied = program.deepcopy()
    assert copied.ask.lm is not program.ask.lm
    assert copied.ask.lm.callbacks == [copy.copy(callback)] == [callback]
    assert caplog.text == ""


@pytest.mark.feature("rot.copied")
def test_a_callback_that_is_sent_to_another_process_writes_into_the_same_store_redacted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sent = pickle.loads(pickle.dumps(CtxRotCallback(store_content=True)))
    monkeypatch.chdir("/")
    with dspy.context(callbacks=[sent]):
        dspy.Tool(lambda x: x, name="t")(x="ghp_" + "aB3dE5gH1jK" * 3 + "xyz")
    sent.close()
    with CtxRotStore(tmp_path / "ctxrot.db", read_only=True) as store:
        (tool,) = store.get_tool_calls_full(sent.session_id)
    assert tool["output_text"].startswith("[REDACTED:")


@pytest.mark.feature("rot.view-session")
def test_the_view_of_one_session_is_that_of_the_session_that_was_asked_for(tmp_path, monkeypatch):
    with CtxRotStore(tmp_path / "a.db") as store:
        for n, name in enumerate(("first", "second")):
            store.insert_session(name, NOON + n)
    opened = []
    monkeypatch.setattr(app.Rot, "run", lambda self: opened.append(None if self._first is None else self._first._session_id))
    for words in ([], ["-s", "fir"]):
        assert CliRunner().invoke(cli, ["rot", "dashboard", "--db", str(tmp_path / "a.db"), *words]).exit_code == 0
    assert opened == [None, "first"]

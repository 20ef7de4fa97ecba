"""The documented methods of the store, over stores of every age."""

from __future__ import annotations

import inspect
import shutil
import sqlite3

import pytest

from ctx_pipeline import CtxRotStore
from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreError
from ctx_pipeline.model import callback_log
from ctx_pipeline_tests.factories import dspy_store as make

NOON = 1_767_268_800.0
"""2026-01-01 12:00 UTC, in seconds"""


@pytest.fixture
def store(tmp_path):
    made = CtxRotStore(tmp_path / "a.db")
    made.insert_session("s1", NOON, mode="react")
    call = {"session_id": "s1", "model": "gpt-4o"}
    made.insert_lm_call(
        id="c1",
        seq=1,
        started_at=NOON,
        ended_at=NOON + 1.5,
        prompt_tokens=200,
        completion_tokens=20,
        cache_read_tokens=50,
        cost=0.25,
        messages_json='[{"role": "user", "content": "hi"}]',
        completion="hello",
        call_type="action",
        iteration=1,
        **call,
    )
    made.insert_lm_call(id="c2", seq=2, started_at=NOON + 3, ended_at=NOON + 4, prompt_tokens=100, error="boom", call_type="action", **call)
    for name, size in (("big", 101), ("big", 100), ("small", 7)):
        made.insert_tool_call(
            id=f"{name}{size}",
            session_id="s1",
            after_seq=1,
            tool_name=name,
            started_at=NOON + 2,
            ended_at=NOON + 2.25,
            output_tokens_est=size,
            input_json='{"kwargs": {"x": 1}}',
            output_text="out",
        )
    made.update_session_end("s1", NOON + 5, "completed")
    made.insert_session("s2", NOON + 86_400)
    yield made
    made.close()


@pytest.mark.feature("rot.store-api")
def test_sessions_are_found_by_their_beginning_and_their_end(store):
    assert store.get_latest_session_id() == "s2"
    assert store.get_session("s1") == {
        "id": "s1",
        "started_at": "2026-01-01T12:00:00+00:00",
        "ended_at": "2026-01-01T12:00:05+00:00",
        "model": "gpt-4o",
        "mode": "react",
        "terminal_state": "completed",
    }
    assert store.get_session("nobody") is None
    assert store.get_session_ids() == ["s1", "s2"]
    assert store.get_session_ids(until="2026-01-01") == ["s1"]
    assert store.get_session_ids(since="2026-01-02") == ["s2"]
    assert store.get_session_ids(terminal_state="completed") == ["s1"]
    assert store.get_session_ids(since="2026-01-01T12:00:00+00:00", until="2026-01-01T12:00:00+00:00") == ["s1"]


@pytest.mark.feature("rot.store-api")
def test_totals_growth_and_tools_of_a_session(store):
    assert store.get_session_summary("s1") == {
        "total_calls": 2,
        "total_prompt": 300,
        "total_completion": 20,
        "total_cache_read": 50,
        "cache_hit_pct": 16.7,
        "total_cost": 0.25,
        "total_duration_ms": 2500,
        "max_prompt_tokens": 200,
    }
    assert store.get_session_summary("nobody")["total_calls"] == 0
    assert store.get_growth_data("s1")[0] == {
        "seq": 1,
        "prompt_tokens": 200,
        "completion_tokens": 20,
        "cache_read_tokens": 50,
        "cache_write_tokens": 0,
        "cost": 0.25,
        "model": "gpt-4o",
    }
    assert store.get_tool_impact("s1") == [
        {"tool_name": "big", "call_count": 2, "avg_tokens": 100},
        {"tool_name": "small", "call_count": 1, "avg_tokens": 7},
    ]
    by_call = store.get_tools_by_iteration("s1")
    assert list(by_call) == [1]
    assert sorted(t["output_tokens_est"] for t in by_call[1]) == [7, 100, 101]
    assert by_call[1][0]["duration_ms"] == 250
    assert [r["call_type"] for r in store.get_rlm_tree_data("s1")] == ["action", "extract"]


@pytest.mark.feature("rot.store-api")
def test_content_feeds_and_whole_rows(store):
    (content,) = store.get_lm_call_content("s1")
    assert (content["seq"], content["completion"], content["prompt_tokens"]) == (1, "hello", 200)
    assert store.get_tool_call_content("s1")[0]["input_json"] == '{"kwargs": {"x": 1}}'
    (feed,) = store.get_feed_sessions()
    assert (feed["session_id"], feed["call_count"], feed["error_count"], feed["model"], feed["terminal_state"]) == (
        "s1",
        2,
        1,
        "gpt-4o",
        "completed",
    )
    assert [c["error"] for c in store.get_feed_lm_calls()] == ["boom", None]
    assert len(store.get_feed_tool_calls("s1", limit=2)) == 2
    assert store.get_feed_tool_calls("s2") == []
    assert len(store.get_lm_calls_full("s1")[0]) == 20
    assert len(store.get_tool_calls_full("s1")[0]) == 12


@pytest.mark.feature("rot.store-log")
def test_what_is_inserted_stands_in_the_log_too(store):
    assert [r["kind"] for r in store.get_log("s1")] == ["session_start", *["lm_call"] * 2, *["tool_call"] * 3, "session_end"]


@pytest.mark.feature("rot.reset")
def test_truncating_gives_the_room_back(store):
    for n in range(200):
        store.insert_tool_call(
            id=f"x{n}", session_id="s1", after_seq=1, tool_name="t", started_at=NOON, ended_at=NOON, input_json="{}", output_text="y" * 5000
        )
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = store.path.stat().st_size
    store.truncate_all()
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert store.get_session_ids() == []
    assert store.get_log("s1") == []
    assert store.path.stat().st_size < before / 10


@pytest.mark.feature("rot.migration")
def test_an_older_store_without_columns_is_read_as_it_is_and_migrated_when_written(tmp_path):
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(
        """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, started_at TEXT NOT NULL, ended_at TEXT, model TEXT, mode TEXT);
        CREATE TABLE lm_calls (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, model TEXT NOT NULL, seq INT NOT NULL,
          started_at TEXT NOT NULL,
          prompt_tokens INT, completion_tokens INT, cost REAL);
        CREATE TABLE tool_calls (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, tool_name TEXT NOT NULL, started_at TEXT NOT NULL);
        INSERT INTO sessions VALUES ('s', '2026-01-01T00:00:00+00:00', NULL, NULL, 'predict');
        INSERT INTO lm_calls VALUES ('c', 's', 'm', 1, '2026-01-01T00:00:00+00:00', 70, 7, 0.5);
        """
    )
    old.close()
    before = path.read_bytes()
    reader = CtxRotStore(path, read_only=True)
    assert reader.get_session("s")["terminal_state"] is None
    assert reader.get_lm_call_content("s") == []
    assert reader.get_feed_sessions()[0]["cost"] == 0.5
    reader.close()
    assert path.read_bytes() == before
    with CtxRotStore(path) as writer:
        writer.insert_lm_call(id="d", session_id="s", seq=2, model="n", started_at=NOON, ended_at=NOON, prompt_tokens=80, completion="x")
        writer.update_session_end("s", NOON, "completed")
        assert [(c["seq"], c["model"], c["prompt_tokens"]) for c in writer.get_growth_data("s")] == [(1, "m", 70), (2, "n", 80)]
        assert writer.get_session("s")["terminal_state"] == "completed"
        assert writer.get_log("s") == []


@pytest.mark.feature("rot.store-errors")
def test_missing_foreign_and_newer_stores_are_named(tmp_path):
    with pytest.raises(StoreError, match="no callback store"):
        CtxRotStore(tmp_path / "none.db", read_only=True)
    (tmp_path / "text.db").write_text("some notes " * 100)
    for read_only in (True, False):
        with pytest.raises(StoreDamaged):
            CtxRotStore(tmp_path / "text.db", read_only=read_only)
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("CREATE TABLE other (x)")
    foreign.close()
    with CtxRotStore(tmp_path / "foreign.db", read_only=True) as reader:
        assert (reader.get_session_ids(), reader.get_latest_session_id(), reader.get_feed_sessions()) == ([], None, [])
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(SchemaTooNew):
        CtxRotStore(tmp_path / "newer.db")


@pytest.mark.feature("rot.store-readers")
def test_readers_see_what_a_writer_adds_and_a_closed_store_leaves_no_journal(tmp_path):
    writer = CtxRotStore(tmp_path / "a.db")
    reader = CtxRotStore(tmp_path / "a.db", read_only=True)
    mark = reader.change_mark()
    writer.insert_session("s1", NOON)
    assert reader.get_session_ids() == ["s1"]
    assert reader.change_mark() != mark
    reader.close()
    writer.close()
    writer.close()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("a.db")] == ["a.db"]


@pytest.mark.feature("rot.store-readers")
@pytest.mark.parametrize("ended", [True, False], ids=["closed", "ended in the middle"])
def test_a_reader_leaves_the_folder_of_a_store_as_it_was_and_sees_who_writes_later(tmp_path, ended):
    made, path = tmp_path / "made" / "a.db", tmp_path / "a.db"
    first = CtxRotStore(made)
    first.insert_session("s1", NOON)
    for name in ("a.db", "a.db-wal") if not ended else ():
        shutil.copyfile(made.with_name(name), path.with_name(name))
    first.close()
    if ended:
        shutil.copyfile(made, path)

    def listed():
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.glob("a.db*")}

    before = listed()
    reader = CtxRotStore(path, read_only=True)
    mark = reader.change_mark()
    assert reader.get_session_ids() == ["s1"]
    assert listed() == before

    with CtxRotStore(path) as writer:
        writer.insert_session("s2", NOON)
        assert reader.get_session_ids() == ["s1", "s2"]
        assert reader.change_mark() != mark
    reader.close()


@pytest.mark.feature("rot.migration")
def test_a_store_of_ctxrot_itself_is_read(tmp_path):
    with CtxRotStore(make.write_legacy(tmp_path / "ctxrot.db"), read_only=True) as store:
        assert store.get_session("c0ffee000001")["terminal_state"] == "errored"
        assert store.get_growth_data("c0ffee000001")[0]["prompt_tokens"] == 200


@pytest.mark.feature("rot.schema-documented")
def test_the_schema_has_a_number_the_documented_tables_and_its_columns_in_words(tmp_path):
    with CtxRotStore(tmp_path / "a.db"):
        pass
    connection = sqlite3.connect(tmp_path / "a.db")
    tables = {
        name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in ("log", "sessions", "lm_calls", "tool_calls")
    }
    assert connection.execute("PRAGMA user_version").fetchone() == (callback_log.VERSION,)
    connection.close()
    assert tables["sessions"] == ["id", "started_at", "ended_at", "model", "mode", "terminal_state"]
    assert " ".join(tables["lm_calls"]) == (
        "id session_id seq model started_at ended_at duration_ms prompt_tokens completion_tokens cache_read_tokens cache_write_tokens "
        "cost error messages_json completion prompt_char_count completion_char_count call_type iteration parent_seq"
    )
    assert " ".join(tables["tool_calls"]) == (
        "id session_id after_seq tool_name started_at ended_at duration_ms output_tokens_est error input_json output_text output_char_count"
    )
    for word in (*tables["log"], *callback_log.KINDS):
        assert f"``{word}``" in callback_log.__doc__


@pytest.mark.feature("rot.documented-api")
def test_names_arguments_and_defaults_are_the_documented_ones():
    import ctx_pipeline

    def arguments(function):
        return {p.name: p.default for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY}

    empty = inspect.Parameter.empty
    assert arguments(ctx_pipeline.CtxRotCallback) == {"db_path": "ctxrot.db", "store_content": False}
    assert arguments(ctx_pipeline.CtxRotStore) == {"db_path": "ctxrot.db", "read_only": False}
    assert arguments(ctx_pipeline.analyze_session) == {"store": empty, "session_id": empty}
    assert arguments(ctx_pipeline.run_deep_analysis) == {
        "store": empty,
        "session_id": empty,
        "query": "Perform a comprehensive context rot analysis.",
        "main_model": "openai/gpt-5.4",
        "sub_model": "openai/gpt-5.4-mini",
        "max_iterations": 15,
        "max_llm_calls": 30,
        "verbose": False,
        "api_key": None,
        "api_base": None,
        "env_file": ".env",
    }
    readers = (
        "latest_session_id session_ids session session_summary growth_data tool_impact tools_by_iteration rlm_tree_data feed_sessions "
    )
    readers += "feed_lm_calls feed_tool_calls lm_call_content tool_call_content lm_calls_full tool_calls_full"
    writers = ["insert_session", "update_session_end", "insert_lm_call", "insert_tool_call", "truncate_all", "close"]
    for name in [f"get_{reader}" for reader in readers.split()] + writers:
        assert callable(getattr(CtxRotStore, name))

"""A store that cannot be used, a killed process, forks and many processes: the program goes on, nothing is lost."""

from __future__ import annotations

import json
import logging
import sqlite3
from statistics import median

import dspy
import pytest

from ctx_pipeline import CtxRotCallback, CtxRotStore
from ctx_pipeline.rot import writer
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.rot.calls import CALLS, run, tools
from ctx_pipeline_tests.waiting import eventually


@pytest.mark.feature("rot.locked-store")
def test_a_locked_store_stalls_no_call_and_gets_every_row_when_it_is_free(tmp_path, caplog):
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    callback = CtxRotCallback(path)
    with caplog.at_level(logging.WARNING):
        took = run(callback)
        assert eventually(lambda: callback.counts.spilled)
        run(callback)
        assert eventually(lambda: (callback.counts.waiting, callback.counts.spilled) == (0, 101))
    assert median(took) < 0.1  # what the writer waits for a lock; the longest call may have met a busy machine
    assert [r.message for r in caplog.records if "locked" in r.message] == [r.message for r in caplog.records] != []
    assert len(caplog.records) == 1
    other.execute("ROLLBACK")
    other.close()
    callback.close()
    assert tools(path) == 100
    assert callback.counts.lost == 0
    assert [p for p in tmp_path.iterdir() if "spill" in p.name] == []


@pytest.mark.feature("rot.locked-store")
def test_rows_of_a_store_that_stays_locked_wait_in_a_file_for_the_next_program(tmp_path):
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    callback = CtxRotCallback(path)
    run(callback)
    callback.close()
    spilled = [p for p in tmp_path.iterdir() if "spill" in p.name]
    assert {p.stat().st_mode & 0o777 for p in spilled} == {0o600}
    other.execute("ROLLBACK")
    other.close()
    assert tools(path) == 50
    assert not any(p.exists() for p in spilled)


@pytest.mark.feature("rot.spill-once")
def test_a_spill_file_that_comes_back_is_not_taken_in_twice(tmp_path):
    path = tmp_path / "a.db"
    line = json.dumps([1, "s1", "tool_call", "c1", None, '{"tool":"t"}']) + "\n"
    spilled = tmp_path / "a.db.spill-1-x.jsonl"
    for _ in range(2):
        spilled.write_text(line + '[2, "s1", "tool_c')
        with CtxRotStore(path) as store:
            assert [r["call_id"] for r in store.get_log("s1")] == ["c1"]
        assert not spilled.exists()


@pytest.mark.feature("rot.damaged-store")
def test_a_damaged_store_neither_breaks_the_program_nor_is_touched(tmp_path, caplog):
    path = tmp_path / "a.db"
    path.write_bytes(b"this is no database at all, " * 100)
    with caplog.at_level(logging.WARNING):
        callback = CtxRotCallback(path)
        run(callback)
        callback.close()
    assert path.read_bytes() == b"this is no database at all, " * 100
    assert len(caplog.records) == 1
    path.rename(tmp_path / "bad")
    assert tools(path) == 50


@pytest.mark.feature("rot.read-only-place")
def test_a_place_that_cannot_be_written_spills_into_the_home(tmp_path, caplog):
    (tmp_path / "file").write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING):
        callback = CtxRotCallback(tmp_path / "file" / "a.db")
        assert median(run(callback)) < 0.1
        callback.close()
    assert len(list((tmp_path / "store" / "spill").glob("*.jsonl"))) == 1
    (tmp_path / "file").unlink()
    assert tools(tmp_path / "file" / "a.db") == 50


@pytest.mark.feature("rot.full-disk")
def test_a_full_disk_breaks_nothing_and_is_counted(program):
    code = f"""{CALLS}
import resource
callback = CtxRotCallback("a.db", store_content=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
dspy.configure(callbacks=[callback])
made = dspy.Tool(lambda x: "y" * 2000, name="t")
for n in range(200):
    made(x=n)
time.sleep(0.6)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
c = callback.counts
print(c.written + c.spilled + c.waiting + c.lost, c.lost, c.waiting > 0)
began = time.monotonic()
callback._writer.close(2.0)
print(time.monotonic() - began < 60)
"""
    said, errors = program(code)
    assert said.split() == ["201", "0", "True", "True"]
    assert "rows could be written nowhere" in errors or "kept aside" in errors


@pytest.mark.feature("rot.memory-bound")
def test_what_fits_nowhere_is_counted_as_lost(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(writer, "WAITING_ROWS", 30)
    callback = CtxRotCallback(tmp_path / "file" / "a.db")
    run(callback, 100)
    callback.flush(0.2)
    assert eventually(lambda: callback.counts == writer.Counts(written=0, spilled=0, waiting=30, lost=71))


@pytest.mark.feature("rot.killed")
def test_after_a_kill_what_is_200_ms_old_is_there_and_the_session_abandoned(program, tmp_path):
    code = f"""{CALLS}
callback = CtxRotCallback("a.db")
class Root(dspy.Module):
    def forward(self):
        calls(50)
        while callback.counts.written < 52:
            time.sleep(0.01)
        print("ready", flush=True)
        time.sleep(600)
with dspy.context(callbacks=[callback]):
    Root()()
"""
    process = program(code, wait=False)
    assert process.stdout.readline() == "ready\n"
    processes.end(process)
    with CtxRotStore(tmp_path / "a.db", read_only=True) as store:
        (session,) = store.get_session_ids(terminal_state="abandoned")
    with CtxRotStore(tmp_path / "a.db") as store:
        assert store.get_session(session)["terminal_state"] == "abandoned"
        assert [r["kind"] for r in store.get_log(session)] == ["session_start", "module_start", *["tool_call"] * 50, "session_end"]


@pytest.mark.feature("rot.exit-flushes")
def test_a_program_that_just_ends_has_stored_everything(program, tmp_path):
    program(f"{CALLS}\ndspy.configure(callbacks=[CtxRotCallback('a.db')])\ncalls(500)")
    assert tools(tmp_path / "a.db") == 500
    with CtxRotStore(tmp_path / "a.db", read_only=True) as store:
        assert store.get_session(store.get_latest_session_id())["terminal_state"] == "completed"


@pytest.mark.feature("rot.fork")
@pytest.mark.feature("rot.processes")
def test_16_forked_processes_with_1000_calls_each_lose_none(program, tmp_path):
    code = f"""{CALLS}
import multiprocessing
dspy.configure(callbacks=[CtxRotCallback("a.db")])
calls(10)
if __name__ == "__main__":
    started = [multiprocessing.get_context("fork").Process(target=calls, args=(1000,)) for _ in range(16)]
    for p in started: p.start()
    for p in started: p.join()
    print([p.exitcode for p in started])
    calls(10)
"""
    said, _ = program(code)
    assert said.strip() == str([0] * 16)
    assert tools(tmp_path / "a.db") == 16_020
    with CtxRotStore(tmp_path / "a.db", read_only=True) as store:
        found = [len(store.get_tool_calls_full(s)) for s in store.get_session_ids()]
    assert sorted(found) == [20, *[1000] * 16]


@pytest.mark.feature("rot.announced")
def test_a_store_announces_itself_once_and_a_home_that_cannot_be_written_is_ignored(tmp_path, monkeypatch):
    for _ in range(2):
        callback = CtxRotCallback(tmp_path / "deep" / "a.db")
        run(callback, 1)
        callback.close()
    (note,) = (tmp_path / "store" / "stores").iterdir()
    assert note.read_text() == str(tmp_path / "deep" / "a.db")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "file" / "home"))
    callback = CtxRotCallback(tmp_path / "b.db")
    run(callback, 3)
    callback.close()
    assert tools(tmp_path / "b.db") == 3


@pytest.mark.feature("rot.default-path")
def test_the_default_store_is_ctxrot_db_or_what_the_variable_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for expected in ("ctxrot.db", "named.db"):
        callback = CtxRotCallback()
        run(callback, 2)
        callback.close()
        assert tools(tmp_path / expected) == 2
        monkeypatch.setenv("CTX_CALLBACK_STORE", f"{tmp_path}/named.db,{tmp_path}/other.db")


@pytest.mark.feature("rot.light-callback")
def test_the_callback_loads_nothing_heavy_of_its_own(program):
    heavy = "{'duckdb', 'pyarrow', 'rich', 'dagster', 'click'}"
    code = f"""
import sys
import dspy
before = set(sys.modules)
from ctx_pipeline import CtxRotCallback, CtxRotStore
callback = CtxRotCallback("a.db", store_content=True)
with dspy.context(callbacks=[callback]):
    dspy.Tool(lambda x: x, name="t")(x=1)
callback.close()
new = set(sys.modules) - before
print(sorted(m for m in new if m.partition('.')[0] in {heavy}))
print(any(m.startswith('ctx_pipeline.model.row_contracts') for m in new))
"""
    said, _ = program(code)
    assert said.split("\n")[:2] == ["[]", "False"]


@pytest.mark.feature("rot.light-store")
def test_the_store_can_be_read_without_dspy(program):
    program("import sys\nfrom ctx_pipeline import CtxRotStore\nCtxRotStore('a.db').close()\nassert 'dspy' not in sys.modules")


@pytest.mark.feature("rot.versions")
def test_a_store_of_a_newer_version_is_left_alone_and_the_rows_wait(tmp_path, caplog):
    path = tmp_path / "a.db"
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with caplog.at_level(logging.WARNING):
        callback = CtxRotCallback(path)
        assert median(run(callback)) < 0.1
        callback.close()
    assert "schema 99" in caplog.text
    (spilled,) = [p for p in tmp_path.iterdir() if "spill" in p.name]
    assert len(spilled.read_text().splitlines()) == 52


@pytest.mark.feature("rot.reopened")
def test_a_callback_that_was_closed_writes_what_comes_later(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")
    for _ in range(3):
        run(callback, 10)
        callback.close()
    assert tools(tmp_path / "a.db") == 30


@pytest.mark.feature("rot.queue-full")
def test_a_full_queue_spills_at_once_and_the_rows_are_taken_in(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "WAITING_ROWS", 5)
    monkeypatch.setattr(writer, "GATHER_SECONDS", 0.3)
    callback = CtxRotCallback(tmp_path / "a.db")
    run(callback, 100)
    assert callback.flush()
    callback.close()
    assert callback.counts.lost == 0
    assert tools(tmp_path / "a.db") == 100


@pytest.mark.feature("rot.spill-read")
def test_commands_that_read_take_in_what_waits_first(tmp_path):
    import json

    from click.testing import CliRunner

    from ctx_pipeline.cli import cli

    CtxRotStore(tmp_path / "a.db").close()
    payloads = [("session_start", None, '{"mode":"react"}'), ("lm_call", "c1", '{"model":"m","number":1,"usage":{"prompt_tokens":7}}')]
    lines = [json.dumps([1_767_268_800_000_000, "s1", kind, call, None, payload]) for kind, call, payload in payloads]
    (tmp_path / "a.db.spill-1-x.jsonl").write_text("\n".join(lines) + "\n")
    shown = CliRunner().invoke(cli, ["rot", "summary", "--db", str(tmp_path / "a.db"), "--json"])
    assert [(r["session_id"], r["prompt_tokens"]) for r in json.loads(shown.output)["sessions"]] == [("s1", 7)]


@pytest.mark.feature("rot.huge-completion")
@pytest.mark.feature("rot.large-content")
def test_a_completion_of_many_megabytes_is_stored_whole(tmp_path):
    huge = "word " * 4_000_000
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    with dspy.context(callbacks=[callback]):
        dspy.Tool(lambda x: huge, name="t")(x=1)
    callback.close()
    with CtxRotStore(tmp_path / "a.db", read_only=True) as store:
        assert store.get_tool_call_content(callback.session_id)[0]["output_text"] == huge


@pytest.mark.feature("rot.large-content")
@pytest.mark.parametrize("text", ['a "quoted" line\nand a 😀 ' * 100_000, "an \x00 in it " * 100_000])
def test_a_long_text_is_the_same_in_log_and_tables_whatever_is_in_it(tmp_path, text):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    recorder = callback._recorder
    model = type("LM", (), {"model": "m", "kwargs": {}, "history": []})()
    recorder.lm_start("c1", None, model, {"prompt": text})
    recorder.lm_end("c1", [text, "second"], None)
    with dspy.context(callbacks=[callback]):
        dspy.Tool(lambda x: text, name="t")(x=1)
    callback.close()
    with CtxRotStore(tmp_path / "a.db", read_only=True) as store:
        session = store.get_latest_session_id()
        (call,) = store.get_lm_calls_full(session)
        (tool,) = store.get_tool_calls_full(session)
        logged = [json.loads(r["payload"]) for r in store.get_log(session) if r["kind"].endswith("_call")]
    assert (call["completion"] == text, call["completion_char_count"], call["prompt_char_count"]) == (True, len(text), len(text))
    assert (tool["output_text"] == text, tool["output_char_count"]) == (True, len(text))
    assert json.loads(call["messages_json"])[0]["content"] == text
    assert [row.get("completions", [row.get("output")])[0] == text for row in logged] == [True, True]


@pytest.mark.feature("rot.huge-completion")
def test_a_program_that_ends_while_a_long_row_is_written_waits_for_it(program, tmp_path):
    program(
        f"{CALLS}\ndspy.configure(callbacks=[CtxRotCallback('a.db', store_content=True)])\n"
        "dspy.Tool(lambda x: 'word ' * 16_000_000, name='t')(x=1)\ntime.sleep(0.2)"
    )
    with CtxRotStore(tmp_path / "a.db") as store:
        (tool,) = store.get_tool_calls_full(store.get_latest_session_id())
    assert tool["output_char_count"] == 80_000_000

"""How a writer begins, is dropped, asked from a signal handler, and ends with its process: nothing leaks, hangs or is forgotten."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import threading
from pathlib import Path

import pytest

from ctx_pipeline import CtxRotCallback, CtxRotStore
from ctx_pipeline.rot import database, worker, writer
from ctx_pipeline.rot.callback import CtxRotCallback as PlainCallback
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.rot.calls import CALLS, run, tools
from ctx_pipeline_tests.waiting import eventually

OTHERS = json.dumps([1_767_268_800_000_000, "s1", "tool_call", "c1", None, {"tool": "t"}]) + "\n"


def target(link):
    try:
        return os.readlink(link)  # noqa: PTH115 - a pipe is no path
    except OSError:  # closed since it was listed
        return ""


def locked(path):
    CtxRotStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


@pytest.mark.feature("rot.dropped")
def test_callbacks_that_are_dropped_leave_neither_thread_nor_open_file_and_store_everything(tmp_path):
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    before = set(threading.enumerate())
    for _ in range(20):
        run(CtxRotCallback(path), 2)

    def left():
        return [t for t in threading.enumerate() if t not in before and t.name == "ctx-callback-writer"]

    assert eventually(lambda: not left())
    opened = [link for link in Path("/proc/self/fd").glob("*") if link.is_symlink()]
    assert [name for link in opened if (name := target(link)).startswith(str(tmp_path))] == []
    assert tools(path) == 40
    with CtxRotStore(path, read_only=True) as store:
        assert len(store.get_session_ids(terminal_state="completed")) == 20


@pytest.mark.feature("rot.reentered")
def test_a_signal_handler_may_ask_the_callback_whatever_its_thread_is_doing(program):
    said, _ = program("""
import faulthandler, signal, time
faulthandler.dump_traceback_later(200, exit=True)
import dspy
from ctx_pipeline import CtxRotCallback
callback = CtxRotCallback("a.db")
asked = 0
def handler(*_):
    global asked
    asked += 1
    callback.counts
    dspy.Tool(lambda x: x, name="in the handler")(x=1)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
signal.signal(signal.SIGALRM, handler)
with dspy.context(callbacks=[callback]):
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    while asked < 150:
        callback.counts
    signal.setitimer(signal.ITIMER_REAL, 0)
print(asked)
callback.close()
""")
    assert said.strip() == "150"


@pytest.mark.feature("rot.locked-store")
def test_rows_left_in_files_at_a_close_come_in_when_the_callback_goes_on(tmp_path):
    path = tmp_path / "a.db"
    other = locked(path)
    callback = CtxRotCallback(path)
    run(callback, 5)
    callback.close()
    assert (callback.counts.written, callback.counts.spilled) == (0, 7)
    other.execute("ROLLBACK")
    other.close()
    assert callback.flush()
    assert (callback.counts.written, callback.counts.spilled) == (7, 0)
    run(callback, 5)
    callback.close()
    assert tools(path) == 10


@pytest.mark.feature("rot.spill-read")
def test_files_of_others_are_taken_in_after_a_lock_and_again_while_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.1)
    path = tmp_path / "a.db"
    other = locked(path)
    first, second = (tmp_path / f"a.db.spill-{n}-x.jsonl" for n in (1, 2))
    first.write_text(OTHERS)
    callback = CtxRotCallback(path)
    run(callback, 1)
    assert eventually(lambda: callback.counts.spilled)
    other.execute("ROLLBACK")
    other.close()
    assert eventually(lambda: run(callback, 1) and not first.exists())
    second.write_text(OTHERS.replace("c1", "c2"))
    assert eventually(lambda: run(callback, 1) and not second.exists())
    callback.close()
    with CtxRotStore(path, read_only=True) as store:
        assert [row["call_id"] for row in store.get_log("s1")] == ["c1", "c2"]


@pytest.mark.feature("rot.spill-failing")
def test_a_writer_that_could_not_put_rows_aside_goes_on_and_loses_none(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    other = locked(path)
    real, failed = worker._line, []

    def line(entry):
        if not failed:
            failed.append(entry)
            raise MemoryError
        return real(entry)

    monkeypatch.setattr(worker, "_line", line)
    callback = CtxRotCallback(path)
    run(callback, 20)
    assert eventually(lambda: failed)
    other.execute("ROLLBACK")
    other.close()
    callback.close()
    assert (tools(path), callback.counts.lost) == (20, 0)


@pytest.mark.feature("rot.abandoned-search")
def test_unfinished_sessions_are_found_without_reading_the_log_of_finished_ones(tmp_path):
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    connection = database.connect(path)
    row = (1, "done", "tool_call", None, None, '{"tool":"t"}')
    gone = json.dumps({"owner": f"{platform.node()}\tno-such-boot\t1\t1\t0"})
    ends = [(2, "done", "session_start", None, None, "{}"), (3, "done", "session_end", None, None, '{"state":"completed"}')]
    database.append(connection, [*[row] * 5_000, *ends, (4, "open", "session_start", None, None, gone)])
    steps = []
    connection.set_progress_handler(lambda: steps.append(1) or 0, 100)
    assert database.mark_abandoned(connection) == ["open"]
    connection.close()
    assert len(steps) < 20


@pytest.mark.feature("rot.pools")
def test_a_child_of_a_pool_that_runs_only_its_own_exit_functions_has_stored_everything(program, tmp_path):
    program(f"""{CALLS}
import types
ends = []
pool = types.ModuleType("billiard.util")
pool.Finalize = lambda obj, callback, exitpriority=None: ends.append(callback)
sys.modules["billiard.util"] = pool
dspy.configure(callbacks=[CtxRotCallback("a.db")])
calls(3)
if os.fork() == 0:
    ends.clear()
    calls(20)
    for end in ends: end()
    os._exit(0)
os.wait()
""")
    assert tools(tmp_path / "a.db") == 23


@pytest.mark.feature("rot.killed")
def test_calls_that_ended_200_ms_before_a_kill_are_there(program, tmp_path):
    def stored(attempt):
        process = program(
            f"""{CALLS}
import signal
callback = CtxRotCallback("{attempt}.db")
dspy.configure(callbacks=[callback])
calls(1)
callback.flush(100)
calls(50)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
""",
            wait=False,
        )
        assert process.wait(250) == -9
        processes.end(process)
        return tools(tmp_path / f"{attempt}.db")

    # a busy machine may not let the writing thread run for 200 ms, but not ten times in a row
    assert 51 in map(stored, range(10))


@pytest.mark.feature("rot.exit-flushes")
def test_a_close_that_cannot_wait_for_a_row_says_so_and_the_row_comes_later(tmp_path, caplog, monkeypatch):
    # no row is taken before the close asks for all three
    monkeypatch.setattr(writer, "GATHER_SECONDS", 600.0)
    ready = threading.Event()

    def redact(text):
        ready.wait(200)
        return text

    callback = PlainCallback(tmp_path / "a.db", redact=redact)
    run(callback, 1)
    callback._writer.close(0.1)
    assert "3 rows could be written nowhere" in caplog.text
    ready.set()
    assert eventually(callback.flush)
    callback.close()
    assert (tools(tmp_path / "a.db"), callback.counts.lost) == (1, 0)

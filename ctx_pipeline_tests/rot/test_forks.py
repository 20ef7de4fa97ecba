"""Forks while SQLite is at work, and stores that do not answer: nothing hangs, nothing is lost or stored twice."""

from __future__ import annotations

import os
import sqlite3
import time

import dspy
import pytest

from ctx_pipeline import CtxRotCallback, CtxRotStore
from ctx_pipeline.rot import worker
from ctx_pipeline.rot.worker import Spill
from ctx_pipeline_tests.rot.calls import CALLS, run, tools
from ctx_pipeline_tests.waiting import eventually


def rows_of_tools(path):
    """Return the calls in the log and how many of them are different ones."""
    with CtxRotStore(path) as store:
        ids = [r["call_id"] for s in store.get_session_ids() for r in store.get_log(s) if r["kind"] == "tool_call"]
    return len(ids), len(set(ids))


@pytest.mark.feature("rot.silent-store", "rot.locked-store")
def test_what_is_with_a_store_that_does_not_answer_is_set_aside_and_stored_once_when_it_comes_back(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(worker, "LOCK_SECONDS", 600.0)
    monkeypatch.setattr(worker, "PATIENCE_SECONDS", 0.3)
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    callback = CtxRotCallback(path)
    # a call that waited for the store would wait ten minutes
    assert run(callback)[-1] < 60
    assert eventually(lambda: callback._writer._worker.stuck)
    run(callback)
    assert eventually(lambda: (callback.counts.waiting, callback.counts.spilled) == (0, 101))
    assert "does not answer" in caplog.text
    other.execute("ROLLBACK")
    other.close()
    assert callback.flush(100)
    assert callback.counts.written == 101
    callback.close()
    assert rows_of_tools(path) == (100, 100)
    assert [p.name for p in tmp_path.iterdir() if "spill" in p.name] == []


@pytest.mark.feature("rot.silent-store")
def test_closing_a_store_that_does_not_answer_ends_and_leaves_the_rows_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "LOCK_SECONDS", 600.0)
    path = tmp_path / "a.db"
    CtxRotStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    callback = CtxRotCallback(path)
    run(callback)
    began = time.monotonic()
    callback._writer.close(2.0)
    assert time.monotonic() - began < 60
    assert callback.counts.lost == 0
    other.execute("ROLLBACK")
    other.close()
    assert rows_of_tools(path) == (50, 50)


@pytest.mark.feature("rot.fork-open-store")
def test_a_child_never_opens_a_store_that_was_open_at_the_fork_and_its_rows_arrive_all_the_same(tmp_path):
    path = tmp_path / "a.db"
    callback = CtxRotCallback(path)
    run(callback, 5)
    callback.flush()
    reader = CtxRotStore(path, read_only=True)
    told, tell = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - in the child
        run(callback, 30)
        callback.close()
        os.write(tell, f"{callback.counts.spilled} {callback.counts.written}".encode())
        os._exit(0)
    os.close(tell)
    _, status = os.waitpid(child, 0)
    assert status == 0
    said = os.read(told, 100).decode().split()
    os.close(told)
    assert said == ["32", "0"]  # with the beginning and the end of its session
    reader.close()
    run(callback, 5)
    callback.close()
    assert tools(path) == 40


@pytest.mark.feature("rot.fork-busy")
def test_forks_beside_threads_in_calls_and_another_library_in_sqlite_end_and_lose_none(program, tmp_path):
    code = f"""{CALLS}
import multiprocessing, sqlite3, threading
callback = CtxRotCallback("a.db")
dspy.configure(callbacks=[callback])
going = True
made = [0] * 3
def calling(n):
    own = dspy.Tool(tool, name="p")
    while going:
        own(x=n)
        made[n] += 1
        time.sleep(0.0005)
def hammer():
    other = sqlite3.connect("other.db", check_same_thread=False)
    other.execute("CREATE TABLE t (x)")
    while going:
        with other:
            other.execute("INSERT INTO t VALUES (1)")
        sqlite3.connect("other.db").close()
if __name__ == "__main__":
    threads = [threading.Thread(target=calling, args=(n,)) for n in range(3)] + [threading.Thread(target=hammer)]
    for t in threads: t.start()
    started = []
    for _ in range(8):
        time.sleep(0.03)
        p = multiprocessing.get_context("fork").Process(target=calls, args=(100,))
        p.start()
        started.append(p)
    for p in started: p.join(250)
    going = False
    for t in threads: t.join(250)
    callback.close()
    print([p.exitcode for p in started], sum(made), callback.counts.lost)
"""
    said, _ = program(code)
    exits, _, rest = said.strip().partition("] ")
    assert exits == "[0, 0, 0, 0, 0, 0, 0, 0"
    count, lost = map(int, rest.split())
    assert lost == 0
    assert rows_of_tools(tmp_path / "a.db") == (count + 800, count + 800)


@pytest.mark.feature("rot.fork")
def test_a_child_that_forks_again_and_one_that_just_exits_store_what_they_did(program, tmp_path):
    program(f"""{CALLS}
dspy.configure(callbacks=[CtxRotCallback("a.db")])
calls(3)
if os.fork() == 0:
    calls(20)
    if os.fork() == 0:
        calls(30)
        sys.exit(0)
    os.wait()
    sys.exit(0)
os.wait()
calls(3)
""")
    assert rows_of_tools(tmp_path / "a.db") == (56, 56)
    with CtxRotStore(tmp_path / "a.db") as store:
        assert sorted(len(store.get_tool_calls_full(s)) for s in store.get_session_ids()) == [6, 20, 30]


@pytest.mark.feature("rot.fork")
def test_a_program_that_forks_for_every_piece_of_work_still_writes_between(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")
    deadline = time.monotonic() + 100
    with dspy.context(callbacks=[callback]):
        made = dspy.Tool(lambda x: x, name="t")
        made(x=0)
        while not callback.counts.written and time.monotonic() < deadline:
            child = os.fork()
            if not child:  # pragma: no cover - in the child
                os._exit(0)
            os.waitpid(child, 0)
            made(x=1)
    assert callback.counts.written > 0
    callback.close()


@pytest.mark.feature("rot.spill-locked")
def test_a_spill_file_is_locked_before_another_process_can_see_it(program, tmp_path):
    taker = program(
        """
import time
from pathlib import Path
from ctx_pipeline.rot import database; from ctx_pipeline.rot import worker as spill
connection = database.connect(Path("a.db"))
print("ready", flush=True)
while not Path("end").exists():
    spill.take_in_others(connection, Path("a.db"), Path("home"))
""",
        wait=False,
    )
    assert taker.stdout.readline() == "ready\n"
    path = tmp_path / "a.db"
    for n in range(400):
        own = Spill(path, tmp_path / "home")
        own.add([(n, f"s{n}", "tool_call", f"c{n}", None, b'{"tool":"t"}')])
        own.add([(n, f"s{n}", "tool_call", f"d{n}", None, b'{"tool":"t"}')])
        own.release()
    (tmp_path / "end").touch()
    assert taker.wait(250) == 0
    CtxRotStore(path).close()
    with CtxRotStore(path) as store:
        assert len(store.get_log_after(0)) == 800

"""One writer at a time, and a dead one holds nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from ctx_pipeline.errors import LeaseLost, StoreLocked
from ctx_pipeline.model.process import waiting
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage import Store
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.lake.manifests import Manifest
from ctx_pipeline.storage.ledger import Ledger, connection
from ctx_pipeline.storage.ledger.connection import Owner

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db")
    yield made
    made.close()


def hold(path, ready, end, left) -> None:
    other = Ledger(path)
    with other.lease("cell"):
        ready.set()
        end.wait()
        left.value = time.monotonic()


def holder(ledger: Ledger, end=None, left=None):
    """Start a process that holds the lease until an event, or for ever, and writes down when it let go."""
    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(ledger.path, ready, end or FORK.Event(), left))
    process.start()
    assert ready.wait(250)
    return process


@pytest.mark.feature("leases.one-writer")
def test_a_second_comer_waits_and_then_gets_it(ledger):
    end, left = FORK.Event(), FORK.Value("d", 0.0)
    process = holder(ledger, end, left)
    threading.Timer(0.3, end.set).start()
    with ledger.lease("cell", wait=100):
        taken = time.monotonic()
    process.join(250)

    assert taken > left.value > 0


@pytest.mark.feature("leases.one-writer")
def test_after_the_wait_it_says_who_holds_it(ledger):
    process = holder(ledger)
    with (
        pytest.raises(StoreLocked, match=rf"cell is being written by another process \(process {process.pid} on "),
        ledger.lease("cell", wait=0.1),
    ):
        pass
    with ledger.lease("other cell", wait=0):
        held = ledger.live_leases()
    process.kill()
    process.join(250)

    assert sorted(held) == ["cell", "other cell"]


@pytest.mark.feature("leases.dead-owner")
def test_a_killed_owner_is_followed_at_once(ledger):
    process = holder(ledger)
    os.kill(process.pid, signal.SIGKILL)
    process.join(250)

    with ledger.lease("cell", wait=0):
        pass


@pytest.mark.feature("leases.dead-owner")
def test_a_killed_owner_whose_parent_has_not_looked_holds_nothing(ledger):
    process = holder(ledger)
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended and stays a zombie

    with ledger.lease("cell", wait=0):
        pass
    process.join(250)


@pytest.mark.feature("leases.dead-owner")
@pytest.mark.parametrize(
    ("change", "expires", "free"),
    [
        ({"born": "1"}, 60, True),
        ({"boot": f"earlier {Owner.here().boot.partition(' ')[2]}"}, 60, True),
        ({"boot": f"{Owner.here().boot}, another container"}, 60, False),
        ({"boot": f"{Owner.here().boot}, another container"}, -1, True),
        ({"machine": "elsewhere"}, 60, False),
        ({"machine": "elsewhere"}, -1, True),
        ({}, -1, False),
    ],
    ids=[
        "pid used again",
        "machine restarted",
        "other container",
        "other container, expired",
        "other machine",
        "other machine, expired",
        "alive here, expired",
    ],
)
def test_who_counts_as_dead(ledger, change, expires, free):
    owner = Owner.here()._replace(**change)
    with ledger.transaction() as connection:
        connection.execute("INSERT INTO leases VALUES ('cell', ?, ?)", (str(owner), time.time() + expires))

    if free:
        with ledger.lease("cell", wait=0):
            pass
    else:
        with pytest.raises(StoreLocked), ledger.lease("cell", wait=0):
            pass


@pytest.mark.feature("leases.released")
def test_a_lease_ends_with_its_block_also_by_an_error(ledger):
    with pytest.raises(ValueError, match="inside"), ledger.lease("cell", wait=0):
        raise ValueError("inside")
    with ledger.lease("cell", wait=0):
        pass
    assert ledger.live_leases() == {}


def hold_and_commit(path, ready, go, told) -> None:
    other = Ledger(path)
    try:
        with other.lease("cell", ttl=0.5):
            ready.set()
            go.wait()
            with other.transaction() as connection:
                connection.execute("INSERT INTO tombstones VALUES ('h', 'thread', 'late', 'now')")
    except LeaseLost as error:
        told.put(error.message)
    else:
        told.put("committed")


@pytest.mark.feature("leases.fenced")
def test_a_stopped_owner_is_taken_over_and_commits_nothing_when_it_goes_on(ledger):
    ready, go, told = FORK.Event(), FORK.Event(), FORK.Queue()
    process = FORK.Process(target=hold_and_commit, args=(ledger.path, ready, go, told))
    process.start()
    assert ready.wait(250)
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    said = []
    waiting.listeners[:] = [said.append]
    try:
        with (
            pytest.raises(StoreLocked, match=rf"\(process {process.pid} on .* \(stopped: it is taken over in \d s unless it goes on\)"),
            ledger.lease("cell", wait=0),
        ):
            pass
        with ledger.lease("cell", wait=100):
            os.kill(process.pid, signal.SIGCONT)
            go.set()
            assert "took cell over; nothing was committed" in told.get(timeout=250)
            ledger.demand_leases()
    finally:
        waiting.listeners.clear()
        process.kill()
        process.join(250)
    assert ledger.tombstones() == []


@pytest.mark.feature("leases.fenced")
def test_an_owner_that_works_renews_its_lease_and_whoever_waits_is_told_for_whom(ledger, monkeypatch):
    monkeypatch.setattr(connection, "_BEAT", 0.05)
    monkeypatch.setattr("ctx_pipeline.model.process.waiting._LONG", 0.1)
    said = []
    waiting.listeners[:] = [said.append]

    def until() -> float:
        return ledger.query("SELECT expires_at FROM leases WHERE name = 'cell'")[0][0]

    try:
        with ledger.lease("cell", ttl=0.2):
            first = until()
            with pytest.raises(StoreLocked), Ledger(ledger.path).lease("cell", wait=1):
                pass
            assert until() > first + 1
    finally:
        waiting.listeners.clear()
    assert said == [f"waiting for process {os.getpid()} on {os.uname().nodename}, which writes cell"]
    assert [t.name for t in threading.enumerate() if t.name == "ctx-leases" and t.is_alive()] in ([], ["ctx-leases"])


@pytest.mark.feature("leases.fenced")
def test_a_table_is_not_committed_by_whoever_lost_its_lease(tmp_path):
    cell = Cell("h", "2025-01")
    with Store(tmp_path, first_month="2025-01") as store, store.ledger.lease("cell"):
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as other, other:
            other.execute("UPDATE leases SET owner = 'somebody else'")
        with pytest.raises(LeaseLost):
            store.lake.commit("a/b", cell, Manifest.of("a/b", cell, (), code_version="1", input_fp="", content_hash=""))
        assert not (tmp_path / "lake").exists()
        store.ledger._held.clear()


_TAKE = """
import sqlite3, sys
try:
    print(sqlite3.connect(sys.argv[1], timeout=0).execute("PRAGMA journal_mode=DELETE").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.mark.feature("store.locks-kept")
@pytest.mark.parametrize("made", [Ledger, Journal])
def test_another_connection_of_the_process_leaves_the_locks_of_the_first(tmp_path, made):
    path = tmp_path / "kept.db"

    def taken() -> str:
        done = subprocess.run([sys.executable, "-c", _TAKE, path], capture_output=True, text=True, check=True, timeout=250)
        return done.stdout.strip()

    def used(database) -> None:
        database.query("SELECT * FROM leases") if made is Ledger else database.append("finding", {"text": "x"})

    first, second = made(path), made(path)
    used(first)
    assert taken() == "database is locked"
    used(second)
    second.close()

    # without its lock another process would delete the log that the first one writes to
    assert taken() == "database is locked"
    first.close()
    assert taken() == "delete"


@pytest.mark.feature("faults.little-memory")
def test_a_lease_whose_renewal_cannot_begin_is_given_back(ledger, monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError), ledger.lease("cell"):
        pass
    monkeypatch.undo()

    assert ledger.live_leases() == {}

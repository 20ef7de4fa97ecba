"""Rows of a host's database: one stream a session, each with its own segments."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline import capture
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.raw import segments
from ctx_pipeline_tests.pipeline.toy_home import HOSTS, age, settings_of

if TYPE_CHECKING:
    from pathlib import Path

JUNE = "2026-06-03T10:00:00Z"


@pytest.fixture
def database(tmp_path: Path):
    (tmp_path / "toy").mkdir()
    connection = sqlite3.connect(tmp_path / "toy" / "calls.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, session TEXT, ts TEXT, text TEXT)")
    for number, session in enumerate("aab"):
        connection.execute("INSERT INTO calls VALUES (?, ?, ?, 'first')", (number, session, JUNE))
    yield connection
    connection.close()


def rows(store, session: str, generation: int = 0) -> list[tuple[int, str]]:
    stream = next(s.stream for s in store.ledger.sources().values() if s.rel == f"calls.db#{session}")
    mine = [s for s in store.ledger.segments_of([stream])[stream] if s.generation == generation]
    lines = segments.read_stream(store.files, mine).splitlines()
    return [(row["id"], row["text"]) for row in (json.loads(line)["row"] for line in lines)]


@pytest.mark.feature("capture.databases")
def test_added_rows_are_a_segment_more_and_changed_rows_a_new_generation(tmp_path, database):
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        assert [(s.session_id, s.month) for s in store.ledger.sessions()] == [("a", "2026-06"), ("b", "2026-06")]
        assert rows(store, "a") == [(0, "first"), (1, "first")]

        database.execute("INSERT INTO calls VALUES (7, 'a', ?, 'later')", (JUNE,))
        scan = capture.scan(store, settings, hosts=HOSTS)
        assert [p.rel for p in scan.pending] == ["calls.db#a"]
        capture.capture(store, settings, scan=scan, hosts=HOSTS)
        assert rows(store, "a") == [(0, "first"), (1, "first"), (7, "later")]
        assert len(store.ledger.segments()) == 3

        database.execute("UPDATE calls SET text = 'edited' WHERE id = 0")
        capture.capture(store, settings, hosts=HOSTS)
        assert rows(store, "a", 0) == [(0, "first"), (1, "first"), (7, "later")]
        assert rows(store, "a", 1) == [(0, "edited"), (1, "first"), (7, "later")]
        assert rows(store, "b") == [(2, "first")]
        assert capture.scan(store, settings, hosts=HOSTS).nothing_new


@pytest.mark.feature("capture.databases")
def test_a_touched_database_is_nothing_new_and_removed_rows_stay_captured(tmp_path, database):
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        age(tmp_path / "toy" / "calls.db", -1)
        touched = capture.scan(store, settings, hosts=HOSTS)
        assert (touched.nothing_new, len(touched.touched)) == (True, 2)

        database.execute("DELETE FROM calls WHERE session = 'b'")
        assert len(capture.scan(store, settings, hosts=HOSTS).vanished) == 1
        capture.capture(store, settings, hosts=HOSTS)
        assert rows(store, "b") == [(2, "first")]
        assert [s.session_id for s in store.ledger.sessions()] == ["a", "b"]


@pytest.mark.feature("capture.databases", "doctor.rebuild-ledger")
def test_a_rebuilt_ledger_knows_the_rows_again(tmp_path, database):
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        database.execute("INSERT INTO calls VALUES (7, 'a', ?, 'later')", (JUNE,))
        capture.capture(store, settings, hosts=HOSTS)
        before = store.ledger.sessions()

        doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        capture.capture(store, settings, hosts=HOSTS)

        assert store.ledger.sessions() == before
        assert len(store.ledger.segments()) == 3
        assert capture.scan(store, settings, hosts=HOSTS).nothing_new


@pytest.mark.feature("capture.databases")
def test_a_file_that_is_no_database_is_a_problem(tmp_path):
    settings = settings_of(tmp_path)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "calls.db").write_bytes(b"not a database at all" * 100)
    with open_store(settings) as store:
        scan = capture.scan(store, settings, hosts=HOSTS)

        assert [p.path.rpartition("/")[2] for p in scan.problems] == ["calls.db"]
        assert capture.capture(store, settings, scan=scan, hosts=HOSTS).totals["sources"] == 0

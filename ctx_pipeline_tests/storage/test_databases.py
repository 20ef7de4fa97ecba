"""Databases of hosts are read as canonical lines, and nothing is written beside them."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

from ctx_pipeline.errors import SourceError
from ctx_pipeline.model.declared import Database
from ctx_pipeline.storage.raw import databases

WHOLE = Database(tables=(("threads", "id"), ("missing", "id")))
SPLIT = Database(
    tables=(("log", "seq"), ("old", "id")), split_by="session_id", split_as={"old": "sid"}, prefer_first=True, append_only=True
)


def make(path, script, *, wal=False):
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(script)
    connection.commit()
    return connection


THREADS = """
CREATE TABLE threads (title TEXT, id TEXT PRIMARY KEY, body BLOB, n INTEGER, share REAL);
INSERT INTO threads VALUES ('Zweite “Zeile”', 'b', NULL, 2, 0.5), ('eins', 'a', X'00FF', 1, NULL);
CREATE TABLE private (secret TEXT);
INSERT INTO private VALUES ('do-not-read');
"""


@pytest.mark.feature("databases.lines")
def test_rows_become_lines_in_order_with_sorted_keys(tmp_path):
    make(tmp_path / "x.sqlite", THREADS).close()
    assert list(databases.streams(tmp_path / "x.sqlite", WHOLE)) == ["threads"]
    assert databases.read(tmp_path / "x.sqlite", WHOLE, "threads").decode() == (
        '{"row":{"body":"AP8=","id":"a","n":1,"share":null,"title":"eins"},"table":"threads"}\n'
        '{"row":{"body":null,"id":"b","n":2,"share":0.5,"title":"Zweite “Zeile”"},"table":"threads"}\n'
    )
    assert databases.read(tmp_path / "x.sqlite", WHOLE, "private") == b""


@pytest.mark.feature("databases.markers")
def test_a_marker_changes_with_its_rows_and_only_then(tmp_path):
    connection = make(tmp_path / "x.sqlite", THREADS)
    first = databases.streams(tmp_path / "x.sqlite", WHOLE)
    connection.execute("UPDATE private SET secret = 'other'")
    connection.commit()
    assert databases.streams(tmp_path / "x.sqlite", WHOLE) == first
    connection.execute("UPDATE threads SET n = 3 WHERE id = 'b'")
    connection.commit()
    assert databases.streams(tmp_path / "x.sqlite", WHOLE) != first
    connection.close()


LOG = """
CREATE TABLE log (seq INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, what TEXT);
INSERT INTO log (session_id, what) VALUES ('s1', 'a'), ('s2', 'b'), ('s1', 'c'), ('../evil', 'd');
CREATE TABLE old (id INTEGER PRIMARY KEY, sid TEXT, what TEXT);
INSERT INTO old VALUES (1, 's1', 'repeated'), (2, 's9', 'only here');
"""


@pytest.mark.feature("databases.split")
def test_a_split_database_has_a_stream_for_each_value_and_prefers_its_first_table(tmp_path):
    path = tmp_path / "s.db"
    connection = make(path, LOG)
    names = databases.streams(path, SPLIT)
    evil = next(name for name in names if name not in {"s1", "s2", "s9"})
    assert len(names) == 4
    assert "/" not in evil
    what = {name: [json.loads(line)["row"]["what"] for line in databases.read(path, SPLIT, name).splitlines()] for name in names}
    assert what == {"s1": ["a", "c"], "s2": ["b"], "s9": ["only here"], evil: ["d"]}
    before = databases.read(path, SPLIT, "s1")
    connection.execute("INSERT INTO log (session_id, what) VALUES ('s1', 'e')")
    connection.commit()
    after = databases.streams(path, SPLIT)
    assert {name for name in names if after[name] != names[name]} == {"s1"}
    assert databases.read(path, SPLIT, "s1").startswith(before)
    connection.close()


@pytest.mark.feature("databases.read-only")
def test_rows_that_are_still_in_the_log_are_seen(tmp_path):
    path = tmp_path / "w.db"
    connection = make(path, LOG, wal=True)
    assert (tmp_path / "w.db-wal").stat().st_size > 0
    assert b'"what":"c"' in databases.read(path, SPLIT, "s1")
    connection.close()


@pytest.mark.feature("databases.read-only")
def test_a_log_without_its_index_is_read_from_a_copy(tmp_path):
    connection = make(tmp_path / "w.db", LOG, wal=True)
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(tmp_path / "w.db", home)
    shutil.copy(tmp_path / "w.db-wal", home)
    connection.close()
    before = {p.name: p.read_bytes() for p in home.iterdir()}
    assert b'"what":"c"' in databases.read(home / "w.db", SPLIT, "s1")
    assert {p.name: p.read_bytes() for p in home.iterdir()} == before


@pytest.mark.feature("databases.read-only")
def test_a_program_that_closes_its_database_while_it_is_read_takes_its_log_with_it(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    writer = make(home / "w.db", LOG, wal=True)
    assert {path.name for path in home.iterdir()} == {"w.db", "w.db-wal", "w.db-shm"}
    whole = databases._Table.lines

    def lines(table, value):
        writer.close()
        return whole(table, value)

    monkeypatch.setattr(databases._Table, "lines", lines)

    assert b'"what":"c"' in databases.read(home / "w.db", SPLIT, "s1")
    assert {path.name for path in home.iterdir()} == {"w.db"}


@pytest.mark.feature("databases.read-only")
def test_a_database_whose_log_is_written_back_while_it_is_copied_is_copied_again(tmp_path, monkeypatch):
    writer = make(tmp_path / "w.db", LOG, wal=True)
    copied, left = shutil.copyfile, [1]

    def copyfile(path, to):
        if left and str(path).endswith("-wal"):
            left.pop()
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with writer:
                writer.execute("DELETE FROM log WHERE what = 'c'")
        return copied(path, to)

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    found = databases.read(tmp_path / "w.db", SPLIT, "s1")
    writer.close()

    assert not left
    assert b'"what":"c"' not in found
    assert found == databases.read(tmp_path / "w.db", SPLIT, "s1")


@pytest.mark.feature("databases.read-only")
def test_nothing_appears_beside_a_quiet_database(tmp_path):
    make(tmp_path / "q.db", LOG, wal=True).close()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("q")] == ["q.db"]
    databases.read(tmp_path / "q.db", SPLIT, "s1")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("q")] == ["q.db"]


@pytest.mark.feature("databases.errors")
def test_a_locked_database_is_a_source_error_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "WAIT_SECONDS", 0.05)
    connection = make(tmp_path / "l.db", LOG)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SourceError, match="locked") as caught:
        databases.streams(tmp_path / "l.db", SPLIT)
    assert "next run" in caught.value.hint
    connection.close()


@pytest.mark.feature("databases.errors")
@pytest.mark.parametrize("content", [b"", b"not a database at all, by far", b"SQLite format 3\x00" + b"\xff" * 4000])
def test_a_damaged_file_is_empty_or_a_source_error(tmp_path, content):
    path = tmp_path / "d.db"
    path.write_bytes(content)
    if not content:
        assert databases.streams(path, SPLIT) == {}
        return
    with pytest.raises(SourceError):
        databases.streams(path, SPLIT)
    with pytest.raises(SourceError):
        databases.streams(tmp_path / "gone.db", SPLIT)


@pytest.mark.feature("databases.lines")
def test_text_that_is_no_utf8_and_columns_of_any_name_are_read(tmp_path):
    script = """
    CREATE TABLE threads (id TEXT PRIMARY KEY, "odd "" name" TEXT) WITHOUT ROWID;
    INSERT INTO threads VALUES ('a', CAST(X'ff41' AS TEXT));
    """
    make(tmp_path / "t.db", script).close()
    assert json.loads(databases.read(tmp_path / "t.db", WHOLE, "threads"))["row"] == {"id": "a", 'odd " name': "\ufffdA"}
    keyless = Database(tables=(("threads", "gone"),))
    assert list(databases.streams(tmp_path / "t.db", keyless)) == ["threads"]


BOTH = Database(tables=(("log", "seq"), ("more", "id")), split_by="session_id")
PAIRS = """
CREATE TABLE log (seq INTEGER PRIMARY KEY, session_id TEXT);
CREATE TABLE more (id INTEGER PRIMARY KEY, session_id TEXT);
INSERT INTO log VALUES (1, 's1'); INSERT INTO more VALUES (1, 's1');
"""


@pytest.mark.feature("capture.stable-database")
def test_a_change_between_two_tables_is_in_both_or_in_none(tmp_path, monkeypatch):
    path = tmp_path / "pairs.db"
    writer = make(path, PAIRS, wal=True)
    whole, left = databases._Table.lines, [1]

    def lines(table, value):
        found = list(whole(table, value))
        while left:
            with writer:
                writer.executescript(f"INSERT INTO log VALUES ({left[0] + 1}, 's1'); INSERT INTO more VALUES ({left.pop() + 1}, 's1');")
        return iter(found)

    monkeypatch.setattr(databases._Table, "lines", lines)

    def read():
        rows = [json.loads(line) for line in databases.read(path, BOTH, "s1").splitlines()]
        return [(row["table"], row["row"].get("seq") or row["row"].get("id")) for row in rows]

    assert read() == [("log", 1), ("more", 1)]
    assert read() == [("log", 1), ("log", 2), ("more", 1), ("more", 2)]
    writer.close()


@pytest.mark.feature("capture.stable-database")
def test_a_database_without_its_log_that_is_written_to_meanwhile_is_left_for_the_next_run(tmp_path, monkeypatch):
    path = tmp_path / "pairs.db"
    make(path, PAIRS, wal=True).close()
    whole, left = databases._Table.lines, [1]

    def lines(table, value):
        found = list(whole(table, value))
        while left:
            left.pop()
            writer = sqlite3.connect(path)
            with writer:
                writer.execute("INSERT INTO log VALUES (2, 's1')")
            writer.close()
        return iter(found)

    monkeypatch.setattr(databases._Table, "lines", lines)
    with pytest.raises(SourceError, match="was written to while it was read"):
        databases.read(path, BOTH, "s1")
    assert databases.read(path, BOTH, "s1").count(b'"log"') == 2

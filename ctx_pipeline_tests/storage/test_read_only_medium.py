"""A database on a medium that takes no file is read as it lies there, and never without the rows of its log."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import zlib
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.storage import byte_search
from ctx_pipeline.storage.byte_search import Wanted, search
from ctx_pipeline_tests import processes

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

_READS = "import sys; from pathlib import Path; from ctx_pipeline.storage.connections import reading; "
_READS += "print(reading(Path(sys.argv[1])).execute('SELECT v FROM t').fetchall())"
_LISTS = "import sys; from pathlib import Path; from ctx_pipeline.storage.written_sessions import last_written; "
_LISTS += "print([one.session_id for one in last_written(Path(sys.argv[1]))])"


def on_a_medium_that_takes_nothing(folder: Path, code: str, database: Path) -> CompletedProcess[str]:
    """Return how a program ended that reads a database in a folder to which nothing can be added."""
    # whoever may do everything writes there all the same
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    folder.chmod(0o500)
    try:
        return processes.run([*without, sys.executable, "-c", code, str(database)], env=dict(os.environ), cwd=folder.parent)
    finally:
        folder.chmod(0o700)


@pytest.mark.feature("faults.read-only")
@pytest.mark.parametrize("logged", [False, True])
def test_rows_of_a_log_that_cannot_be_read_are_not_left_out(tmp_path: Path, logged: bool) -> None:
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t (v)")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if logged:
        writer.execute("INSERT INTO t VALUES (2)")
    medium = tmp_path / "medium"
    medium.mkdir()
    for name in ("a.db", "a.db-wal"):
        shutil.copy(tmp_path / name, medium / name)
    done = on_a_medium_that_takes_nothing(medium, _READS, medium / "a.db")

    assert (done.returncode == 0) is not logged, done.stderr
    assert logged or done.stdout == "[(1,)]\n"
    assert not logged or "unable to open" in done.stderr


@pytest.mark.feature("faults.read-only")
def test_a_hook_reads_the_sessions_of_a_store_that_takes_no_file(tmp_path: Path) -> None:
    medium = tmp_path / "medium"
    medium.mkdir()
    with closing(logged(medium / "ledger.db")) as writer:
        writer.execute("CREATE TABLE sources (host, session_id, thread_id, root, rel, mtime_ns)")
        writer.execute("CREATE TABLE sessions (host, session_id, rows)")
        writer.execute("INSERT INTO sources VALUES ('h', 's', 's', '/r', 'a.jsonl', 1)")
        writer.execute("INSERT INTO sessions VALUES ('h', 's', '{}')")

    done = on_a_medium_that_takes_nothing(medium, _LISTS, medium / "ledger.db")

    assert done.stdout == "['s']\n", done.stderr


def logged(path: Path) -> sqlite3.Connection:
    """Return a connection to a new database with a log, which goes when the connection closes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (v)")
    connection.execute("INSERT INTO t VALUES ('a word that is looked for')")
    return connection


@pytest.mark.feature("forget.every-byte")
def test_a_search_of_every_byte_leaves_no_file_beside_a_database(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    logged(store / "a.db").close()

    assert search(store, Wanted([b"a word that is looked for"])).found == ["a.db"]
    assert search(store, Wanted([b"another word"])).found == []
    assert [path.name for path in store.iterdir()] == ["a.db"]


@pytest.mark.feature("forget.every-byte")
def test_a_search_sees_what_stands_in_a_log_and_what_is_written_while_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = b"0" * byte_search.SEAL + byte_search.ZIPPED + zlib.compress(b"only unpacked is it seen" * 9)
    with closing(logged(tmp_path / "a.db")) as writer:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        looked_at = byte_search.beside

        def written_then(path: Path) -> object:
            told = looked_at(path)
            if told[1] is None:
                writer.execute("INSERT INTO t VALUES (?)", [sealed])
            return told

        monkeypatch.setattr(byte_search, "beside", written_then)
        assert search(tmp_path, Wanted([b"only unpacked is it seen"])).found == ["a.db"]
        monkeypatch.setattr(byte_search, "beside", looked_at)
        assert looked_at(tmp_path / "a.db")[1] is not None
        assert search(tmp_path, Wanted([b"only unpacked is it seen"])).found == ["a.db"]

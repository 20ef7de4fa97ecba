"""The append-only log of callback stores."""

from __future__ import annotations

import sqlite3
import stat

import pytest

from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreLocked
from ctx_pipeline.storage import callback_store
from ctx_pipeline.storage.callback_store import LogRow, append, open_log
from ctx_pipeline_tests.factories import dspy_store as make


@pytest.mark.feature("callback-store.log")
def test_appended_rows_stand_in_order_in_a_private_file(tmp_path):
    connection = open_log(tmp_path / "deep" / "ctxrot.db")
    rows = make.react()
    assert append(connection, rows) == 5
    found = connection.execute("SELECT seq, kind, call_id FROM log ORDER BY seq").fetchall()
    assert found == [
        (1, "session_start", None),
        (2, "lm_call", "lm1"),
        (3, "tool_call", "t1"),
        (4, "lm_call", "lm2"),
        (5, "session_end", None),
    ]
    assert stat.S_IMODE((tmp_path / "deep" / "ctxrot.db").stat().st_mode) == 0o600
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.feature("callback-store.log")
def test_rows_of_the_log_cannot_be_changed_and_a_failed_batch_leaves_none(tmp_path):
    connection = open_log(tmp_path / "a.db")
    append(connection, make.react())
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE log SET kind = 'x'")
    with pytest.raises(StoreDamaged):
        append(connection, [make.react()[0], LogRow(1, None, "x", None, None, {})])
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (5,)
    connection.close()


@pytest.mark.feature("callback-store.legacy")
def test_an_existing_store_gets_the_log_beside_its_tables(tmp_path):
    path = make.write_legacy(tmp_path / "ctxrot.db")
    connection = open_log(path)
    assert connection.execute("SELECT id FROM lm_calls").fetchall() == [("call1",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (callback_store.VERSION,)
    connection.close()
    open_log(path).close()


@pytest.mark.feature("callback-store.errors")
def test_newer_damaged_and_locked_stores_are_named(tmp_path, monkeypatch):
    newer = sqlite3.connect(tmp_path / "n.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(SchemaTooNew, match="99"):
        open_log(tmp_path / "n.db")
    (tmp_path / "d.db").write_bytes(b"no database, certainly not" * 10)
    with pytest.raises(StoreDamaged):
        open_log(tmp_path / "d.db")
    monkeypatch.setattr(callback_store, "WAIT_SECONDS", 0.05)
    connection = open_log(tmp_path / "l.db")
    other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked):
        append(connection, make.react())
    other.close()
    connection.close()

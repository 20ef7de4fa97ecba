"""What the ledger remembers of decoding and of assets."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from ctx_pipeline.errors import SchemaTooNew, StoreError
from ctx_pipeline.model.raw import Cell, Quarantined
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.ledger import Ledger, NormalizedSession
from ctx_pipeline_tests.storage.test_owners import captured, decoded

MAY = Cell("toy", "2026-05")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db")
    captured(made, "a")
    captured(made, "b")
    yield made
    made.close()


def normalize(ledger: Ledger, *names: str, version: int = 1) -> None:
    ledger.record_normalized(
        [NormalizedSession("toy", n, ledger.session("toy", n).captured_fp, f"hash-{n}", {"events": 3}) for n in names], code_version=version
    )


@pytest.mark.feature("ledger.dirty-until-committed")
def test_a_decoded_session_stays_dirty_until_its_cell_is_recorded(ledger):
    normalize(ledger, "a", "b")
    assert [s.session_id for s in ledger.dirty_sessions()] == ["a", "b"]

    ledger.record_asset("normalized/events", MAY, "in", 1, "out", 3, decoded={"b"})
    assert [s.session_id for s in ledger.dirty_sessions()] == ["a"]
    ledger.record_asset("normalized/events", MAY, "in", 1, "out", 6, decoded={"a"})
    assert ledger.dirty_sessions() == []
    assert [s.session_id for s in ledger.dirty_sessions(versions={"toy": "2"})] == ["a", "b"]
    assert ledger.dirty_sessions(versions={"toy": "1", "other": "2"}) == []


@pytest.mark.feature("ledger.dirty-until-committed")
def test_a_cell_is_unfinished_until_it_was_made_of_what_the_ledger_says_now(ledger):
    assert ledger.unfinished_cells() == {MAY}
    normalize(ledger, "a", "b")
    ledger.record_asset("normalized/events", MAY, ledger.cell_fingerprint(MAY), 1, "out", 6, decoded={"a", "b"})
    assert ledger.unfinished_cells() == set()
    assert ledger.unfinished_cells(versions={"toy": "2"}) == {MAY}
    assert ledger.unfinished_cells(versions={"other": "2"}) == set()

    ledger.forget([s.stream for s in ledger.sources().values()])
    assert ledger.cells() == []
    assert ledger.unfinished_cells() == {MAY}


@pytest.mark.feature("ledger.counts")
def test_counts_quarantine_and_unknown_types_are_those_of_the_last_decoding(ledger):
    bad = Quarantined("00", 0, 7, 100, 120, "not JSON: unterminated string")
    ledger.record_normalized([decoded("a", {}, counts={"events": 4}, quarantine=[bad], unknowns={"type/new": 2})], code_version=1)
    ledger.record_normalized([decoded("b", {}, counts={"events": 5}, unknowns={"type/new": 1, "block/x": 1})], code_version=1)

    assert ledger.totals()["events"] == 9
    assert ledger.unknowns() == {"block/x": 1, "type/new": 3}
    assert ledger.unknowns("toy", "a") == {"type/new": 2}
    assert [(q.session_id, q.line, q.reason) for q in ledger.quarantined()] == [("a", 7, "not JSON: unterminated string")]

    ledger.record_normalized([decoded("a", {}, counts={"events": 1})], code_version=1)
    assert (ledger.totals()["events"], ledger.unknowns("toy", "a"), ledger.quarantined()) == (6, {}, [])


@pytest.mark.feature("ledger.asset-cells")
def test_asset_records_are_kept_by_cell_and_replaced(ledger):
    ledger.record_asset("signals/cost", MAY, "in", "v1", "out", 3)
    ledger.record_asset("signals/cost", MAY, "in2", "v1", "out2", 4)
    ledger.record_asset("memory/index", Cell("", ""), "x", 1, "y", 0)

    row = ledger.asset_cell("signals/cost", MAY)
    assert (row.input_fp, row.content_hash, row.rows) == ("in2", "out2", 4)
    assert list(ledger.asset_cells("signals/cost")) == [MAY]
    assert ledger.asset_cell("memory/index", Cell("", "")).code_version == "1"
    assert ledger.asset_cell("memory/index", MAY) is None


@pytest.mark.feature("store.newer-schema")
def test_a_ledger_of_a_newer_version_is_refused(ledger, tmp_path):
    ledger.connection.execute("PRAGMA user_version=99")

    with pytest.raises(SchemaTooNew, match="version 99"):
        Ledger(tmp_path / "ledger.db")


@pytest.mark.feature("store.read-only")
def test_read_only_needs_a_store_and_creates_nothing(tmp_path):
    settings = Settings(home=tmp_path / "store")
    with pytest.raises(StoreError, match="nothing was captured yet") as caught:
        open_store(settings, read_only=True)
    assert (caught.value.hint, (tmp_path / "store").exists()) == ("ctx run", False)

    with open_store(settings) as store:
        captured(store.ledger, "a")
    before = names(store.home)
    with open_store(settings, read_only=True) as reader:
        assert [s.session_id for s in reader.ledger.sessions()] == ["a"]
        assert (reader.journal.head(), reader.journal.facts()) == (0, [])
        with pytest.raises(StoreError):
            captured(reader.ledger, "b")
    assert names(store.home) == before


def names(home) -> set[str]:
    """Return what lies in a store; SQLite's own files beside a database do not count."""
    return {path.name.removesuffix("-wal").removesuffix("-shm") for path in home.iterdir()}


_CALLS_OF_VERSION_1 = """
DROP TABLE calls; DROP TABLE callers; DROP TABLE digests;
DROP TABLE session_lines; DROP TABLE branch_titles; ALTER TABLE sessions DROP COLUMN given_title;
ALTER TABLE sources DROP COLUMN ctime_ns;
CREATE TABLE calls (
    host TEXT NOT NULL, call_key TEXT NOT NULL, session_id TEXT NOT NULL, ts INTEGER,
    PRIMARY KEY (host, call_key, session_id)
) WITHOUT ROWID;
CREATE INDEX calls_by_session ON calls(host, session_id, call_key, ts);
INSERT INTO calls VALUES ('toy', 'k', 'a', 5), ('toy', 'k', 'b', 6), ('toy', 'own', 'b', 1), ('other', 'k', 'c', 1);
INSERT INTO owners VALUES ('toy', 'k', 'b', 'earliest own record');
PRAGMA user_version=1;
"""


@pytest.mark.feature("store.older-schema")
def test_calls_of_an_older_ledger_keep_their_sessions_and_owners(ledger, tmp_path):
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as older:
        older.executescript(_CALLS_OF_VERSION_1)

    opened = Ledger(tmp_path / "ledger.db")
    assert opened.copies(MAY) == {("a", "k"): ("b", "earliest own record")}
    assert opened.query(
        "SELECT n.host, n.session_id, c.call_key, c.ts FROM callers n JOIN calls c ON c.session = n.number ORDER BY 1, 2, 3"
    ) == [
        ("other", "c", "k", 1),
        ("toy", "a", "k", 5),
        ("toy", "b", "k", 6),
        ("toy", "b", "own", 1),
    ]
    assert opened.contradicting() == []
    opened.close()

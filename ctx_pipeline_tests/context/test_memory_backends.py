"""Our stores of conversations, each through the suite, and what only SQLite has."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
import threading

import pytest

from ctx_pipeline import InMemoryMemory, Interaction, MemoryBackend, SQLiteMemory
from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreError, UsageError
from ctx_pipeline_tests.context.backend_suite import ANSWER, HELLO, RICH, BackendSuite


class TestInMemory(BackendSuite):
    @pytest.fixture
    def memory(self):
        return InMemoryMemory()


class TestSQLite(BackendSuite):
    @pytest.fixture
    def memory(self, tmp_path):
        store = SQLiteMemory(tmp_path / "chat.db")
        yield store
        store.close()


class TestSQLiteInMemory(BackendSuite):
    @pytest.fixture
    def memory(self):
        store = SQLiteMemory(":memory:")
        yield store
        store.close()


@pytest.mark.feature("context.own-backend")
class TestOwnBackend(BackendSuite):
    """A backend as a person writes it: the five methods over a dict of JSON texts."""

    @pytest.fixture
    def memory(self):
        return JsonBackend()


class JsonBackend(MemoryBackend):
    def __init__(self):
        self.inner = InMemoryMemory()

    async def load_context(self, session_id, k=None):
        return json.loads(json.dumps(await self.inner.load_context(session_id, k)))

    async def save_context(self, session_id, context):
        await self.inner.save_context(session_id, context)

    async def append_context(self, session_id, context):
        await self.inner.append_context(session_id, context)

    async def delete_session(self, session_id):
        await self.inner.delete_session(session_id)

    async def delete_interaction(self, session_id, interaction_id):
        await self.inner.delete_interaction(session_id, interaction_id)


def _append_from_a_process(path, number):
    store = SQLiteMemory(path)
    store.sync.save_context("fresh", [{"id": f"f{number}", "content": "x"}])
    for turn in range(5):
        store.sync.append_context("s", [{"id": f"{number}-{turn}", "content": "x"}])
    store.close()


@pytest.mark.feature("context.stores.concurrent")
def test_sixteen_processes_lose_and_duplicate_nothing(tmp_path):
    path = tmp_path / "chat.db"
    store = SQLiteMemory(path)
    store.sync.save_context("s", [])
    store.close()
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_append_from_a_process, args=(path, n)) for n in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(200)

    ids = [m["id"] for m in store.sync.load_context("s")]
    assert [w.exitcode for w in workers] == [0] * 16
    assert sorted(ids) == sorted(f"{n}-{t}" for n in range(16) for t in range(5))
    assert [i for i in ids if i.startswith("3-")] == [f"3-{t}" for t in range(5)]
    assert len(store.sync.load_context("fresh")) == 1
    store.close()


@pytest.mark.feature("context.stores.append-constant")
def test_an_append_writes_one_row_and_touches_no_other(tmp_path):
    store = SQLiteMemory(tmp_path / "chat.db")
    store.sync.save_context("s", [{"id": str(n), "content": "x"} for n in range(500)])
    store.close()
    with sqlite3.connect(tmp_path / "chat.db") as db:
        db.execute("CREATE TABLE touched (seq)")
        db.execute("CREATE TRIGGER t1 AFTER INSERT ON ctx_messages BEGIN INSERT INTO touched VALUES (new.seq); END")
        db.execute("CREATE TRIGGER t2 AFTER UPDATE ON ctx_messages BEGIN INSERT INTO touched VALUES (new.seq); END")
        db.execute("CREATE TRIGGER t3 AFTER DELETE ON ctx_messages BEGIN INSERT INTO touched VALUES (old.seq); END")
    store.sync.append_context("s", [HELLO])
    store.close()

    with sqlite3.connect(tmp_path / "chat.db") as db:
        assert db.execute("SELECT seq FROM touched").fetchall() == [(500,)]


@pytest.mark.feature("context.stores.private")
def test_the_file_is_for_its_owner_only(tmp_path):
    store = SQLiteMemory(tmp_path / "chat.db")
    store.sync.save_context("s", [HELLO])

    assert (tmp_path / "chat.db").stat().st_mode & 0o777 == 0o600
    store.close()


@pytest.mark.feature("context.stores.corruption")
def test_a_damaged_row_is_reported_set_aside_and_survives_a_save(tmp_path, caplog):
    store = SQLiteMemory(tmp_path / "chat.db")
    store.sync.save_context("s", [HELLO, ANSWER])
    store.close()
    with sqlite3.connect(tmp_path / "chat.db") as db:
        db.execute("UPDATE ctx_messages SET body = '{\"id\": ' WHERE seq = 0")

    assert store.sync.load_context("s") == [ANSWER]
    assert "session 's'" in caplog.text
    store.sync.save_context("s", [RICH])
    assert store.sync.quarantined("s") == [("not a JSON object", '{"id": ')]
    assert store.sync.load_context("s") == [RICH]
    store.close()


@pytest.mark.feature("context.stores.corruption")
def test_a_damaged_row_that_nobody_read_survives_a_save_too(tmp_path):
    store = SQLiteMemory(tmp_path / "chat.db")
    store.sync.save_context("s", [HELLO])
    store.close()
    with sqlite3.connect(tmp_path / "chat.db") as db:
        db.execute("UPDATE ctx_messages SET body = '[]'")
    store.sync.save_context("s", [ANSWER])

    assert store.sync.quarantined("s") == [("not a JSON object", "[]")]
    store.close()


@pytest.mark.feature("context.stores.corruption")
def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "chat.db"
    path.write_bytes(b"no database at all " * 100)

    with pytest.raises(StoreDamaged, match=r"chat\.db"):
        SQLiteMemory(path).sync.save_context("s", [HELLO])
    assert path.read_bytes() == b"no database at all " * 100


@pytest.mark.feature("context.stores.corruption")
def test_a_store_of_a_newer_version_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "chat.db") as db:
        db.execute("PRAGMA user_version = 99")

    with pytest.raises(SchemaTooNew):
        SQLiteMemory(tmp_path / "chat.db").sync.load_context("s")


@pytest.mark.feature("context.stores.corruption")
def test_a_missing_file_is_not_made_when_it_must_exist(tmp_path):
    with pytest.raises(StoreError, match="there is no database"):
        SQLiteMemory(tmp_path / "none.db", create_db=False).sync.load_context("s")
    assert not (tmp_path / "none.db").exists()


def _contextstore(path, rows):
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE tb_context (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, context_json TEXT, "
            "created_at TIMESTAMP, updated_at TIMESTAMP)"
        )
        db.executemany("INSERT INTO tb_context (session_id, context_json) VALUES (?, ?)", rows)


@pytest.mark.feature("context.stores.contextstore")
def test_a_file_of_contextstore_is_read_and_taken_over(tmp_path):
    moved = [
        {"id": "1", "content": {"data": "Hi", "role": "user"}, "timestamp": "2024-01-01T00:00:00+00:00"},
        {"id": "2", "content": {"text": "Hello", "role": "assistant"}, "timestamp": "2024-01-01T00:00:01+00:00"},
    ]
    _contextstore(tmp_path / "old.db", [("s", "[]"), ("s", json.dumps(moved))])
    store = SQLiteMemory(tmp_path / "old.db")
    store.sync.append_context("s", [RICH])

    assert store.sync.load_context("s") == [
        {"id": "1", "role": "user", "content": "Hi", "timestamp": "2024-01-01T00:00:00+00:00"},
        {"id": "2", "role": "assistant", "content": {"text": "Hello"}, "timestamp": "2024-01-01T00:00:01+00:00"},
        RICH,
    ]
    store.close()
    with sqlite3.connect(tmp_path / "old.db") as db:
        assert db.execute("SELECT count(*) FROM tb_context").fetchone() == (2,)


@pytest.mark.feature("context.stores.contextstore")
def test_damaged_json_of_contextstore_is_kept(tmp_path):
    _contextstore(tmp_path / "old.db", [("s", "[{broken")])
    store = SQLiteMemory(tmp_path / "old.db")

    assert store.sync.load_context("s") == []
    store.sync.append_context("s", [HELLO])
    assert store.sync.quarantined("s") == [("contextstore's JSON is damaged", "[{broken")]
    store.close()


@pytest.mark.feature("context.stores.round-trip")
def test_what_json_cannot_hold_is_refused_whole(tmp_path):
    store = SQLiteMemory(tmp_path / "chat.db")
    store.sync.save_context("s", [HELLO])

    with pytest.raises(TypeError, match="cannot be written as JSON"):
        store.sync.append_context("s", [ANSWER, {"id": "9", "content": object()}])
    assert store.sync.load_context("s") == [HELLO]
    store.close()


@pytest.mark.feature("context.stores.round-trip")
@pytest.mark.parametrize("value", [b"ab", float("nan"), {1: "a"}, {1, 2}, [[float("inf")]], {"a": {2: 3}}], ids=repr)
def test_what_would_come_back_as_something_else_is_refused(tmp_path, value):
    memory = SQLiteMemory(tmp_path / "chat.db")
    memory.sync.save_context("s", [HELLO])

    for method in ("save_context", "append_context"):
        with pytest.raises(TypeError, match="message '9'") as caught:
            getattr(memory.sync, method)("s", [{"id": "9", "content": value}])
        assert caught.value.hint
    assert memory.sync.load_context("s") == [HELLO]
    memory.sync.save_context("s", [{**HELLO, "content": [2**70, 1.0, (1, True), None, "\u2028"]}])
    assert memory.sync.load_context("s")[0]["content"] == [2**70, 1.0, [1, True], None, "\u2028"]
    memory.close()


@pytest.mark.feature("context.stores.round-trip")
@pytest.mark.parametrize("store", [InMemoryMemory, lambda: SQLiteMemory(":memory:")], ids=["memory", "sqlite"])
def test_what_is_nested_too_deeply_is_refused(store):
    deep = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(TypeError, match="nested too deeply"):
        store().sync.save_context("s", [{"content": deep}])


@pytest.mark.feature("context.stores.corruption")
def test_a_row_that_is_no_text_is_set_aside_and_the_others_are_read(tmp_path):
    memory = SQLiteMemory(tmp_path / "chat.db")
    memory.sync.save_context("s", [{**HELLO, "id": str(number)} for number in range(3)])
    with sqlite3.connect(tmp_path / "chat.db") as db:
        db.execute("UPDATE ctx_messages SET body = CAST(x'7b22ff22' AS TEXT) WHERE seq = 1")

    assert [m["id"] for m in memory.sync.load_context("s")] == ["0", "2"]
    memory.sync.save_context("s", [HELLO])
    assert memory.sync.quarantined("s") == [("not a JSON object", '{"\\xff"')]
    memory.close()


@pytest.mark.feature("context.stores.corruption")
@pytest.mark.parametrize("session", [None, {}, "\ud800"], ids=repr)
def test_a_name_that_no_session_can_have_is_not_taken_for_a_damaged_file(tmp_path, session):
    memory = SQLiteMemory(tmp_path / "chat.db")

    with pytest.raises(UsageError, match="session id"):
        memory.sync.save_context(session, [HELLO])
    memory.sync.save_context("s", [HELLO])
    assert memory.sync.load_context("s") == [HELLO]
    memory.close()


@pytest.mark.feature("context.sync")
def test_a_backend_may_use_another_one_without_await_inside_its_own_methods():
    inner = InMemoryMemory()
    inner.sync.save_context("s", [HELLO])

    class Wrapped(InMemoryMemory):
        async def load_context(self, session_id, k=None):
            return inner.sync.load_context(session_id, k)

    found = []
    waiting = threading.Thread(target=lambda: found.append(Wrapped().sync.load_context("s")), daemon=True)
    waiting.start()
    waiting.join(250)

    assert found == [[HELLO]]


@pytest.mark.feature("context.stores.contextstore")
def test_sessions_of_contextstore_are_listed_before_they_are_taken_over(tmp_path):
    with sqlite3.connect(tmp_path / "old.db") as db:
        db.execute("CREATE TABLE tb_context (id INTEGER PRIMARY KEY, session_id TEXT, context_json TEXT)")
        db.executemany("INSERT INTO tb_context (session_id, context_json) VALUES (?, '[]')", [("b",), ("b",), ("a",)])
    memory = SQLiteMemory(tmp_path / "old.db")
    memory.sync.save_context("c", [HELLO])

    assert memory.sync.sessions() == ["a", "b", "c"]
    memory.close()


@pytest.mark.feature("context.stores.round-trip")
def test_an_interaction_keeps_an_id_and_a_time_that_are_zero():
    made = Interaction.from_dict({"id": 0, "timestamp": 0, "content": "x"})

    assert (made.id, made.timestamp) == (0, 0)

"""Vectors: kept, checked, searched, deleted; and the store that ties them to conversations."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import threading
import weakref

import numpy as np
import pytest

from ctx_pipeline import (
    InMemoryEmbeddingStore,
    InMemoryMemory,
    RetrievalBackend,
    SessionStore,
    SessionStoreConfig,
    SQLiteEmbeddingStore,
    infer_embedding_dim,
    retrieve_relevant,
    validate_vectors,
)
from ctx_pipeline.context.errors import EmbeddingFailed


def letters(texts):
    """One dimension a letter: the share of the text that it makes up."""
    return [[text.lower().count(chr(97 + n)) / max(len(text), 1) for n in range(26)] for text in texts]


@pytest.fixture(params=["memory", "sqlite"])
def vectors(request, tmp_path):
    if request.param == "memory":
        yield InMemoryEmbeddingStore()
    else:
        store = SQLiteEmbeddingStore(tmp_path / "vectors.db")
        yield store
        store.close()


@pytest.mark.feature("context.retrieval.search")
def test_the_nearest_come_first_and_ties_as_they_were_added(vectors):
    for name, vector in {"east": [1, 0], "north": [0, 1], "east too": [2, 0], "west": [-1, 0]}.items():
        vectors.sync.add("s", name, vector, {"name": name})

    found = vectors.sync.search("s", [3, 0], 4)

    assert [(i.message_id, round(i.score, 6)) for i in found] == [("east", 1), ("east too", 1), ("north", 0), ("west", -1)]
    assert found[0].metadata == {"name": "east"}
    assert [i.message_id for i in vectors.sync.search("s", [3, 0], 1)] == ["east"]


@pytest.mark.feature("context.retrieval.search")
def test_many_ties_stay_in_order(vectors):
    for number in range(60):
        vectors.sync.add("s", str(number), [1 + number % 2, 0] if number % 3 else [0, 1])

    assert [i.message_id for i in vectors.sync.search("s", [1, 0], 30)] == [str(n) for n in range(60) if n % 3][:30]


@pytest.mark.feature("context.retrieval.search")
def test_nothing_is_found_where_nothing_can_be(vectors):
    vectors.sync.add("s", "1", [1, 0])

    assert vectors.sync.search("t", [1, 0], 5) == []
    assert vectors.sync.search("s", [0, 0], 5) == []
    assert vectors.sync.search("s", [1, 0], 0) == vectors.sync.search("s", [1, 0], -1) == []


@pytest.mark.feature("context.retrieval.filters")
def test_threshold_and_where_narrow_the_search(vectors):
    vectors.sync.add("s", "1", [1, 0], {"role": "user"})
    vectors.sync.add("s", "2", [1, 0.1], {"role": "assistant"})
    vectors.sync.add("s", "3", [0, 1], {"role": "user"})

    assert [i.message_id for i in vectors.sync.search("s", [1, 0], 5, threshold=0.5)] == ["1", "2"]
    assert [i.message_id for i in vectors.sync.search("s", [1, 0], 5, where={"role": "user"})] == ["1", "3"]
    assert [i.message_id for i in vectors.sync.search("s", [1, 0], 5, where=lambda m: m["role"] == "assistant")] == ["2"]


@pytest.mark.feature("context.retrieval.validation")
@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0], "Expected embedding dimension 2"),
        ([float("nan"), 1], "NaN"),
        ([float("inf"), 1], "NaN or infinity"),
        (["a", 1], "non-numeric"),
        ("ab", "not a list"),
        ([], "empty"),
    ],
)
def test_bad_vectors_are_refused_when_they_are_added(vectors, vector, message):
    vectors.sync.add("s", "1", [1, 0])

    with pytest.raises(ValueError, match=message):
        vectors.sync.add("s", "2", vector)
    assert vectors.sync.has_embedding("s", "2") is False


@pytest.mark.feature("context.retrieval.delete")
def test_deleted_vectors_are_not_found(vectors):
    for name in "abc":
        vectors.sync.add("s", name, [1, 0])

    assert vectors.sync.delete("s", ["b", "nobody"]) == 1
    assert [i.message_id for i in vectors.sync.search("s", [1, 0], 5)] == ["a", "c"]
    assert vectors.sync.delete("s") == 2
    assert vectors.sync.search("s", [1, 0], 5) == []
    vectors.sync.add("s", "d", [1, 2, 3])
    assert [i.message_id for i in vectors.sync.search("s", [1, 2, 3], 5)] == ["d"]


@pytest.mark.feature("context.retrieval.search")
def test_a_vector_added_again_replaces_the_old_one(vectors):
    vectors.sync.add("s", "1", [1, 0], {"text": "old"})
    vectors.sync.add("s", "1", [0, 1], {"text": "new"})

    assert [(i.score, i.metadata) for i in vectors.sync.search("s", [0, 1], 5)] == [(1.0, {"text": "new"})]


@pytest.mark.feature("context.retrieval.search")
def test_many_vectors_agree_with_the_definition(vectors):
    rng = np.random.default_rng(5)
    rows, query = rng.normal(size=(200, 16)), rng.normal(size=16)
    for number, row in enumerate(rows):
        vectors.sync.add("s", str(number), row)
    cosine = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)

    assert [int(i.message_id) for i in vectors.sync.search("s", query, 7)] == [int(n) for n in np.argsort(-cosine)[:7]]


@pytest.mark.feature("context.retrieval.persistence")
def test_vectors_survive_and_another_store_sees_changes(tmp_path):
    first, second = SQLiteEmbeddingStore(tmp_path / "v.db"), SQLiteEmbeddingStore(tmp_path / "v.db")
    first.sync.add("s", "1", [1, 0], {"text": "one"})

    assert [i.metadata for i in second.sync.search("s", [1, 0], 5)] == [{"text": "one"}]
    first.sync.add("s", "2", [1, 0])
    assert [i.message_id for i in second.sync.search("s", [1, 0], 5)] == ["1", "2"]
    first.close()
    second.close()


@pytest.mark.feature("context.retrieval.embed-functions")
def test_every_kind_of_embedding_function_works():
    class Callable:
        async def __call__(self, texts):
            return letters(texts)

    async def asynchronous(texts):
        return letters(texts)

    store = InMemoryEmbeddingStore()
    store.sync.add("s", "1", letters(["abc"])[0])
    for embed_fn in (letters, asynchronous, Callable(), lambda t: np.array(letters(t), dtype=np.float32), asynchronous):
        found = asyncio.run(retrieve_relevant("s", "cab", embed_fn, store))
        assert [(i.message_id, round(i.score, 5)) for i in found] == [("1", 1.0)]


@pytest.mark.feature("context.retrieval.validation")
def test_vectors_are_checked_as_a_whole():
    assert validate_vectors(np.ones((2, 3))) == [[1.0] * 3] * 2
    assert infer_embedding_dim([[1, 2, 3]]) == 3
    for bad, message in [("x", "must be a list"), ([[1], [1, 2]], "expected 1"), ([1], "not a list"), ([[None]], "non-numeric")]:
        with pytest.raises(ValueError, match=message):
            validate_vectors(bad)
    with pytest.raises(ValueError, match="Expected embedding dimension 4"):
        validate_vectors([[1, 2]], expected_dim=4)
    with pytest.raises(ValueError, match="empty list"):
        infer_embedding_dim([])


@pytest.mark.feature("context.retrieval.validation")
def test_a_function_that_gives_too_few_vectors_is_named():
    with pytest.raises(EmbeddingFailed, match="0 vectors for 1 texts"):
        asyncio.run(retrieve_relevant("s", "q", lambda _t: [], InMemoryEmbeddingStore()))


TALK = [
    {"id": "1", "role": "user", "content": "aaa"},
    {"id": "2", "role": "assistant", "content": {"text": "bbb"}},
    {"id": "3", "role": "user", "content": [{"type": "text", "text": "ccc"}]},
]


def store_with(embed_fn=letters, *, auto=True):
    return SessionStore(InMemoryMemory(), InMemoryEmbeddingStore(), SessionStoreConfig(auto_embed=auto, embed_fn=embed_fn))


def nearest(store, query, **options):
    return [i.message_id for i in store.sync.retrieve_relevant("s", query, k=1, threshold=0.5, **options)]


@pytest.mark.feature("context.session-store.auto-embed")
def test_saved_and_appended_messages_are_found():
    store = store_with()
    store.sync.save_context("s", TALK[:2])
    store.sync.append_context("s", TALK[2:])

    assert [nearest(store, q) for q in ("a", "b", "c")] == [["1"], ["2"], ["3"]]
    assert store.sync.retrieve_relevant("s", "a", 1)[0].metadata == {"text": "aaa", "role": "user"}


@pytest.mark.feature("context.session-store.auto-embed")
def test_one_call_for_a_batch_and_none_for_what_is_known():
    calls = []

    def counting(texts):
        calls.append(list(texts))
        return letters(texts)

    store = store_with(counting)
    store.sync.save_context("s", TALK)
    store.sync.save_context("s", TALK)
    store.sync.save_context("s", [{**TALK[0], "content": "ddd"}, *TALK[1:]])

    assert calls == [["aaa", "bbb", "ccc"], ["ddd"]]
    assert nearest(store, "d") == ["1"]
    assert nearest(store, "a") == []


@pytest.mark.feature("context.session-store.auto-embed")
def test_a_message_without_an_id_is_embedded_under_the_one_it_got():
    store = store_with()
    store.sync.save_context("s", [{"role": "user", "content": "aaa"}])

    assert nearest(store, "a") == [store.sync.load_context("s")[0]["id"]]


@pytest.mark.feature("context.session-store.delete")
def test_what_is_deleted_is_not_found():
    store = store_with()
    store.sync.save_context("s", TALK)
    store.sync.delete_interaction("s", "2")
    assert [nearest(store, q) for q in ("a", "b", "c")] == [["1"], [], []]
    store.sync.save_context("s", TALK[1:])
    assert nearest(store, "a") == []
    store.sync.delete_session("s")
    assert store.sync.retrieve_relevant("s", "b") == []


@pytest.mark.feature("context.session-store.background")
def test_a_slow_function_in_the_background_leaves_the_loop_free():
    ticked = threading.Event()

    def slow(texts):
        assert ticked.wait(250), "the loop stood still"
        return letters(texts)

    async def run():
        store = store_with(slow, auto=False)
        task = store.spawn_background_embedding("s", "1", "aaa")
        for _ in range(5):
            await asyncio.sleep(0.01)
        begun = not task.done()
        ticked.set()
        return isinstance(task, asyncio.Task), begun, await store.wait_for_embeddings(), await store.retrieval.has_embedding("s", "1")

    assert asyncio.run(run()) == (True, True, [], True)


@pytest.mark.feature("context.session-store.background")
def test_failures_in_the_background_are_reported(caplog):
    def broken(_texts):
        raise RuntimeError("no model")

    async def run():
        store = store_with(broken, auto=False)
        store.spawn_background_embedding("s", "1", "aaa")
        return await store.wait_for_embeddings()

    errors = asyncio.run(run())
    assert [type(e) for e in errors] == [EmbeddingFailed]
    assert "no model" in caplog.text


@pytest.mark.feature("context.session-store.configuration")
def test_what_is_missing_is_said():
    memory, vectors = InMemoryMemory(), InMemoryEmbeddingStore()
    with pytest.raises(ValueError, match="auto_embed requires embed_fn"):
        SessionStore(memory, vectors, SessionStoreConfig(auto_embed=True))
    with pytest.raises(ValueError, match="auto_embed requires a retrieval backend"):
        SessionStore(memory, config=SessionStoreConfig(auto_embed=True, embed_fn=letters))
    with pytest.raises(ValueError, match="No retrieval backend"):
        SessionStore(memory).sync.retrieve_relevant("s", "x")
    with pytest.raises(ValueError, match="No embed_fn"):
        SessionStore(memory, vectors).sync.add_message_embedding("s", "1", "x")


@pytest.mark.feature("context.retrieval.own-backend")
def test_a_backend_with_the_three_documented_methods_is_enough():
    class Three:
        def __init__(self):
            self.inner = InMemoryEmbeddingStore()

        async def add(self, session_id, message_id, vector, metadata=None):
            await self.inner.add(session_id, message_id, vector, metadata)

        async def search(self, session_id, query_vector, k):
            return await self.inner.search(session_id, query_vector, k)

        async def has_embedding(self, session_id, message_id):
            return await self.inner.has_embedding(session_id, message_id)

    backend = Three()
    store = SessionStore(InMemoryMemory(), backend, SessionStoreConfig(auto_embed=True, embed_fn=letters))
    store.sync.save_context("s", TALK)
    store.sync.delete_interaction("s", "2")

    assert isinstance(backend, RetrievalBackend)
    assert [i.message_id for i in store.sync.retrieve_relevant("s", "a", k=1)] == ["1"]


@pytest.mark.feature("context.retrieval.packaged-model")
def test_the_packaged_model_knows_what_texts_are_about():
    pytest.importorskip("wordllama")
    from ctx_pipeline import packaged_embed_fn

    store = store_with(packaged_embed_fn)
    store.sync.save_context(
        "s",
        [
            {"id": "code", "content": "Python is a programming language."},
            {"id": "city", "content": "Paris is the capital of France."},
            {"id": "food", "content": "Bake the bread for an hour in the oven."},
        ],
    )

    assert [
        store.sync.retrieve_relevant("s", q, 1)[0].message_id for q in ("software developers", "European towns", "a recipe for cake")
    ] == [
        "code",
        "city",
        "food",
    ]
    assert packaged_embed_fn(["a", ""]).shape == (2, 256)


def hashed(texts):
    """The documented stand-in for an embedding; it belongs to tests only."""
    return [[b / 255.0 for b in hashlib.sha256(t.lower().encode()).digest()] + [0.0] * (768 - 32) for t in texts]


@pytest.mark.feature("context.retrieval.search")
def test_the_documented_stand_in_finds_equal_texts():
    store = store_with(hashed)
    store.sync.save_context("s", TALK)

    assert store.sync.retrieve_relevant("s", "AAA", 1)[0].score == pytest.approx(1.0, abs=1e-6)


@pytest.mark.feature("context.sync")
def test_every_class_with_async_methods_has_them_without_await_also_inside_a_loop(tmp_path):
    async def inside():
        vectors = SQLiteEmbeddingStore(tmp_path / "v.db")
        vectors.sync.add("s", "1", [1.0, 0.0])
        plain = InMemoryEmbeddingStore()
        plain.sync.add("s", "1", [1.0, 0.0])
        store = SessionStore(InMemoryMemory())
        store.sync.save_context("s", [{"id": "1", "content": "x"}])
        found = [v.sync.search("s", [1.0, 0.0], 1)[0].message_id for v in (vectors, plain)]
        vectors.close()
        return found, store.sync.load_context("s")[0]["content"]

    assert asyncio.run(inside()) == (["1", "1"], "x")


@pytest.mark.feature("context.retrieval.search")
def test_only_the_direction_of_a_vector_counts_however_large_or_small_it_is(vectors):
    vectors.sync.add("s", "huge", [1e39, 1e39])
    vectors.sync.add("s", "tiny", [1e-50, 0])

    assert [(i.message_id, round(i.score, 4)) for i in vectors.sync.search("s", [1, 0])] == [("tiny", 1.0), ("huge", 0.7071)]


@pytest.mark.feature("context.retrieval.persistence")
def test_an_addition_of_ones_own_does_not_read_the_session_again(tmp_path, monkeypatch):
    mine, other = SQLiteEmbeddingStore(tmp_path / "v.db"), SQLiteEmbeddingStore(tmp_path / "v.db")
    mine.sync.add("s", "a", [1, 0])
    assert [i.message_id for i in mine.sync.search("s", [1, 0])] == ["a"]
    reads = []
    take = InMemoryEmbeddingStore.take
    monkeypatch.setattr(InMemoryEmbeddingStore, "take", lambda *args: (reads.append(args), take(*args)))
    mine.sync.add("s", "b", [1, 0], {"n": 1})
    mine.sync.add("s", "a", [0, 1])

    assert [(i.message_id, i.metadata) for i in mine.sync.search("s", [1, 0])] == [("b", {"n": 1}), ("a", {})]
    assert reads == []
    other.sync.add("s", "c", [1, 0])
    assert [i.message_id for i in mine.sync.search("s", [1, 0])] == ["b", "c", "a"]
    assert len(reads) == 1
    mine.close()
    other.close()


@pytest.mark.feature("context.retrieval.persistence")
def test_a_session_that_somebody_made_anew_is_read_again(tmp_path):
    mine, other = SQLiteEmbeddingStore(tmp_path / "v.db"), SQLiteEmbeddingStore(tmp_path / "v.db")
    mine.sync.add("s", "old", [1, 0])
    assert [i.message_id for i in mine.sync.search("s", [1, 0])] == ["old"]
    other.sync.delete("s")
    other.sync.add("s", "new", [1, 0, 0])

    assert [i.message_id for i in mine.sync.search("s", [1, 0, 0])] == ["new"]
    mine.close()
    other.close()


@pytest.mark.feature("context.session-store.auto-embed")
def test_a_message_that_lost_its_text_is_found_no_more():
    store = SessionStore(InMemoryMemory(), InMemoryEmbeddingStore(), SessionStoreConfig(auto_embed=True, embed_fn=letters))
    store.sync.save_context("s", [{"id": "1", "content": "secret"}, {"id": "2", "content": "other"}])
    store.sync.save_context("s", [{"id": "1", "content": ""}, {"id": "2", "content": "other"}])

    assert [i.message_id for i in store.sync.retrieve_relevant("s", "secret")] == ["2"]


@pytest.mark.feature("context.session-store.background")
def test_embeddings_that_ended_in_the_background_are_not_kept_and_their_errors_are():
    def moody(texts):
        if texts == ["bad"]:
            raise ValueError("no")
        return letters(texts)

    store = SessionStore(InMemoryMemory(), InMemoryEmbeddingStore(), SessionStoreConfig(embed_fn=moody))

    async def spawn():
        tasks = [store.spawn_background_embedding("s", str(n), "bad" if n == 3 else "good") for n in range(20)]
        gone = list(map(weakref.ref, tasks))
        await asyncio.wait(tasks)
        await asyncio.sleep(0)
        del tasks
        gc.collect()
        return sum(ref() is not None for ref in gone), await store.wait_for_embeddings(), await store.wait_for_embeddings()

    kept, errors, again = asyncio.run(asyncio.wait_for(spawn(), 100))
    # a task whose error is kept lives on in the error's traceback
    assert kept <= 1
    assert [type(error) for error in errors] == [EmbeddingFailed]
    assert again == []


@pytest.mark.feature("context.retrieval.search")
@pytest.mark.parametrize("dimensions", [26, 100, 384])
def test_equal_vectors_tie_wherever_they_stand(dimensions):
    store = InMemoryEmbeddingStore()
    rng = np.random.default_rng(dimensions)
    same, query = rng.normal(size=dimensions), rng.normal(size=dimensions)
    for number in range(103):
        store.sync.add("s", str(number), same)
    found = store.sync.search("s", query, 103)

    assert [i.message_id for i in found] == [str(number) for number in range(103)]
    assert len({i.score for i in found}) == 1


@pytest.mark.feature("context.stores.same-answers")
@pytest.mark.parametrize("k", ["a", 1.5, True])
def test_how_many_are_wanted_is_a_whole_number(tmp_path, k):
    asked = []

    def embed_fn(texts):
        asked.append(texts)
        return [[1.0]] * len(texts)

    for store in (InMemoryEmbeddingStore(), SQLiteEmbeddingStore(tmp_path / "vectors.db")):
        with pytest.raises(TypeError, match=f"k is {k!r}"):
            store.sync.search("s", [1.0], k)
        with pytest.raises(TypeError, match=f"k is {k!r}"):
            SessionStore(InMemoryMemory(), store, SessionStoreConfig(embed_fn=embed_fn)).sync.retrieve_relevant("s", "q", k=k)
    assert asked == []

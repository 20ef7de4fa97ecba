"""Memories found by meaning: off unless a person names an embedding function, cached, explained, and silent as before."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from types import ModuleType

import pytest

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.learning import memories as api
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.code_versions import collect
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.memory_index import Embedder, MemoryIndex, embedded

NAME = "a_model_of_this_test:embed"
MEANINGS = {"car": (1.0, 0.0, 0.0), "automobile": (0.9, 0.1, 0.0), "boat": (0.0, 1.0, 0.0), "hat": (0.0, 0.0, 1.0)}
"""A word gives its text its direction; cos(car, automobile) is 0.994, all others are 0."""


@pytest.fixture
def model(monkeypatch):
    """A module with an embedding function that keeps what it was asked."""
    made = ModuleType("a_model_of_this_test")
    made.asked = []

    def embed(texts: list[str]) -> list[tuple[float, float, float]]:
        made.asked += texts
        return [next((v for word, v in MEANINGS.items() if word in text), (0.0, 0.0, 0.0)) for text in texts]

    made.embed = embed
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def memory(name, text, **more):
    return Memory(name, "tool_lesson", text, **({"scope": "user"} | more))


MEMORIES = [
    memory("m-car", "wash the automobile on Mondays"),
    memory("m-boat", "paint the boat before spring", repository="/home/sam/code/sea", cwd="/home/sam/code/sea", scope="repo"),
    memory("m-held", "the automobile obeys you", status="needs_review", flags=["injection"]),
    *(memory(f"m-{n}", f"tool number {n} needs oil") for n in range(20)),
]


def settings(folder, name=NAME):
    return Settings(home=folder, config={"memory": {"embedder": name}} if name else {})


def write(folder, model, memories=MEMORIES, **more):
    from ctx_pipeline.context.retrieval.embedding import load_embedding

    MemoryIndex(folder / "memory.db").rebuild(memories, embedder=Embedder(NAME, load_embedding(NAME)) if model else None, **more)


def ids(found):
    return [s.memory.memory_id for s in found]


@pytest.mark.feature("memory.hybrid")
def test_what_means_the_same_is_found_where_a_person_chose_it_and_not_otherwise(tmp_path, model):
    write(tmp_path, model)
    question = "where is my car"

    assert api.retrieve(question, settings=settings(tmp_path, "")) == []
    (found,) = api.retrieve(question, settings=settings(tmp_path))

    assert found.memory.memory_id == "m-car"
    assert found.parts["closeness"] == pytest.approx(0.9939, abs=0.001)
    assert "closeness" not in api.retrieve("wash the automobile", settings=settings(tmp_path, ""))[0].parts


@pytest.mark.feature("memory.hybrid")
def test_what_is_not_close_is_no_answer_and_other_places_stay_closed(tmp_path, model):
    write(tmp_path, model)

    assert api.retrieve("a hat please", settings=settings(tmp_path)) == []
    assert api.retrieve("what is it with the and to", settings=settings(tmp_path)) == []
    assert api.retrieve("my boat", cwd="/home/sam/code/other", settings=settings(tmp_path)) == []
    assert ids(api.retrieve("my boat", cwd="/home/sam/code/sea", settings=settings(tmp_path))) == ["m-boat"]
    assert api.retrieve("where is my car", accepted_only=True, settings=settings(tmp_path)) == []


@pytest.mark.feature("memory.hybrid")
def test_of_a_pasted_output_the_error_is_compared(tmp_path, model):
    write(tmp_path, model)

    api.retrieve("12 passed\nsome hat\nTypeError: the car takes no eggs\nend of it\n", settings=settings(tmp_path))

    assert model.asked[-1] == "TypeError: the car takes no eggs"


@pytest.mark.feature("memory.hybrid")
def test_vectors_are_made_once_for_each_text_and_again_when_they_are_wanted_afresh(tmp_path, model):
    write(tmp_path, model)
    assert len(model.asked) == 22
    model.asked.clear()

    write(tmp_path, model, [*MEMORIES, memory("m-new", "a new hat")])
    assert model.asked == [embedded(memory("m-new", "a new hat"))]
    model.asked.clear()

    write(tmp_path, model, afresh=True)
    assert len(model.asked) == 22
    with closing(sqlite3.connect(tmp_path / "memory.db")) as db:
        assert db.execute("SELECT count(*), count(DISTINCT model), max(length(vector)) FROM vectors").fetchone() == (22, 1, 6)


@pytest.mark.feature("memory.hybrid")
def test_without_vectors_or_with_those_of_another_model_words_find_as_ever(tmp_path, model):
    write(tmp_path, None)
    assert ids(api.retrieve("wash the automobile", settings=settings(tmp_path))) == ["m-car"]
    assert api.retrieve("where is my car", settings=settings(tmp_path)) == []

    write(tmp_path, model)
    model.embed = lambda texts: [[1.0, 0.0] for _ in texts]
    assert ids(api.retrieve("wash the automobile", settings=settings(tmp_path))) == ["m-car"]


@pytest.mark.feature("memory.hybrid")
@pytest.mark.parametrize("name", ["no_such_module:embed", "a_model_of_this_test:nothing", "json:__doc__", "no name", "os.system", 5])
def test_a_name_that_leads_nowhere_is_an_error_of_the_settings(tmp_path, model, name):
    write(tmp_path, model)

    with pytest.raises(SettingsError) as error:
        api.retrieve("where is my car", settings=settings(tmp_path, name))
    assert "memory.embedder" in error.value.message


@pytest.mark.feature("memory.hybrid")
def test_the_stage_embeds_and_another_function_makes_the_index_stale(tmp_path, model):
    chosen = settings(tmp_path)
    plain = settings(tmp_path, "")
    with open_store(chosen) as store:
        from ctx_pipeline.pipeline.consolidate import consolidate

        store.journal.append(
            "memory.authored", {"memory_id": "mem-own", "text": "wash the automobile", "kind": "tool_lesson", "scope": "user"}
        )
        consolidate(store, chosen)
        index_memory(store, chosen)
        assert ids(api.retrieve("where is my car", settings=chosen)) == ["mem-own"]
        assert index_memory(store, chosen).cells[""].status == "unchanged"
        assert index_memory(store, plain).cells[""].status == "done"
    versions = {collect(s).assets["memory/index"] for s in (chosen, plain, settings(tmp_path, "json:dumps"))}
    assert len(versions) == 3


@pytest.mark.feature("memory.hybrid")
def test_the_packaged_model_answers_a_question_in_other_words(tmp_path):
    pytest.importorskip("wordllama")
    name = "ctx_pipeline.context.retrieval.embedding:packaged_embed_fn"
    from ctx_pipeline.context.retrieval.embedding import load_embedding

    rows = [
        memory("m-db", "the database is locked while migrations run"),
        *(memory(f"m-{n}", f"tool number {n} needs oil") for n in range(9)),
    ]
    MemoryIndex(tmp_path / "memory.db").rebuild(rows, embedder=Embedder(name, load_embedding(name)))

    assert ids(api.retrieve("migration locks databases", settings=settings(tmp_path, name)))[:1] == ["m-db"]
    assert json.dumps(api.plain(api.retrieve("migration locks databases", settings=settings(tmp_path, name))[0]))

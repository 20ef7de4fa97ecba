"""A failure is found by the line that says what went wrong, whatever was pasted around it."""

from __future__ import annotations

import pytest

from ctx_pipeline.learning import memories as api
from ctx_pipeline.memory.ranking import LEAST_COVERED, words_of
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage.memory_index import MemoryIndex

NOISE = "\n".join(f"    result{n} = lookup{n}(table{n}, column{n})" for n in range(40))


def memory(name, text, **more):
    return Memory(name, "failure_trigger", text, **({"scope": "user"} | more))


LOCKED = memory("m-locked", "`pytest` failed with “sqlite3.OperationalError: database is locked”; it passed with one worker.")
HASH = memory("m-hash", "`pytest` failed with “TypeError: unhashable type: 'list'”; it passed after changes in `src/keys.py`.")
OTHERS = [memory(f"m-{n}", f"step {n} of the brewing machine wants descaling") for n in range(40)]


@pytest.fixture
def settings(tmp_path):
    made = MemoryIndex(tmp_path / "memory.db")
    made.rebuild([LOCKED, HASH, *OTHERS])
    made.close()
    return Settings(home=tmp_path)


def ids(found):
    return [s.memory.memory_id for s in found]


@pytest.mark.feature("memory.retrieve-errors")
def test_the_error_of_a_pasted_page_finds_the_memory_that_quotes_it(settings):
    page = f"Exit code 1\nTraceback (most recent call last):\n{NOISE}\nTypeError: unhashable type: 'dict'\n"

    assert ids(api.retrieve(page.replace("dict", "list"), settings=settings)) == ["m-hash"]
    assert ids(api.retrieve(f"Exit code 1\nsqlite3.OperationalError: database is locked\n{NOISE}", settings=settings)) == ["m-locked"]
    assert api.retrieve(f"Exit code 1\nTypeError: spam takes no eggs\n{NOISE}", settings=settings) == []
    assert api.retrieve(NOISE, settings=settings) == []


@pytest.mark.feature("memory.retrieve-errors", "hooks.inject")
def test_a_memory_that_holds_a_part_of_the_error_is_no_answer(settings):
    assert api.retrieve(f"{NOISE}\nTypeError: unhashable walrus: 'teapot' in kettle\n", settings=settings) == []


@pytest.mark.feature("memory.retrieve-search", "hooks.inject")
def test_who_searches_gets_what_holds_a_fifth_of_the_question_and_a_prompt_does_not(settings):
    quarter, eighth = "unhashable teapot gradle kettle", "unhashable teapot gradle kettle walrus spam eggs tulip"
    assert ids(api.retrieve(quarter, settings=settings)) == ["m-hash"]
    assert api.weave(quarter, settings=settings) == ""
    assert api.retrieve(eighth, settings=settings) == []


@pytest.mark.feature("memory.retrieve-stems")
def test_a_file_is_found_by_any_path_that_ends_in_it_and_by_a_place_in_it(settings):
    for asked in ("src/keys.py", "/home/sam/code/shop/src/keys.py", "src/keys.py:12:5", "/home/sam/code/shop/src/keys.py:12"):
        assert ids(api.retrieve(asked, settings=settings)) == ["m-hash"], asked
    assert words_of("/home/sam/code/shop/src/keys.py:12:5 and src/net/a.py") == ["src/keys.py", "src/net/a.py"]


@pytest.mark.feature("memory.retrieve-abstains")
def test_leaving_out_what_covers_too_little_changes_no_answer(settings):
    index = MemoryIndex(settings.home / "memory.db")
    for query in ("why does the brewing machine fail with a list", "pytest locked", "unhashable descaling of step 3", "machine", "zebra"):
        words = words_of(query)
        everything = index.recall(words, allowed=lambda *_: True, limit=100)
        enough = {r.memory.memory_id for r in everything if r.covered >= LEAST_COVERED}
        pruned = index.recall(words, allowed=lambda *_: True, least=LEAST_COVERED, limit=100)
        assert {r.memory.memory_id for r in pruned} == enough, query
    index.close()


@pytest.mark.feature("memory.retrieve-accepted")
def test_an_accepted_memory_is_found_among_hundreds_that_match_better(tmp_path):
    long = "deploy the shop " + " ".join(f"filler{n}" for n in range(60))
    many = [memory(f"m-{n:03}", "deploy the shop") for n in range(400)]
    MemoryIndex(tmp_path / "memory.db").rebuild([*many, memory("m-accepted", long, status="accepted")])

    assert ids(api.retrieve("deploy the shop", accepted_only=True, settings=Settings(home=tmp_path))) == ["m-accepted"]


@pytest.mark.feature("memory.retrieve-any-query")
def test_words_of_the_index_itself_match_nothing(settings):
    for query in ("is__candidate", "at__0", "candidate", "place", "accepted"):
        assert api.retrieve(query, settings=settings) == []


@pytest.mark.feature("memory.retrieve-stems")
@pytest.mark.parametrize("word", ["café", "cafe\u0301", "CAFÉ", "cafe"])
def test_accents_make_no_difference_however_they_are_written(tmp_path, word):
    MemoryIndex(tmp_path / "memory.db").rebuild([memory("m-cafe", "close the cafe\u0301 on Mondays"), *OTHERS])

    assert ids(api.retrieve(word, settings=Settings(home=tmp_path))) == ["m-cafe"]

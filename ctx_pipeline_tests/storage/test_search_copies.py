"""One event that forked and resumed sessions repeat is one hit, on whatever page; and an index that stays open is never behind."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.errors import StoreError
from ctx_pipeline.search import Filters, search
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake.parquet_text import PageReader
from ctx_pipeline.storage.reader import searching
from ctx_pipeline_tests.factories.stores import normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.search import SearchResult
    from ctx_pipeline_tests.factories.views import Builder

HOUR = 3_600 * SECOND


def written(environ: Mapping[str, str], *sessions: Builder) -> None:
    with open_store(settings_of.load(environ)) as store:
        normalized(store, *sessions)
        store.search.rebuild(store.lake)


def asked(environ: Mapping[str, str], query: str, **how: int) -> SearchResult:
    return search(query, settings=settings_of.load(environ), **how)


def family() -> list[Builder]:
    """A session, a fork that repeats its two events and goes on, and the same words an hour later in a session of its own."""
    return [
        view("parent").prompt("why is the turnip purple").answer("the turnip has anthocyanin"),
        view("fork").prompt("why is the turnip purple").answer("the turnip has anthocyanin").prompt("and the turnip leaves"),
        view("later", start=START + HOUR).prompt("why is the turnip purple"),
    ]


@pytest.mark.feature("search.copies")
def test_what_a_fork_repeats_is_one_hit_that_names_the_others(environ):
    written(environ, *family())
    found = asked(environ, "purple turnip")
    prompts = [sorted({hit.session_id, *(copy["session_id"] for copy in hit.also_in)}) for hit in found.hits if "purple" in hit.snippet]
    assert sorted(prompts) == [["fork", "parent"], ["later"]]
    assert len(found.hits) == 4
    assert search("turnip", filters=Filters(without={"fork"}), settings=settings_of.load(environ)).hits[0].also_in == []


@pytest.mark.feature("search.copies")
def test_of_many_copies_each_is_read_once(environ, monkeypatch):
    forks = [view(f"fork-{number}").prompt("why is the turnip purple").answer("the turnip has anthocyanin") for number in range(15)]
    written(environ, *forks, view("later", start=START + HOUR).prompt("the purple turnip"))
    read: list[tuple[str, int]] = []
    events = PageReader.events

    def counted(self: PageReader, part: str, rows: Sequence[int], places: bytes) -> object:
        read.extend((part, row) for row in rows)
        return events(self, part, rows, places)

    monkeypatch.setattr(PageReader, "events", counted)
    found = asked(environ, "purple turnip")
    assert sorted(len(hit.also_in) for hit in found.hits) == [0, 14]
    assert len(read) == len(set(read)) == 16


@pytest.mark.feature("search.copies")
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_show_every_event_once(environ, limit):
    written(environ, *family())
    seen, hits, place = [], 0, 0
    while place is not None:
        page = asked(environ, "turnip", limit=limit, offset=place)
        assert len(page.hits) <= limit
        hits += len(page.hits)
        seen += [event for hit in page.hits for event in (hit.event_id, *(copy["event_id"] for copy in hit.also_in))]
        assert all(hit.place >= place for hit in page.hits)
        place = page.next_offset
    assert len(seen) == len(set(seen)) == 6
    assert hits == 4


@pytest.mark.feature("search.copies")
def test_the_same_words_twice_in_one_session_are_two_hits(environ):
    one = view("one").prompt("ask for turnip soup")
    one.start -= SECOND
    written(environ, one.prompt("ask for turnip soup"))
    assert len(asked(environ, "turnip").hits) == 2


@pytest.mark.feature("search.stays-open")
def test_an_index_that_stays_open_answers_what_is_there_now(environ):
    written(environ, view("one").prompt("an apple"))
    assert [hit.session_id for hit in asked(environ, "apple").hits] == ["one"]
    written(environ, view("one").prompt("an apple"), view("two", start=START + HOUR).prompt("apple and pear"))
    assert {hit.session_id for hit in asked(environ, "apple").hits} == {"one", "two"}
    written(environ, view("three").prompt("a pear"))
    assert asked(environ, "apple").hits == []
    shutil.rmtree(environ["CTX_HOME"])
    with pytest.raises(StoreError, match="nothing was captured yet"):
        asked(environ, "apple")


@pytest.mark.feature("search.stays-open")
def test_the_next_question_gets_the_store_of_the_last_one_and_never_one_that_is_in_use(environ):
    written(environ, view("one").prompt("an apple"))
    settings = settings_of.load(environ)
    with searching(settings) as (first, _), searching(settings) as (beside, _):
        assert beside is not first
    with searching(settings) as (again, _):
        assert again is first
    with pytest.raises(ValueError, match="broken"), searching(settings) as (again, _):
        raise ValueError("broken")
    with searching(settings) as (other, _):
        assert other is beside


@pytest.mark.feature("search.stays-open")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_many_threads_and_a_forked_child_get_the_same_answer(environ):
    written(environ, *(view(f"s{n}", start=START + n * HOUR).prompt(f"apple number{n}") for n in range(8)))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: asked(environ, f"number{n % 8}", limit=1).hits[0].session_id, range(64)))
    assert answers == [f"s{n % 8}" for n in range(64)]
    child = os.fork()
    if child == 0:
        right = [hit.session_id for hit in asked(environ, "number3", limit=1).hits] == ["s3"]
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asked(environ, "number4", limit=1).hits[0].session_id == "s4"

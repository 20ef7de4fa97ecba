"""What is looked for in place of a word that stands nowhere, and what an answer says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.search import Filters, search
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.search_index.query import Asked
from ctx_pipeline_tests.factories.stores import normalized
from ctx_pipeline_tests.factories.views import view

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.search import SearchResult
    from ctx_pipeline.storage import Store


@pytest.fixture
def store(environ) -> Iterator[Store]:
    with open_store(settings_of.load(environ)) as opened:
        normalized(
            opened,
            view("one").prompt("the repository has a dependency").answer("the configuration of commands"),
            view("two").prompt("修复按钮").answer("the function commits"),
        )
        normalized(opened, view("other", host="codex").prompt("independent dependence"), cell=Cell("codex", "2026-01"))
        opened.search.rebuild(opened.lake)
        yield opened


def asked(environ: Mapping[str, str], query: str, **how: object) -> SearchResult:
    paged = {name: how.pop(name) for name in ("limit", "offset") if name in how}
    return search(query, filters=Filters(**how), settings=settings_of.load(environ), **paged)


@pytest.mark.feature("search.typos")
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("修复dependenccy", {"dependenccy": "dependency"}),
        ("Dependenccy修复dependenccy", {"Dependenccy": "dependency"}),
        (f"{'a ' * 496}dependenccy{' b' * 1_000}", {}),
    ],
)
def test_a_typo_is_replaced_beside_letters_of_another_script_and_no_part_of_a_word_is(environ, query, corrected):
    found = asked(environ, query)
    assert found.corrected == corrected
    assert "dependenccy" not in {word.lower() for word in found.missing}


@pytest.mark.feature("search.typos")
@pytest.mark.usefixtures("store")
def test_all_that_was_replaced_is_told_and_the_rest_is_missing(environ):
    found = asked(environ, "Repositorry confguration dependenccy commmits fuction zzqxentry")
    assert found.corrected == {"Repositorry": "repository", "confguration": "configuration", "dependenccy": "dependency"}
    assert found.missing == ["commmits", "fuction", "zzqxentry"]


@pytest.mark.feature("search.typos")
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("chosen", "corrected"),
    [
        ({}, {"dependencey": "dependency"}),
        ({"host": "codex"}, {"dependencey": "dependence"}),
        ({"role": ["assistant"]}, {}),
        ({"since": "2027-01-01"}, {}),
        ({"without": {"one"}}, {"dependencey": "dependence"}),
        ({"without": {"one", "other"}}, {}),
    ],
)
def test_only_a_word_that_is_meant_takes_the_place_of_a_typo(environ, chosen, corrected):
    found = asked(environ, "dependencey", **chosen)
    assert (found.corrected, bool(found.hits)) == (corrected, bool(corrected))


@pytest.mark.feature("search.typos")
@pytest.mark.parametrize("place", range(1, len("repository") + 1))
def test_a_typo_is_found_at_every_place_behind_the_first_letter(store, place):
    before, after = "repository"[:place], "repository"[place:]
    typos = [f"{before}q{after}", *([f"{before}{after[1:]}", f"{before}q{after[1:]}"] if after else [])]
    typos += [f"{before}{after[1]}{after[0]}{after[2:]}"] if len(after) > 1 else []
    near = [store.search.near_words([typo], Asked("")) for typo in typos]
    assert near == [{typo: "repository"} for typo in typos]


@pytest.mark.feature("search.typos")
def test_a_typo_is_found_in_an_index_that_was_made_anew_meanwhile(store):
    asked_for = ["dependencey", "dependencees"]
    assert store.search.near_words(asked_for, Asked("")) == {"dependencey": "dependency"}
    normalized(store, view("three").prompt("dependencies"), cell=Cell("claude", "2026-02"))
    store.search.rebuild(store.lake)
    assert store.search.near_words(asked_for, Asked("")) == {"dependencey": "dependency", "dependencees": "dependencies"}


@pytest.mark.feature("search.typos")
def test_words_of_dead_rows_stand_nowhere(environ, store):
    normalized(store, view("gone").prompt("dependencey dependencies"), cell=Cell("claude", "2026-02"))
    store.search.rebuild(store.lake)
    assert asked(environ, "dependencey").corrected == {}
    store.search.begin_bulk()
    store.search.tombstone("claude", ["gone"])
    store.search.finish()
    assert asked(environ, "dependencey").corrected == {"dependencey": "dependency"}
    assert asked(environ, "dependenciess").corrected == {}


@pytest.mark.feature("search.typos")
def test_a_typo_that_only_a_session_holds_which_is_left_out_is_one(environ, store):
    normalized(store, view("own").prompt("dependencey"), cell=Cell("claude", "2026-02"))
    store.search.rebuild(store.lake)
    assert asked(environ, "dependencey").corrected == {}
    assert asked(environ, "dependencey", without={"own"}).corrected == {"dependencey": "dependency"}


@pytest.mark.feature("search.time-words")
@pytest.mark.usefixtures("store")
def test_an_answer_says_which_days_it_is_of(environ):
    there, nowhere = asked(environ, "dependenccy in January 2026"), asked(environ, "dependenccy in March 2020")
    corrected = "nothing holds dependenccy: dependency was looked for"
    assert there.searched() == f"from 2026-01-01 to 2026-01-31 only; {corrected}"
    assert (there.days, there.empty_days) == (["2026-01-01", "2026-01-31"], None)
    assert nowhere.hits
    assert nowhere.searched() == f"nothing in 2020-03-01 to 2020-03-31: all days were searched; {corrected}; nothing holds: March, 2020"
    assert (nowhere.days, nowhere.empty_days) == (None, ["2020-03-01", "2020-03-31"])
    assert asked(environ, "dependency").searched() == ""


@pytest.mark.feature("search.time-words")
@pytest.mark.usefixtures("store")
def test_all_days_before_one_are_searched(environ):
    there, nowhere = asked(environ, "dependency before February 2026"), asked(environ, "dependency before March 2020")
    assert there.searched() == "until 2026-01-31 only"
    assert (len(there.hits), there.days) == (1, [None, "2026-01-31"])
    assert nowhere.hits
    assert nowhere.searched().startswith("nothing until 2020-02-29: all days were searched")
    assert (nowhere.days, nowhere.empty_days) == (None, [None, "2020-02-29"])


@pytest.mark.feature("search.time-words")
@pytest.mark.usefixtures("store")
def test_a_page_behind_the_last_one_is_of_the_same_days(environ):
    behind = asked(environ, "dependency in January 2026", offset=50)
    assert (behind.hits, behind.days, behind.empty_days) == ([], ["2026-01-01", "2026-01-31"], None)

"""How hits are ordered: a row counts for more where its neighbours and its session fit too; pages are stable."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.storage import Store, open_store
from ctx_pipeline.storage.search_index import Asked, SearchIndex
from ctx_pipeline.storage.search_index.ranking import TALK, ranked
from ctx_pipeline.storage.search_index.snippets import around, snippet
from ctx_pipeline.storage.search_index.tokenize import named, question
from ctx_pipeline.storage.search_index.word_forms import forms_of, synonyms_of
from ctx_pipeline_tests.factories.stores import normalized
from ctx_pipeline_tests.factories.views import START, view
from ctx_pipeline_tests.storage.test_search_index import CELL, OTHER, add, found

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    opened = SearchIndex(tmp_path / "search.db")
    yield opened
    opened.close()


@pytest.fixture
def store(environ) -> Iterator[Store]:
    with open_store(settings_of.load(environ)) as opened:
        yield opened


def filler(index: SearchIndex) -> None:
    """Add sessions of other words, so that no word is in most rows."""
    for number in range(6):
        add(index, f"f{number}", *["nothing to see in this line of filler"] * 8, session=f"f{number}")


@pytest.mark.feature("search.surroundings")
def test_a_row_whose_neighbours_fit_comes_before_its_twin_elsewhere(index):
    filler(index)
    add(index, "p", "the parser fails again", "in the nightly build", "with unicode names", "x", "y", session="near")
    add(index, "q", "the parser fails again", "z", "z", "z", "z", session="alone")
    best = [hit for hit in index.query("parser fails in the nightly build with unicode names") if hit.row == 0]
    assert [hit.part for hit in best] == ["p", "q"]


@pytest.mark.feature("search.surroundings")
def test_a_row_of_a_session_that_fits_comes_before_its_twin_elsewhere(index):
    filler(index)
    far = ["o"] * 6
    add(index, "p", "the parser fails again", *far, "the nightly build", *far, "of unicode names", session="fits")
    add(index, "q", "the parser fails again", *far, "z", *far, "z", session="other")
    best = [hit for hit in index.query("parser fails in the nightly build with unicode names") if hit.row == 0]
    assert [hit.part for hit in best] == ["p", "q"]


@pytest.mark.feature("search.surroundings")
def test_neighbours_of_another_session_do_not_count(index):
    filler(index)
    index.begin_bulk()
    texts = ("the parser fails again", "in the nightly build with unicode names", "the parser fails again")
    index.add_part(CELL, "p", 3, [(n, t, None) for n, t in enumerate(texts)], [("one", 0, 1), ("two", 2, 2)])
    index.finish()
    best = [hit.row for hit in index.query("parser fails in the nightly build with unicode names") if hit.row in {0, 2}]
    assert best == [0, 2]


@pytest.mark.feature("search.relaxing")
def test_a_rare_word_is_found_among_words_that_are_everywhere(index):
    add(index, "p", "the build of zanzibar", *["how the build and the tests run"] * 40)
    assert found(index, "how did we run the tests of zanzibar", limit=1) == [("p", 0)]


@pytest.mark.feature("search.relaxing")
@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("locked door is open because somebody forgot keys", "phrase"),
        ("door locked", "all"),
        ("locked window", "any"),
        ("loc", "beginning"),
    ],
)
def test_an_answer_says_how_far_the_words_were_relaxed(store, text, level):
    normalized(store, *(view(f"s{n}", start=START + n).prompt("the locked door is open because somebody forgot keys") for n in range(6)))
    store.search.rebuild(store.lake)
    answer = store.search.ask(store, Asked(text))
    assert answer.level == level
    assert len(answer.found) == 6


@pytest.mark.feature("search.relaxing")
def test_common_words_are_found_where_the_rare_ones_are_filtered_away(index):
    filler(index)
    add(index, "p", "zanzibar build", cell=OTHER)
    add(index, "q", *["the usual build"] * 3)
    assert {part for part, _ in found(index, "zanzibar build", host="claude")} == {"q"}


@pytest.mark.feature("search.paging")
def test_pages_follow_on_each_other_without_gap_or_twin(index):
    for number in range(30):
        add(index, f"p{number}", "apple", "apple pie", "pear", session=f"s{number}")
    everything = found(index, "apple pie", limit=1_000)
    assert len(everything) == len(set(everything)) == 30
    assert [hit for offset in range(0, 30, 7) for hit in found(index, "apple pie", limit=7, offset=offset)] == everything
    either = found(index, "apple pear", limit=1_000)
    assert [hit for offset in range(0, 90, 11) for hit in found(index, "apple pear", limit=11, offset=offset)] == either


@pytest.mark.feature("search.order-of-capture")
def test_hits_have_one_order_whatever_was_captured_first_and_was_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.SAMPLE", 4)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.POOL", 6)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.STRICT", 4)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.SCORED", 5)
    said = {
        f"s{n:02}": ["the apple fell", "apple and pear" if n % 3 else "pear of the tree", *["a long filler line"] * n] for n in range(12)
    }
    orders = []
    for name, captured in (("once", sorted(said)), ("other", [*sorted(said, reverse=True), "s03", "s07"])):
        made = SearchIndex(tmp_path / f"{name}.db")
        for turn, session in enumerate(captured):
            made.begin_bulk()
            rows = [(n, text, None) for n, text in enumerate(said[session])]
            again = captured.index(session) < turn
            made.add_part(CELL, f"{turn}", len(rows), rows, [(session, 0, len(rows) - 1)])
            if again:
                made.tombstone("claude", [session], keep={f"{turn}"})
            made.finish()
        lookup = made.rows_of_index
        asked = [
            made.query(text, limit=40) for text in ("apple", "apple pear", "the apple fell", "filler apples", "long line of apple and pear")
        ]
        orders.append([[(lookup.span_of(hit.rowid).session_id, hit.row, round(hit.score, 9)) for hit in hits] for hits in asked])
        made.close()
    assert orders[0] == orders[1]
    assert len(orders[0][0]) == 20


@pytest.mark.feature("search.order-of-capture")
def test_dead_rows_of_an_index_that_did_not_count_them_are_counted(index):
    for number in range(3):
        add(index, f"p{number}", "apple and pear", session=f"s{number}")
    index.begin_bulk()
    index.tombstone("claude", ["s0"])
    index.finish()
    counted = index.rows_of_index.documents()
    assert counted == ((3, 9), (2, 6))
    index.begin_bulk()
    index._writer().execute("DELETE FROM state WHERE name LIKE 'dead%'")
    index.finish()
    assert index.rows_of_index.documents() == counted
    index.begin_bulk()
    index.tombstone("claude", ["s1"])
    index.finish()
    assert index.rows_of_index.documents() == ((3, 9), (1, 3))


@pytest.mark.feature("search.order-of-capture")
def test_of_rows_that_have_equally_many_of_the_words_the_best_is_found_wherever_it_stands(index, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.SCORED", 3)
    add(index, "first", "apple", session="first")
    for number in range(6):
        add(index, f"p{number}", "apple " + "of another long line " * 9, session=f"s{number}")
    assert index.query("apple", limit=1)[0].part == "first"


@pytest.mark.feature("search.paging")
def test_hits_beyond_those_that_are_scored_are_reached(index, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.READ_WHOLE", 0)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.SCORED", 3)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.POOL", 4)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.SAMPLE", 4)
    add(index, "p", *["apple"] * 10)
    assert sorted(found(index, "apple", limit=100)) == [("p", n) for n in range(10)]
    assert len(found(index, "apple", limit=6, offset=4)) == 6


@pytest.mark.feature("search.any-input")
@pytest.mark.parametrize(
    "text", ["the of and", "a" * 10_000, '"' * 10_000, "\0", "词 搜索", "🙂", "\uff41\uff50\uff50", "NEAR(a b)", "x AND", "{col}: y", "٣٤"]
)
def test_hostile_questions_are_answered(index, text):
    add(index, "p", "apple of the tree", "搜索 词")
    hits = found(index, text)
    assert len(hits) <= 2
    assert (("p", 1) in hits) == ("词" in text)


@pytest.mark.feature("search.snippet")
def test_the_snippet_is_where_most_words_meet_and_marks_them():
    text = "parser " + "x " * 400 + "why the parser\n\tfails on é unicode" + " y" * 400
    cut, marks = snippet(text, ("parser", "fails", "unicode"), 100)
    assert "why the parser fails on é unicode" in cut
    assert [cut[a:b] for a, b in marks] == ["parser", "fails", "unicode"]
    assert snippet("parsers", ("parse",)) == ("parsers", ((0, 5),))
    assert snippet("", ("a",)) == ("", ())


@pytest.mark.feature("search.snippet")
def test_one_place_can_be_marked():
    cut, marks = around("a" * 500 + " E1234\n " + "b" * 500, 501, 506, 80)
    assert [cut[a:b] for a, b in marks] == ["E1234"]
    assert cut.startswith("…")
    assert len(cut) < 100


def test_expressions_hold_words_only():
    asked = question('how does "foo_bar.baz" OR NEAR(x)')
    assert asked.significant_terms == ("foo", "bar", "baz", "near", "x")
    assert asked.phrase == '"how does foo bar baz OR NEAR x"'
    assert asked.every == '"foo bar baz" AND "NEAR x"'
    assert named("/home/sam/code/acme/parser.py") == 'done : "home sam code acme parser py"'
    assert named("../..") == ""


@pytest.mark.feature("search.word-forms")
def test_a_word_that_stands_nowhere_is_found_in_its_other_forms_and_marked(index):
    filler(index)
    add(index, "p", "the release died since notarization of the binaries was refused", "x", session="right")
    best = index.query("who notarized it")
    assert [hit.part for hit in best] == ["p"]
    shown = snippet("the release died since notarization of the binaries was refused", ["notarized"])
    assert [shown.text[a:b] for a, b in shown.marks] == ["notarization"]


@pytest.mark.feature("search.word-forms")
def test_a_word_as_it_was_typed_comes_before_its_other_forms_which_follow_however_common_it_is(index):
    filler(index)
    add(index, "other", "tests of the parser", "z", session="other")
    for number in range(12):
        add(index, f"t{number}", "testing of the parser", "z", session=f"t{number}")
    hits = [hit.part for hit in index.query("testing", limit=50)]
    assert set(hits[:12]) == {f"t{number}" for number in range(12)}
    assert hits[12:] == ["other"]


@pytest.mark.feature("search.word-forms")
def test_what_is_counted_and_paged_has_the_other_forms_too(index):
    filler(index)
    for number in range(3):
        add(index, f"p{number}", "cached builds of the parser" if number else "caching of the parser", "z", session=f"p{number}")
    whole = found(index, "cached", limit=100)
    assert [found(index, "cached", limit=1, offset=n) for n in range(3)] == [[hit] for hit in whole]
    assert len(whole) == 3


@pytest.mark.feature("search.surroundings")
def test_what_a_tool_printed_around_a_row_does_not_speak_for_it(index):
    filler(index)
    index.begin_bulk()
    near = "in the nightly build with unicode names"
    index.add_part(CELL, "p", 2, [(0, "the parser fails again", None), (1, None, near)], [("printed", 0, 1)])
    index.add_part(CELL, "q", 2, [(0, "the parser fails again", None), (1, near, None)], [("said", 0, 1)])
    index.finish()
    best = [hit.part for hit in index.query("parser fails in the nightly build with unicode names") if hit.row == 0]
    assert best == ["q", "p"]


@pytest.mark.feature("search.surroundings")
@pytest.mark.parametrize("asked", ["apple", "apple nobodysaid"])
def test_a_row_by_itself_has_the_bm25_that_a_hand_computes(index, asked):
    add(index, "p", "apple apple apple pear", "plum", "plum", "plum", session="p")
    shelf = index.rows_of_index
    scored = ranked(index.connection, shelf, question(asked), None)
    # one of four rows has it: log(3.5 / 1.5); said three times, each twice; 4 words where 7 / 4 are usual
    length = 4 / (7 / 4)
    lost = 1 - TALK.length + TALK.length * length
    assert scored.scores[scored.rows[0]].alone == pytest.approx(log(3.5 / 1.5) * 6 * 2.2 / (6 + 1.2 * lost))


@pytest.mark.feature("search.synonyms")
def test_of_two_rows_with_a_word_of_a_sentence_the_one_with_a_synonym_of_another_comes_first(index):
    filler(index)
    add(index, "p", "renamed the parser again", "z", session="other")
    add(index, "q", "removed the parser again", "z", session="unlike")
    add(index, "r", "remove the parser again", "z", session="right")
    assert index.query("which session was deleting parser leftovers nobody needs")[0].part == "r"


@pytest.mark.feature("search.synonyms")
@pytest.mark.parametrize("asked", ["deleting", "delete parser", "why were we deleting leftovers nobody needs"])
def test_a_row_with_synonyms_alone_is_no_hit_and_few_words_are_what_is_meant(index, asked):
    filler(index)
    add(index, "p", "remove that again", "z", session="p")
    assert index.query(asked) == []
    add(index, "q", "delete that again", "the parser", session="q")
    assert {hit.part for hit in index.query(asked)} == {"q"}


@pytest.mark.feature("search.synonyms")
def test_synonyms_are_found_from_every_form_of_a_word_and_have_none_of_its_own():
    assert "remove" in synonyms_of("deleted")
    assert not {"deleted", "delete", "deletes"}.intersection(synonyms_of("deleting"))
    assert synonyms_of("turnip") == ()


@pytest.mark.feature("search.word-forms")
@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("uploads", "uploading"),
        ("stopped", "stop"),
        ("stop", "stopping"),
        ("replies", "reply"),
        ("reply", "replied"),
        ("cached", "caches"),
        ("compile", "compilation"),
        ("settings", "setting"),
        ("ran", "run"),
        ("written", "writing"),
        ("teacher", "taught"),
        ("went", "go"),
        ("indices", "index"),
    ],
)
def test_forms_of_a_word_are_its_usual_inflections(word, form):
    assert form in forms_of(word)
    assert word not in forms_of(word)


@pytest.mark.feature("search.word-forms")
def test_identifiers_numbers_and_short_words_have_no_other_forms():
    assert [forms_of(word) for word in ("e404", "v2", "api", "größe", "")] == [()] * 5


@pytest.mark.feature("search.relaxing")
def test_an_identifier_is_one_word_of_the_question(index):
    filler(index)
    add(index, "all", "bytes of the model were read by max_model_window_bytes and it failed", "z", session="all")
    add(index, "some", "max of the window", "model bytes", session="some")
    asked = question("failed max_model_window_bytes")
    assert asked.telling == 2
    assert index.query("failed max_model_window_bytes")[0].part == "all"


@pytest.mark.feature("search.names-in-code")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("user prompt submit", ("userprompt", "userpromptsubmit", "promptsubmit")),
        ("where is the max_size of it", ("maxsize",)),
        ("parseHTTPHeader", ("parse http header",)),
        ("the of 12", ()),
    ],
)
def test_words_that_follow_on_each_other_may_be_one_name_in_code_and_such_a_name_its_words(text, names):
    assert question(text).identifiers == names


@pytest.mark.feature("search.names-in-code")
@pytest.mark.parametrize(
    ("text", "written", "marked"),
    [
        ("where do we handle the user prompt submit", "func onCall() { UserPromptSubmit(ctx) }", "UserPromptSubmit"),
        ("loadPriceTable", "to load price table", "load price table"),
    ],
)
def test_a_name_in_code_is_found_by_its_words_and_words_by_a_name_and_marked(index, text, written, marked):
    filler(index)
    add(
        index,
        "some",
        *["the user of it", "we handle that", "a prompt", "submit the form", "a loader of prices", "the table"] * 2,
        session="some",
    )
    add(index, "right", written, session="right")
    assert ("right", 0) in found(index, text)
    marks = snippet(written, question(text).identifiers).marks
    assert [written[start:end] for start, end in marks] == [marked]


@pytest.mark.feature("search.cut-off")
def test_what_an_apostrophe_cuts_off_is_looked_for_in_the_phrase_alone():
    asked = question("why doesn't the branch I'm on show new ones")
    assert {"t", "m"} <= set(asked.tokens)
    assert asked.significant_terms == ("doesn", "branch", "show", "new", "ones")
    assert "doesn t" in asked.phrase
    assert "t" in question("tar -t").significant_terms


@pytest.mark.feature("search.question-words")
@pytest.mark.parametrize(
    ("text", "met"), [("parser fails", True), ("fails parser", True), ("parser nowhere", False), ("nothing fails", False)]
)
def test_whether_the_phrase_or_all_words_meet_in_a_row_is_told_without_an_answer(index, text, met):
    filler(index)
    add(index, "p", "the parser fails again", "nothing else")
    assert index.meets(Asked(text)) is met

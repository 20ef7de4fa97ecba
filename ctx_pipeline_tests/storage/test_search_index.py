"""The history index: what is found for which words, and how it follows the lake."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctx_pipeline import settings as settings_of
from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage import Store, open_store, temporary
from ctx_pipeline.storage.lake import Move
from ctx_pipeline.storage.search_index import SearchIndex, row_lookup
from ctx_pipeline.storage.search_index.snippets import snippet
from ctx_pipeline.storage.search_index.tokenize import DONE_CHARS, SAID_CHARS, documents
from ctx_pipeline.storage.search_index.tokenize import question as asked_for
from ctx_pipeline_tests.factories.stores import normalized
from ctx_pipeline_tests.factories.views import view

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CELL = Cell("claude", "2026-03")
OTHER = Cell("codex", "2026-04")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    opened = SearchIndex(tmp_path / "search.db")
    yield opened
    opened.close()


@pytest.fixture
def store(environ) -> Iterator[Store]:
    with open_store(settings_of.load(environ)) as opened:
        yield opened


def rows_in(path: Path, table: str) -> int:
    with sqlite3.connect(path) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def add(index: SearchIndex, part: str, *texts: str, cell: Cell = CELL, session: str = "s", done: bool = False) -> None:
    index.begin_bulk()
    documents = [(n, None, t) if done else (n, t, None) for n, t in enumerate(texts)]
    index.add_part(cell, part, len(texts), documents, [(session, 0, len(texts) - 1)])
    index.finish()


def found(index: SearchIndex, text: str, **more) -> list[tuple[str, int]]:
    return [(hit.part, hit.row) for hit in index.query(text, **more)]


@pytest.mark.feature("search.relaxing")
def test_a_phrase_comes_before_all_words_before_any_word(index):
    add(index, "p", "locked database", "the database was locked by a database", "a locked door", "nothing of the kind")
    assert found(index, "locked database") == [("p", 0), ("p", 1), ("p", 2)]


@pytest.mark.feature("search.relaxing")
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("why does the parser not like parser.py in zanzibar", [0]),
        ("foo_bar", [1]),
        ("FOO_BAR.BAZ", [1]),
        ("pars", [0]),
        ("straße", [2]),
        ("the", [0]),
        ("", []),
        ("%%% ---", []),
    ],
)
def test_a_question_finds_what_shares_a_word_with_it(index, text, rows):
    add(index, "p", "mend the_parser.py: the parser raises", "call foo_bar.baz()", "die Straße")
    hits = [row for _, row in found(index, text)]
    assert hits == rows


@pytest.mark.feature("search.any-input")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_no_input_is_a_syntax_error(index, text):
    if not index.path.exists():
        add(index, "p", "some words")
    index.query(text)


@pytest.mark.feature("search.any-input")
@pytest.mark.parametrize(
    "text", ['"', "a AND", "NEAR(", "col:x", "-a", "a*", "(a OR", "said:words", "^a", "a\0words", "NOT words", "x" * 5000, "words " * 500]
)
def test_operators_are_words(index, text):
    add(index, "p", "some words")
    assert len(index.query(text)) <= 1
    assert ("words" in text) <= (found(index, text) == [("p", 0)])


@pytest.mark.feature("search.filters")
def test_hosts_limit_and_offset(index):
    add(index, "p", "apple one", "apple two")
    add(index, "q", "apple three", cell=OTHER)
    assert found(index, "apple", host="codex") == [("q", 0)]
    everything = found(index, "apple")
    assert len(everything) == 3
    assert found(index, "apple", limit=1, offset=1) == everything[1:2]


@pytest.mark.feature("search.dead")
def test_a_replaced_session_is_found_in_its_new_part_only(index):
    add(index, "p", "apple old", session="s")
    index.begin_bulk()
    index.add_part(CELL, "q", 1, [(0, "apple new", None)], [("s", 0, 0)])
    assert index.tombstone("claude", ["s"], keep={"q"}) == 1
    index.finish()
    assert found(index, "apple") == [("q", 0)]
    assert index.parts() == {"q"}


@pytest.mark.feature("search.dead")
def test_the_same_part_twice_is_in_the_index_once(index):
    add(index, "p", "apple")
    add(index, "p", "apple")
    assert found(index, "apple") == [("p", 0)]


@pytest.mark.feature("search.dead")
def test_an_abandoned_write_leaves_nothing(index, tmp_path):
    index.begin_bulk()
    index.add_part(CELL, "p", 1, [(0, "apple", None)], [("s", 0, 0)])
    index.abandon()
    assert list(tmp_path.glob("search.db*")) == []
    with pytest.raises(StoreError, match="no search index"):
        index.query("apple")
    add(index, "q", "pear")
    index.begin_bulk()
    index.add_part(CELL, "p", 1, [(0, "apple", None)], [("s", 0, 0)])
    index.abandon()
    assert found(index, "apple pear") == [("q", 0)]


@pytest.mark.feature("search.compaction")
def test_hits_follow_rows_that_were_merged_into_another_part(index):
    add(index, "p", "apple a", "apple b", "apple c", session="s")
    add(index, "q", "apple d", session="t")
    index.begin_bulk()
    index.move([Move("p", 1, 2, "m", 0), Move("q", 0, 1, "m", 2)])
    index.finish()
    assert found(index, "apple b")[0] == ("m", 0)
    assert sorted(found(index, "apple")) == [("m", 0), ("m", 1), ("m", 2)]
    assert index.parts() == {"m"}


@pytest.mark.feature("search.private")
def test_the_file_is_private(index):
    add(index, "p", "apple")
    assert index.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("search.documents")
def test_what_of_an_event_is_searched():
    kinds = ("prompt", "attachment", "answer", "tool_result")
    assert documents(kinds, ("x" * 20_000, "z", None, "y" * 20_000), 7) == [(7, "x" * SAID_CHARS, None), (10, None, "y" * DONE_CHARS)]


@pytest.mark.feature("search.documents")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (r'{"command":"echo one\nbarbaz\tquux"}', ["barbaz", "quux"]),
        (r'{"file_path":"C:\\new\\table.txt"}', ["new", "table.txt", "C:/new/table.txt"]),
        (r'{"note":"caf\u00e9 \ud83d\ude00 na\u00efve"}', ["café", "naive"]),
        (r"open C:\new\bar", ["new", "bar"]),
        (r"[INFO] open C:\new\bar", ["new", "bar"]),
        (r'[ {"note": "one\r\nbarbaz"} ]', ["barbaz"]),
        (r'const r = await tools.exec_command({cmd:"echo one\r\nbarbaz"})', ["barbaz"]),
        ('{"patch":"' + "x " * 6_000 + '*** Update File: src/late/parser.py"}', ["src/late/parser.py", "late"]),
    ],
)
def test_arguments_of_a_call_are_found_by_the_words_that_they_stand_for(index, arguments, words):
    (document,) = documents(["tool_call"], [arguments])
    add(index, "p", document[2], "something else", done=True)
    for word in words:
        assert found(index, word)[:1] == [("p", 0)], word
        assert index.query(word)[0].row == 0
    assert "nbarbaz" not in document[2]
    assert documents(["tool_result"], [arguments])[0][2][:DONE_CHARS] == document[2][:DONE_CHARS], "what a tool printed is read alike"


@pytest.mark.feature("search.unspaced")
@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我喜欢苹果派 请修复解析器", "苹果"),
        ("我喜欢苹果派 请修复解析器", "请问解析器在哪里"),
        ("我喜欢苹果派", "派"),
        ("パーサーのエラーを直す", "エラー"),
        ("파서에서 오류가 났다", "오류"),
        ("修复parser错误", "parser"),
        ("修复parser错误", "错误"),
    ],
)
def test_a_word_is_found_inside_a_run_of_signs(index, text, question):
    said = [one for _, one, _ in documents(["prompt", "prompt"], ["天地玄黄", text])]
    add(index, "p", *said)
    assert found(index, question)[0] == ("p", 1)
    cut = snippet(text, asked_for(question).significant_terms)
    assert "".join(cut.text[a:b] for a, b in cut.marks) == ("解析器" if "解析器" in question else question)


@pytest.mark.feature("search.snippet")
def test_a_word_after_an_escape_is_marked():
    cut, marks = snippet(r'{"command":"one\nbarbaz"}', ("barbaz",))
    assert [cut[a:b] for a, b in marks] == ["barbaz"]


@pytest.mark.feature("search.snippet")
def test_a_snippet_of_json_or_of_a_script_shows_what_escapes_stand_for_and_one_of_a_path_of_windows_keeps_them():
    told = {
        r'{"command":"rg \"barbaz\" src\nls","in":"C:\\new"}': r'{"command":"rg "barbaz" src ls","in":"C:\new"}',
        r'const a = 1; text("one\nbarbaz\n")': 'const a = 1; text("one barbaz ")',
        r"[INFO] wrote C:\temp\notes barbaz": r"[INFO] wrote C:\temp\notes barbaz",
    }
    for text, shown in told.items():
        cut, marks = snippet(text, ("barbaz",))
        assert cut == shown
        assert [cut[a:b] for a, b in marks] == ["barbaz"]


@pytest.mark.feature("search.snippet")
def test_the_snippet_stands_around_the_match_on_one_line():
    text = "a" * 300 + "\nthe needle is here\n" + "b" * 300
    cut, marks = snippet(text, ("needle",), 60)
    assert "the needle is here" in cut
    assert [cut[a:b] for a, b in marks] == ["needle"]
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert "\n" not in cut
    assert snippet("short  text", ("absent",), 60) == ("short text", ())


@pytest.mark.feature("search.dead")
def test_dead_rows_and_rows_of_other_hosts_take_no_place_among_the_newest(index, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.READ_WHOLE", 0)
    monkeypatch.setattr("ctx_pipeline.storage.search_index.ranking.POOL", 3)
    add(index, "p", "apple of long ago", session="old")
    for turn in range(4):
        index.begin_bulk()
        index.add_part(OTHER, f"q{turn}", 1, [(0, "apple", None)], [("s", 0, 0)])
        index.tombstone("codex", ["s"], keep={f"q{turn}"})
        index.finish()
    assert sorted(found(index, "apple")) == [("p", 0), ("q3", 0)]
    add(index, "r", *["apple"] * 3, cell=OTHER, session="t")
    assert found(index, "apple", host="claude") == [("p", 0)]


@pytest.mark.feature("search.crowded")
def test_an_index_with_more_dead_rows_than_live_ones_is_made_anew_of_the_lake(store, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.search_index._CROWDED", 0)
    normalized(store, view("s").prompt("apple").prompt("pear"))
    store.search.rebuild(store.lake)
    store.search.begin_bulk(store.lake)
    store.search.add_part(CELL, "gone", 3, [(n, "apple", None) for n in range(3)], [("t", 0, 2)])
    store.search.tombstone("claude", ["t"])
    store.search.finish()
    reader = SearchIndex(store.search.path)
    assert len(reader.query("apple")) == 1
    before = reader.path.stat().st_ino

    store.search.begin_bulk(store.lake)
    assert len(reader.query("apple")) == 1
    store.search.finish()
    assert reader.path.stat().st_ino != before
    assert (rows_in(reader.path, "dead"), rows_in(reader.path, "parts")) == (0, 1)
    assert [f.event.text for f in reader.search(store.lake, "pear")] == ["pear"]
    reader.close()


@pytest.mark.feature("search.damaged")
@pytest.mark.parametrize("damage", [b"", b"no database at all " * 500])
def test_an_index_that_is_lost_or_damaged_is_made_anew_by_the_next_writer(store, damage):
    normalized(store, view("s").prompt("apple"))
    store.search.rebuild(store.lake)
    store.search.close()
    store.search.path.write_bytes(damage)
    if damage:
        with pytest.raises(StoreDamaged, match="damaged"):
            store.search.query("apple")
    assert store.search.damaged()

    store.search.begin_bulk(store.lake)
    store.search.finish()
    assert [f.event.text for f in store.search.search(store.lake, "apple")] == ["apple"]
    assert not store.search.damaged()


@pytest.mark.feature("search.damaged")
def test_damage_met_while_writing_removes_the_index_and_says_that_it_is_made_anew(store):
    normalized(store, *(view(f"s{n}").prompt(f"apple {n} " * 900) for n in range(9)))
    store.search.rebuild(store.lake)
    store.search.close()
    body = bytearray(store.search.path.read_bytes())
    body[4096:] = bytes(len(body) - 4096)
    store.search.path.write_bytes(body)
    try:
        store.search.begin_bulk(store.lake)
        store.search.finish()
        pytest.fail("the damage was not met")
    except sqlite3.DatabaseError as error:
        with pytest.raises(StoreDamaged, match="damaged"):
            store.search.abandon(error)
    assert not store.search.path.exists()
    store.search.begin_bulk(store.lake)
    store.search.finish()
    assert len(store.search.query("apple")) == 9


@pytest.mark.feature("search.no-free-pages")
def test_what_a_merge_leaves_free_goes_and_an_open_reader_follows(index, monkeypatch):
    monkeypatch.setattr(row_lookup, "SPARE_PAGES", 4)
    add(index, "old", *(f"word{number}x common" for number in range(3_000)), session="old")
    reader = SearchIndex(index.path)
    assert len(found(reader, "word7x")) == 1
    with sqlite3.connect(index.path) as connection:
        connection.execute("CREATE TABLE filler(text)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(4000000))")
        connection.execute("DROP TABLE filler")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = index.path.stat().st_size

    add(index, "new", "a word that is new", session="new")

    assert index.path.stat().st_size < before / 4
    assert index.path.stat().st_mode & 0o777 == 0o600
    assert found(reader, "new") == found(index, "new") == [("new", 0)]
    assert found(reader, "word7x") == [("old", 7)]
    assert [file.name for file in index.path.parent.iterdir() if file.name.startswith(temporary.PREFIX)] == []
    reader.close()


@pytest.mark.feature("search.no-free-pages")
def test_where_no_copy_can_be_written_the_index_stays_as_it_is(index, monkeypatch):
    monkeypatch.setattr(row_lookup, "mostly_free", lambda _: True)
    add(index, "old", "something old", session="old")
    index.path.with_name("taken").write_bytes(b"")
    monkeypatch.setattr(temporary, "name", lambda: "taken")
    add(index, "new", "something new", session="new")
    assert sorted(found(index, "something")) == [("new", 0), ("old", 0)]

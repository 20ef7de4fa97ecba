"""Which hits are meant, how many there are of each kind, and what a regular expression finds."""

from __future__ import annotations

import json
import random
import time
from itertools import product
from typing import TYPE_CHECKING

import msgspec
import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.errors import StoreDamaged, UnknownName, UsageError
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.search import Filters, search
from ctx_pipeline.storage import Store, open_store
from ctx_pipeline.storage.lake import Move
from ctx_pipeline.storage.lake.parquet_text import PageReader
from ctx_pipeline.storage.search_index import Asked, SearchIndex, Wanted
from ctx_pipeline.storage.search_index import regex as patterns
from ctx_pipeline.storage.search_index.row_attributes import QUARTER, unpacked
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import SECOND, START, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAY = 86_400 * SECOND
FEBRUARY = START + 31 * DAY
"""START is 2026-01-01, midnight UTC."""


@pytest.fixture
def store(environ) -> Iterator[Store]:
    """Apple in a prompt, a passed and a failed command, an edit, an unanswered call, an answer and another host."""
    with open_store(settings_of.load(environ)) as opened:
        first = (
            view("one").prompt("why is the apple red").shell("cat apple.py", text="apple one").shell("pytest", exit=1, text="apple failed")
        )
        second = view("two", start=FEBRUARY).prompt("the second apple").edit("/home/sam/code/acme/src/apple.py").answer("apple is done")
        normalized(opened, first, second)
        normalized(opened, view("three", host="codex").prompt("an apple elsewhere"), cell=Cell("codex", "2026-01"))
        opened.search.rebuild(opened.lake)
        yield opened


def asked(environ, query: str = "apple", **chosen):
    more = {name: chosen.pop(name) for name in ("limit", "offset", "regex", "seconds") if name in chosen}
    return search(query, filters=Filters(**chosen), facets=True, settings=settings_of.load(environ), **{"limit": 100, **more})


def places(found) -> list[tuple[str, str]]:
    return sorted((hit.session_id, hit.kind) for hit in found.hits)


@pytest.mark.feature("search.filters")
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"host": "codex"}, [("three", "prompt")]),
        ({"role": ["user"]}, [("one", "prompt"), ("three", "prompt"), ("two", "prompt")]),
        ({"role": ["assistant"]}, [("two", "answer")]),
        ({"kind": ["tool_result"], "host": "claude", "until": "2026-01-31"}, [("one", "tool_result"), ("one", "tool_result")]),
        ({"outcome": ["failed"]}, [("one", "tool_result")]),
        ({"since": "2026-02-01"}, None),
        ({"without": {"one", "two"}}, [("three", "prompt")]),
        ({"role": ["user"], "since": "2026-01-01", "until": "2026-01-31"}, [("one", "prompt"), ("three", "prompt")]),
        ({"until": "2025-12-31"}, []),
        ({"role": ["user", "assistant"], "kind": ["answer"]}, [("two", "answer")]),
    ],
)
def test_hits_are_those_that_are_meant(environ, chosen, expected):
    found = asked(environ, **chosen)
    if expected is None:
        assert {session for session, _ in places(found)} == {"two"}
    else:
        assert places(found) == expected
    assert found.total == len(found.hits)


@pytest.mark.feature("search.outcome")
@pytest.mark.usefixtures("store")
def test_a_hit_says_tool_and_outcome_and_both_can_be_asked_for(environ):
    everything = asked(environ)
    calls = {(hit.tool, hit.outcome) for hit in everything.hits if hit.tool}
    assert ("Bash", "passed") in calls
    assert ("Bash", "failed") in calls
    failed = asked(environ, tool=["bash"], outcome=["failed"])
    assert [(hit.tool, hit.outcome, hit.snippet) for hit in failed.hits] == [("Bash", "failed", "apple failed")]
    assert all(hit.outcome is None for hit in everything.hits if hit.kind == "prompt")


@pytest.mark.feature("search.files")
@pytest.mark.usefixtures("store")
def test_file_names_are_found_by_name_by_path_and_alone(environ):
    assert {hit.session_id for hit in asked(environ, "apple.py").hits if hit.tool} == {"one", "two"}
    alone = asked(environ, "", file="acme/src/apple.py")
    assert {hit.session_id for hit in alone.hits} == {"two"}
    assert alone.level == "file"
    assert places(asked(environ, "apple", file="apple.py", role=["command"], until="2026-01-31")) == [("one", "tool_call")]
    assert asked(environ, "apple", file="../..").hits == []


@pytest.mark.feature("search.facets")
@pytest.mark.usefixtures("store")
def test_facets_add_up_to_the_hits_under_every_filter(environ):
    choices = product((None, "claude", "codex"), ((), ("user",), ("output", "command")), ((), ("failed",)), (None, "2026-02-01"))
    seen = set()
    for host, role, outcome, since in choices:
        found = asked(environ, host=host, role=role, outcome=outcome, since=since)
        assert found.facets is not None
        seen.add(found.total)
        for name in ("host", "project", "kind", "month"):
            assert sum(found.facets[name].values()) == found.total == len(found.hits), (name, host, role, outcome, since)
        assert sum(found.facets["tool"].values()) == sum(1 for hit in found.hits if hit.tool)
        assert sum(found.facets["outcome"].values()) == sum(1 for hit in found.hits if hit.outcome)
    assert len(seen) > 4


@pytest.mark.feature("search.facets")
@pytest.mark.usefixtures("store")
def test_facets_are_counts_by_value_the_most_first(environ):
    facets = asked(environ).facets
    assert facets is not None
    assert list(facets) == ["host", "project", "session", "kind", "tool", "outcome", "month"]
    assert facets["host"]["codex"] == 1
    assert list(facets["month"]) == sorted(facets["month"], key=lambda month: (-facets["month"][month], month))
    assert set(facets["month"]) == {"2026-01", "2026-02"}
    assert facets["kind"]["prompt"] == 3


@pytest.mark.feature("search.facets")
def test_a_month_is_the_months_of_the_zone(environ, store):
    normalized(store, view("late", start=FEBRUARY - 1800 * SECOND).prompt("zanzibar"))
    store.search.rebuild(store.lake)
    assert asked(environ, "zanzibar").facets["month"] == {"2026-01": 1}
    east = asked(environ, "zanzibar", timezone="Asia/Kathmandu")
    assert east.facets["month"] == {"2026-02": 1}
    assert len(asked(environ, "zanzibar", timezone="Asia/Kathmandu", since="2026-02-01", until="2026-02-01").hits) == 1
    assert asked(environ, "zanzibar", since="2026-02-01").hits == []


@pytest.mark.feature("search.own-session")
@pytest.mark.usefixtures("store")
def test_sessions_that_are_left_out_are_counted_apart(environ):
    everything = asked(environ)
    found = asked(environ, without={"one"})
    assert "one" not in {hit.session_id for hit in found.hits}
    assert found.left_out == sum(hit.session_id == "one" for hit in everything.hits) > 0
    assert found.total + found.left_out == everything.total


@pytest.mark.feature("search.filters")
@pytest.mark.usefixtures("store")
def test_what_does_not_exist_is_said(environ):
    for wrong in ({"role": ["pilot"]}, {"kind": ["x"]}, {"outcome": ["maybe"]}, {"host": "nosuch"}):
        with pytest.raises(UnknownName):
            asked(environ, **wrong)
    for wrong in ({"since": "someday"}, {"limit": 0}, {"offset": -1}):
        with pytest.raises(UsageError):
            asked(environ, **wrong)


@pytest.mark.feature("search.dead")
@pytest.mark.parametrize("regex", [False, True])
def test_no_hit_and_no_count_comes_from_dead_rows(environ, store, regex):
    before = asked(environ, regex=regex).total
    store.search.begin_bulk()
    store.search.tombstone("codex", ["three"])
    store.search.finish()
    found = asked(environ, regex=regex)
    assert found.total == before - 1 == len(found.hits)
    assert "codex" not in found.facets["host"]
    assert asked(environ, regex=regex, host="codex").hits == []


@pytest.mark.feature("search.regex")
@pytest.mark.usefixtures("store")
def test_a_regular_expression_finds_what_it_matches_and_marks_it(environ):
    found = asked(environ, r"app\w+ (failed|red)", regex=True)
    assert places(found) == [("one", "prompt"), ("one", "tool_result")]
    assert {hit.snippet[a:b] for hit in found.hits for a, b in hit.marks} == {"apple failed", "apple red"}
    assert found.level == "regex"
    assert found.covered["complete"]
    assert places(asked(environ, r"app\w+ (failed|red)", regex=True, outcome=["failed"])) == [("one", "tool_result")]
    assert sum(found.facets["kind"].values()) == found.total == 2
    assert asked(environ, "(?i)APPLE RED", regex=True).total == 1


@pytest.mark.feature("search.regex")
@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "x{2000}", "a" * 1_001])
@pytest.mark.usefixtures("store")
def test_a_pattern_that_is_none_is_refused(environ, pattern):
    with pytest.raises(UsageError):
        asked(environ, pattern, regex=True)


@pytest.mark.feature("search.regex")
def test_a_pattern_that_makes_others_go_back_for_ever_ends(environ, store):
    normalized(store, view("hostile").prompt("a" * 50_000 + "!"))
    store.search.rebuild(store.lake)
    found = asked(environ, "(a+)+$", regex=True, seconds=60.0)
    assert found.hits == []
    assert found.covered["complete"]


SLOW = "(?s)(e|t).{0,990}(a|o).{990}ZQZQZ"
"""RE2 needs seconds of this for a text of a few hundred thousand letters, and is not interrupted inside of one."""


def slow_text(letters: int) -> str:
    return "".join(random.Random(7).choices("etaoinshrdlu \n", k=letters))


@pytest.mark.feature("search.regex-bounds")
def test_a_search_ends_on_time_inside_of_one_text_and_shows_what_it_found(environ, store):
    normalized(store, view("slow").prompt(slow_text(6_000_000)))
    store.search.rebuild(store.lake)
    began = time.monotonic()
    found = asked(environ, f"apple elsewhere|{SLOW}", regex=True, seconds=1.0)
    took = time.monotonic() - began
    assert took < 1 + 6  # and a Python to start on a busy machine
    assert [hit.session_id for hit in found.hits] == ["three"]
    assert found.covered["out_of_time"]
    assert found.partial == {
        "reason": "time",
        "seen": found.covered["rows"],
        "of": found.covered["of"],
        "next": "narrow it by project, tool, role, file or days, or allow more seconds",
    }
    assert 0 < found.partial["seen"] < found.partial["of"]
    # a filter is a way to go on: what it leaves out is not looked at
    narrowed = asked(environ, f"apple elsewhere|{SLOW}", regex=True, seconds=30.0, host="codex")
    assert (narrowed.partial, narrowed.covered["of"]) == (None, 1)


@pytest.mark.feature("search.regex-bounds")
@pytest.mark.usefixtures("store")
def test_a_search_ends_after_so_many_matches_and_says_so(environ, monkeypatch):
    monkeypatch.setattr(patterns, "MOST_MATCHES", 1)
    found = asked(environ, "apple", regex=True, seconds=60.0)
    assert found.partial["reason"] == "matches"
    assert 0 < found.partial["seen"] < found.partial["of"]
    assert found.hits
    monkeypatch.undo()
    assert asked(environ, "apple", regex=True, seconds=60.0).partial is None


@pytest.mark.feature("search.regex-bounds")
@pytest.mark.usefixtures("store")
def test_a_full_page_is_not_partial(environ):
    found = search("apple", regex=True, limit=1, settings=settings_of.load(environ))
    assert found.next_offset == 1
    assert found.partial is None


@pytest.mark.feature("search.regex")
@pytest.mark.usefixtures("store")
def test_what_was_not_looked_at_for_want_of_time_is_said(environ):
    found = asked(environ, "apple", regex=True, seconds=0.0)
    assert found.hits == []
    covered = found.covered
    assert (covered["rows"], covered["complete"], covered["out_of_time"]) == (0, False, True)
    assert covered["of"] > 0


@pytest.mark.feature("search.compaction")
def test_marks_and_texts_follow_rows_that_were_merged(environ, store):
    manifest = store.lake.manifest("normalized", CELL)
    parts, moves = store.lake.compact("normalized", CELL, manifest.parts, "events")
    before = asked(environ)
    assert moves
    store.search.begin_bulk()
    store.search.move([*moves, Move("gone", 0, 1, "elsewhere", 0)])
    store.search.note_pages(moves[0].new, store.lake.pages(moves[0].new))
    store.search.finish()
    after = asked(environ)
    assert [(h.event_id, h.tool, h.outcome, h.snippet) for h in after.hits] == [
        (h.event_id, h.tool, h.outcome, h.snippet) for h in before.hits
    ]
    assert after.facets == before.facets
    assert parts


@pytest.mark.feature("search.pages")
def test_pages_say_what_arrow_says(store):
    long = view("long")
    for number in range(700):
        long.prompt(f"prompt {number} é" * (number % 40 + 1))
    normalized(store, long, cell=Cell("claude", "2026-05"))
    for part in store.lake.parts("events"):
        note = store.lake.pages(part.path)
        rows = range(part.rows)
        reader = PageReader(store.lake.local)
        read = reader.events(part.path, rows, note)
        assert read is not None
        assert reader.events(part.path, [part.rows], note) is None
        arrow = store.lake.reader.rows(EVENTS, [(part.path, row) for row in rows], ("event_id", "ts", "text"))
        assert [tuple(event) for event in read] == [(a.event_id, a.ts, a.text) for a in arrow]


@pytest.mark.feature("search.pages")
def test_without_notes_or_with_wrong_ones_the_same_hits_are_read_by_arrow(environ, store):
    expected = asked(environ)
    for note in (b"", b"[]", b"{", b'[[9,"x",1,2,3,4,5]]', b"[[99,0,40,0,40,0,40]]"):
        store.search.begin_bulk()
        for part in store.lake.parts("events"):
            store.search.note_pages(part.path, note)
        store.search.finish()
        assert asked(environ).hits == expected.hits


@pytest.mark.feature("search.pages")
def test_a_note_that_leads_to_another_row_gives_no_wrong_text(environ, store, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.storage.lake.ROW_GROUP", 1)
    normalized(store, view("early").prompt("zanzibar early"), view("late", start=FEBRUARY).prompt("zanzibar late"))
    store.search.rebuild(store.lake)
    expected = {(hit.session_id, hit.snippet) for hit in asked(environ, "zanzibar").hits}
    assert expected == {("early", "zanzibar early"), ("late", "zanzibar late")}
    store.search.begin_bulk()
    for part in store.lake.parts("events"):
        size, groups, time = json.loads(store.lake.pages(part.path))
        store.search.note_pages(part.path, json.dumps([size, groups[::-1], time]).encode())
    store.search.finish()
    assert {(hit.session_id, hit.snippet) for hit in asked(environ, "zanzibar").hits} == expected


class Disturbed:
    """The texts of a store, before the first of which another writer does something."""

    def __init__(self, store: Store, writer: Callable[[Store, SearchIndex], None]) -> None:
        self.lake = store.lake
        self._store = store
        self._writers = [writer]

    @property
    def page_reader(self) -> PageReader:
        for writer in self._writers:
            other = SearchIndex(self._store.search.path)
            writer(self._store, other)
            other.close()
        self._writers = []
        return self._store.page_reader


def made_anew(store: Store, index: SearchIndex) -> None:
    normalized(store, view("before").prompt("a pear").prompt("more pears"), cell=Cell("claude", "2025-12"))
    index.rebuild(store.lake)


def moved(store: Store, index: SearchIndex) -> None:
    parts = store.lake.manifest("normalized", CELL).parts
    _, moves = store.lake.compact("normalized", CELL, parts, "events")
    index.begin_bulk()
    index.move(moves)
    index.note_pages(moves[0].new, store.lake.pages(moves[0].new))
    index.finish()
    for old in {move.old for move in moves} - {move.new for move in moves}:
        store.lake.local(old).unlink()


@pytest.mark.feature("search.dead")
@pytest.mark.parametrize("writer", [made_anew, moved])
def test_a_writer_between_the_ranking_and_the_texts_does_no_harm(store, writer):
    second = view("more").prompt("a red pear")
    rows = {"events": second.events, "sessions": [second.row()]}
    parts = [store.lake.write_rows("normalized", CELL, table, members) for table, members in rows.items()]
    manifest = store.lake.manifest("normalized", CELL)
    store.lake.commit("normalized", CELL, msgspec.structs.replace(manifest, parts=(*manifest.parts, *parts)))
    store.search.rebuild(store.lake)
    found = store.search.ask(Disturbed(store, writer), Asked("red")).found
    assert {(hit.event.session_id, hit.event.text) for hit in found} == {("one", "why is the apple red"), ("more", "a red pear")}


@pytest.mark.feature("search.filters")
def test_a_filter_alone_lists_the_newest_first(environ, store):
    normalized(store, view("old", start=START - 40 * DAY).prompt("a fig"), cell=Cell("claude", "2026-08"))
    store.search.rebuild(store.lake)
    prompts = asked(environ, "", role=["user"])
    order = [hit.session_id for hit in prompts.hits]
    assert (order[0], set(order[1:3]), order[3]) == ("two", {"one", "three"}, "old")
    assert (prompts.level, prompts.total) == ("newest", 4)
    assert [hit.kind for hit in asked(environ, " ", outcome=["failed"]).hits] == ["tool_result", "tool_call"]
    assert asked(environ, "").hits == []


@pytest.mark.feature("search.marks")
def test_marks_of_an_ingest_and_of_a_rebuild_hold_what_the_tables_say(store):
    shelf = store.search.rows_of_index
    for span in shelf.spans:
        for row in range(span.first, span.last + 1):
            path, number = shelf.place_of(row)
            event = store.lake.reader.row(EVENTS, path, number, ("kind", "thread_id", "call_id", "ts"))
            told = shelf.attributes_of(row)
            assert (told.kind, told.thread_id) == (event.kind, event.thread_id)
            assert (told.tool is not None) == (event.call_id is not None)
    late = shelf.mask(Wanted(since=FEBRUARY // QUARTER))
    assert {shelf.span_of(row).session_id for row, meant in enumerate(late) if meant} == {"two"}


@pytest.mark.feature("search.damaged")
def test_damaged_marks_are_said():
    with pytest.raises(StoreDamaged):
        unpacked(b"no zlib", 3)


def test_an_unmarked_part_is_found_without_facts(store):
    store.search.begin_bulk()
    store.search.add_part(CELL, "bare", 1, [(0, "zanzibar", None)], [("bare", 0, 0)])
    store.search.finish()
    assert [hit.part for hit in store.search.query("zanzibar")] == ["bare"]
    assert store.search.ask(store, Asked("zanzibar")).found == []

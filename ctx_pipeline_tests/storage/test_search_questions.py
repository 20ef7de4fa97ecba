"""Questions as people type them find their session among the published ones: a floor under the figures of docs/search.md."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from ctx_pipeline_tests.bench.bench_search import (
    FIRST_SETS,
    SETS,
    in_context,
    mean_reciprocal,
    opened,
    pasted_errors,
    pasted_found,
    plain,
    ranks,
    table,
    turn_questions,
    turns_found,
)
from ctx_pipeline_tests.conftest import CORPUS, corpus

PAGE = Path(__file__).resolve().parents[2] / "docs" / "search.md"


@pytest.mark.feature("search.table-of-questions")
def test_the_table_has_different_questions_in_four_sets_each_about_sessions_of_its_own():
    asked = table()
    assert len({one.text for one in asked}) == 86
    assert [sum(one.set == half for one in asked) for half in SETS] == [20, 20, 25, 21]
    sessions = [frozenset().union(*(one.sessions for one in table(some))) for some in (FIRST_SETS, ["new"], ["last"])]
    assert not any(sessions[a] & sessions[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    assert all(re.fullmatch(r"(claude|codex)/\S+", session) for one in asked for session in one.sessions)


@corpus
@pytest.mark.feature("search.table-of-questions", "search.pasted-errors")
def test_the_right_sessions_come_first_more_often_than_by_rows_alone(tmp_path):
    asked, more = table(FIRST_SETS), table(["new", "last"])
    with opened(CORPUS, tmp_path) as store:
        turns, sessions = (sum(right) for right in zip(*turns_found(store, turn_questions()), strict=True))
        pasted = pasted_errors(store)
        first = pasted_found(store, pasted)
        places, before = ranks(store, in_context(store), asked), ranks(store, plain(store), asked)
        later, later_before = ranks(store, in_context(store), more), ranks(store, plain(store), more)

    assert turns >= 26
    assert sessions >= 26
    assert len(pasted) > 150
    assert sum(first) / len(first) > 0.95
    assert sum(place > 0 for place in places) >= 38
    assert sum(place == 1 for place in places) >= 29
    assert sum(0 < place <= 10 for place in places) >= 32
    assert mean_reciprocal(places) > mean_reciprocal(before) + 0.03
    assert mean_reciprocal(places) >= 0.85
    assert mean_reciprocal(later) > 0.66
    told = re.findall(r"^\| (tune|held|new|last) \| (.+?) \| (\S+) \| (\S+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(half, text) for half, text, *_ in told] == [(one.set, one.text) for one in (*asked, *more)]
    assert [[int(place) if place.isdecimal() else 0 for place in row[2:]] for row in told] == [
        list(both) for both in zip(places + later, before + later_before, strict=True)
    ]


@corpus
@pytest.mark.feature("search.order-of-capture")
def test_a_store_that_was_read_in_pieces_finds_at_the_same_places(tmp_path):
    asked = table()
    with opened(CORPUS, tmp_path) as store:
        whole = ranks(store, in_context(store), asked)
    files = [path for key in ("claude", "codex") for path in sorted((CORPUS / key).rglob("*")) if path.is_file()]
    random.Random(4).shuffle(files)
    for half in (files[::2], files[1::2]):
        for path in half:
            copy = tmp_path / "home" / path.relative_to(CORPUS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
        opened(tmp_path / "home", tmp_path / "pieces").close()
    with opened(tmp_path / "home", tmp_path / "pieces") as store:
        assert store.search.rows_of_index.gaps
        assert ranks(store, in_context(store), asked) == whole

"""A process that reads much text finds the same texts as one that reads little, also from several threads."""

from __future__ import annotations

import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctx_pipeline.redaction import Redactor, bulk, redactor
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline_tests.factories.plants import planted
from ctx_pipeline_tests.factories.secret_kinds import FORMS, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

MUCH = "redaction.prefilter"


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return every kind in every form, each whole and cut in two, with texts that hold none."""
    drawn = [form.write(kind.draw(random.Random(kind.name))) for kind in KINDS for form in FORMS.values()]
    halves = [half for text in drawn for half in (text[: len(text) // 2], text[len(text) // 2 :], "pattern of the naïve path \\x00")]
    return [*drawn, *halves]


@pytest.fixture
def read_much(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield the sizes of the texts that the machine for much text was given from then on; it is given all."""
    given: list[int] = []
    scan = bulk.Bulk.scan
    monkeypatch.setattr(bulk, "_MUCH", -1)
    monkeypatch.setattr(bulk.Bulk, "scan", lambda self, data, starts: (given.append(len(data)), scan(self, data, starts))[1])
    yield given
    redactor._literals_and_signs.cache_clear()


@pytest.fixture
def expected(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    with monkeypatch.context() as patched:
        patched.setattr(bulk, "_MUCH", 10**12)
        return Redactor().suspects(texts)


@pytest.mark.feature(MUCH)
def test_the_same_texts_are_named_as_where_little_is_read(texts: list[str], expected: list[int], read_much: list[int]) -> None:
    assert Redactor().suspects(texts) == expected
    assert len(expected) > len(KINDS) * len(FORMS) * 0.9
    assert len(texts) - len(expected) > len(KINDS) * len(FORMS)
    assert sum(read_much) > 1_000_000


@pytest.mark.feature(MUCH)
def test_threads_that_read_at_once_name_the_same_texts(texts: list[str], expected: list[int], read_much: list[int]) -> None:
    with ThreadPoolExecutor(8) as threads:
        named = list(threads.map(lambda _: Redactor().suspects(texts), range(8)))

    assert named == [expected] * 8
    assert read_much


_PIECES = st.sampled_from(
    [part for d in DETECTORS for part in planted(d)]
    + ["\0", "é", "\ud800", "\n", "\\\n", "\x1b[1m", "\\u0041", "%41", "&amp;", "\u200b", "A1b2", "pat"]
)


@pytest.mark.feature(MUCH)
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(_PIECES | st.text(max_size=4), max_size=6).map("".join), max_size=6))
def test_no_text_in_which_a_secret_is_found_is_passed_over_where_much_is_read(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bulk, "_MUCH", -1)
        named = Redactor().suspects(texts)
        patched.setattr(bulk, "_MUCH", 10**12)
        assert Redactor().suspects(texts) == named
    assert set(named) >= {n for n, text in enumerate(texts) if Redactor().find(text)}


@pytest.mark.feature(MUCH)
def test_a_python_without_the_library_reads_much_text_all_the_same(
    texts: list[str], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_MUCH", -1)
    monkeypatch.setattr(bulk, "installed", lambda: False)
    monkeypatch.setattr(bulk.Bulk, "scan", None)

    assert Redactor().suspects(texts) == expected


@pytest.mark.feature(MUCH)
def test_a_child_that_is_forked_while_a_thread_reads_reads_by_itself(texts: list[str], expected: list[int], read_much: list[int]) -> None:
    Redactor.expect_much()
    machine = redactor._literals_and_signs().bulk
    with machine._lock:  # as a thread that reads holds it
        child = os.fork()
        if not child:
            signal.alarm(60)
            os._exit(Redactor().suspects(texts) != expected)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.feature("redaction.clear-at-once")
def test_a_very_long_text_is_read_once_and_not_once_a_literal_though_it_is_the_first_that_is_asked_about(monkeypatch):
    monkeypatch.setattr(redactor, "literal_in", lambda _: pytest.fail("each literal was looked for"))
    text = "x y z\n" * 100_000
    key = "ghp_" + "aZ3" * 12

    def clear(of: str) -> bool:
        monkeypatch.setattr(redactor, "_cleared", count())
        return Redactor().clears(of)

    assert (clear(text), clear(text + key)) == (True, False)

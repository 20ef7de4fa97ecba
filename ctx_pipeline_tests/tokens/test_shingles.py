"""Overlap of many texts at once is the overlap of each pair."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctx_pipeline.rot.repetition import grams, jaccard
from ctx_pipeline.rot.repetition import nearest as of_each_pair
from ctx_pipeline.tokens import shingles
from ctx_pipeline.tokens.shingles import Nearest, overlap

words = st.lists(st.sampled_from(["a", "B", "c", "dd"]), max_size=9).map(" ".join)


@pytest.mark.feature("tokens.shingles")
@settings(max_examples=60, deadline=None)
@given(st.lists(words, max_size=12), st.integers(1, 40))
def test_it_equals_the_comparison_of_each_pair_in_blocks_of_any_size(texts, at_once):
    former, shingles._AT_ONCE = shingles._AT_ONCE, at_once
    try:
        found = overlap(texts)
    finally:
        shingles._AT_ONCE = former
    sets = [grams(text) for text in texts]
    assert found.before == [pytest.approx(jaccard(sets[i], sets[i - 1]) if i else 0.0) for i in range(len(texts))]
    expected = [None if n is None else Nearest(n.place, pytest.approx(n.similarity)) for n in of_each_pair(sets)]
    assert found.nearest == expected


@pytest.mark.feature("tokens.shingles")
def test_only_the_first_words_of_a_text_and_the_last_texts_with_a_gram_are_compared(monkeypatch):
    start = " ".join(f"w{n}" for n in range(shingles.WORDS))
    assert overlap([f"{start} one two three", f"{start} four five six"]).before[1] == 1.0
    monkeypatch.setattr(shingles, "HOLDERS", 2)
    assert overlap(["a b c"] * 5).nearest[4] == Nearest(3, 1.0)
    assert overlap([]) == ([], [])
    assert overlap(["one two"]) == ([0.0], [None])

"""A pattern that is compiled when it is first used."""

from __future__ import annotations

import pickle
import re

import pytest

from ctx_pipeline.model.lazy_pattern import lazy_pattern


@pytest.mark.feature("hooks.light")
def test_it_is_compiled_at_its_first_use_and_then_is_what_a_pattern_is():
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("x")

    pattern = lazy_pattern(r"(?P<n>\d+)", re.ASCII)
    assert "search" not in vars(pattern)
    assert [m["n"] for m in pattern.finditer("1 a 22")] == ["1", "22"]
    assert "search" in vars(pattern)
    assert (pattern.pattern, pattern.flags & re.ASCII, pattern.sub("n", "a1")) == (r"(?P<n>\d+)", re.ASCII, "an")
    assert pickle.loads(pickle.dumps(pattern)).fullmatch("7")
    assert lazy_pattern(rb"\d").match(b"1")

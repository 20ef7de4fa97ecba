"""The collector of cycles while a library is imported."""

from __future__ import annotations

import gc
import weakref

import pytest

from ctx_pipeline.model.process.gc_pause import importing


class _Circle:
    def __init__(self) -> None:
        self.itself = self


@pytest.mark.feature("dagster.kept-by-no-run")
def test_a_library_that_is_there_already_keeps_no_garbage_for_good():
    circle = weakref.ref(_Circle())
    with importing("json"):
        frozen = gc.get_freeze_count()
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
    gc.collect()
    assert circle() is None


@pytest.mark.feature("dagster.kept-by-no-run")
def test_what_a_first_import_leaves_is_walked_no_more():
    try:
        with importing("no such library"):
            assert not gc.isenabled()
            held = [[] for _ in range(10)]
        assert gc.isenabled()
        assert gc.get_freeze_count() > len(held)
    finally:
        gc.unfreeze()

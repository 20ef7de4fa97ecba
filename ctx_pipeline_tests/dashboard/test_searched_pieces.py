from __future__ import annotations

from types import SimpleNamespace

import pytest

from ctx_pipeline.dashboard.page import unpacked_chunk
from ctx_pipeline.dashboard.words import Piece, Searched, documents_of, script

HELD = [
    [(0, 7, 1_790_000_000_000, "add a price column", 2), (6, 8, None, "done", 1), (1, 9, 1_790_000_000_500, "It is there.", 5)],
    [],
    [(0, 4, None, "thanks", 0)],
]


@pytest.mark.feature("dashboard.search", "dashboard.packed")
def test_what_is_searched_from_disk_is_read_back_as_it_was_written():
    lines = [SimpleNamespace(key=key, content=f"of {key}", events=6) for key in ("shop", "empty", "harbor")]
    piece = Piece("4c5a86c8a2a1f34d6fa2bd90", tuple(Searched(line, whole=line.key != "harbor") for line in lines))
    written = script(piece, HELD)

    assert documents_of(written) == {("shop", "of shop+"): HELD[0], ("empty", "of empty+"): [], ("harbor", "of harbor"): HELD[2]}
    assert unpacked_chunk(written)["times"] == [1_790_000_000_000, None, 500, None]
    assert documents_of(script(piece, [[], [], []])) == {("shop", "of shop+"): [], ("empty", "of empty+"): [], ("harbor", "of harbor"): []}
    assert documents_of(written[:-40]) == {}

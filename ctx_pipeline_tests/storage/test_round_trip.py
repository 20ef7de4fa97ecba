"""Events written and read again are the same events, for any text, number and time that a column can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import ACTORS, EVENT_KINDS, EVENTS, SESSIONS, TOOL_ACTIONS, TOOL_CALLS
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline_tests.strategies import examples

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.model.tables import Column, Table

CELL = Cell("claude", "2026-03")
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": ANY_TEXT,
    "int": st.integers(0, 2**63 - 1),
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "time": st.integers(0, 4_102_444_799_999_999),
    "list": st.lists(ANY_TEXT, max_size=4),
}
FIXED = {"host": st.just("claude"), "session_id": st.just("s"), "month": st.just("2026-03"), "kind": st.sampled_from(EVENT_KINDS)}
FIXED |= {"actor": st.sampled_from(ACTORS), "action": st.sampled_from(TOOL_ACTIONS)}


def cell_of(column: Column) -> st.SearchStrategy[Any]:
    value = FIXED.get(column.name, VALUES[column.type])
    return st.none() | value if column.nullable else value


def row_of(table: Table) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(cell_of, table.columns))


@pytest.mark.feature("codec.round-trip")
def test_events_and_tool_calls_come_back_as_they_were_written(tmp_path: Path) -> None:
    lake = Lake(Files(tmp_path))

    @examples(40)
    @given(st.lists(row_of(EVENTS), max_size=8), st.sampled_from([1, 9]), st.lists(row_of(TOOL_CALLS), max_size=4), row_of(SESSIONS))
    def round_trip(some: list[tuple[Any, ...]], times: int, calls: list[tuple[Any, ...]], session: tuple[Any, ...]) -> None:
        events = some * times
        rows = {"sessions": [session], "events": events, "tool_calls": calls}
        lake.replace("normalized", CELL, rows, code_version="1", input_fp="", content_hash="")
        (view,) = lake.read_sessions(CELL)
        assert tuple(view.session) == session
        assert [tuple(e) for e in view.events] == events
        assert [tuple(c) for c in view.tool_calls] == calls

    round_trip()

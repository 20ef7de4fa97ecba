"""The tables and the pydantic models say the same; the codec is stable."""

from __future__ import annotations

import types
from typing import Annotated, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ctx_pipeline.model import row_contracts
from ctx_pipeline.model.codec import digest, iso, micros, month_of, rows_hash
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import ACTORS, EVENT_KINDS, TABLES, TOOL_ACTIONS

MODELS = {
    "events": row_contracts.EventRow,
    "model_calls": row_contracts.ModelCallRow,
    "tool_calls": row_contracts.ToolCallRow,
    "threads": row_contracts.ThreadRow,
    "sessions": row_contracts.SessionRow,
    "readings": row_contracts.ReadingRow,
    "command_runs": row_contracts.CommandRunRow,
    "check_runs": row_contracts.CheckRunRow,
    "turns": row_contracts.TurnRow,
    "file_accesses": row_contracts.FileAccessRow,
    "candidates": row_contracts.CandidateRow,
    "memories": row_contracts.MemoryRow,
    "token_counts": row_contracts.TokenCountRow,
}


def plain(annotation: object) -> tuple[str, bool]:
    """Return a column type and whether null is allowed, as a pydantic field says it."""
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [a for a in get_args(annotation) if a is not type(None)]
        assert len(inner) == 1
        return plain(inner[0])[0], True
    if get_origin(annotation) is list:
        return "list", False
    if annotation in (str, int, float, bool):
        return annotation.__name__, False
    return "str", False  # a Literal of texts


@pytest.mark.feature("tables.equal-models")
@pytest.mark.parametrize("name", TABLES)
def test_a_table_and_its_model_have_the_same_columns_in_the_same_order(name: str):
    table, model = TABLES[name], MODELS[name]

    assert list(model.model_fields) == list(table.names)
    for column in table.columns:
        type_, nullable = plain(model.model_fields[column.name].annotation)
        expected = "int" if column.type == "time" else column.type
        assert (column.name, type_, nullable) == (column.name, expected, column.nullable)
        assert column.doc


@pytest.mark.feature("tables.equal-models")
def test_the_lists_of_words_are_the_same_in_tables_and_models():
    assert get_args(row_contracts.EventKind) == EVENT_KINDS
    assert get_args(row_contracts.Actor) == ACTORS
    assert get_args(row_contracts.Action) == TOOL_ACTIONS


@pytest.mark.feature("tables.equal-models")
def test_a_row_with_a_foreign_column_or_an_unknown_kind_is_refused():
    row = dict.fromkeys(row_contracts.EventRow.model_fields)
    row |= {"event_id": "s.0.1.0", "host": "h", "session_id": "a", "thread_id": "a", "seq": 0, "kind": "prompt", "actor": "user"}
    row |= {"stream": "s", "generation": 0, "start": 0, "end": 10, "line": 1}
    row_contracts.EventRow(**row)

    for wrong in ({"kind": "shout"}, {"extra": 1}, {"end": 0}, {"seq": -1}):
        with pytest.raises(ValidationError):
            row_contracts.EventRow(**{**row, **wrong})


@pytest.mark.feature("codec.times")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00.250Z", 1_772_366_400_250_000),
        ("2026-03-01T12:00:00Z", 1_772_366_400_000_000),
        ("2026-03-01T13:00:00.250+01:00", 1_772_366_400_250_000),
        ("2026-03-01T12:00:00.250123Z", 1_772_366_400_250_123),
        ("2026-03-01T12:00:00", 1_772_366_400_000_000),
        ("2026-03-01T12:00:0x.250Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59.999Z", None),
    ],
)
def test_times_become_microseconds_of_utc(text: str | None, expected: int | None):
    assert micros(text) == expected


@pytest.mark.feature("codec.times")
@given(st.integers(946_684_800_000_000, 4_102_444_799_999_999))
def test_a_time_survives_the_way_to_text_and_back(ts: int):
    assert micros(iso(ts)) == ts
    assert (iso(ts) or "").startswith(month_of(ts))


@pytest.mark.feature("codec.content-hash")
def test_hashes_depend_on_content_and_order_and_nothing_else():
    rows = [("a", 1, None), ("b", 2, "é")]

    assert rows_hash(rows) == rows_hash(iter(rows))
    assert rows_hash(rows) != rows_hash(reversed(rows))
    assert digest("ab", "c") != digest("a", "bc")
    # fixed for ever: fingerprints of existing stores rest on it
    assert digest("claude", "root", "rel", size=16) == digest("claude", "root", "rel")[:16]


@pytest.mark.feature("codec.cells")
def test_a_cell_key_reads_as_dagster_writes_it():
    assert Cell("codex", "2026-03").key == "codex|2026-03"
    assert Cell.of("codex|2026-03") == Cell("codex", "2026-03")

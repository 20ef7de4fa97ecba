"""Readings as rows, and what they add up to."""

from __future__ import annotations

import pytest

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.memories import Memory, StoredCandidate
from ctx_pipeline.model.readings import StoredReading, aggregate, store_reading
from ctx_pipeline.model.row_contracts import CandidateRow, MemoryRow, ReadingRow
from ctx_pipeline.model.tables import CANDIDATES, MEMORIES, READINGS


@signal(group="outcome", unit="things")
def sample(_view) -> Reading:
    """Things."""
    return Reading(1.0)


def row(value, session="s1", **more):
    return store_reading(sample, Reading(value, **more), host="claude", session_id=session, made_of="h")


@pytest.mark.feature("signals.aggregates")
def test_figures_of_numbers_with_missing_ones_counted_by_reason():
    found = aggregate(
        [row(v, f"s{v}") for v in (1, 2, 3, 4, 10)] + [row(None, "x", reason="no command"), row(None, "y", reason="no command")]
    )
    got = found["sample"]
    assert (got.count, got.missing, got.reasons) == (5, 2, {"no command": 2})
    assert (got.min, got.max, got.mean, got.median, got.sum) == (1, 10, 4, 3, 20)
    assert got.p90 == pytest.approx(7.6)


@pytest.mark.feature("signals.aggregates")
def test_labels_and_booleans_are_counted():
    base = row(1.0)
    labels = aggregate([base._replace(kind="categorical", value=None, label=v) for v in ("good", "bad", "good")])["sample"]
    assert labels.labels == {"good": 2, "bad": 1}
    flags = aggregate([base._replace(kind="boolean", value=v) for v in (1.0, 0.0, 1.0)])["sample"]
    assert (flags.true, flags.false, flags.sum) == (2, 1, None)


@pytest.mark.feature("signals.aggregates")
def test_without_a_value_there_are_no_figures():
    got = aggregate([row(None)])["sample"]
    assert (got.count, got.missing, got.reasons, got.mean) == (0, 1, {"no value": 1}, None)


@pytest.mark.feature("signals.reading")
def test_a_value_that_is_none_of_its_kind_becomes_null_with_a_reason():
    assert row(float("nan")).reason == "not a finite number"
    assert row("many").reason == "the method returned str for a numeric signal"
    assert row(3).reason is None


@pytest.mark.feature("signals.reading")
def test_the_carriers_the_tables_and_the_models_name_the_same_columns():
    for table, carrier, model in (
        (READINGS, StoredReading, ReadingRow),
        (CANDIDATES, StoredCandidate, CandidateRow),
        (MEMORIES, Memory, MemoryRow),
    ):
        assert table.names == carrier._fields == tuple(model.model_fields)
    assert ReadingRow(**row(2.0)._asdict()).value == 2
    with pytest.raises(ValueError, match="value or a reason"):
        ReadingRow(**row(2.0)._replace(reason="both")._asdict())

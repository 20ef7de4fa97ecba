"""The order in which a transcript's events stand, and what is said of times that cannot be believed."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.dashboard.transcript import transcript
from ctx_pipeline.storage.warehouse.transcript_queries import NO_ROWS, EventRow


def drawn(*events: tuple[str, int, str | None]) -> tuple[list[str], list[int | None]]:
    """The words of (words, milliseconds, id of the event that it follows) as they are drawn, and what is said of their times."""
    rows = [EventRow(0, seq, at, "answer", words, None, words, parent) for seq, (words, at, parent) in enumerate(events)]
    made = transcript(NO_ROWS._replace(events=rows), {})
    items = [item for piece in made.inline for item in json.loads(piece)]
    return [item[5] for item in items], made.summary["clock"]


@pytest.mark.feature("dashboard.copied-times")
def test_events_stand_in_the_order_in_which_they_follow_each_other_not_in_that_of_their_times():
    copied = drawn(("a", 90_000, None), ("b", 10_000, "a"), ("c", 90_000, "b"), ("d", 20_000, "c"))
    swapped = drawn(("b", 2, "a"), ("c", 3, "b"), ("a", 1, None), ("d", 4, "b"), ("e", 5, "elsewhere"))

    assert copied == (["a", "b", "c", "d"], [0, None, 2])
    assert swapped == (["a", "b", "c", "d", "e"], [0, None, 0])


@pytest.mark.feature("dashboard.copied-times")
def test_events_that_follow_each_other_in_a_circle_are_all_there():
    words, _ = drawn(("a", 1, "b"), ("b", 2, "a"), ("c", 3, None))

    assert words == ["c", "a", "b"]


@pytest.mark.feature("dashboard.copied-times")
@pytest.mark.parametrize(("many", "said"), [(49, [0, None, 0]), (50, [50, 7_000, 0])])
def test_the_time_of_a_copy_is_one_that_more_events_carry_than_an_agent_writes_at_once(many, said):
    _, clock = drawn(*((f"e{n}", 7_000, None) for n in range(many)), ("last", 9_000, None))

    assert clock == said

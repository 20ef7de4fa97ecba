"""Days of a chart have no gap, and long histories are drawn by week or month."""

from __future__ import annotations

from datetime import date


def test_days_have_no_gap_and_long_histories_are_drawn_by_month():
    from ctx_pipeline.dashboard.panels import activity

    assert activity.unit_of(date(2026, 1, 1), date(2026, 4, 2)) == "day"
    assert activity.unit_of(date(2026, 1, 1), date(2026, 4, 3)) == "week"
    assert activity.unit_of(date(2024, 1, 1), date(2026, 11, 1)) == "month"
    assert activity.starts(date(2026, 2, 27), date(2026, 3, 2), "day") == [
        date(2026, 2, 27),
        date(2026, 2, 28),
        date(2026, 3, 1),
        date(2026, 3, 2),
    ]
    assert activity.starts(date(2026, 11, 20), date(2027, 1, 2), "month") == [date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)]
    assert activity.starts(date(2026, 11, 18), date(2026, 11, 24), "week") == [date(2026, 11, 16), date(2026, 11, 23)]

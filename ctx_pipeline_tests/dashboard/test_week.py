"""The first screen: the last seven days against the usual."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from ctx_pipeline.dashboard.data import DayLine, PageData, Usage
from ctx_pipeline.dashboard.panels import week
from ctx_pipeline.model.finding import Finding

TODAY = date(2026, 3, 31)


def _data(*days: tuple[int, int], sessions: int = 0, **more) -> PageData:
    """Return a history of (days before today, dollars), with so many sessions today."""
    lines = sorted(DayLine(TODAY - timedelta(days=ago), "claude", Usage(calls=1, cost_nano=usd * 10**9)) for ago, usd in days)
    told = {f"claude/{n}": TODAY for n in range(sessions)}
    return PageData(datetime(2026, 3, 31, 20, tzinfo=UTC), "UTC", days=tuple(lines), session_days=told, **more)


def _cost(data: PageData) -> tuple[str, str]:
    figure = next(f for f in week.figures(data) if f.name == "Cost")
    return figure.value, figure.note


@pytest.mark.feature("dashboard.week")
def test_a_week_is_set_against_the_mean_of_the_weeks_before_it_that_had_calls():
    data = _data((0, 4), (6, 2), (7, 3), (13, 1), (24, 8), (40, 0), sessions=5)

    assert week.period(data) == (date(2026, 3, 25), TODAY)
    assert _cost(data) == ("$6.00", "usually $4.00, +50%"), "weeks of $4, $8 and $0; the one without calls is none"


@pytest.mark.feature("dashboard.week")
def test_few_sessions_are_not_compared_and_one_earlier_week_is_no_usual():
    assert _cost(_data((0, 6), (7, 3), (14, 3), (27, 3), sessions=4)) == ("$6.00", "usually $3.00")
    assert "fewer than 5 sessions" in week.note(_data((0, 6), (7, 3), (14, 3), (27, 3), sessions=4))
    assert _cost(_data((0, 6), (7, 3), (13, 3), sessions=9)) == ("$6.00", "")
    assert "not yet two earlier weeks" in week.note(_data((0, 6), (7, 3), sessions=9))


@pytest.mark.feature("dashboard.week")
def test_without_calls_in_the_last_seven_days_the_last_week_with_calls_is_shown():
    data = _data((9, 4), (15, 2))

    assert week.period(data) == (date(2026, 3, 16), date(2026, 3, 22))
    assert _cost(data)[0] == "$6.00"
    assert "The last week with calls, 16 Mar to 22 Mar 2026" in week.build.build(data)


@pytest.mark.feature("dashboard.week")
def test_three_findings_of_the_week_and_one_line_about_records():
    found = tuple(Finding(f"rule-{n}", f"Finding {n}", "ctx usage") for n in range(5))
    records = Finding("unreadable-records", "12 records could not be read", "ctx doctor", urgent=True)
    html = week.build.build(_data((0, 1), findings=(records, *found), period_findings=(records, *found)))

    assert [n for n in range(5) if f"<h4>Finding {n}</h4>" in html] == [0, 1, 2]
    assert html.count("12 records could not be read") == 1
    assert html.index("12 records could not be read") > html.index("Finding 2")
    assert "All of the history: 6 findings" in html


@pytest.mark.feature("dashboard.week")
def test_time_of_a_day_is_that_of_its_turns():
    data = _data(
        (0, 1), (1, 1), working=((TODAY, "claude", 3_600.0), (TODAY, "claude", 1_800.0), (TODAY - timedelta(days=9), "claude", 50.0))
    )

    assert {f.name: f.value for f in week.figures(data)}["Time in turns"] == "1 h 30"
    assert "Claude" not in week.build.build(data), "an agent is named as its host declares, or by its key"

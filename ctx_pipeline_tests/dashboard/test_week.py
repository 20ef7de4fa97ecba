"""The first screen: the last seven days against the usual."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest

from ctx_pipeline.dashboard.data import Day, DayLine, DearSession, HostLine, PageData, Spent, Usage, Week
from ctx_pipeline.dashboard.panels import week
from ctx_pipeline.model.readings import Finding
from ctx_pipeline_tests.dashboard.test_panel_records import _session

TODAY = date(2026, 3, 31)


def _week(dollars: int = 6, *, usual: int | None = None, sessions: int = 5, until: date = TODAY, seconds: float | None = None) -> Week:
    spent = Spent(cost_nano=dollars * 10**9, calls=1, sessions=sessions, seconds=seconds)
    days = (*(Day(until - timedelta(days=ago), Spent()) for ago in reversed(range(1, 7))), Day(until, spent))
    before = None if usual is None else Spent(cost_nano=usual * 10**9, calls=1, sessions=4)
    return Week(until - timedelta(days=6), until, days, spent, {"claude": (spent.cost_nano, 1)}, until == TODAY, before, 3 if before else 0)


def _page(shown: Week | None, **more) -> str:
    day = () if shown is None else (DayLine(shown.until, "claude", Usage(calls=1, cost_nano=shown.spent.cost_nano)),)
    return week.build.build(PageData(datetime(2026, 3, 31, 20, tzinfo=UTC), "UTC", days=day, week=shown, **more))


def _cost(shown: Week) -> tuple[str, str]:
    figure = next(f for f in week.figures(shown) if f.name == "Cost")
    return figure.value, figure.note


@pytest.mark.feature("dashboard.week")
def test_a_week_is_set_against_the_usual():
    assert _cost(_week(usual=4)) == ("$6.00", "usually $4.00, +50%")
    assert "the mean of the 3 weeks" in week.note(_week(usual=4))


@pytest.mark.feature("dashboard.week")
def test_few_sessions_are_not_compared_and_without_earlier_weeks_there_is_no_usual():
    assert _cost(_week(usual=3, sessions=4)) == ("$6.00", "usually $3.00")
    assert "fewer than 5 sessions" in week.note(_week(usual=3, sessions=4))
    assert _cost(_week(sessions=9)) == ("$6.00", "")
    assert "Fewer than two of the eight weeks before" in week.note(_week(sessions=9))


@pytest.mark.feature("dashboard.week")
def test_a_week_that_is_over_says_which_it_was():
    assert "The last week with calls, 16 Mar to 22 Mar 2026" in _page(_week(until=date(2026, 3, 22)))
    assert "The last seven days, 25 Mar to 31 Mar 2026" in _page(_week())
    assert "No model call with a time" in _page(None)


@pytest.mark.feature("dashboard.week")
def test_three_findings_of_the_week_and_one_line_about_records():
    found = tuple(Finding(f"rule-{n}", f"Finding {n}", f"ctx usage {n}", usd=5.0 - n) for n in range(5))
    records = Finding("unreadable-records", "12 records could not be read", "ctx doctor", quiet=True)
    html = _page(_week(), findings=(records, *found), period_findings=(records, *found))

    assert [n for n in range(5) if f"<h4>Finding {n}</h4>" in html] == [0, 1, 2]
    assert html.count("12 records could not be read") == 1
    assert html.index("12 records could not be read") > html.index("Finding 2")
    assert "All of the history: 6 findings" in html


@pytest.mark.feature("dashboard.week")
def test_a_week_in_which_nothing_stands_out_shows_the_whole_history_and_says_so_and_what_is_lost_comes_first():
    old = Finding("old", "An old one", "ctx usage", usd=9.0)
    idle = Finding("idle", "Nothing at stake", "ctx usage")
    going = Finding("going", "Files go tomorrow", "ctx run", urgent=True)
    quiet_week = _page(_week(), findings=(old, idle), period_findings=(idle,))
    empty = _page(_week(), findings=(idle,), period_findings=())
    lost = _page(_week(), findings=(going, old), period_findings=(Finding("new", "A new one", "ctx usage", usd=1.0),))

    assert "Nothing stands out in these seven days; in the whole history:" in quiet_week
    assert "<h4>An old one</h4>" in quiet_week
    assert "Nothing at stake" not in quiet_week
    assert "Nothing stands out in these seven days.</p>" in empty
    assert "All of the history" in quiet_week
    assert "All of the history" not in _page(_week(), findings=(), period_findings=())
    assert re.findall(r"<h4>([^<]*)</h4>", lost) == ["Files go tomorrow", "A new one"]
    assert "Nothing stands out" not in lost


@pytest.mark.feature("dashboard.week")
def test_time_is_that_of_turns_and_left_out_where_it_is_not_known():
    assert {f.name: f.value for f in week.figures(_week(seconds=5_400.0))}["Time in turns"] == "1 h 30"
    assert "Time in turns" not in {f.name for f in week.figures(_week())}


@pytest.mark.feature("dashboard.numbers-with-units")
@pytest.mark.parametrize(
    ("seconds", "scale"), [(10.0, ["10 s", "5 s", "0"]), (90.0, ["2 min", "1 min", "0"]), (9_000.0, ["4 h", "2 h", "0"])]
)
def test_the_scale_of_time_has_a_unit_that_fits(seconds, scale):
    html = _page(_week(), hosts=(HostLine("claude", "Claude Code", 0),), working=((TODAY, "claude", seconds),))
    chart = html.partition("Time by day")[2]

    assert re.findall(r"<span>([^<]*)</span>", chart.partition('class="scale">')[2].partition("</div>")[0]) == scale


@pytest.mark.feature("dashboard.week")
def test_where_hardly_a_day_of_the_last_had_calls_the_newest_days_with_calls_are_drawn():
    def drawn(*ago: int) -> str:
        days = tuple(DayLine(TODAY - timedelta(days=n), "claude", Usage(calls=1, cost_nano=10**9)) for n in ago)
        host = HostLine("claude", "Claude Code", 0)
        return week.build.build(PageData(datetime(2026, 3, 31, 20, tzinfo=UTC), "UTC", days=days, week=_week(), hosts=(host,)))

    few = drawn(0, 40, 80, 120)
    assert "the newest 4 days with calls" in few
    assert ">1 Dec</text>" in few
    assert ">31 Mar</text>" in few
    assert "days with calls" not in drawn(0, 3, 5, 9, 40)
    assert "<title>Wed 4 Mar 2026" in drawn(0, 3)
    assert ">25 Feb 2025</text>" in drawn(0, 399)


@pytest.mark.feature("dashboard.week")
def test_the_cost_of_each_agent_stands_by_itself_and_says_where_it_was_not_paid():
    hosts = (HostLine("claude", "Claude Code", 0), HostLine("codex", "Codex", 1))
    days = tuple(DayLine(TODAY, host.key, Usage(calls=1, cost_nano=10**9)) for host in hosts)
    both = _week()._replace(hosts={"claude": (40_070_000_000, 9), "codex": (9_410_000_000, 3)})
    html = week.build.build(
        PageData(datetime(2026, 3, 31, 20, tzinfo=UTC), "UTC", days=days, week=both, hosts=hosts, plans={"codex": "team <b>"})
    )

    assert "<span>Claude Code: $40.07</span>" in html
    assert "<span>Codex: $9.41 at list prices, on a flat plan (team &lt;b&gt;)</span>" in html


@pytest.mark.feature("cli.week-dear-session")
def test_the_page_names_the_session_that_made_a_large_part_of_the_week():
    line = _session("abc")._replace(title="rewrite <all> of it")
    dear = _week()._replace(dear=DearSession("claude", "abc", 4 * 10**9, 0.667))

    told = f'One session made 67% of the cost, $4.00: <a href="#session-{line.key}">rewrite &lt;all&gt; of it</a>'
    assert told in _page(dear, sessions=(line,))
    assert "One session made" not in _page(_week(), sessions=(line,))
    alone = dear._replace(spent=dear.spent._replace(sessions=1))
    assert "One session made" not in _page(alone, sessions=(line,)), "the only one made all of it, which says nothing"

"""Words of time in a question."""

from __future__ import annotations

from datetime import date

import pytest

from ctx_pipeline.search.time_words import named_days

TODAY = date(2026, 11, 18)


@pytest.mark.feature("search.time-words")
@pytest.mark.parametrize(
    ("question", "rest", "since", "until"),
    [
        ("upload timeout yesterday", "upload timeout", "2026-11-17", "2026-11-17"),
        ("what broke the build last week?", "what broke the build", "2026-11-09", "2026-11-15"),
        ("this month flaky test", "flaky test", "2026-11-01", "2026-11-30"),
        ("last month flaky test", "flaky test", "2026-10-01", "2026-10-31"),
        ("the race in July", "the race", "2026-07-01", "2026-07-31"),
        ("the race in December", "the race", "2025-12-01", "2025-12-31"),
        ("deploys since March 2026", "deploys", "2026-03-01", "2026-11-18"),
        ("two weeks ago parser", "parser", "2026-11-01", "2026-11-07"),
        ("shadow branch on July 2026", "shadow branch", "2026-07-01", "2026-07-31"),
        ("July 2026 shadow branch", "shadow branch", "2026-07-01", "2026-07-31"),
        ("what failed on Monday?", "what failed", "2026-11-16", "2026-11-16"),
        ("the deploy of last wednesday", "the deploy of", "2026-11-11", "2026-11-11"),
        ("parser on 2026-07-08", "parser", "2026-07-08", "2026-07-08"),
        ("parser since 2026-07", "parser", "2026-07-01", "2026-11-18"),
        ("parser last 10 days", "parser", "2026-11-08", "2026-11-18"),
        ("work from 2026-07-01 to 2026-07-08", "work", "2026-07-01", "2026-07-08"),
        ("work from July to September", "work", "2026-07-01", "2026-09-30"),
        ("work from March to June 2025", "work", "2025-03-01", "2025-06-30"),
        ("parser since last Friday", "parser", "2026-11-13", "2026-11-18"),
        ("parser since yesterday", "parser", "2026-11-17", "2026-11-18"),
        ("parser since two weeks ago", "parser", "2026-11-01", "2026-11-18"),
        ("errors since the start of this week", "errors", "2026-11-16", "2026-11-18"),
        ("login bug from this week", "login bug", "2026-11-16", "2026-11-22"),
        ("errors from the beginning of this month", "errors", "2026-11-01", "2026-11-18"),
        ("since start of last year, parser", "parser", "2025-01-01", "2026-11-18"),
        ("what broke last week after the upgrade", "what broke after the upgrade", "2026-11-09", "2026-11-15"),
    ],
)
def test_words_of_time_are_days_and_the_rest_is_the_question(question, rest, since, until):
    found = named_days(question, TODAY)
    assert found is not None
    assert (found.question, found.since.isoformat(), found.until.isoformat()) == (rest, since, until)


@pytest.mark.feature("search.time-words")
@pytest.mark.parametrize(
    ("question", "rest", "since", "until"),
    [
        ("parser before July 2026", "parser", None, date(2026, 6, 30)),
        ("what did we decide before August?", "what did we decide", None, date(2026, 7, 31)),
        ("parser before May", "parser", None, date(2026, 4, 30)),
        ("parser before march 2026", "parser", None, date(2026, 2, 28)),
        ("parser before 2026-07-08", "parser", None, date(2026, 7, 7)),
        ("parser before last week", "parser", None, date(2026, 11, 8)),
        ("parser until July 2026", "parser", None, date(2026, 7, 31)),
        ("parser till last week", "parser", None, date(2026, 11, 15)),
        ("up to yesterday parser", "parser", None, date(2026, 11, 17)),
        ("parser before Monday", "parser", None, date(2026, 11, 15)),
        ("parser after 2026-07", "parser", date(2026, 8, 1), TODAY),
        ("parser after last Friday", "parser", date(2026, 11, 14), TODAY),
        ("parser before Monday, tests", "parser , tests", None, date(2026, 11, 15)),
        ("parser between march and june", "parser", date(2026, 3, 1), date(2026, 6, 30)),
        ("parser between march and may 2026", "parser", date(2026, 3, 1), date(2026, 5, 31)),
        ("parser between July and September", "parser", date(2026, 7, 1), date(2026, 9, 30)),
        ("parser between 2026-07-01 and 2026-07-08", "parser", date(2026, 7, 1), date(2026, 7, 8)),
    ],
)
def test_before_until_and_after_are_bounds(question, rest, since, until):
    assert named_days(question, TODAY) == (rest, since, until)


@pytest.mark.feature("search.time-words")
@pytest.mark.parametrize(
    "question",
    [
        *("", "today", "last week?", "may fail", "the last commit", "march through the list", "time out"),
        *("panic at 2026-07-08 11:36:54", "since 2026-13-40 nothing", "from 2026-07-08T11:36 on", "sorted by month in 2026-07-08-rc1"),
    ],
)
def test_a_question_without_them_or_of_them_alone_is_taken_as_it_is(question):
    assert named_days(question, TODAY) is None


@pytest.mark.feature("search.time-words")
@pytest.mark.parametrize(
    "question",
    [
        *("done by last Friday", "parser before may", "the tests after march", "parser after yesterday's release", "not before July 2026"),
        *(
            "the day before yesterday",
            "parser after today",
            "parser before July 8",
            "parser after 2026-07-08 11:36",
            "what was before 2026-13",
        ),
        *("between July and September, not before August 2026", "between July to September parser", "from July and August parser"),
        *("two days before 2026-07-08 parser", "a week after last Monday parser", "parser shortly after July 2026", "just before July"),
        *("what changed after the July 2026 release", "before and after July 2026", "before today and after yesterday, parser"),
        *("not from 2026-07 parser", "parser not in July", "older than last month", "the day before yesterday parser"),
        *("released in 2026-07 or later", "in July or August, the parser", "parser from July to 8 September", "parser since March onwards"),
        *("deploy after Monday morning", "deploy before yesterday evening", "before Friday noon, parser", "tests before Monday release"),
        *("parser after last Monday afternoon", "deploy until yesterday late evening", "deploy up to yesterday midnight"),
        *("deploy after June, before August", "until July parser after March", "deploy before today, after 2026-07-08"),
        *(
            "decide between march and may",
            "go from may to march",
            "parser between July and yesterday",
            "between Monday and last week, parser",
        ),
        *("deploy before mid July 2026", "deploy until the end of July 2026", "parser since early July 2026"),
        *("errors before the start of this week", "errors until the start of last month", "not since the start of this week, parser"),
        *("errors from the start of last week to yesterday", "errors since the start of last year until last month"),
        *("parser from July to the middle of September 2026", "parser after the first week of July 2026"),
        *("tests on 8 July 2026", "tests on the 8th of July 2026", "tests in July 8", "tests in July, 2025", "tests in July of 2025"),
        *("errors on monday.com api", "datetime.today fails", "see logs/in/last week/parser", "parser from 2026-07-01..2026-07-08"),
        *(
            "compare last week with this week",
            "parser from November to February",
            "parser since December 2026",
            "from 2026-13 to 2026-14 parser",
        ),
    ],
)
def test_words_that_name_other_days_than_they_would_alone_are_words_like_others(question):
    assert named_days(question, TODAY) is None

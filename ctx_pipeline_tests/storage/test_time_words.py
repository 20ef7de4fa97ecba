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
        ("what broke last week after the upgrade", "what broke after the upgrade", "2026-11-09", "2026-11-15"),
    ],
)
def test_words_of_time_are_days_and_the_rest_is_the_question(question, rest, since, until):
    found = named_days(question, TODAY)
    assert found is not None
    assert (found.question, found.since.isoformat(), found.until.isoformat()) == (rest, since, until)


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
        *("parser before July 2026", "parser until July 2026", "parser till last week", "done by last Friday", "parser after 2026-07"),
        *("not from 2026-07 parser", "parser not in July", "older than last month", "the day before yesterday parser"),
        *("released in 2026-07 or later", "in July or August, the parser", "parser from July to 8 September", "parser since March onwards"),
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

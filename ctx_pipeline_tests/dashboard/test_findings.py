"""Findings come from figures worked out by hand, and each command survives a shell."""

from __future__ import annotations

import shlex
from datetime import UTC, date, datetime

import pytest

from ctx_pipeline.dashboard import data as page
from ctx_pipeline.dashboard.findings import findings

WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _session(name: str, *, cost: int = 0, commands: int = 0, failed: int = 0, **more: int) -> page.SessionLine:
    facts = {"unknown": 0, "quarantined": 0, "compactions": 0} | more
    return page.SessionLine(
        *("claude", name, f"Title of {name}", "prompt", None, "till", None, None, (), None, None, None, "completed"),
        *(1, 9, 2, commands, failed, facts["unknown"], facts["quarantined"], 10, 1_000, facts["compactions"], commands, failed, 0, "stamp"),
        page.Usage(calls=4, cost_nano=cost),
    )


def _titles(**values: object) -> list[str]:
    return [f.title for f in findings(page.PageData(generated=WHEN, **values))]


def test_nothing_is_found_in_an_ordinary_history():
    assert _titles(sessions=(_session("a", commands=9, failed=2),)) == []


@pytest.mark.feature("dashboard.findings")
def test_the_session_with_most_failed_commands_is_named():
    found = findings(
        page.PageData(generated=WHEN, sessions=(_session("a", commands=9, failed=3), _session("b; rm -rf /", commands=40, failed=7)))
    )

    assert found[0].title == "7 of 40 commands failed in one session"
    assert "1 other session had 3 or more." in found[0].detail
    assert shlex.split(found[0].command) == ["ctx", "show", "claude", "b; rm -rf /"]


@pytest.mark.feature("dashboard.findings")
def test_the_dearest_tenth_of_sessions_is_weighed_against_all():
    sessions = (_session("dear", cost=60_000_000_000), *(_session(f"s{i}", cost=10_000_000_000) for i in range(4)))
    models = (page.ModelLine("claude", "m", page.Usage(calls=20, cost_nano=100_000_000_000)),)
    found = findings(page.PageData(generated=WHEN, sessions=sessions, models=models))

    assert [f.title for f in found] == ["One session of 5 made 60% of the cost"]
    assert "cost $60.00 over 4 calls" in found[0].detail


@pytest.mark.feature("dashboard.findings")
def test_the_share_of_prompt_tokens_from_the_cache():
    usage = page.Usage(input_tokens=1_000_000, cache_write_5m_tokens=500_000, cache_write_1h_tokens=500_000, cache_read_tokens=6_000_000)

    assert _titles(models=(page.ModelLine("claude", "m", usage),)) == ["75% of all prompt tokens came from the cache"]


@pytest.mark.feature("dashboard.findings")
def test_records_secrets_prices_retention_and_memories_are_counted():
    titles = _titles(
        sessions=(_session("a", unknown=3, quarantined=1, compactions=2), _session("b", unknown=4)),
        models=(page.ModelLine("claude", "new-model", page.Usage(input_tokens=5, calls=2, unpriced_calls=2)),),
        redactions={"aws-key": 2, "jwt": 1},
        expiring=(page.Expiring("claude", 12, 27, 30),),
        memory_status={"needs_review": 2, "candidate": 9, "accepted": 1},
    )

    assert titles == [
        "12 transcripts of claude are about to be deleted",
        "1 record could not be read",
        "3 secrets replaced before anything was stored",
        "No price is known for 1 model",
        "2 memories wait for a review",
        "7 records of an unknown kind",
        "9 memories were drawn from past sessions",
        "1 session outgrew the context window",
    ]


def test_a_model_that_used_nothing_is_no_finding():
    assert _titles(models=(page.ModelLine("claude", "<synthetic>", page.Usage(calls=2, unpriced_calls=2)),)) == []


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

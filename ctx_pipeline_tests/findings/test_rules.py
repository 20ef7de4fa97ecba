"""Findings come from figures worked out by hand, and each command survives a shell."""

from __future__ import annotations

import shlex
from collections import Counter

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.facts.expiring import HomeRetention
from ctx_pipeline.findings.evidence import History, Measured, QuickScan, SessionFacts
from ctx_pipeline.findings.rules import HABITS, RULES, findings, signals_read
from ctx_pipeline.usage.rollup import SUMS


def _history(*sessions: SessionFacts, costs: dict[str, int] | None = None, **more: object) -> History:
    spent = {("claude", name): {**dict.fromkeys(SUMS, 0), "calls": 4, "cost_nano": nano} for name, nano in (costs or {}).items()}
    return History(sessions={(one.host, one.session_id): one for one in sessions}, spent=spent, **more)


def _session(name: str, **more: int) -> SessionFacts:
    return SessionFacts("claude", name, f"Title of {name}", "till", **more)


def _model(name: str = "m", **sums: int) -> dict[str, object]:
    return {"host": "claude", "model": name, **dict.fromkeys(SUMS, 0), **sums}


def _read(**signals: dict[str, float]) -> dict[str, object]:
    return {name: {("claude", session): Measured(value, None) for session, value in values.items()} for name, values in signals.items()}


def _titles(history: History) -> list[str]:
    return [f.title for f in findings(history)]


@pytest.mark.feature("findings.one-set")
def test_nothing_is_found_in_an_ordinary_history():
    assert _titles(_history(_session("a"), readings=_read(command_count={"a": 9}, failed_command_count={"a": 2}))) == []


@pytest.mark.feature("dashboard.findings")
def test_the_session_with_most_failed_commands_is_named():
    readings = _read(command_count={"a": 9, "b; rm -rf /": 40}, failed_command_count={"a": 3, "b; rm -rf /": 7})
    [found] = findings(_history(_session("a"), _session("b; rm -rf /"), readings=readings))

    assert (found.rule, found.cases, found.of) == ("failed-commands", 2, 2)
    assert found.title == "7 of 40 commands failed in one session"
    assert "1 other session had 3 or more." in found.detail
    assert shlex.split(found.command) == ["ctx", "show", "claude", "b; rm -rf /"]


@pytest.mark.feature("dashboard.findings")
def test_the_most_expensive_tenth_of_sessions_is_weighed_against_all():
    costs = {"dear": 60_000_000_000, **{f"s{i}": 10_000_000_000 for i in range(4)}}
    [found] = findings(_history(_session("dear"), costs=costs, models=(_model(calls=20, cost_nano=100_000_000_000),)))

    assert (found.title, found.usd) == ("One of the 5 sessions with a cost made 60% of the cost", 60.0)
    assert "cost $60.00 over 4 calls" in found.detail
    assert found.command == "ctx explain dear"


@pytest.mark.feature("dashboard.findings")
@pytest.mark.parametrize(("read", "told"), [(6_000_000, []), (2_000_000, ["Only 50% of all prompt tokens came from the cache"])])
def test_the_share_of_prompt_tokens_from_the_cache_is_told_where_it_is_low(read: int, told: list[str]):
    sums = {"input_tokens": 1_000_000, "cache_write_5m_tokens": 500_000, "cache_write_1h_tokens": 500_000, "cache_read_tokens": read}

    assert _titles(_history(models=(_model(calls=9, **sums),))) == told


@pytest.mark.feature("dashboard.findings")
def test_records_secrets_prices_retention_and_lessons_are_counted():
    history = _history(
        _session("a", unknown=3, quarantined=1),
        _session("b", unknown=4),
        readings=_read(compaction_count={"a": 2, "b": 0}),
        models=(_model("new-model", input_tokens=5, calls=2, unpriced_calls=2),),
        replaced={"aws-key": 2, "jwt": 1},
        homes=(HomeRetention("claude", "/home/claude", 30, 20, 29, 12, 5),),
        lessons={"needs_review": 2, "candidate": 9, "accepted": 1},
    )

    assert _titles(history) == [
        "Claude Code deletes transcripts after 30 days: 5 in /home/claude go within 5 days",
        "History was compacted twice",
        "7 transcripts of Claude Code are about to be deleted",
        "2 lessons wait for a review",
        "No price is known for 1 model",
        "3 secrets in your transcripts",
        "7 records of an unknown kind",
        "1 record could not be read",
    ]
    assert [one.rule for one in findings(history) if one.quiet] == ["secrets-in-transcripts", "unknown-records", "unreadable-records"]
    (unpriced,) = [one.detail for one in findings(history) if one.title == "No price is known for 1 model"]
    assert unpriced == "2 calls of new-model, 5 tokens, are left out of the cost."
    (unnamed,) = findings(_history(models=(_model("", input_tokens=5, calls=1, unpriced_calls=1),)))
    assert unnamed.detail == "1 call of a model without a name, 5 tokens, is left out of the cost."


@pytest.mark.feature("findings.one-set")
def test_readings_that_cannot_be_read_are_a_finding_and_hide_no_other():
    assert _titles(_history(damaged="the table readings cannot be trusted", lessons={"needs_review": 1})) == [
        "the table readings cannot be trusted",
        "1 lesson waits for a review",
    ]


@pytest.mark.feature("dashboard.findings")
def test_a_model_that_used_nothing_is_no_finding():
    assert _titles(_history(models=(_model("<synthetic>", calls=2, unpriced_calls=2),))) == []


@pytest.mark.feature("findings.one-set")
def test_findings_are_ranked_by_what_is_lost_then_money_then_how_common():
    rebuilt = {("claude", name): Measured(200_000, usd) for name, usd in (("a", 1.5), ("b", 2.0))}
    history = _history(
        _session("a"),
        _session("b"),
        readings={"cache_rebuild_tokens": rebuilt, **_read(interruption_count={"a": 3, "b": 2, "c": 0})},
        newest=QuickScan(sessions=1, secrets=Counter({"jwt": 1})),
        lessons={"candidate": 4, "needs_review": 2},
    )

    found = findings(history)

    assert [(f.rule, f.usd, f.weight) for f in found] == [
        ("cache-rebuild-tokens", 3.5, 2),
        ("interruption-count", None, 1),
        ("lessons-to-review", None, 1),
        ("secrets-in-transcripts", None, 1),
    ]


@pytest.mark.feature("findings.one-set")
@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.signal)
def test_no_habit_is_a_finding_below_its_fewest_sessions(habit):
    one = {habit.signal: {"a": habit.at_least}, **({habit.needs[0]: {"a": habit.needs[1], "b": habit.needs[1]}} if habit.needs[0] else {})}
    two = one | {habit.signal: {"a": habit.at_least, "b": habit.at_least}}

    rule = next(rule for rule in RULES if habit.signal in rule.signals and rule.least == 2)
    assert findings(_history(readings=_read(**one)), [rule]) == []
    [found] = findings(_history(readings=_read(**two)), [rule])
    assert (found.rule, found.cases, found.advice) == (habit.signal.replace("_", "-"), 2, habit.advice)


@pytest.mark.feature("findings.one-set")
def test_every_rule_has_one_name_and_reads_signals_that_exist():
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert signals_read() <= set(discovery.signals())
    assert all(rule.least >= 1 for rule in RULES)


@pytest.mark.feature("cli.least-at-stake")
def test_less_than_a_quarter_dollar_and_a_single_compaction_are_no_finding():
    def found(cents: int, compactions: int) -> list[str]:
        models = (_model(calls=4, cost_nano=cents * 10_000_000),)
        more = {"cache_read_nano": cents * 10_000_000, "readings": _read(compaction_count={"a": compactions})}
        return _titles(_history(_session("a"), costs={"a": cents * 10_000_000}, models=models, **more))

    assert found(24, 1) == []
    assert found(25, 2) == ["100% of the cost, $0.25, was context sent again from the cache", "History was compacted twice"]


@pytest.mark.feature("findings.one-set")
def test_a_compaction_says_nothing_of_a_window_that_was_not_full():
    readings = _read(compaction_count={"a": 2, "b": 1}, context_peak_share={"a": 0.97, "b": 0.04})
    (found,) = [f for f in findings(_history(_session("a"), _session("b"), readings=readings)) if f.signal == "compaction_count"]

    assert found.title == "History was compacted 3 times"
    assert found.detail == "In 2 sessions, most often in “Title of a”; in 1 the window was at least 70% full."


@pytest.mark.feature("findings.sentences")
def test_what_findings_say_are_sentences_that_end():
    costs = {"dear": 60_000_000_000, **{f"s{i}": 10_000_000_000 for i in range(4)}}
    sums = _model(calls=20, cost_nano=100_000_000_000, cache_read_tokens=9)
    found = findings(_history(_session("dear"), costs=costs, models=(sums,), cache_read_nano=52_000_000_000))

    assert len(found) >= 2
    assert {one.text[-1] for one in found} == {"."}
    assert not [one.text for one in found if ".." in one.text]
    assert {habit.advice[-1] for habit in HABITS} == {"."}
    assert {habit.title[-1] for habit in HABITS} & {".", ":"} == set(), "a title is no sentence"

"""What panels hand to their scripts, against figures that were worked out by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from ctx_pipeline.dashboard import data as page
from ctx_pipeline.dashboard.page import session_list
from ctx_pipeline.dashboard.panels import accounting, memories, missing, numbers, scores, signals, user_input, year

WHEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOSTS = (page.HostLine("claude", "Claude Code", 0), page.HostLine("codex", "Codex", 1))


def _session(name: str, **more: object) -> page.SessionLine:
    facts = {"unknown": 0, "quarantined": 0, "failed_commands": 0, "project": "till", "usage": page.Usage(input_tokens=5, calls=1)} | more
    return page.SessionLine(
        *("claude", name, f"Title of {name}", "prompt", None, facts["project"], None, None, (), None, None, None, "completed"),
        *(1, 9, 2, 5, 0, facts["unknown"], facts["quarantined"], 10, 1_000, 0, 5, facts["failed_commands"], 0, "stamp"),
        facts["usage"],
    )


def _data(**values: object) -> page.PageData:
    return page.PageData(generated=WHEN, hosts=HOSTS, **values)


def _words(html: str) -> str:
    return " ".join(html.split())


@pytest.mark.feature("dashboard.accounting")
def test_rows_of_usage_point_to_their_names_and_carry_every_kind_of_token():
    lines = (
        page.UsageLine(date(2026, 3, 1), "codex", "till", "gpt-5", page.Usage(1, 2, 3, 4, 5, 1, 6, 7_000, 2, 1)),
        page.UsageLine(None, "claude", "", None, page.Usage(input_tokens=9, calls=1)),
        page.UsageLine(date(2026, 3, 2), "claude", "till", "opus", page.Usage(output_tokens=8, calls=1)),
    )

    week, month = date(2026, 2, 23), date(2026, 3, 1)

    found = accounting.records(_data(usage_lines=lines, periods=((date(2026, 3, 1), week, month),)))

    assert found == {
        "hosts": [["claude", "Claude Code", "c0"], ["codex", "Codex", "c1"]],
        "projects": ["till", ""],
        "models": ["gpt-5", "", "opus"],
        "days": [["2026-03-01", "2026-02-23", "2026-03-01"]],
        "rows": [
            ["2026-03-01", 1, 0, 0, 1, 2, 3, 4, 5, 1, 6, 7_000, 2],
            [None, 0, 1, 1, 9, 0, 0, 0, 0, 0, 1, 0, 0],
            ["2026-03-02", 0, 0, 2, 0, 8, 0, 0, 0, 0, 1, 0, 0],
        ],
    }


@pytest.mark.feature("dashboard.accounting-agents")
def test_the_filter_of_agents_names_those_with_a_row_alone():
    lines = (page.UsageLine(date(2026, 3, 1), "codex", "till", "gpt-5", page.Usage(calls=1)),)

    found = accounting.records(_data(usage_lines=lines))

    assert found["hosts"] == [["codex", "Codex", "c1"]]
    assert found["rows"][0][1] == 0, "a row points to its agent"


@pytest.mark.feature("dashboard.prices-source")
def test_the_accounts_name_the_price_lists_their_newest_day_and_the_calls_of_each_price():
    data = _data(
        usage_lines=(page.UsageLine(date(2026, 3, 1), "claude", "till", "opus", page.Usage(calls=9)),),
        models=(page.ModelLine("claude", "opus", page.Usage(calls=9, cost_nano=5, recorded_calls=2, unpriced_calls=3)),),
        prices=(
            page.PriceLine("anthropic", "claude-opus-4-5", "list", "genai-prices-0.2.3", 4),
            page.PriceLine("openai", "gpt-5", "2026-08-21", "genai-prices-0.2.3", 5),
        ),
    )

    text = _words(accounting.build.build(data))

    assert "Prices: genai-prices-0.2.3, the newest of 2026-08-21." in text
    assert "The agents recorded a cost for 2 calls." in text
    assert "No price is known for 3 calls; they add nothing." in text
    assert text.index("<td>gpt-5</td><td>openai</td><td>2026-08-21</td>") < text.index("<td>claude-opus-4-5</td>")


@pytest.mark.feature("dashboard.build-modes")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("auto", "what the agent recorded, else the list price of the day of the call"),
        ("calculate", "the list price of the day of each call, whatever the agent recorded"),
        ("display", "what the agents recorded, and nothing else"),
    ],
)
def test_the_accounts_say_which_costs_they_show(mode, words):
    lines = (page.UsageLine(date(2026, 3, 1), "claude", "till", "opus", page.Usage(calls=9)),)

    text = _words(accounting.build.build(_data(usage_lines=lines, cost_mode=mode)))

    assert f"A cost is {words} (mode <code>{mode}</code>)." in text


@pytest.mark.feature("dashboard.heatmap")
def test_the_days_of_two_agents_are_one_day_and_colours_hold_a_quarter_of_the_days_each():
    days = (
        page.DayLine(date(2026, 3, 1), "claude", page.Usage(input_tokens=10, calls=2, cost_nano=1)),
        page.DayLine(date(2026, 3, 1), "codex", page.Usage(output_tokens=5, calls=3, cost_nano=4)),
        page.DayLine(date(2026, 3, 9), "codex", page.Usage(calls=0)),
        page.DayLine(date(2026, 3, 4), "codex", page.Usage(calls=1)),
        page.DayLine(date(2026, 3, 5), "codex", page.Usage(calls=1, unpriced_calls=1)),
    )

    assert year.records(_data(days=days)) == {
        "days": [["2026-03-01", 5, 15, 5], ["2026-03-04", 1, 0, 0], ["2026-03-05", 1, 0, None]],
        "steps": [1, 5],
    }
    assert year.thresholds([1, 2, 3, 4, 5, 6, 7, 80]) == [2, 4, 6, 80]
    assert year.thresholds([3, 3, 3]) == [3]
    assert year.thresholds([]) == []


@pytest.mark.feature("dashboard.memories-browser", "dashboard.evidence-links")
def test_a_memory_carries_the_keys_of_the_sessions_that_are_on_the_page():
    there = _session("there")
    line = page.MemoryLine(
        *("mem-1", "tool_lesson", "Use --long.", None, "accepted", (), "repo", "r", 0.5, 3, 2, 4, ("claude/gone", "claude/there")),
        methods=("reme",),
        links=("mem-2", "mem-3"),
        last_ts=datetime(2026, 3, 1, 12),  # noqa: DTZ001 - times of rows are naive UTC
        evidence=6,
    )

    (found,) = memories.records(_data(sessions=(there,), memories=(line,), memory_total=1, dangling={"mem-1": ("mem-3",)}))["memories"]

    assert found["sessions"] == [there.key]
    assert found["links"] == [["mem-2", True], ["mem-3", False]]
    assert (found["evidence"], found["last"], found["methods"]) == (6, 1_772_366_400_000, ["reme"])


@pytest.mark.feature("dashboard.lifecycle")
def test_the_most_useful_the_last_judged_and_the_links_that_lead_nowhere_are_named():
    lines = tuple(
        page.MemoryLine(name, "case", f"Text {name}", None, "accepted", (), "repo", "r", 0.5, 3, 1, uses, (), utility=utility)
        for name, uses, utility in (("mem-a", 3, 0.4), ("mem-b", 2, 0.9), ("mem-c", 0, 1.0))
    )
    data = _data(
        memories=lines,
        memory_total=3,
        memory_status={"accepted": 3},
        judgements=(page.Judgement("2026-11-20T10:00:00Z", "retired", "mem-a", "person"),),
        dangling={"mem-c": ("mem-x",)},
    )

    text = _words(memories.build.build(data))

    assert "Accepted <b>3</b>" in text
    assert text.index("Text mem-b</a> <i>90% useful, given 2 times</i>") < text.index("Text mem-a</a> <i>40% useful, given 3 times</i>")
    assert "Text mem-c</a>" not in text
    assert "<li>Text mem-a <i>retired 2026-11-20 by person</i></li>" in text
    assert "<code>mem-c</code> <i>names mem-x</i>" in text


@pytest.mark.feature("dashboard.signals-panel")
def test_a_signal_carries_its_figures_months_buckets_and_the_sessions_that_read_highest():
    session = _session("a")
    month = {"count": 2, "missing": 0, "mean": 1.5}
    record = {
        "signal": "interruption_count",
        "family": "outcomes",
        "group": "outcome",
        "kind": "numeric",
        "unit": "stops",
        "better": "lower",
        "count": 3,
        "missing": 2,
        "min": 0.0,
        "max": 4.0,
        "mean": 2.0,
        "median": 1.0,
        "p90": 4.0,
        "sum": 6.0,
        "reasons": {"no prompt": 1, "too old": 5},
        "histogram": [(0.0, 1.0, 2)],
        "trend": {"month": "2026-02", "mean": 1.5, "before": 1.0, "change": 0.5, "direction": "up", "verdict": "worse", "host": "claude"},
        "months": [("2026-02", 2, 1.5), ("2026-01", 2, 1.0)],
        "by": {
            "host": {"codex": month | {"median": 9.0, "count": 0}, "claude": month | {"median": 1.0, "count": 3}},
            "project": {f"p{n}": month | {"count": n} for n in range(12)},
        },
    }
    tops = (page.SignalTop("interruption_count", "claude", "a", 4.0), page.SignalTop("interruption_count", "claude", "gone", 3.0))

    (found,) = signals.records(_data(sessions=(session,), aggregates=(record,), tops=tops))["signals"]

    assert (found["group"], found["median"], found["p90"], found["better"]) == ("outcome", 1.0, 4.0, "lower")
    assert found["months"] == [("2026-01", 2, 1.0), ("2026-02", 2, 1.5)]
    assert found["hosts"] == [["Claude Code", 3, {"median": 1.0, "mean": 1.5}]], "an agent without a reading has no figure"
    assert found["by"]["project"] == [[f"p{n}", n, 1.5] for n in range(11, 3, -1)]
    assert found["reasons"] == [("too old", 5), ("no prompt", 1)]
    assert found["tops"] == [[session.key, 4.0]]
    assert found["what"].endswith(".")
    assert (found["trend"]["verdict"], found["trend"]["host"]) == ("worse", "Claude Code")


@pytest.mark.feature("dashboard.scores-page")
def test_scores_stand_in_one_order_whatever_a_session_was_measured_for():
    a, b = _session("a"), _session("b")
    lines = (
        page.Scores("claude", "a", ("trajectory_max_repetition_run", "trajectory_step_count"), (2.0, 7.0)),
        page.Scores("claude", "b", ("trajectory_step_count",), (None,)),
        page.Scores("claude", "gone", ("trajectory_step_count",), (1.0,)),
    )

    found = scores.records(_data(sessions=(a, b), scores=lines))

    assert [row[:3] for row in found["signals"]] == [
        ["trajectory_max_repetition_run", "numeric", "steps"],
        ["trajectory_step_count", "numeric", "steps"],
    ]
    assert found["rows"] == [[a.key, 2.0, 7.0], [b.key, None, None]]


@pytest.mark.feature("dashboard.operator-panel")
def test_the_persons_part_counts_corrections_and_knows_the_busiest_hour():
    figures = {"kind": "numeric", "unit": "messages", "count": 4, "mean": 1.5, "sum": 6.0}
    seen = {"direction": "down", "verdict": "better", "month": "2026-04"}
    checked = {
        "signal": "trajectory_premature_finish_without_validation",
        "kind": "boolean",
        "unit": "",
        "count": 8,
        "true": 2,
        "trend": None,
    }
    data = _data(
        aggregates=({"signal": "user_correction_count", "trend": seen, **figures}, checked),
        prompt_hours=((1, 9, 4), (1, 23, 2), (3, 23, 5)),
        sessions=tuple(_session(name) for name in "abcdef"),
    )

    text = _words(user_input.build.build(data))

    assert user_input.records(data)["hours"][1] == [0] * 9 + [4] + [0] * 13 + [2]
    assert user_input.busiest(data) == "most on a Tuesday and between 23:00 and 00:00"
    assert (
        '<td class="n strong">1.5</td> <td class="muted">a session, 6 in 4 sessions, <span class="way better">down in 2026-04</span>'
        in text
    )
    assert '<td class="n strong">25%</td> <td class="muted">of 8 sessions</td>' in text
    assert "by weekday and hour, 12 in all, 1 without a time, most on a Tuesday" in text


@pytest.mark.feature("dashboard.missing-artifacts")
def test_what_is_missing_is_listed_with_agent_project_and_reason():
    sessions = (_session("a", quarantined=3), _session("b", project="shop", unknown=2))
    data = _data(
        sessions=sessions,
        missing=(
            page.Missing("unreadable", "claude", "a", "not JSON", 2),
            page.Missing("unreadable", "claude", "a", "only NUL bytes", 1),
            page.Missing(
                "gap", "claude", "", "deleted by the agent before it was captured", 3, "2026-02-04T10:00:00Z", "2026-02-06T10:00:00Z"
            ),
        ),
        expiring=(page.Expiring("codex", 2, 27, 30),),
    )

    found = [(m.host.title, m.project, m.session, m.what, m.reason) for m in missing.lines(data)]

    assert found == [
        ("Claude Code", "", "", "3 sessions, 4 Feb 2026 to 6 Feb 2026", "deleted by the agent before it was captured"),
        (
            "Claude Code",
            "till",
            sessions[0].key,
            "3 records",
            "no JSON: a line that was cut off, or that something else wrote into; only zero bytes, as a crash leaves them",
        ),
        ("Codex", "", "", "2 transcripts", "the agent deletes them after 30 days; what is captured stays"),
        ("Claude Code", "shop", sessions[1].key, "2 records", "of an unknown kind; kept with their payload"),
    ]


@pytest.mark.feature("dashboard.cards")
def test_the_cards_count_sessions_days_projects_memories_and_what_needs_a_look():
    priced = page.Usage(input_tokens=1_000, calls=3, cost_nano=2_000_000_000)
    data = _data(
        sessions=(
            _session("a", failed_commands=3),
            _session("b", project="shop", unknown=1),
            _session("c", usage=page.Usage(input_tokens=7, calls=1, unpriced_calls=1)),
            _session("d", usage=page.Usage(calls=1, unpriced_calls=1)),
            _session("e", failed_commands=2),
        ),
        days=(page.DayLine(date(2026, 3, 1), "claude", priced), page.DayLine(date(2026, 3, 10), "codex", priced)),
        models=(page.ModelLine("claude", "opus", priced),),
        projects=(page.ProjectLine("till", 4, 0, 0, None, priced), page.ProjectLine("shop", 1, 0, 0, None, priced)),
        memory_total=4,
        memory_status={"accepted": 1, "candidate": 3},
    )

    found = {name: (value, note) for name, value, note in numbers.figures(data)}

    assert found["Sessions"] == ("5", "5 threads")
    assert found["Active days"] == ("2", "with a model call, of 10 days")
    assert found["Projects"] == ("2", "most in till")
    assert found["Need a look"][0] == "3"
    assert (found["Cost"][0], found["Tokens"][0]) == ("$2.00", "1.00k")
    assert found["Lessons"] == ("4", "1 accepted by you")


@pytest.mark.feature("dashboard.session-table")
def test_titles_show_the_text_of_links_and_no_markdown():
    line = _session("a")._replace(title="## fix [jdx/mise#1](https://github.com/jdx/mise/pull/1) in `__init__.py` **now**")
    (row,) = session_list(_data(sessions=(line,)), {line: "chunk"})["rows"]

    assert row[3] == line.label == "fix jdx/mise#1 in __init__.py now"

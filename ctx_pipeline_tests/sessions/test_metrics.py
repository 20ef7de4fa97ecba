"""A session in figures, and a card of a period: sums by any way are one total, days are those of the calendar."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.errors import UsageError
from ctx_pipeline.facts.file_accesses import file_accesses
from ctx_pipeline.mcp_server.answer_text import as_text
from ctx_pipeline.mcp_server.report_tools import ReportTools
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.reports import metrics as metrics_module
from ctx_pipeline.sessions.reports.metrics import CEP, WAYS, _shared, cep, echo, metrics, way
from ctx_pipeline.sessions.reports.wrapped import (
    _every_day,
    count,
    html_card,
    line_card,
    money,
    spark,
    streak,
    svg_card,
    text_card,
    wrapped,
)
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.periods import Period
from ctx_pipeline_tests.factories.claude import ClaudeHome, tool_use
from ctx_pipeline_tests.factories.views import view
from ctx_pipeline_tests.sessions.conftest import LATER, WORK, Shop


@pytest.mark.feature("session.metrics")
def test_every_table_adds_up_to_what_usage_bills(shop: Shop):
    found = metrics(WORK, settings=shop.settings)
    billed = next(r for r in usage("session", stored=True, settings=shop.settings).rows if r["session_id"] == WORK)

    assert found.totals["cost_nano"] == billed["cost_nano"] > 0
    assert (found.totals["calls"], found.totals["cache_read"]) == (billed["calls"], billed["cache_read_tokens"])
    for rows in (found.by_tool, found.by_way, found.by_file):
        for name in ("calls", "input", "output", "cache_write_5m", "cache_read", "cost_nano"):
            assert sum(r[name] for r in rows) == found.totals[name], name


@pytest.mark.feature("session.metrics")
def test_reads_uses_and_files_are_counted(shop: Shop):
    found = metrics(WORK, settings=shop.settings)

    assert {r["name"]: r["uses"] for r in found.by_tool} == {
        "Bash": 3,
        "Read": 3,
        "TodoWrite": 1,
        "AskUserQuestion": 1,
        "Edit": 1,
        "(answer)": 0,
    }
    assert {r["name"]: r["uses"] for r in found.by_way} == {
        "shell": 3,
        "read whole": 2,
        "read lines": 1,
        "change": 1,
        "other": 2,
        "answer": 0,
    }
    assert {r["name"]: r["uses"] for r in found.by_file}["shop/cart.py"] == 3
    assert (found.reads, found.repeated_reads, found.bounced) == (3, 0, 1)
    assert set(WAYS) >= {r["name"] for r in found.by_way}


@pytest.mark.feature("usage.unpriced")
def test_calls_without_a_price_are_unpriced_for_a_model_as_for_a_person(own: Shop):
    unknown = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="u")
    unknown.prompt("List the files").answer(tool_use("u1", "Bash", command="ls"), model="nobody-9").result("u1", "a.py").save()
    with open_store(own.settings) as store:
        ingest(store, own.settings)
    told = metrics(LATER, settings=own.settings)
    answer = ReportTools(own.settings, lambda *_a, **_k: {}).ctx_metrics(session_id=LATER).model_dump()

    assert (told.totals["calls"], told.totals["unpriced_calls"], told.totals["cost_nano"]) == (1, 1, None)
    assert {row["cost_nano"] for row in told.by_tool} == {None}
    assert "cost unpriced" in as_text(answer)
    assert "$0" not in as_text(answer)


CALLS = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.integers(0, 999),
        st.integers(0, 999),
        st.lists(st.sampled_from(["read", "shell", "edit", "two"]), max_size=4),
    ),
    max_size=8,
)


@pytest.mark.feature("session.identities")
@given(history=CALLS)
def test_by_tool_by_way_and_by_file_are_the_same_total_for_any_history(history):
    made = view(cwd="/w")
    for context, output, cost, tools in history:
        made.model(context + 1000, output, read=min(context, 500), cost=cost)
        for tool in tools:
            if tool == "shell":
                made.shell("cat a.py b.py")
            else:
                paths = ("/w/a.py", "/w/c.py") if tool == "two" else ("/w/a.py",)
                made.tool(tool, action="read" if tool in ("read", "two") else "edit", paths=paths)
    shared = _shared(made.build(), lambda call: call.cost)

    for rows in shared.rows.values():
        for name, total in shared.totals.items():
            assert sum(r[name] for r in rows) == total


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda v: v.shell("cat a.py"), "read whole"),
        (lambda v: v.shell("sed -n '1,9p' a.py"), "read lines"),
        (lambda v: v.shell("pytest"), "shell"),
        (lambda v: v.edit("/w/a.py"), "change"),
        (lambda v: v.tool("Grep", action="search", paths=("/w",)), "search"),
        (lambda v: v.tool("Task", action="task"), "agent"),
        (lambda v: v.tool("Skill"), "other"),
    ],
)
def test_the_way_of_a_call(make, told):
    built = make(view(cwd="/w")).build()
    assert way(built.tool_calls[0], file_accesses(built)) == told


@pytest.mark.feature("session.bounce")
def test_code_in_answers_that_had_just_been_read_is_an_echo():
    made = view(cwd="/w")
    made.tool("Read", action="read", paths=("/w/a.py",), text="     1→def total(cart):\n     2→    return sum(cart)\n")
    made.answer("I would write\n```python\ndef total(cart):\n    return round(sum(cart), 2)\n```\n")

    assert echo(made.build()) == 0.5
    assert echo(view().answer("no code at all").build()) is None


@pytest.mark.feature("session.bounce")
def test_a_read_is_split_into_lines_once_for_all_answers_with_code(monkeypatch):
    made = view(cwd="/w")
    made.tool("Read", action="read", paths=("/w/a.py",), text="     1→def total(cart):\n     2→    return sum(cart)\n")
    for _ in range(9):
        made.answer("```python\ndef total(cart):\n```")
    split: list[str] = []
    code_lines = metrics_module._code_lines
    monkeypatch.setattr(metrics_module, "_code_lines", lambda text: [split.append(text), code_lines(text)][1])
    assert echo(made.build()) == 1.0
    assert len([text for text in split if "return sum" in text]) == 1


@pytest.mark.feature("session.cep")
@pytest.mark.parametrize(
    ("told", "score"),
    [
        ({"cached": 1.0, "fresh_reads": 1.0, "own_words": 1.0, "narrow_reads": 1.0}, 100.0),
        ({"cached": 0.5, "fresh_reads": 0.5, "own_words": 1.0, "narrow_reads": 0.0}, 55.0),
        ({"cached": 0.5, "fresh_reads": None, "own_words": None, "narrow_reads": None}, 50.0),
        (dict.fromkeys(CEP), None),
    ],
)
def test_the_score_is_the_weighted_mean_of_the_parts_that_have_data(told, score):
    assert cep(told) == score
    assert sum(CEP.values()) == pytest.approx(1)


@pytest.mark.feature("session.metrics", "session.cep", "session.bounce")
def test_metrics_are_printed_with_the_parts_of_the_score(shop: Shop, monkeypatch):
    lines = shop.ctx(monkeypatch, "metrics").stdout.splitlines()
    told = shop.json(monkeypatch, "metrics")

    assert lines[0] == f"Session metrics  claude {WORK}"
    assert "Files: 3 | Reads: 3 | Repeated: 0 | Had to be read again: 1" in lines
    assert "Code in answers that had just been read: no data" in lines
    assert "By file; a call's tokens and cost are shared equally among what it asked for:" in lines
    assert [line.split()[0] for line in lines[-4:]] == list(CEP)
    assert told["cep_parts"]["narrow_reads"] == pytest.approx(1 / 3)
    assert (list(told["causes"]), told["causes"]["compaction"]["times"]) == (["compaction"], 1)


def card(shop: Shop, name: str = "week", today: date = date(2026, 3, 7)):
    return wrapped(name, today=today, settings=shop.settings)


@pytest.mark.feature("session.wrapped")
def test_a_week_holds_its_own_days_and_nothing_else(shop: Shop):
    week, month, other = card(shop), card(shop, "month"), card(shop, today=date(2026, 3, 1))

    assert (week.period.since, week.period.until) == (date(2026, 3, 2), date(2026, 3, 8))
    assert (week.sessions, week.calls, week.active_days) == (1, 11, 1)
    assert (month.sessions, month.calls, month.active_days, month.longest_streak) == (2, 12, 2, 1)
    assert (other.sessions, other.tokens) == (1, 920)
    # the commands of the other week are not among this one's
    assert week.commands == [("pytest", 2)]
    assert [name for name, _ in other.commands] == ["sed"]
    assert [day for day, n in week.daily if n] == ["2026-03-05"]
    assert len(week.daily) == 7
    # where nothing was done, the latest week and month with a call before it
    assert card(shop, today=date(2026, 5, 20)).period == week.period
    assert card(shop, "month", today=date(2026, 5, 20)).period == month.period
    assert card(shop, today=date(2026, 1, 2)).sessions == 0
    with pytest.raises(UsageError, match="no card"):
        card(shop, "year")


@pytest.mark.feature("session.wrapped", "session.wrapped-formats")
def test_a_card_is_text_line_picture_and_page(shop: Shop, monkeypatch, tmp_path):
    one = card(shop)
    text = text_card(one).splitlines()

    assert len({len(line) for line in text}) == 1
    assert "WRAPPED 2026-03-02 to 2026-03-08" in text[1]
    assert line_card(one).startswith("2026-03-02 to 2026-03-08: ")
    picture = ET.fromstring(svg_card(one))
    assert picture.tag.endswith("svg")
    assert any("Cache hit rate" in (t.text or "") for t in picture.iter())
    assert html_card(one).startswith("<!doctype html>")
    for rendered in (svg_card(one), html_card(one)):
        assert "<script" not in rendered
        assert rendered.count("http") == rendered.count("http://www.w3.org/2000/svg")
        assert "percentile" not in rendered
    done = shop.ctx(monkeypatch, "wrapped", "all", "--format", "svg", "--out", str(tmp_path / "card.svg"))
    assert done.exit_code == 0
    ET.parse(tmp_path / "card.svg")


@pytest.mark.feature("session.wrapped-formats")
def test_the_bars_of_a_card_are_all_of_its_days(shop: Shop):
    from dataclasses import replace

    week = replace(card(shop), daily=[(str(n), n % 2) for n in range(7)])
    years = replace(week, daily=[(str(n), 1 if n < 40 else 0) for n in range(1_000)])

    assert spark(week) == " █ █ █   a day"
    assert spark(years).rstrip() == f"█▂{' ' * 29}  33 days each"


@pytest.mark.feature("session.wrapped-formats")
def test_names_in_a_picture_are_escaped(shop: Shop):
    from dataclasses import replace

    hostile = replace(card(shop), commands=[("</svg><script>alert(1)</script>", 3)], tools=[("<b>&\x1b[1m", 1)])

    ET.fromstring(svg_card(hostile))
    assert "<script" not in html_card(hostile)


def test_an_empty_week_says_no_data(shop: Shop):
    empty = card(shop, today=date(2025, 1, 1))

    assert (empty.tokens, empty.cached, empty.score, empty.busiest, empty.longest) == (0, None, None, None, None)
    assert "Cache hit rate: no data" in text_card(empty)
    ET.fromstring(svg_card(empty))


def test_a_clock_that_was_wrong_by_centuries_makes_no_list_of_all_their_days():
    days = _every_day({"1970-01-01": 1, "2026-03-05": 2, "2099-01-01": 3}, Period("all", None, None))

    assert days == [("1970-01-01", 1), ("2026-03-05", 2), ("2099-01-01", 3)]
    assert len(_every_day({"2026-03-01": 1, "2026-03-05": 2}, Period("all", None, None))) == 5


@pytest.mark.parametrize(
    ("days", "run"),
    [([], 0), (["2026-03-01"], 1), (["2026-03-03", "2026-03-01", "2026-03-02"], 3), (["2026-02-28", "2026-03-01", "2026-03-03"], 2)],
)
def test_a_streak_is_a_run_of_days(days, run):
    assert streak(days) == run


def test_counts_and_money_are_short():
    assert [count(n) for n in (950, 12_345, 4_100_000, 1_200_000_000)] == ["950", "12.3 k", "4.1 M", "1.2 G"]
    assert [money(n) for n in (0, 1_234_567_890_000, -5_000_000_000)] == ["$0.00", "$1,234.57", "-$5.00"]

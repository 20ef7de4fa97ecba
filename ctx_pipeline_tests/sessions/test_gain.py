"""What was spent and what was avoidable: by hand, by any way of adding up the same, never above the bill."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.cli.output import dollars
from ctx_pipeline.errors import NothingFound, UsageError
from ctx_pipeline.findings.evidence import quick_scan
from ctx_pipeline.model.display import percent
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pricing.price_book import Rates
from ctx_pipeline.sessions.reports.gain import Gain, _hook_tokens, gain, parts, score
from ctx_pipeline.sessions.reports.session_gain import Bounds, HookTokens, SessionGain, _cut, repeated, session_gain, summed
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.served_tools import note
from ctx_pipeline.usage.cache_efficiency import STREAMS
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.periods import Period, before, period
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.factories.views import view
from ctx_pipeline_tests.sessions.conftest import LATER, WORK, Shop

RATES = Rates(3000.0, 300.0, 3750.0, 6000.0)
"""Nano-dollars a token."""


def priced(_model, _ts, _context):
    return RATES


def cost(call):
    return call.cost


def session(*, calls: int = 3):
    """Return a session of model calls with a read of 4,000 characters before the second, each with its cost at the rates."""
    made = view(cwd="/w/app").prompt("look")
    made.model(1000, 10, written=1000, cost=3_750_000 + 100_000)
    made.tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 4000)
    for n in range(calls - 1):
        made.model(2000 + n, 10, read=1000, written=1000 + n, cost=300_000 + 3_750_000 + 3_750 * n + 100_000)
    return made


@pytest.mark.feature("session.gain")
def test_the_streams_add_up_to_the_bill_and_the_rest_is_output():
    found = session_gain(session().build(), priced, cost)

    assert found.nano == {
        "fresh_input": 0,
        "cache_write_5m": 3_750_000 + 3_750_000 + 3_753_750,
        "cache_write_1h": 0,
        "cache_read": 600_000,
        "output": 300_000,
    }
    assert found.tokens["cache_read"] == 2000
    # 2,000 tokens read at a tenth of the price, 3,001 written at a quarter more
    assert found.saved_by_cache == 2000 * 2700 - 3001 * 750


@pytest.mark.feature("session.gain-carry")
def test_a_text_that_nobody_touched_again_is_carried_for_nothing():
    found = session_gain(session(calls=4).build(), priced, cost).mechanisms["carried after use"]

    # 4,000 characters are 1,200 tokens; carried by the third and the fourth call, about half of whose prompts came from the cache
    share = [1000 / (2000 + n) for n in (1, 2)]
    expected = round(1200 * sum(300 * s + 3000 * (1 - s) for s in share))
    assert found == Bounds(0, expected, expected, 2400)


@pytest.mark.feature("session.gain-own")
def test_what_this_program_put_into_prompts_itself_is_a_part_of_the_bill():
    made = session(calls=2)
    made.tool("mcp__ctx__ctx_read", action="other", text="y" * 2000)
    made.model(3000, 10, read=2000, written=1000, cost=600_000 + 3_750_000)

    found = session_gain(made.build(), priced, cost, hooks=HookTokens(blocks=300, shortened=900))
    without = session_gain(session().build(), priced, cost)

    # 2,000 characters are 600 tokens, written once; blocks and schemas stand in all three prompts
    assert found.own_tokens == {"blocks": 300, "answers": 600, "schemas": 1500}
    assert found.own_nano["answers"] == 600 * 3750
    carried = (300 * 0.5 + 3000 * 0.5) + (300 * 2 / 3 + 3000 / 3)
    assert found.own_nano["blocks"] == pytest.approx(300 * (3750 + carried), rel=1e-6)
    assert (found.shortened, summed([found, found]).shortened) == (900, 1800)
    assert summed([found, without]).own_tokens == found.own_tokens
    assert set(without.own_tokens.values()) == {0}


@pytest.mark.feature("session.gain-schemas")
def test_the_schemas_of_the_tools_that_a_server_showed_last_are_counted_and_said(own: Shop, monkeypatch):
    with open_store(own.settings) as store:
        before_any = _hook_tokens(store)("claude", WORK).schemas
        note(store.home, "read", [{"name": "ctx_read"}], len)
        assert _hook_tokens(store)("claude", WORK).schemas == len('[{"name":"ctx_read"}]') != before_any
        note(store.home, "read", [{"name": "ctx_read"}], lambda _: 1 / 0)  # the same tools are not counted again
    assert own.json(monkeypatch, "gain", "--period", "all")["tools"] == {"profile": "read", "tools": 1, "tokens": 21}
    main = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone))
    main.prompt("Read the cart").call("r1", "mcp__ctx__ctx_read", "x" * 400, path="shop/cart.py").answer(
        {"type": "text", "text": "Read."}
    ).save()
    with open_store(own.settings) as store:
        ingest(store, own.settings)
    assert "21 of schemas (1 tool of the set read, counted)" in own.ctx(monkeypatch, "gain", "--period", "all").stdout
    made = session(calls=2)
    made.tool("mcp__ctx__ctx_read", action="other", text="y" * 2000)
    made.model(3000, 10, read=2000, written=1000, cost=600_000 + 3_750_000)
    assert session_gain(made.build(), priced, cost, hooks=HookTokens(schemas=21)).own_tokens["schemas"] == 21


@pytest.mark.feature("session.gain")
def test_lines_that_were_read_once_more_were_surely_avoidable():
    made = session(calls=2)
    made.tool("Read", action="read", paths=("/w/app/a.py",), text="x" * 4000)
    made.model(3000, 10, read=2000, written=1000, cost=600_000 + 3_750_000)
    found = session_gain(made.build(), priced, cost).mechanisms["repeated reads"]

    # the second text was written to the cache once: 1,200 tokens at 3,750, of which a notice would have taken 20
    assert found == Bounds(4_425_000, 4_425_000, 4_425_000, 1180)


def test_what_stood_there_ends_with_a_change_or_a_compaction():
    def shares(between):
        made = view(cwd="/w").tool("Read", action="read", paths=("/w/a.py",), text="x")
        between(made)
        made.tool("Read", action="read", paths=("/w/a.py",), text="x")
        return list(repeated(made.build()).values())

    assert shares(lambda m: m.answer("hm")) == [1.0]
    assert shares(lambda m: m.edit("/w/a.py")) == []
    assert shares(lambda m: m.shell("sed -i s/a/b/ a.py")) == []
    assert shares(lambda m: m.other("compaction")) == []
    assert shares(lambda m: m.edit("/w/b.py")) == [1.0]


BOUNDS = st.builds(lambda a, b, c, t: Bounds(*sorted((a, b, c)), t), *(st.integers(0, 10**12),) * 4)


@pytest.mark.feature("session.gain", "session.identities")
@given(found=st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), BOUNDS, min_size=1), most=st.integers(0, 10**12))
def test_no_sum_is_above_the_bill_and_certain_is_below_likely_below_upper(found, most):
    told = dict(found)
    _cut(told, most)

    for place in range(3):
        assert sum(b[place] for b in told.values()) <= most
    assert all(b.certain <= b.likely <= b.upper for b in told.values())
    if all(sum(b[place] for b in found.values()) <= most for place in range(3)):
        assert told == found


@pytest.mark.feature("session.identities", "session.gain-periods")
def test_the_sum_of_sessions_of_streams_and_of_usage_is_the_same_bill(shop: Shop):
    everything = gain("all", settings=shop.settings)
    single = [gain(session=name, settings=shop.settings).total for name in (WORK, "codex:0")]
    billed = usage("daily", stored=True, settings=shop.settings).totals

    assert everything.total.spent == billed["cost_nano"] == sum(g.spent for g in single) > 0
    assert summed(single).nano == everything.total.nano
    names = ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens", "output_tokens")
    assert everything.total.tokens == {stream: billed[name] for stream, name in zip(STREAMS, names, strict=True)}
    assert (everything.total.calls, everything.sessions) == (billed["calls"], 2)


@pytest.mark.feature("session.gain-periods")
@pytest.mark.parametrize(
    ("name", "today", "calls", "previous"),
    [
        ("day", date(2026, 3, 5), 11, None),
        ("day", date(2026, 3, 6), 0, 11),
        ("week", date(2026, 3, 1), 1, None),
        ("week", date(2026, 3, 8), 11, 1),
        ("month", date(2026, 3, 31), 12, None),
        ("month", date(2026, 4, 1), 0, 12),
        ("all", date(2030, 1, 1), 12, None),
    ],
)
def test_each_period_holds_the_calls_of_its_days_alone(shop: Shop, name, today, calls, previous):
    found = gain(name, today=today, settings=shop.settings)

    assert found.total.calls == calls
    assert (found.previous.calls if found.previous else None) == previous


@pytest.mark.parametrize(
    ("name", "today", "since", "until", "last"),
    [
        ("week", date(2028, 2, 29), date(2028, 2, 28), date(2028, 3, 5), Period("week", date(2028, 2, 21), date(2028, 2, 27))),
        ("month", date(2028, 2, 29), date(2028, 2, 1), date(2028, 2, 29), Period("month", date(2028, 1, 1), date(2028, 1, 31))),
        ("month", date(2026, 12, 31), date(2026, 12, 1), date(2026, 12, 31), Period("month", date(2026, 11, 1), date(2026, 11, 30))),
        ("day", date(2027, 1, 1), date(2027, 1, 1), date(2027, 1, 1), Period("day", date(2026, 12, 31), date(2026, 12, 31))),
        ("all", date(2027, 1, 1), None, None, None),
    ],
)
def test_periods_are_those_of_the_calendar(name, today, since, until, last):
    one = period(name, zone="UTC", today=today)

    assert (one.since, one.until, before(one)) == (since, until, last)
    with pytest.raises(UsageError, match="not a period"):
        period("fortnight", zone=None)


@pytest.mark.feature("session.gain-price")
def test_gain_is_told_at_any_models_prices_and_says_that_it_is_an_estimate(shop: Shop):
    dear = gain(session=WORK, model="claude-opus-4-1", settings=shop.settings)
    cheap = gain(session=WORK, model="claude-haiku-4-5", settings=shop.settings)

    assert dear.to_json()["estimate"] is True
    assert dear.total.spent == 15 * cheap.total.spent  # 15, 75, 18.75 and 1.5 dollars a million against 1, 5, 1.25 and 0.1
    assert gain(session=WORK, settings=shop.settings).to_json()["estimate"] is False
    with pytest.raises(NothingFound, match="no price is known"):
        gain(session=WORK, model="nobodys-model", settings=shop.settings)


@pytest.mark.feature("session.gain-live")
def test_a_baseline_is_marked_and_history_stays(own: Shop, monkeypatch):
    before_it = own.json(monkeypatch, "gain", "--period", "all")
    own.json(monkeypatch, "gain", "reset")

    assert own.json(monkeypatch, "gain", "--period", "all") == before_it
    after = own.json(monkeypatch, "gain", "--period", "all", "--since-reset")
    assert (after["calls"], after["spent_nano"], after["score"]) == (0, 0, None)
    assert after["since_baseline"]


def test_what_cannot_be_told_is_refused_and_not_left_out_in_silence(shop: Shop):
    with pytest.raises(UsageError, match="of a period"):
        gain(host="codex", settings=shop.settings)
    with pytest.raises(NothingFound, match="no baseline"):
        gain("all", baseline=True, settings=shop.settings)


@pytest.mark.feature("session.gain-live")
def test_gain_is_watched_while_a_session_grows(own: Shop, monkeypatch):
    first = own.ctx(monkeypatch, "gain", "live", "--period", "all", "--every", "0", "--times", "2").stdout.splitlines()
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.prompt("go").call("r1", "Read", "x", file_path=f"{own.clone}/a.py").save()
    second = own.ctx(monkeypatch, "gain", "live", "--period", "all", "--every", "0", "--times", "1").stdout

    assert [line.split("  ")[0] for line in first] == ["12 calls", "12 calls"]
    assert second.startswith("13 calls  ")


@pytest.mark.feature("session.gain-periods")
def test_the_score_has_two_parts_and_no_data_is_no_score():
    nothing = SessionGain("", "")
    half = SessionGain("", "", mechanisms={"a": Bounds(0, 50, 60, 0)})
    half.nano["cache_read"] = 100
    half.tokens |= {"cache_read": 30, "fresh_input": 10}

    assert (score(nothing), parts(nothing)) == (None, {"kept": None, "cached": None})
    assert parts(half) == {"kept": 0.5, "cached": 0.75}
    assert score(half) == 60


@pytest.mark.feature("session.gain")
def test_the_report_is_printed_with_its_streams_and_mechanisms(shop: Shop, monkeypatch):
    text = shop.ctx(monkeypatch, "gain").stdout
    told = shop.json(monkeypatch, "gain", "json")

    assert text.splitlines()[0] == f"GAIN REPORT (session)  claude {WORK}"
    assert [row["stream"] for row in told["streams"]] == list(STREAMS)
    assert sum(row["nano"] for row in told["streams"]) == told["spent_nano"]
    assert {m["mechanism"] for m in told["mechanisms"]} == {"repeated reads", "carried after use", "cache rebuilds", "long outputs"}
    assert "Gain score: " in text
    assert "no score" not in shop.ctx(monkeypatch, "gain", "score").stdout


@pytest.mark.feature("session.gain")
def test_the_figure_of_the_finding_about_tool_output_is_in_the_report_that_it_names(shop: Shop, monkeypatch):
    seen = quick_scan(shop.settings, secrets=False)
    assert seen.cost_nano
    told = shop.ctx(monkeypatch, "gain", "--period", "all").stdout

    assert f"{dollars(seen.tool_output_nano)} of it, about {percent(seen.tool_output_nano / seen.cost_nano)}, was tool output" in told
    assert "was tool output" not in shop.ctx(monkeypatch, "gain", "--period", "all", "--host", "claude").stdout


@pytest.mark.feature("session.gain-own")
def test_the_difference_that_the_program_makes_is_told_with_what_it_costs(own: Shop, monkeypatch):
    about = {"host": "claude", "session_id": WORK}
    with open_store(own.settings) as store:
        store.journal.append("hook.resumed", {**about, "source": "startup", "tokens": 300}, actor="hook")
    assert "ctx itself put 300 of blocks into prompts" in (told := own.ctx(monkeypatch, "gain").stdout)
    assert "took 0 tokens out of outputs: 300 tokens more than without it" in told
    with open_store(own.settings) as store:
        store.journal.append("hook.shortened", {**about, "characters_before": 4_000, "characters_after": 400}, actor="hook")
    assert "took 900 tokens out of outputs: 600 tokens fewer than without it" in own.ctx(monkeypatch, "gain").stdout
    assert own.json(monkeypatch, "gain", "json")["net_tokens"] == 600
    with open_store(own.settings) as store:
        counted = {"characters_before": 4_000, "characters_after": 400, "tokens_before": 1_500, "tokens_after": 100}
        store.journal.append("hook.shortened", {**about, **counted}, actor="hook")
    assert own.json(monkeypatch, "gain", "json")["net_tokens"] == 600 + 1_400


@pytest.mark.feature("session.gain-periods")
@pytest.mark.parametrize(
    ("now", "then", "trend"), [(40, 20, "up"), (20, 40, "down"), (22, 20, "level"), (40, None, None), (None, 40, None)]
)
def test_the_trend_is_against_the_period_before(now, then, trend):
    def made(cached):
        one = SessionGain("", "")
        if cached is not None:
            one.nano["output"] = 100
            one.tokens |= {"cache_read": cached, "fresh_input": 40 - cached}
        return one

    found = Gain(Period("week", None, None), made(now), 1, None, None if then is None else made(then), None)
    assert found.trend == trend


@pytest.mark.feature("cli.scope-is-said")
@pytest.mark.parametrize("command", ["gain", "cache", "metrics", "resume", "heatmap"])
def test_a_command_says_whose_sessions_it_tells_of(shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    """A session of a relative folder belongs to no repository, and one of the temporary folder to none below it."""
    home = ClaudeHome(Path(shop.settings.environ["CLAUDE_CONFIG_DIR"]))
    home.session("33333333-3333-4333-8333-333333333333", cwd="shop", mark="z").prompt("hello").save()
    with open_store(shop.settings) as store:
        ingest(store, shop.settings)
    here = shop.ctx(monkeypatch, command)
    (tmp_path / "empty").mkdir()
    elsewhere = shop.ctx(monkeypatch, command, cwd=tmp_path / "empty")

    assert here.exit_code == elsewhere.exit_code == 0
    assert "this repository or folder" in here.output
    assert "this repository or folder has no session" in elsewhere.output

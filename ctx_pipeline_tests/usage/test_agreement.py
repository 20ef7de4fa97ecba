"""Totals agree however they are split, in any time zone, from the homes and from the tables; odd clocks and copies have their place."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ctx_pipeline import discovery
from ctx_pipeline.cli import cli
from ctx_pipeline.errors import NothingFound
from ctx_pipeline.pipeline.background import derive
from ctx_pipeline.pipeline.mine import candidates
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.claude import usage as used
from ctx_pipeline_tests.usage.conftest import ingested, without_store

ZONES = sorted(name for name in available_timezones() if name != "localtime")
MODELS = ("claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101", "claude-nobody-9")
STEP = timedelta(hours=7, minutes=41)


def made(folder: Path) -> Settings:
    """Write calls every few hours over nine weeks that hold both changes of daylight saving, in two repositories, with agents and forks."""
    home = ClaudeHome(folder / "claude")
    when = datetime(2026, 10, 1, 0, 5, tzinfo=UTC)
    for number in range(1, 25):
        session = home.session(
            f"{number:08d}-0000-4000-8000-000000000000", cwd=f"/home/sam/code/{'acme' if number % 3 else 'tools'}", mark=str(number)
        )
        for call in range(8):
            counts = used(3 * number, 7 + call, written=100 * call, hour=50 * call, read=1000 * number)
            more: dict[str, Any] = {"costUSD": 0.001 * call} if number % 5 == 0 else {}
            session.answer(text("done"), usages=[counts], model=MODELS[(number + call) % 3], timestamp=stamp(when), **more)
            when += STEP
        session.save()
    agent = home.agent("a1", f"{1:08d}-0000-4000-8000-000000000000")
    agent.answer(text("found"), usages=[used(5, 6)], timestamp=stamp(when)).save()
    (folder / "codex").mkdir()
    codex.write(folder / "codex", codex.session(calls=5))
    roots = {"claude": (home.root,), "codex": (folder / "codex",)}
    return Settings(home=folder / "store", demo_roots=roots)


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return ingested(made(tmp_path_factory.mktemp("agreement")))


@pytest.mark.feature("usage.agreement")
@hypothesis_settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(zone=st.sampled_from(ZONES), mode=st.sampled_from(("auto", "calculate", "display")), live=st.booleans())
def test_every_grouping_adds_up_to_the_same_in_any_zone_and_cost_mode(settings: Settings, zone: str, mode: str, live: bool):
    chosen = without_store(settings) if live else settings
    totals = [usage(by, timezone=zone, cost_mode=mode, stored=not live, settings=chosen).totals for by in GROUPINGS]

    assert all(total == totals[0] for total in totals)
    assert (totals[0]["calls"], totals[0]["unpriced_calls"] > 0) == (24 * 8 + 1 + 5, True)


@pytest.mark.feature("usage.agreement")
@hypothesis_settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(zone=st.sampled_from(ZONES), cut=st.dates(date(2026, 9, 29), date(2026, 12, 5)))
def test_both_halves_of_time_make_the_whole_and_both_ways_agree_on_each(settings: Settings, zone: str, cut: date):
    whole = usage("daily", timezone=zone, settings=settings, stored=True)
    before = usage("daily", timezone=zone, until=cut.isoformat(), settings=settings, stored=True)
    after = usage("daily", timezone=zone, since=(cut + timedelta(days=1)).isoformat(), settings=settings, stored=True)

    assert whole.rows == before.rows + after.rows
    assert before.rows == usage("daily", timezone=zone, until=cut.isoformat(), settings=without_store(settings)).rows


@pytest.mark.feature("usage.weekly")
def test_weeks_are_named_by_their_monday_and_months_by_their_first(settings: Settings):
    weeks = usage("weekly", timezone="UTC", settings=settings).rows
    months = usage("monthly", timezone="UTC", settings=settings).rows

    # the first of October 2026 is a Thursday
    assert sorted({r["date"] for r in weeks if r["host"] == "claude"})[:2] == ["2026-09-28", "2026-10-05"]
    assert all(datetime.fromisoformat(r["date"]).weekday() == 0 for r in weeks)
    assert sorted({r["date"] for r in months}) == ["2026-03-01", "2026-10-01", "2026-11-01", "2026-12-01"]


@pytest.mark.feature("usage.duplicated-home")
@pytest.mark.parametrize("with_store", [False, True])
def test_two_homes_with_the_same_sessions_count_them_once(settings: Settings, tmp_path: Path, with_store: bool):
    (home,) = settings.demo_roots["claude"]
    shutil.copytree(home, tmp_path / "copy")
    twice = replace(settings, home=tmp_path / "store", demo_roots={**settings.demo_roots, "claude": (home, tmp_path / "copy")})
    if with_store:
        ingested(twice)

    assert usage("session", settings=twice).totals == usage("session", settings=settings, stored=True).totals


@pytest.mark.feature("usage.owner-same-calls")
@pytest.mark.parametrize("with_store", [True, False])
def test_a_rollout_that_was_copied_under_another_id_counts_once_in_usage_and_lessons(tmp_path: Path, with_store: bool):
    once, twice = ([codex.session(thread, calls=4) for thread in threads] for threads in ((codex.THREAD,), (codex.THREAD, codex.PARENT)))
    found = []
    for name, sessions in (("once", once), ("twice", twice)):
        folder = tmp_path / name
        for records in sessions:
            codex.write(folder / "codex", records, records[0]["payload"]["id"])
        chosen = Settings(home=folder / "store", demo_roots={"codex": (folder / "codex",)})
        found.append(usage("session", stored=with_store, settings=ingested(chosen) if with_store else chosen).totals)
        if with_store:
            with open_store(chosen) as store:
                derive(store, chosen)
                drawn = candidates(store, discovery.methods()["project_conventions"], combined=False)
            found[-1] |= {"sessions that teach": len({c.session_id for c in drawn})}
            assert drawn
    if with_store:
        printed = CliRunner().invoke(cli, ["show", codex.THREAD], env={"CTX_HOME": str(chosen.home)}).stdout
        assert f"\n4 of the model calls recorded here count for {codex.PARENT}\n" in printed
    with pytest.raises(NothingFound, match=f"its 4 calls are copies and count for {codex.PARENT}"):
        explain(codex.THREAD, stored=with_store, settings=chosen)
    assert found[0]["calls"] == 4
    assert found[1] == found[0]


@pytest.mark.feature("usage.told-by-another-file")
@pytest.mark.parametrize("with_store", [False, True])
def test_tokens_that_only_another_file_tells_are_counted_once(tmp_path: Path, with_store: bool):
    """A transcript that ends at the first line of a streamed answer, or holds no usage, and a fork or an agent file that has the rest."""
    home = ClaudeHome(tmp_path / "claude")
    cut, fork, bare = (f"{n}{n}111111-0000-4000-8000-000000000001" for n in "123")
    first = home.session(cut, mark="a").prompt("do it").answer(text("done"), message_id="msg_1", usages=[used(100, 1, read=50)])
    second = home.session(fork, mark="b")
    second.records = [{**record, "sessionId": fork} for record in first.records if isinstance(record, dict)]
    second.answer(text("done"), message_id="msg_1", usages=[used(100, 700, read=50)]).prompt("go on")
    second.answer(text("ok"), message_id="msg_2", usages=[used(5, 6)])
    third = home.session(bare, mark="c").prompt("look").answer(text("seen"), message_id="msg_3", usages=[{}])
    agent = home.agent("a1", bare).prompt("look").answer(text("seen"), message_id="msg_3", usages=[used(40, 41)])
    for one in (first, second, third, agent):
        one.save()
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (home.root,)})
    if with_store:
        ingested(settings)

    for by in GROUPINGS:
        totals = usage(by, settings=settings).totals
        counted = [totals[name] for name in ("calls", "input_tokens", "output_tokens", "cache_read_tokens")]
        assert counted == [3, 145, 747, 50], by


@pytest.mark.feature("usage.future-clocks")
@pytest.mark.parametrize("with_store", [False, True])
def test_a_clock_in_the_future_and_a_call_without_a_time_have_rows_of_their_own(tmp_path: Path, with_store: bool):
    home = ClaudeHome(tmp_path / "claude")
    session = home.session()
    for told in ("2026-10-01T10:00:00.000Z", "2099-01-01T00:00:00.000Z", "2026-10-01T12:00:00", "yesterday", ""):
        session.answer(text("done"), usages=[used(0, 1)], timestamp=told)
    session.save()
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (home.root,)})
    if with_store:
        ingested(settings)

    rows = usage("daily", settings=settings).rows

    assert [(r["date"], r["calls"]) for r in rows] == [(None, 2), ("2026-10-01", 2), ("2099-01-01", 1)]
    # the row without a day is no call more than what the sessions show
    assert all(usage(by, settings=settings).totals == usage("daily", settings=settings).totals for by in GROUPINGS)
    assert usage("daily", since="2026-10-01", until="2026-10-31", settings=settings).totals["calls"] == 2


@pytest.mark.feature("usage.models-mixed")
def test_a_session_that_changed_its_model_is_split_in_tokens_and_cost(settings: Settings):
    first = f"{1:08d}-0000-4000-8000-000000000000"
    rows = [r for r in usage("session", settings=settings).rows if r["session_id"] == first]

    assert {r["model"]: (r["calls"], r["cost_nano"] > 0, r["unpriced_calls"]) for r in rows} == {
        MODELS[0]: (3, True, 0),
        MODELS[1]: (3, True, 0),
        MODELS[2]: (3, False, 3),
    }


@pytest.mark.feature("usage.unpriced")
def test_calls_without_a_price_are_listed_with_their_tokens_and_no_cost(settings: Settings):
    told = {r["model"]: r for r in usage("model", host="claude", cost_mode="calculate", settings=settings).to_json()["rows"]}

    assert (told[MODELS[2]]["cost_usd"], told[MODELS[2]]["cost_source"]) == (None, "unpriced")
    assert told[MODELS[2]]["unpriced_calls"] == told[MODELS[2]]["calls"] == 64
    assert told[MODELS[2]]["output_tokens"] > 0
    assert told[MODELS[0]]["unpriced_calls"] == 0

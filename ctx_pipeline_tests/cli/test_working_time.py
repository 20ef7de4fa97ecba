"""How long turns went on by day, and what each thread of a session cost."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ctx_pipeline.cli.reports.work import _days
from ctx_pipeline.sessions.reports.working_time import worked_days
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.cli.test_surface import commands
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.team_machines import DAY, TeamMachine

TREE = "c823d9cd-f224-448f-a457-16b4882b2710"


@pytest.mark.feature("cli.working-time")
def test_each_day_has_the_time_of_its_turns(ran: Ctx):
    turns = ran.json("sql", "SELECT began, worked FROM turns WHERE thread_id = session_id AND finished > began")["rows"]
    spent: dict[str, float] = defaultdict(float)
    for turn in turns:
        spent[datetime.fromisoformat(turn["began"]).date().isoformat()] += turn["worked"] / 1e6
    days = ran.json("work", "--days")["days"]
    assert {one["day"]: one["turn_seconds"] for one in days} == pytest.approx(dict(spent), abs=0.002)
    assert [one["day"] for one in days] == sorted(spent, reverse=True)
    assert all(one["seconds"] == pytest.approx(one["turn_seconds"]) for one in days), "no two went on at once"
    printed = ran("work", "--days").stdout
    assert f"\n{len(days)} days with a turn, " in printed
    assert re.search(r"\n2026-09-22 Tue +2 min +13:40 +13:44 +3 +1\n", printed)
    assert "of all turns" not in printed
    assert [one["day"] for one in ran.json("work", "codex", "--days")["days"]] == ["2026-10-08", "2026-09-30"]
    assert [one["day"] for one in ran.json("work", "--days", "--since", "2026-10-09")["days"]] == ["2026-10-19"]
    assert ran.json("work", "--days", "--until", "2026-01-01")["days"] == []
    assert ran("work", "--days", "--project", "nosuch", ok=False).returncode == 1
    assert ran("work", "--by-day", "--until", "2026-01-01").stdout == "no turns in this range; the newest turn is from 2026-10-19\n"
    assert ran("work", "--by-day").stdout == ran("work", "--days").stdout == printed
    assert ran("work", "--days", "codex").stdout == ran("work", "codex", "--by-day").stdout


@pytest.mark.feature("cli.last-days")
def test_the_last_days_are_an_option_wherever_a_first_day_is(ran: Ctx, monkeypatch):
    takes = {path for path, command in commands().items() if "--since" in {name for one in command.params for name in one.opts}}
    alike = {path for path in takes if "--days" in {name for one in commands()[path].params for name in one.opts}}
    assert takes - alike == {"ctx prices refresh"}, "the first day of a list of prices"
    for command in (["work"], ["usage", "daily"], ["list"], ["heatmap", "--all"], ["search", "order"], ["cost"]):
        since, days, every = (ran.json(*command, *words) for words in (["--since", "45d"], ["--days", "45"], []))
        assert since == days, command
        assert every != days or command == ["search", "order"], command
    refused = {
        words: ran("work", *words, ok=False).stderr for words in (("--days", "0"), ("--days", "7d"), ("--days", "7", "--since", "7d"))
    }
    assert "--days takes a number in the range" in refused["--days", "0"]
    assert "--days takes a whole number, not '7d'" in refused["--days", "7d"]
    assert "--since and --days both name the first day" in refused["--days", "7", "--since", "7d"]
    assert "--errors and --flaky are reports of their own" in ran("work", "--flaky", "--errors", ok=False).stderr


@pytest.mark.feature("work.time")
def test_the_time_of_each_day_is_told_by_what_went_on_in_it(ran: Ctx):
    told = ran.json("work", "--time")
    for name, whole in told["time"].items():
        assert sum(day[name] for day in told["days"]) == pytest.approx(whole, abs=0.6), name
    for day in told["days"]:
        of_day = ran.json("work", "--time", "--since", day["day"], "--until", day["day"])["time"]
        assert of_day == {name: value for name, value in day.items() if name != "day"}
    assert re.search(r"\nday +time +model .*\n2026-\d\d-\d\d \w{3} ", ran("work", "--by-day", "--time").stdout)


@pytest.mark.feature("cli.working-time")
def test_turns_that_went_on_at_once_count_once_and_beside_it_in_full(tmp_path: Path):
    machine = TeamMachine(tmp_path, "ann")
    machine.works(1, started=DAY)
    machine.works(2, started=DAY)
    machine.capture()
    (both,) = worked_days(settings=machine.settings)
    assert (both.turns, len(both.sessions)) == (2, 2)
    assert both.turn_seconds == pytest.approx(2 * both.seconds)
    assert 0 < both.seconds == pytest.approx((both.last - both.first) / 1e6)


@pytest.mark.feature("cli.working-time")
def test_a_night_between_two_records_is_no_work_and_a_turn_that_ended_days_later_says_how_many(tmp_path: Path, capsys):
    machine = TeamMachine(tmp_path, "ann")
    main = machine.home.session(started=DAY)
    main.prompt("go").answer(text("I ask somebody"))
    main.answer(text("done"), timestamp=(DAY + timedelta(days=3)).isoformat())
    main.prompt("<command-name>/reload-plugins</command-name>", timestamp=(DAY + timedelta(days=7)).isoformat()).save()
    machine.capture()
    (day,) = worked_days(settings=machine.settings)
    assert (day.last - day.first) / 1e6 == pytest.approx(timedelta(days=3).total_seconds(), abs=10)
    assert day.turn_seconds == day.seconds < 60
    _days(None, machine.settings, as_json=False)
    assert re.search(r"2026-03-02 Mon +\d+ s +09:00 +09:00 \+3 +1 +1\n", capsys.readouterr().out)


@pytest.mark.feature("cli.thread-cost")
def test_what_its_threads_cost_is_what_a_session_cost(ran: Ctx):
    detail = ran.json("show", TREE)
    assert len(detail["threads"]) == 2
    assert all(thread["cost_nano"] > 0 for thread in detail["threads"])
    assert sum(thread["cost_nano"] for thread in detail["threads"]) == detail["usage"]["cost_nano"]
    for thread in detail["threads"][1:]:
        told = ran.json("explain", thread["thread_id"])
        assert (told["kind"], round(told["totals"]["cost_usd"] * 1e9)) == ("thread", thread["cost_nano"])
    assert re.search(r"\nsubagent +a1c9e77 +explorer +6 +3 +\$0\.06 +2 +Find how", ran("show", TREE).stdout)


@pytest.mark.feature("cli.week")
def test_how_long_turns_took_is_left_out_where_no_record_tells_it(bare: Ctx):
    home = ClaudeHome(bare.folder / "claude")
    one = home.session("88888888-8888-4888-8888-888888888888")
    moment = "2026-03-05T10:00:00.000Z"
    one.prompt("x", timestamp=moment).answer(text("done"), timestamp=moment).save()
    there = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root)})
    there("sync")

    assert there.json()["week"]["seconds"] is None
    assert " in turns" not in there().stdout

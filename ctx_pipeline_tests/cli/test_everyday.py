"""What a person types first: bare ctx, help, cost, resume, open."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from shutil import copytree, rmtree
from types import SimpleNamespace

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli.one_run import _say_first_run
from ctx_pipeline.cli.overview import quiet_line
from ctx_pipeline.cli.root import _COMMANDS, _EVERYDAY, GROUPS
from ctx_pipeline.cli.usage.explain import _explaining
from ctx_pipeline.findings.rules import find, overview
from ctx_pipeline.findings.week import week
from ctx_pipeline.pipeline import render as stage
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import database
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories.history import build_site, tables
from ctx_pipeline_tests.factories.months import write_month

EXPORT = "c823d9cd-f224-448f-a457-16b4882b2710"


@pytest.mark.feature("session.wrapped")
def test_the_card_of_an_earlier_week_says_so_also_where_nobody_named_a_time_zone(ran: Ctx):
    ran.environ = {name: value for name, value in ran.environ.items() if name != "TZ"}
    assert ran("wrapped").stdout.endswith("these are the days of the latest week with one. Every day: ctx wrapped all\n")


@pytest.mark.feature("cli.help-groups")
def test_help_shows_a_dozen_commands_and_where_the_others_are(ctx: Ctx):
    printed = ctx("--help").stdout
    everyday = [name for group in _EVERYDAY.values() for name in group if name in _COMMANDS]

    assert 10 <= len(everyday) <= 16
    assert all(re.search(rf"^  {name} +\S", printed, re.MULTILINE) for name in everyday)
    assert all(f"ctx help {group}" in printed for group in GROUPS)
    assert not re.search(r"^  backfill ", printed, re.MULTILINE)
    assert ctx("help").stdout.split("Options:")[0] == printed.split("Options:")[0]
    grouped = {name for _, names in GROUPS.values() for name in names}
    assert set(_COMMANDS) - grouped - set(everyday) == {"help", "render", "show"} - grouped - set(everyday) | {"help"}
    assert "Fill the missing" in ctx("help", "pipeline").stdout
    assert ctx("help", "usage", "daily").stdout.startswith("Usage: ctx usage daily")
    wrong = ctx("help", "pipelin", ok=False)
    assert (wrong.returncode, "did you mean pipeline" in wrong.stderr) == (2, True)


@pytest.mark.feature("cli.near-commands")
@pytest.mark.parametrize(("typed", "meant"), [("shw", "show"), ("blocks", "usage blocks"), ("backtest", "memory backtest")])
def test_an_unknown_command_names_the_nearest_one_also_below_another(ctx: Ctx, typed: str, meant: str):
    wrong = ctx(typed, ok=False)

    assert wrong.returncode == 2
    assert re.search(rf"Did you mean (?:.* or )?{meant}\b", wrong.stderr)


@pytest.mark.feature("cli.show-window")
def test_show_says_how_full_the_window_was(ran: Ctx):
    assert (
        "\nat most 28.1 k tokens in the window, 14% of 200,000 (as published for the model), 0 compactions\n"
        in ran("show", "latest").stdout
    )


@pytest.mark.feature("cli.near-commands")
def test_a_range_without_calls_says_of_which_day_the_newest_is(ran: Ctx):
    assert ran("usage", "daily", "--since", "2030").stdout == "no model calls in this range; the newest is from 2026-10-19\n"


@pytest.mark.feature("cli.cost")
def test_cost_shows_periods_and_what_one_thing_cost(ran: Ctx):
    found = ran.json("cost")["periods"]
    usage = ran.json("usage", "daily")["totals"]

    names = ["today", "yesterday", "this week", "last week", "this month", "last month", "latest 7 days", "all"]
    assert [row["period"] for row in found] == names
    latest = ran.json("usage", "daily", "--since", "2026-10-13", "--until", "2026-10-19")["totals"]
    assert (found[-2]["since"], found[-2]["until"], found[-2]["calls"]) == ("2026-10-13", "2026-10-19", latest["calls"])
    assert re.search(r"\nlatest 7 days +2026-10-13 +2026-10-19 ", ran("cost").stdout)
    assert ran("cost").stdout.split()[:5] == ["period", "from", "to", "model", "calls"]
    assert latest["calls"] > 0
    assert (found[-1]["calls"], found[-1]["cost_usd"]) == (usage["calls"], pytest.approx(usage["cost_usd"]))
    assert f"${usage['cost_usd']:.2f}" in ran("cost").stdout
    assert "\nsession csv export: 11 calls" in ran("cost", "csv", "export").stdout


@pytest.mark.feature("cli.cost")
def test_rows_of_cost_are_asked_for_by_their_names_and_are_no_words_of_a_title(bare: Ctx):
    home = build.ClaudeHome(bare.folder / "claude")
    home.session().prompt("yesterday and today, this week and last month").answer(build.text("ok")).save()
    bare.environ |= {"CLAUDE_CONFIG_DIR": str(bare.folder / "claude"), "TZ": "Asia/Tokyo"}
    bare("run")
    for command in ("cost", "explain"):
        assert bare(command, "yesterday", ok=False).stderr.startswith("ctx: no model call on ")
        assert bare(command, "this week", ok=False).stderr.startswith("ctx: no model call in the week ")

    now = datetime.now(UTC)
    recent = home.session("22222222-2222-4222-8222-222222222222")
    for days in (0, 1, 6, 8, 20, 35):
        at = (now - timedelta(days=days)).isoformat()
        recent.prompt("go on", timestamp=at).answer(build.text("ok"), timestamp=at)
    recent.save()

    rows = {row["period"]: row["calls"] for row in bare.json("cost")["periods"]}
    names = ("today", "yesterday", "this week", "last week", "this month", "last month")
    told = {name: bare.json("explain", name) for name in names if rows[name]}
    assert {"today", "yesterday", "this week", "this month"} <= told.keys()
    assert {name: one["totals"]["calls"] for name, one in told.items()} == {name: rows[name] for name in told}
    assert {one["kind"] for one in told.values()} == {"day", "week", "month"}
    assert bare.json("cost", "Last", "week")["totals"]["calls"] == rows["last week"]


@pytest.mark.feature("cli.cost")
def test_days_on_which_no_call_has_a_price_cost_no_zero_dollars_and_a_narrow_terminal_keeps_the_cost(bare: Ctx):
    home = build.ClaudeHome(bare.folder / "claude")
    now = datetime.now(UTC).isoformat()
    home.session().prompt("go on", timestamp=now).answer(build.text("ok"), timestamp=now, model="unheard-of-1").save()
    bare.environ |= {"CLAUDE_CONFIG_DIR": str(bare.folder / "claude"), "TZ": "UTC"}

    told, week = bare("cost").stdout, bare().stdout
    bare.environ |= {"COLUMNS": "34"}
    narrow = bare("cost").stdout.splitlines()

    assert re.search(r"\ntoday .* unpriced\b", told)
    assert "1 call has no known price and no part in the cost" in told
    assert week.splitlines()[1].startswith("unpriced")
    assert "$0.00" not in week
    assert narrow[0].split() == ["period", "model", "calls", "cost"]


@pytest.mark.feature("cli.cost")
def test_calls_without_a_price_cost_no_sum_of_money_anywhere(tmp_path: Path, ctx: Ctx):
    home, now = build.ClaudeHome(tmp_path / "unpriced"), datetime.now(UTC)
    for back in range(4):
        made = home.session(f"{back}1111111-1111-4111-8111-111111111111", mark=str(back))
        at = (now - timedelta(days=7 * back)).isoformat()
        made.prompt("go on", timestamp=at).answer(build.text("ok"), timestamp=at, model="unheard-of-1").save()
    places = {"CLAUDE_CONFIG_DIR": home.root, "CODEX_HOME": tmp_path / "none", "CTX_HOME": tmp_path / "store"}
    unpriced = Ctx(ctx.folder, {**ctx.environ, **{name: str(place) for name, place in places.items()}})

    ran = unpriced("run").stdout
    overview = unpriced().stdout
    shown = unpriced.json()["week"]
    page = re.sub(r"<[^>]+>", " ", (tmp_path / "store" / "site" / "index.html").read_text("utf-8"))

    assert "no known price" in ran
    assert "a usual week is unpriced" in overview
    assert "$0.00" not in ran + overview
    assert [(one["cost_usd"], one["calls"]) for one in shown["hosts"]] == [(None, 1)]
    assert (shown["cost_usd"], shown["usual"]["cost_usd"]) == (None, None)
    assert {one["cost_usd"] for one in unpriced.json("cost")["periods"] if one["calls"]} == {None}
    assert "Claude Code: no price" in page
    assert "$0.00" not in page


@pytest.mark.feature("cli.cost")
def test_cost_of_chosen_days_is_that_of_usage(ran: Ctx):
    usage = ran.json("usage", "daily", "--until", "2026-09", "--since", "2026-01-01")["totals"]
    chosen, whole = ran.json("cost", "--since", "2026-01-01", "--until", "2026-09")["periods"]

    assert (chosen["period"], chosen["calls"]) == ("2026-01-01 to 2026-09-30", usage["calls"])
    assert 0 < chosen["calls"] < whole["calls"]
    assert [row["period"] for row in ran.json("cost", "--since", "2026-10")["periods"]] == ["since 2026-10-01", "all"]
    assert ran("cost", "main", "--since", "7d", ok=False).stderr.startswith("ctx: --since and --until are for all costs")


@pytest.mark.feature("cli.cost")
def test_cost_of_a_project_and_a_model_is_that_of_usage(ran: Ctx):
    by_project: Counter[str] = Counter()
    for row in ran.json("usage", "project")["rows"]:
        by_project[row["project"]] += row["calls"]
    model, calls = max(((row["model"], row["calls"]) for row in ran.json("usage", "model")["rows"]), key=lambda one: one[1])
    for project, made in by_project.items():
        assert ran.json("cost", "--project", project)["periods"][-1]["calls"] == made
    assert len(by_project) > 1
    assert ran.json("cost", "--model", model)["periods"][-1]["calls"] == calls
    assert ran("cost", "--project", "no-such-project", ok=False).stderr.startswith("ctx: there is no project called")


@pytest.mark.feature("cli.cost")
def test_a_week_is_named_as_the_calendar_names_it(ran: Ctx):
    by_week = {row["date"]: row["calls"] for row in ran.json("usage", "weekly")["rows"]}
    monday = max(filter(None, by_week))
    year, week, _ = date.fromisoformat(monday).isocalendar()
    name = f"{year}-W{week:02d}"

    assert ran("cost", name).stdout.startswith(f"week {name}: {by_week[monday]} call")
    assert ran.json("explain", name, "--limit", "0")["totals"] == ran.json("explain", monday, "--by", "weekly")["totals"]
    assert ran("explain", "2026-W60", ok=False).stderr.startswith("ctx: 2026-W60 is not a week of the calendar")
    assert ran("explain", "1999-W03", ok=False).stderr.startswith("ctx: no model call in the week 1999-W03")


@pytest.mark.feature("cli.usage-default")
def test_usage_without_a_table_is_by_day_and_takes_its_options(ran: Ctx):
    assert ran.json("usage") == ran.json("usage", "daily")
    assert ran.json("usage", "--since", "2026-10") == ran.json("usage", "daily", "--since", "2026-10") != ran.json("usage", "daily")
    assert ran.json("usage", "--until", "2026-09", "--by", "model") == ran.json("usage", "model", "--until", "2026-09")
    assert ran.json("usage", "--limit", "1", "--by=tool") == ran.json("usage", "tool", "--limit", "1")
    assert "Commands:" in ran("usage", "--help").stdout
    assert ran("usage", "--since", "7d", "--help").stdout == ran("usage", "daily", "--help").stdout


@pytest.mark.feature("cli.cost-follow-up")
@pytest.mark.parametrize(
    "words",
    [
        ("main", "--by", "branch"),
        ("Bash", "--by", "tool", "--host", "claude"),
        ("2026-09-14", "--timezone", "UTC"),
        ("csv", "export"),
    ],
)
def test_the_command_that_cost_names_shows_the_same_calls(ran: Ctx, words: tuple[str, ...]):
    printed = ran("cost", *words).stdout.splitlines()
    named, command = printed[-1].split(": ctx ")

    assert named == "its calls one by one"
    assert ran(*shlex.split(command), "--limit", "1").stdout.splitlines()[:2] == printed[:2]


@pytest.mark.feature("cli.cost-follow-up")
def test_a_follow_up_names_every_option_and_a_name_that_begins_as_one():
    assert _explaining("it's", {"by": "branch", "host": None, "stored": True}) == """ctx explain 'it'"'"'s' --by branch --stored"""
    assert _explaining("-work/a", {"by": "project"}) == "ctx explain --by project -- -work/a"


@pytest.mark.feature("cli.cost-follow-up")
def test_a_table_without_a_row_is_wrong_usage_of_cost(ran: Ctx):
    done = ran("cost", "--by", "tool", ok=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert "hint: ctx cost WHAT --by tool; all rows: ctx usage tool" in done.stderr


@pytest.mark.feature("cli.resume")
def test_resume_prints_the_command_alone_and_the_title_beside_it(ran: Ctx):
    done = ran("resume", "csv", "export")

    assert done.stdout.count("\n") == 1
    assert done.stdout.rstrip().endswith(f"claude --resume {EXPORT}")
    assert "CSV export for orders" in done.stderr
    assert done.stderr.startswith("last active 2026-09-22 13:44  bookshop-api  CSV export")
    assert ran("resume", "latest").stdout == ran("resume").stdout
    assert ran.json("resume", EXPORT[:8])["resume"] == done.stdout.rstrip()


@pytest.mark.feature("cli.open")
def test_open_goes_to_the_page_and_to_a_session_on_it(ran: Ctx, tmp_path):
    opener = tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    opener.chmod(0o755)
    here = Ctx(ran.folder, ran.environ | {"BROWSER": str(opener)})
    key = next(s for s in ran.json("list")["sessions"] if s["session_id"] == EXPORT)

    here("open", EXPORT[:8])

    from ctx_pipeline.model.codec import digest

    assert (tmp_path / "opened").read_text().strip().endswith(f"/site/index.html#session-{digest(key['host'], EXPORT, size=16)}")


@pytest.mark.feature("dashboard.drawn-in-place")
def test_open_draws_what_the_page_has_no_transcript_of_and_says_so_once(tmp_path, monkeypatch):
    rows = tables(3, hostile=False)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", rows["sessions"][-1]["bytes"])
    environ = {**os.environ, "HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "TZ": "UTC", "BROWSER": "true"}
    environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / "claude")
    write_month(tmp_path / "claude", "2026-03", 1)
    site = build_site(environ, rows, "rows")
    here = Ctx(tmp_path, environ)

    assert len(stage.undrawn(site)) == 2
    assert "drawing 2 older transcripts" in here("open").stderr
    assert stage.undrawn(site) == []
    assert here("open").stderr == ""


@pytest.mark.feature("dashboard.drawn-in-place")
def test_open_draws_the_rest_also_in_a_store_that_was_moved(ran: Ctx, tmp_path, monkeypatch):
    before, after = tmp_path / "before", tmp_path / "after"
    copytree(ran.store, before, symlinks=True)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", 1)
    rmtree(before / "site")
    chosen = settings_module.load(ran.environ | {"CTX_HOME": str(before)})
    with open_store(chosen) as store:
        stage.render(store, chosen, force=True)
    before.rename(after)
    waiting = len(stage.undrawn(after / "site"))

    said = Ctx(tmp_path, ran.environ | {"CTX_HOME": str(after), "BROWSER": "true"})("open").stderr

    assert waiting > 0
    assert said.startswith(f"drawing {waiting} older transcript")
    assert "not drawn" not in said
    assert stage.undrawn(after / "site") == []


@pytest.mark.feature("cli.completion")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(ctx: Ctx, shell: str):
    assert f"_CTX_COMPLETE={shell}_complete" in ctx("completion", shell).stdout


@pytest.mark.feature("cli.completion")
def test_projects_and_signals_are_completed(ran: Ctx):
    def completed(line: str, place: int) -> list[str]:
        done = Ctx(ran.folder, ran.environ | {"_CTX_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(place)})
        return [one.partition(",")[2] for one in done("show", ok=False).stdout.split()]

    assert completed("ctx usage daily --project book", 4) == ["bookshop-api"]
    assert "failed_command_count" in completed("ctx signal list failed_", 3)


@pytest.mark.feature("cli.week")
def test_the_week_has_a_bar_a_day_with_cost_and_time(ran: Ctx):
    told = ran.json()["week"]
    printed = ran().stdout
    usage = ran.json("usage", "daily", "--since", told["since"], "--until", told["until"])["totals"]

    assert len(told["days"]) == 7
    assert told["cost_usd"] == pytest.approx(usage["cost_usd"])
    assert sum(day["calls"] for day in told["days"]) == usage["calls"]
    assert re.search(r"^  Mon 2026-10-19  \$[\d.]+  █+ +\d+ (?:s|min|h \d\d)$", printed, re.MULTILINE)
    assert "a usual week is $" in printed
    assert not re.search(r"^- .*secret", printed, re.MULTILINE), "the samples hold an example of a secret alone"


@pytest.mark.feature("cli.week")
def test_the_warehouse_gives_the_page_the_week_and_the_findings_that_the_tables_give_bare_ctx(ran: Ctx):
    settings = settings_module.load(ran.environ)
    today = date.fromisoformat(ran.json()["week"]["until"])
    since, until = (today - timedelta(days=6)).isoformat(), today.isoformat()

    with database.connect(settings.home / "serving" / "ctx.duckdb", read_only=True) as warehouse:
        shown = week(settings, today, warehouse=warehouse)
        found = [find(settings=settings, warehouse=warehouse), find(settings=settings, since=since, until=until, warehouse=warehouse)]

    assert shown is not None
    assert shown == week(settings, today)
    assert shown.spent.seconds
    assert found == [find(settings=settings), find(settings=settings, since=since, until=until)]
    assert found[0]


@pytest.mark.feature("cli.week")
def test_the_usual_is_the_mean_of_at_least_two_weeks_with_calls(environ):
    settings = settings_module.load(environ | {"TZ": "UTC"})
    home = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    days = [date(2026, 10, day) for day in (1, 2, 3, 8, 9, 10, 15, 16, 17, 22, 23, 24)]
    for number, day in enumerate(days):
        started = datetime(day.year, day.month, day.day, 10, tzinfo=UTC)
        transcript = home.session(f"{number:08d}-0000-4000-8000-000000000001", slug="-w", cwd="/w", mark=f"m{number}", started=started)
        transcript.prompt("hello")
        transcript.answer(build.text("hi"))
        transcript.save()

    enough, few, late = (week(settings, date(2026, month, day)) for month, day in ((10, 26), (10, 12), (12, 1)))

    assert enough is not None
    assert enough.usual is not None
    assert few is not None
    assert late is not None
    assert (enough.spent.sessions, enough.weeks, enough.usual.sessions) == (3, 3, 3)
    assert enough.usual.cost_nano == enough.spent.cost_nano > 0
    assert [(one.day.day, one.spent.sessions) for one in enough.days if one.spent.calls] == [(22, 1), (23, 1), (24, 1)]
    assert (enough.spent.seconds, enough.compared) == (None, False), "no store says how long turns took; three sessions are few"
    assert few.usual is None, "one week before it"
    assert (late.recent, late.until) == (False, date(2026, 10, 24))
    on_its_last_day = week(settings, date(2026, 10, 24))
    assert on_its_last_day is not None
    for today in (date(2026, 11, 12), date(2026, 12, 1), date(2027, 6, 1)):  # the weeks before lie partly, hardly, not within nine weeks
        assert week(settings, today) == on_its_last_day._replace(recent=False)


@pytest.mark.feature("cli.week")
def test_secrets_are_one_quiet_line_behind_the_findings(environ):
    settings = settings_module.load(environ | {"TZ": "UTC"})
    transcript = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session("00000000-0000-4000-8000-000000000001", slug="-w", cwd="/w")
    transcript.prompt("use ghp_" + "k7Qz9Wm3Xv5Rt1Yb8Np2Lc6Hd4Js0FgAeUo3"[:36])
    transcript.answer(build.text("hi"))
    transcript.save()

    shown = overview(settings=settings)

    assert [one.rule for one in shown.quiet] == ["secrets-in-transcripts"]
    assert "secrets-in-transcripts" not in {one.rule for one in shown.findings}


@pytest.mark.feature("cli.week")
def test_the_quiet_line_names_the_command_of_each_of_its_parts(capsys):
    quiet_line(["1 secret in your transcripts", "2 records could not be read"])

    said = " ".join(capsys.readouterr().out.split())
    assert said == "also: 1 secret in your transcripts; 2 records could not be read (ctx doctor --redactions, ctx doctor)"


@pytest.mark.feature("cli.run-size")
def test_a_first_run_says_how_long_many_bytes_and_many_files_take(capsys: pytest.CaptureFixture[str]):
    def said(files: int, octets: int) -> str:
        _say_first_run(SimpleNamespace(pending=[SimpleNamespace(size=octets)] * files))
        return capsys.readouterr().err

    assert said(11, 9_000) == "first run: 11 files, 99.0 kB; later runs read only what is new\n"
    assert "500 files, 500.0 MB, about 40 s;" in said(500, 1_000_000)
    assert "5,000 files, 45.0 MB, about 46 s;" in said(5_000, 9_000)


@pytest.mark.feature("cli.week-dear-session")
def test_a_session_that_made_a_large_part_of_a_weeks_cost_is_named(bare: Ctx):
    home = build.ClaudeHome(bare.folder / "claude")
    for number in range(6):
        dear = number == 5
        started = datetime(2026, 10, 20, 10 + number, tzinfo=UTC)
        one = home.session(f"{number:08d}-0000-4000-8000-000000000001", mark=f"m{number}", started=started)
        one.prompt("rewrite it all" if dear else f"small change {number}")
        one.answer(build.text("ok"), usages=[build.usage(100, 4_000 if dear else 1_000 + number)]).save()
    ctx = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root)})

    told = ctx.json()["week"]
    name = "00000005-0000-4000-8000-000000000001"
    assert told["dear_session"] == {
        "host": "claude",
        "session_id": name,
        "cost_usd": pytest.approx(0.0603),
        "share": pytest.approx(0.0603 / told["cost_usd"], abs=1e-4),
    }
    assert (
        f"one session made {told['dear_session']['share']:.0%} of the cost: “rewrite it all”, $0.06\n  ctx explain {name}\n" in ctx().stdout
    )

    for number in range(6, 9):
        one = home.session(f"{number:08d}-0000-4000-8000-000000000001", mark=f"m{number}", started=datetime(2026, 10, 21, 9, tzinfo=UTC))
        one.prompt("another").answer(build.text("ok"), usages=[build.usage(100, 3_000)]).save()
    assert ctx.json()["week"]["dear_session"] is None
    assert "one session made" not in ctx().stdout

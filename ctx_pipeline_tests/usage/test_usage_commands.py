"""``ctx usage``, ``ctx explain`` and bare ``ctx`` as processes, before anything was captured."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, usage
from ctx_pipeline_tests.factories.shipped import copied
from ctx_pipeline_tests.terminal import on_terminal


class Ctx:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = copied(folder)

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return preloaded.run(words, env=self.environ, cwd=self.folder, stdin=stdin, seconds=250)


@pytest.fixture
def ctx(tmp_path: Path) -> Ctx:
    return Ctx(tmp_path)


@pytest.mark.feature("usage.without-store")
def test_usage_answers_without_a_store_and_makes_none(ctx: Ctx):
    done = ctx("usage", "daily", "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["source"] == "homes"
    assert told["totals"]["calls"] == sum(row["calls"] for row in told["rows"]) > 20
    assert not (ctx.folder / "store").exists()


@pytest.mark.feature("usage.without-store")
def test_sessions_that_were_not_captured_have_their_titles(ctx: Ctx):
    told = ctx("usage", "session").stdout.splitlines()

    assert "title" in told[0]
    assert "Profile the order search and make it twice as fast" in next(line for line in told if line.startswith("019a72be"))


@pytest.mark.feature("usage.outcomes-by-model")
def test_models_of_few_sessions_are_said_to_be_left_out_or_to_be_too_few(ctx: Ctx):
    projects = ctx.folder / "claude" / "projects" / "-few"
    projects.mkdir(parents=True)
    for number in range(5):
        body = {"id": f"m{number}", "role": "assistant", "model": "claude-opus-4-1", "usage": {"input_tokens": 1, "output_tokens": 1}}
        line = {"type": "assistant", "uuid": f"u{number}", "timestamp": "2026-01-01T10:00:00Z", "cwd": "/code/few", "message": body}
        (projects / f"{number}3333333-3333-4333-8333-333333333333.jsonl").write_text(json.dumps(line) + "\n")
    ctx("sync")

    told = ctx("usage", "outcomes", "--by", "model").stdout
    few = ctx("usage", "outcomes", "--by", "model", "--host", "codex").stdout

    assert [line.split()[0] for line in told.splitlines()[1:3]] == ["claude-opus-4-1", "total"]
    assert "5 models of fewer than 5 sessions left out: --json" in told
    assert [line.split()[0] for line in few.splitlines()[1:4]] == ["gpt-5-codex", "gpt-5.1-codex", "total"]
    assert "no model has 5 sessions yet" in few
    assert "lowest cost per session" not in told + few, "of one model none is the cheapest"


@pytest.mark.feature("usage.outcomes-by-model")
def test_a_narrow_terminal_keeps_the_costs_per_unit_of_models_and_the_cheapest_of_each_host_is_named(ctx: Ctx):
    for number, model in enumerate(["claude-opus-4-1"] * 5 + ["claude-haiku-4-5"] * 6 + ["nobody-prices-this"] * 5):
        home = ClaudeHome(ctx.folder / "claude").session(f"{number:04}3333-3333-4333-8333-333333333333", slug="-few", cwd="/code/few")
        home.prompt("go").answer(text("done"), model=model, usages=[usage(1_000_000, 0)]).save()
    ctx("sync")

    told = ctx("usage", "outcomes", "--by", "model").stdout
    narrow = on_terminal([sys.executable, "-m", "ctx_pipeline", "usage", "outcomes", "--by", "model"], ctx.environ, 60)

    assert all(heading in narrow.splitlines()[0] for heading in ("$/session", "$/commit", "$/tool call"))
    assert "cost" not in narrow.splitlines()[0]
    assert told.endswith("lowest cost per session: claude claude-haiku-4-5, $1.00 (of 2 models); models may have had different work\n")


@pytest.mark.feature("usage.filters")
@pytest.mark.parametrize("words", [["model"], ["tool"], ["daily", "--cache"], ["blocks"]])
def test_a_branch_narrows_every_table_to_the_calls_of_its_row(ctx: Ctx, words: list[str]):
    def calls(*more: str) -> int:
        told = json.loads(ctx("usage", *words, *more, "--json").stdout)
        return sum(row["calls"] for row in told.get("blocks", told.get("rows")))

    rows = json.loads(ctx("usage", "branch", "--json").stdout)["rows"]
    live, wrong = calls("--branch", "main"), ctx("usage", *words, "--branch", "orders")
    ctx("sync")

    assert live == calls("--branch", "main") == calls("--branch", "main", "--stored")
    assert live == sum(row["calls"] for row in rows if row["branch"] == "main") < calls()
    assert (wrong.returncode, wrong.stderr.splitlines()[1]) == (1, "hint: did you mean feat/orders-export?")


@pytest.mark.feature("usage.csv")
def test_csv_has_the_rows_of_the_json_under_the_same_names(ctx: Ctx):
    rows = json.loads(ctx("usage", "model", "--json").stdout)["rows"]

    told = list(csv.DictReader(io.StringIO(ctx("usage", "model", "--csv").stdout)))

    assert [(r["model"], int(r["output_tokens"])) for r in told] == [(r["model"], r["output_tokens"]) for r in rows]
    assert list(told[0]) == list(rows[0])


@pytest.mark.feature("usage.csv")
def test_windows_are_csv_with_a_column_for_each_figure_and_an_empty_report_keeps_its_header(ctx: Ctx):
    told = json.loads(ctx("usage", "blocks", "--json").stdout)["blocks"]
    rows = list(csv.DictReader(io.StringIO(ctx("usage", "blocks", "--csv").stdout)))

    assert [(r["start"], int(r["total_tokens"]), float(r["cost_usd"])) for r in rows] == [
        (b["start"], b["total_tokens"], pytest.approx(b["cost_usd"])) for b in told
    ]
    assert {"burn_rate_usd_per_hour", "projection_tokens", "primary_used_percent"} <= rows[0].keys()
    assert ctx("usage", "daily", "--since", "2030-01-01", "--csv").stdout == "date\n"


@pytest.mark.feature("usage.csv")
@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "\uff1d1"])
def test_text_of_a_transcript_is_no_formula_in_a_spreadsheet(ctx: Ctx, name: str):
    folder = ctx.folder / "claude" / "projects" / "-odd"
    folder.mkdir(parents=True)
    body = {"id": "m1", "role": "assistant", "model": name, "usage": {"input_tokens": 1, "output_tokens": 1}}
    line = {"type": "assistant", "uuid": "u", "timestamp": "2026-01-01T10:00:00Z", "cwd": "/code/odd", "message": body}
    (folder / "33333333-3333-4333-8333-333333333333.jsonl").write_text(json.dumps(line) + "\n")

    (row,) = csv.DictReader(io.StringIO(ctx("usage", "model", "--project", "odd", "--csv").stdout))

    assert row["model"] == f"'{name}"


@pytest.mark.feature("usage.wrong-options")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["usage", "daily", "--json", "--csv"], "two forms of one answer"),
        (["usage", "blocks", "--json", "--csv"], "two forms of one answer"),
        (["usage", "daily", "--since", "2026-05-02", "--until", "2026-05-01"], "is before --since"),
        (["explain", "2026-05-02", "--limit", "-1"], "--limit takes a number in the range x>=0, not -1"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(ctx: Ctx, words: list[str], said: str):
    done = ctx(*words)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.feature("usage.wrong-options")
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC"])
def test_the_first_and_the_last_day_of_the_calendar_mean_everything(ctx: Ctx, zone: str):
    everything = json.loads(ctx("usage", "model", "--json", "--timezone", zone).stdout)
    bounded = ctx("usage", "model", "--json", "--timezone", zone, "--since", "0001-01-01", "--until", "9999-12-31")

    assert bounded.returncode == 0, bounded.stderr
    assert json.loads(bounded.stdout)["totals"] == everything["totals"]


@pytest.mark.feature("usage.cost-columns")
@pytest.mark.feature("signals.wrong-numbers")
def test_the_table_shows_recorded_beside_list_prices_and_says_which_is_the_cost(ctx: Ctx):
    folder = ctx.folder / "claude" / "projects" / "-old"
    folder.mkdir(parents=True)
    used = {"input_tokens": 0, "output_tokens": 1000}
    lines = [
        {"message": {"id": "m1", "role": "assistant", "model": "claude-sonnet-4-20250514", "usage": used}, "costUSD": 5.25},
        {"message": {"id": "m2", "role": "assistant", "model": "claude-sonnet-4-20250514", "usage": used}},
    ]
    more = {"type": "assistant", "timestamp": "2025-06-01T10:00:00Z", "cwd": "/code/old"}
    (folder / "33333333-3333-4333-8333-333333333333.jsonl").write_text(
        "".join(f"{json.dumps({**more, **line, 'uuid': f'u{n}'})}\n" for n, line in enumerate(lines))
    )

    def shown(mode: str) -> list[str]:
        return ctx("usage", "daily", "--project", "old", "--cost-mode", mode).stdout.splitlines()

    auto, calculate, display = shown("auto"), shown("calculate"), shown("display")

    # 1,000 tokens of output at 15 dollars a million, twice
    assert auto[0].split()[-1] == "cost"
    assert auto[1].split()[-1] == "$5.26"
    assert auto[-1].startswith(
        "cost is what the host wrote down for 1 call, list prices on the day of the call for the others"
        " ($5.25 recorded, $0.03 at list prices)"
    )
    assert calculate[1].split()[-1] == "$0.03"
    assert calculate[-1].startswith("list prices on the day of the call")
    assert display[1].split()[-1] == "$5.25"
    assert display[-2:] == ["1 of 2 calls have no recorded cost", "cost is what the host wrote down; days in UTC"]
    assert "recorded" not in ctx("usage", "daily", "--project", "bookshop-api").stdout


@pytest.mark.feature("usage.table")
def test_the_table_has_a_line_a_day_and_with_breakdown_a_line_for_each_model(ctx: Ctx):
    days = {r["date"] for r in json.loads(ctx("usage", "daily", "--json").stdout)["rows"]}
    models = json.loads(ctx("usage", "daily", "--json").stdout)["rows"]

    short, long = ctx("usage", "daily").stdout.splitlines(), ctx("usage", "daily", "--breakdown").stdout.splitlines()

    assert sum(line[:4] == "2026" for line in short) == len(days)
    assert sum(line[:4] == "2026" for line in long) == len(models) >= len(days)


@pytest.mark.feature("cli.overview")
def test_bare_ctx_prints_a_week_and_help_stays_help(ctx: Ctx):
    bare, helped = ctx(), ctx("--help")

    assert bare.returncode == helped.returncode == 0, bare.stderr
    assert bare.stdout.startswith(("last seven days", "last week with calls"))
    assert "ctx usage daily" in bare.stdout
    assert helped.stdout.startswith("Usage: ctx")


@pytest.mark.feature("usage.without-store")
@pytest.mark.parametrize("words", [["usage", "blocks"], ["usage", "tool"], ["usage", "statusline"], ["explain", "bookshop-api"]])
def test_every_reading_command_works_before_the_first_run(ctx: Ctx, words: list[str]):
    done = ctx(*words, stdin="{}")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.feature("usage.light")
def test_usage_without_a_store_loads_no_heavy_library(ctx: Ctx):
    code = (
        "import sys; from ctx_pipeline.cli import main\n"
        "try: main(['usage', 'daily'])\n"
        "except SystemExit: pass\n"
        "print('loaded', sorted({'numpy', 'pyarrow', 'duckdb', 'pydantic', 'rich', 'dagster'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ctx.environ, cwd=ctx.folder, capture_output=True, text=True, check=True, timeout=250
    )

    assert done.stdout.splitlines()[-1] == "loaded []"


@pytest.mark.feature("usage.statusline")
def test_the_status_line_is_one_line_whatever_it_is_given(ctx: Ctx):
    for stdin in ("", "not json", '{"model": 3, "session_id": ["x"]}', "[" * 5000):
        done = ctx("usage", "statusline", stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 1


@pytest.mark.feature("usage.json-shape")
@pytest.mark.parametrize("by", ["daily", "session", "project", "model", "thread", "tool"])
def test_every_field_of_the_json_is_documented(ctx: Ctx, by: str):
    page = (Path(__file__).resolve().parents[2] / "docs" / "usage.md").read_text()
    documented = set(re.findall(r"`([a-z0-9_]+)`", page.partition("## Fields of")[2]))
    told = json.loads(ctx("usage", by, "--json").stdout)

    assert {"rows", "totals", "source"} <= told.keys() <= documented
    assert {name for row in (*told["rows"], told["totals"]) for name in row} <= documented


@pytest.mark.feature("explain.other-tools")
def test_against_prints_both_sides_and_names_an_unknown_tool(ctx: Ctx):
    day = json.loads(ctx("usage", "daily", "--host", "claude", "--json").stdout)["rows"][0]
    told = json.loads(ctx("explain", day["date"], "--host", "claude", "--against", "ccusage", "--json").stdout)
    shown = ctx("explain", day["date"], "--host", "claude", "--against", "ccusage").stdout
    wrong = ctx("explain", day["date"], "--by", "daily", "--against", "agent")

    assert told["ours"]["calls"] >= day["calls"] > 0
    assert told.keys() == {"what", "kind", "tool", "cost_mode", "ours", "theirs", "rules", "differences", "models", "bridge"}
    assert "by the rules of ccusage 20.0.24, from the same files" in shown
    assert [line.split("  ")[0] for line in shown.splitlines()[2:4]] == ["here", "rules of ccusage"]
    heads = [line for line in shown.splitlines() if line.endswith(("cost, prices of the day", "ccusage prints"))]
    assert [("cost, prices of the day" in head, "ccusage prints" in head) for head in heads] == [(True, False), (True, True)]
    assert (wrong.returncode, "'agent'" in wrong.stderr, "known: ccusage; " in wrong.stderr) == (2, True, True)
    assert wrong.stderr.endswith(f"recorded cost stands beside the list price of each call: ctx explain {day['date']} --by daily\n")


@pytest.mark.feature("explain.other-tools")
def test_a_session_is_compared_by_any_name_that_explain_takes(ctx: Ctx):
    ours = json.loads(ctx("explain", "latest", "--json").stdout)["totals"]
    told = json.loads(ctx("explain", "latest", "--against", "ccusage", "--json").stdout)
    wrong = ctx("explain", "no such words", "--against", "ccusage")

    assert (told["kind"], told["ours"]["calls"]) == ("session", ours["calls"])
    assert (wrong.returncode, "nothing matches" in wrong.stderr) == (1, True)


@pytest.mark.feature("pricing.refresh")
def test_prices_are_shown_taken_over_and_listed(ctx: Ctx):
    taken = json.loads(ctx("prices", "refresh", "--since", "2026-10-05", "--json").stdout)
    lists = json.loads(ctx("prices", "list", "--json").stdout)["lists"]
    shown = json.loads(ctx("prices", "show", "gpt-5", "nobody", "--day", "2026-10-06", "--json").stdout)["prices"]

    assert taken["since"] == "2026-10-05"
    assert [one["since"] for one in lists] == ["always", "2026-10-05"]
    assert (shown[0]["price"]["rates"]["input"], shown[1]["price"]) == (1.25, None)
    assert "unpriced: no list knows it" in ctx("prices", "show", "nobody").stdout
    assert ctx("prices", "refresh", "--since", "someday").returncode == 2


@pytest.mark.feature("usage.without-store")
def test_a_session_that_is_not_captured_yet_stands_first_in_a_terminal_with_its_title(ctx: Ctx):
    ctx("sync")
    made = ClaudeHome(ctx.folder / "claude").session("77777777-7777-4777-8777-777777777777", cwd="/code/new")
    made.prompt("paint the door green", timestamp="2027-03-01T10:00:00.000Z")
    made.answer(text("done"), usages=[usage(10, 1)], timestamp="2027-03-01T10:00:05.000Z").save()
    shown = on_terminal([sys.executable, "-m", "ctx_pipeline", "usage", "session", "--limit", "1"], ctx.environ, 120)
    assert "paint the door" in shown.splitlines()[1], shown


@pytest.mark.feature("usage.json-shape")
def test_a_limit_keeps_the_newest_days_in_json_as_in_the_table(ctx: Ctx):
    days = [row["date"] for row in json.loads(ctx("usage", "daily", "--json").stdout)["rows"]]
    kept = [row["date"] for row in json.loads(ctx("usage", "daily", "--json", "--limit", "2").stdout)["rows"]]
    assert len(set(days)) > 2
    assert sorted(set(kept)) == sorted(set(days))[-2:]


@pytest.mark.feature("usage.without-store")
def test_before_a_session_is_captured_its_calls_are_told_by_its_name_and_its_window_leads_to_the_run(ctx: Ctx):
    ctx("list")
    title = ctx("resume", "latest").stderr.strip().split("  ")[-1]
    for command in ("explain", "cost"):
        assert ctx(command, "latest").stdout.startswith(title)
    assert "none is captured yet: ctx run" in ctx("history", "latest").stderr


@pytest.mark.feature("redaction.everywhere")
def test_a_key_behind_many_blanks_is_in_no_title_before_its_session_is_captured_and_after(ctx: Ctx):
    key = "AIza" + "Sy9Kd72hQw0LmZx4Vb6Nc8Rt1Ue3Yo5PiAa"
    begin = {"timestamp": "2027-03-01T10:00:00.000Z"}
    end = {"usages": [usage(10, 1)], "timestamp": "2027-03-01T10:00:05.000Z"}
    for number, blanks in enumerate((752, 20_000)):
        made = ClaudeHome(ctx.folder / "claude").session(f"7777777{number}-7777-4777-8777-777777777777", cwd="/code/new")
        made.prompt("fix this:\n" + " " * blanks + key + " thanks", **begin)
        made.answer(text("done"), **end).save()
    thread = "019f0000-0000-7000-8000-000000000001"
    codex.write(ctx.folder / "codex", codex.session(thread, prompt="fix this:" + " " * 155 + key), thread)

    shown = [ctx(*command).stdout for command in (("list", "--json"), ("usage", "session"))]
    ctx("sync")
    shown += [ctx(*command).stdout for command in (("list", "--json"), ("usage", "session"))]

    assert [one for one in shown if "fix this:" not in one or key[:6] in one] == []
    assert [one.count("[REDACTED:google-key]") for one in shown[::2]] == [2, 2]

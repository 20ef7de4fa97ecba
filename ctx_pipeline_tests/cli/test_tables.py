"""Tables fit the terminal; pipes get everything."""

from __future__ import annotations

import re

import pytest

from ctx_pipeline.cli.output import local_time, short_ids, table
from ctx_pipeline.cli.usage.tables import _few
from ctx_pipeline.model.display import title_text
from ctx_pipeline.usage.engine import with_names
from ctx_pipeline.usage.repositories import by_repository, project_names
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.preloaded import command
from ctx_pipeline_tests.terminal import on_terminal

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"


def screen(ctx: Ctx, columns: int, *words: str, status: int = 0, **more: str) -> list[str]:
    environ = ctx.environ | {"TERM": "xterm", "NO_COLOR": "1"} | more
    return on_terminal(command(*words, env=environ, cwd=ctx.folder), environ, columns, status=status).splitlines()


def rows_of(lines: list[str], head: str) -> list[str]:
    """Return the lines of a table: from its heading to its total."""
    first = next(n for n, line in enumerate(lines) if line.startswith(head))
    last = next((n for n, line in enumerate(lines) if line.startswith("total")), len(lines) - 1)
    return lines[first : last + 1]


@pytest.mark.feature("cli.table-fits")
@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize(
    ("words", "head"),
    [(("usage", "daily"), "date"), (("usage", "session"), "session"), (("usage", "project"), "project"), (("signal", "summary"), "signal")],
)
def test_no_row_is_wider_than_the_terminal_and_what_is_left_out_is_named(ran: Ctx, columns: int, words: tuple[str, ...], head: str):
    lines = rows_of(screen(ran, columns, *words), head)

    assert max(map(len, lines)) <= columns
    assert len(lines) > 3
    if words[0] == "usage":
        assert lines[0].split()[-1] in {"cost", "share"}


@pytest.mark.feature("cli.table-fits")
def test_a_session_keeps_its_date_title_and_cost_at_sixty_columns(ran: Ctx):
    (line,) = [line for line in screen(ran, 60, "usage", "session") if line.startswith("51b369cc")]

    assert re.fullmatch(r"51b369cc +2026-09-14 08:0\d +Fix rounding.* +\$[\d.]+", line)


@pytest.mark.feature("cli.table-fits")
@pytest.mark.parametrize("columns", [60, 80, 100])
def test_models_keep_their_whole_names(ran: Ctx, columns: int):
    names = {row["model"] for row in ran.json("usage", "model")["rows"] if row["model"]}

    assert names <= {line.split()[0] for line in screen(ran, columns, "usage", "model")}


@pytest.mark.feature("cli.table-fits")
@pytest.mark.parametrize(("columns", "told"), [(60, r"2026-09-14 08:0\d +Fix rounding.* +\$[\d.]+"), (40, r"Fix rounding.* +\$[\d.]+")])
def test_a_list_keeps_title_date_and_cost_longest(ran: Ctx, columns: int, told: str):
    (line,) = [line for line in screen(ran, columns, "list") if line.startswith("51b369cc")]

    assert re.fullmatch(f"51b369cc +{told}", line)


@pytest.mark.feature("cli.table-fits")
def test_every_column_that_is_left_out_is_named_on_as_many_lines_as_it_takes(ran: Ctx):
    lines = screen(ran, 60, "usage", "session")
    first = next(n for n, line in enumerate(lines) if line.startswith("("))
    last = next(n for n, line in enumerate(lines) if line.endswith("--json)"))
    named = "project, host, model, calls, input, output, cache write, cache read, reasoning, share"

    assert " ".join(line.strip() for line in lines[first : last + 1]) == f"({named}: in a wider terminal, or --json)"
    assert max(map(len, lines[first : last + 1])) <= 60


@pytest.mark.feature("cli.table-pipe")
def test_a_pipe_gets_whole_ids_all_columns_and_exact_counts(ran: Ctx):
    lines = ran("usage", "session").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith(DISCOUNTS)]

    assert lines[0].split()[:5] == ["session", "first", "call", "project", "title"]
    assert lines[0].split()[-2:] == ["cost", "share"]
    assert "Fix rounding in discount codes" in line
    assert not any("wider terminal" in one for one in lines)
    assert f"{ran.json('usage', 'session')['totals']['cache_read_tokens']:,}" in next(one for one in lines if one.startswith("total"))


@pytest.mark.feature("cli.no-color")
@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}])
def test_no_style_where_it_is_not_wanted_and_some_where_it_is(ran: Ctx, more: dict[str, str]):
    assert "\x1b[" not in "".join(screen(ran, 80, "usage", "daily", **more))
    assert "\x1b[1m" in "".join(screen(ran, 80, "usage", "daily", NO_COLOR=""))


@pytest.mark.feature("cli.sort-limit")
def test_rows_are_sorted_and_limited_and_the_rest_is_counted(ran: Ctx):
    by_cost = ran("usage", "session", "--sort", "cost", "--limit", "2").stdout.splitlines()
    newest = [line[:8] for line in ran("usage", "session").stdout.splitlines()[1:7]]
    costs = {row["session_id"]: 0.0 for row in ran.json("usage", "session")["rows"]}
    for row in ran.json("usage", "session")["rows"]:
        costs[row["session_id"]] += row["cost_usd"]
    dearest = sorted(costs, key=costs.__getitem__, reverse=True)

    assert [line.split()[0] for line in by_cost[1:3]] == dearest[:2]
    assert "4 more: --limit 6" in by_cost
    assert newest == ["0333c65c", "019a72be", "5d830f44", "019a258d", "c823d9cd", "51b369cc"]
    assert [row["session_id"] for row in ran.json("usage", "session", "--sort", "cost", "--limit", "1")["rows"]] == dearest[:1]
    days = [line[:10] for line in ran("usage", "daily", "--limit", "2").stdout.splitlines()[1:3]]
    assert days == ["2026-10-08", "2026-10-19"]


@pytest.mark.feature("cli.months")
def test_a_month_is_printed_as_a_month(ran: Ctx):
    assert [line.split()[0] for line in ran("usage", "monthly").stdout.splitlines()[:3]] == ["month", "2026-09", "2026-10"]


@pytest.mark.feature("cli.local-times")
def test_times_are_those_of_the_zone_which_is_said_once(ran: Ctx):
    tokyo = Ctx(ran.folder, ran.environ | {"TZ": "Asia/Tokyo"})
    shown, windows, listed = tokyo("show", "51b3").stdout, tokyo("usage", "blocks").stdout, tokyo("list").stdout

    assert "2026-09-14 17:0" in shown
    assert all(text.count("Asia/Tokyo") == 1 for text in (shown, windows, listed))
    start = windows.splitlines()[1][:16]
    assert f"window {start}" in tokyo("explain", start, "--by", "blocks").stdout


@pytest.mark.feature("cli.short-ids")
def test_times_ids_and_titles_read_as_people_read_them():
    assert local_time("2026-10-01T23:30:00.000Z", "Asia/Tokyo") == "2026-10-02 08:30"
    assert local_time(0, "UTC", seconds=True) == "1970-01-01 00:00:00"
    assert local_time(None, "UTC") == ""
    assert short_ids(["0123456789ab", "0123456799ab", "ff000000-0000"], ()) == {
        "0123456789ab": "012345678",
        "0123456799ab": "012345679",
        "ff000000-0000": "ff000000",
    }
    begin = "019f0000-000d-7000-8000-0000000000"
    assert short_ids([f"{begin}02", f"{begin}08", "019f0001-0000"], {f"{begin}18", "019f0001-0000"}) == {
        f"{begin}02": "019f0000…0002",
        f"{begin}08": "019f0000…0008",
        "019f0001-0000": "019f0001",
    }
    assert title_text("## why is [the build](https://x.y/z) **red**?") == "why is the build red?"
    assert title_text("see [https://github.com/a/b/pull/1") == "see github.com/a/b/pull/1"
    for whole in (
        "[REDACTED:password]",
        "why is [REDACTED:github-token]",
        "cut at [REDACTED:git",
        "[REDACTED:npm-token](and this)",
        "[WIP]",
    ):
        assert title_text(whole) == whole


@pytest.mark.feature("cli.one-row-a-repository")
def test_clones_and_worktrees_of_a_repository_are_one_row():
    def row(project: str, repository: str, cost: int) -> dict:
        return {"project": project, "repository": repository, "hosts": ["claude"], "models": {"m": (cost, 1)}, "cost_nano": cost}

    rows = [
        row("cli", "/home/a/cli", 1),
        row("cli", "/home/b/src/cli", 2),
        row("cli", "/home/c/cli", 4),
        row("web", "github.com/one/web", 8),
        row("web", "github.com/two/web", 16),
        row("web", "/home/a/web", 32),
        row("api", "github.com/one/api", 64),
        row("api", "/home/a/api", 128),
    ]
    found = {one["project"]: one["cost_nano"] for one in by_repository(rows, ["cost_nano"])}

    assert found == {"cli": 7, "one/web": 8, "two/web": 16, "/home/a/web": 32, "api": 192}
    for one in rows:
        named = {name for name in found if name in project_names(one["project"], one["repository"])}
        assert named
        assert "cli" in named or one["project"] != "cli"


@pytest.mark.feature("cli.one-row-a-repository")
@pytest.mark.parametrize("turn", [1, -1])
def test_a_repository_of_several_folders_has_its_remote_and_the_model_that_cost_most_first(turn: int):
    rows = [
        {"project": "p", "repository": "github.com/one/p", "hosts": ["claude"], "models": {"a": (6, 1), "b": (5, 1)}, "cost_nano": 11},
        {"project": "p", "repository": None, "hosts": ["codex"], "models": {"b": (10, 1)}, "cost_nano": 10},
        {"project": "p", "repository": "/home/a/p", "hosts": ["codex"], "models": {"b": (30, 2)}, "cost_nano": 30},
    ]
    (one,) = with_names(by_repository(rows[::turn], ["cost_nano"]))

    assert (one["repository"], one["models"], one["cost_nano"]) == ("github.com/one/p", ["b", "a"], 51)


@pytest.mark.feature("cli.session-near")
@pytest.mark.parametrize("name", ["51b369cd", "codes errors", "qqqqqqqq"])
def test_the_sessions_that_a_wrong_name_gets_fit_sixty_columns_and_are_named_so_that_they_are_found(ran: Ctx, name: str):
    lines = screen(ran, 60, "show", name, status=1)
    listed = [line.split()[0] for line in lines if re.match(r"  (claude|codex)/", line)]

    assert max(map(len, lines)) <= 60
    assert listed
    for one in listed:
        assert ran.json("resume", one)["session_id"].startswith(one.partition("/")[2].partition("…")[0])
    assert any("Fix rounding" in line for line in lines) or name == "qqqqqqqq"


@pytest.mark.feature("cli.unknown-filter")
def test_a_name_that_nothing_is_near_gets_the_most_used_ones_and_the_command_for_all(ctx: Ctx):
    home = ClaudeHome(ctx.folder / "claude")
    for number, folder in enumerate(["aaa", "bbb", "ccc", "ddd", "often"]):
        one = home.session(f"{number:08d}-1111-4111-8111-111111111111", cwd=f"/home/dev/{folder}", mark=folder).prompt("x")
        for _ in range(40 if folder == "often" else 1):
            one.answer(text("done"))
        one.save()
    said = ctx("cost", "--project", "qzqzqz", ok=False).stderr
    home.session("99999999-1111-4111-8111-111111111111", cwd="/home/dev/quiet", mark="quiet").prompt("x").save()
    ctx("sync")
    quiet = ctx("list", "--project", "qzqzqz", ok=False).stderr
    rows = {row["project"] for row in ctx.json("usage", "project")["rows"]} - {None, ""}
    captured = {row["project"] for row in ctx.json("list", "--all", "--limit", "1000")["sessions"]} - {None, ""}

    assert captured == {*rows, "quiet"}
    assert f"hint: most used of {len(rows)}: often, bookshop-api, trail-map, aaa, bbb; all of them: ctx usage project" in said
    assert (
        f"hint: most used of {len(captured)}: often, bookshop-api, trail-map, aaa, bbb; those with model calls: ctx usage project" in quiet
    )


@pytest.mark.feature("cli.usage-days")
def test_calls_without_a_time_are_explained_below_the_table_and_left_out_of_days(ctx: Ctx):
    one = ClaudeHome(ctx.folder / "claude").session("88888888-8888-4888-8888-888888888888").prompt("x")
    one.answer(text("done"), timestamp=None)
    one.save()

    assert "(no time): 1 call is recorded without one; --since and --until leave them out" in ctx("usage", "weekly").stdout
    assert "(no time)" not in ctx("usage", "daily", "--since", "2020-01-01").stdout
    assert "(no time)" not in ctx("usage", "project").stdout


@pytest.mark.feature("cli.signal")
def test_readings_of_one_session_are_exact_and_one_of_something_is_singular(ran: Ctx):
    said = ran("signal", "show", DISCOUNTS[:8]).stdout
    values = {r["signal"]: r for r in ran.json("signal", "show", DISCOUNTS[:8])["readings"] if r["value"] is not None}

    ones = [r for r in values.values() if r["value"] == 1 and r["unit"].endswith("s") and r["kind"] != "boolean"]
    assert {r["unit"] for r in ones} & {"runs", "searches", "messages", "commands", "files"}
    for r in ones:
        assert re.search(rf"^{r['signal']}: 1 {r['unit'][:-1] if r['unit'] != 'searches' else 'search'}\b(?!e?s)", said, re.MULTILINE), r[
            "unit"
        ]
    spent = values["session_tokens"]["value"]
    assert f"session_tokens: {spent:,.0f} tokens" in said


@pytest.mark.feature("cli.piped-width")
def test_a_pipe_has_the_width_that_columns_says_and_none_without(ran: Ctx):
    narrow = Ctx(ran.folder, ran.environ | {"COLUMNS": "60"})("list").stdout.splitlines()
    (line,) = [line for line in narrow if line.startswith("51b369cc")]

    assert re.fullmatch(r"51b369cc +2026-09-14 08:0\d +Fix rounding.* +\$[\d.]+", line)
    assert any(line.endswith("in a wider terminal, or --json)") for line in narrow)
    assert max(map(len, narrow)) <= 60
    whole = Ctx(ran.folder, ran.environ | {"COLUMNS": ""})("list").stdout
    assert DISCOUNTS in whole
    assert Ctx(ran.folder, ran.environ | {"COLUMNS": "0"})("list").stdout == whole


@pytest.mark.feature("cli.table-fits")
@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_comparison_keeps_what_it_compares(ran: Ctx, columns: int):
    lines = screen(ran, columns, "explain", "2026-10", "--against", "ccusage")
    heads = [line.strip() for line in lines if line.endswith(("cost, prices of the day", "ccusage prints"))]

    assert len(heads) == 2
    assert sum("$0.173777" in line for line in lines) >= 3


@pytest.mark.feature("usage.models-of-a-row")
def test_the_model_of_a_row_is_the_most_expensive_one_and_never_cut(bare: Ctx):
    home = claude.ClaudeHome(bare.folder / "claude")
    main = home.session().prompt("mend it")
    for model, output in (("claude-3-5-haiku-20241022", 10), ("claude-opus-4-1-20250805", 9_000), ("claude-sonnet-4-20250514", 50)):
        main.answer(claude.text("ok"), usages=[claude.usage(10, output)], model=model)
    main.save()
    bare.environ["CLAUDE_CONFIG_DIR"] = str(bare.folder / "claude")

    for columns in (60, 80, 100, 120):
        for by in ("daily", "project", "session"):
            lines = screen(bare, columns, "usage", by)
            assert max(map(len, lines)) <= columns
            assert "model" not in lines[0].split() or "claude-opus-4-1 and 2 more" in lines[1], (columns, by)
    assert "model" in screen(bare, 100, "usage", "project")[0].split()


@pytest.mark.feature("cli.table-fits")
def test_how_many_models_a_day_had_is_told_at_any_width(capsys, monkeypatch: pytest.MonkeyPatch):
    names = ["claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101", "gpt-5-codex"]
    for columns in ("46", "70"):
        monkeypatch.setenv("COLUMNS", columns)
        table([{"day": "2026-03-05", "model": _few(names), "cost": "$0.10"}], {"day": "day", "model": "model", "cost": "cost"})
        told = capsys.readouterr().out.splitlines()[1]
        assert len(told) <= int(columns)
        assert re.search(r" claude-\S* and 2 more +\$0\.10$", told)
    monkeypatch.setenv("COLUMNS", "70")
    assert _few(names[:2]) == "claude-sonnet-4-5 and 1 more"
    assert _few(names[:1], whole=True) == names[0]
    monkeypatch.delenv("COLUMNS")
    assert _few(names[:2]) == ", ".join(names[:2])


@pytest.mark.feature("cli.table-paths")
@pytest.mark.parametrize(
    ("columns", "shown"),
    [("30", "coderabbi…: …/helpers/feed.py"), ("40", "coderabbit-rev…: scripts/helpers/feed.py"), ("14", "cod…: …feed.py"), ("2", "…y")],
)
def test_a_long_path_keeps_its_end_and_what_its_project_begins_with(monkeypatch, capsys, columns: str, shown: str):
    monkeypatch.setenv("COLUMNS", columns)
    table([{"path": "coderabbit-review-helper: scripts/helpers/feed.py"}], {"path": "file"}, paths=("path",), keep=())
    assert capsys.readouterr().out.splitlines()[1:] == [shown]

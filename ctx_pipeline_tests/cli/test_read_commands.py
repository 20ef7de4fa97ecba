"""The commands that read: list, show, usage, search, sql, signal, doctor, status."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.claude import ClaudeHome

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
ROW_KEYS = {
    "host",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "reasoning_tokens",
    "calls",
    "cost_usd",
    "cost_source",
}


def recorded(ctx: Ctx) -> tuple[int, int, int]:
    """Return calls, output and cache-read tokens, counted from the files by this test alone."""
    calls: dict[str, tuple[int, int]] = {}
    for path in (ctx.folder / "claude" / "projects").rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            message = json.loads(line).get("message") or {}
            if "usage" in message:
                usage = message["usage"]
                calls[message["id"]] = (usage["output_tokens"], usage["cache_read_input_tokens"])
    count, output, cached = len(calls), sum(o for o, _ in calls.values()), sum(c for _, c in calls.values())
    for path in (ctx.folder / "codex" / "sessions").rglob("*.jsonl"):
        totals = [
            record["payload"]["info"]["total_token_usage"]
            for record in map(json.loads, path.read_text().splitlines())
            if record["payload"].get("type") == "token_count"
        ]
        distinct = {t["total_tokens"] for t in totals}
        count, output, cached = count + len(distinct), output + totals[-1]["output_tokens"], cached + totals[-1]["cached_input_tokens"]
    return count, output, cached


@pytest.mark.feature("cli.usage")
@pytest.mark.parametrize(("by", "key"), [("daily", "date"), ("session", "session_id"), ("project", "project"), ("model", "model")])
def test_usage_adds_up_to_what_the_files_say_however_it_is_grouped(ran: Ctx, by: str, key: str):
    report = ran.json("usage", by)
    rows, totals = report["rows"], report["totals"]

    assert all({*ROW_KEYS, key} <= set(row) for row in rows)
    assert (totals["calls"], totals["output_tokens"], totals["cache_read_tokens"]) == recorded(ran)
    assert sum(row["output_tokens"] for row in rows) == totals["output_tokens"]
    assert totals["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows), abs=1e-9)
    assert {row["cost_source"] for row in rows} == {"calculated"}


@pytest.mark.feature("cli.usage-days")
def test_days_are_those_of_the_asked_timezone(ran: Ctx):
    def days(zone: str) -> list[str]:
        return sorted({row["date"] for row in ran.json("usage", "daily", "--host", "codex", "--timezone", zone)["rows"]})

    assert days("UTC") == ["2026-09-30", "2026-10-08"]
    assert days("Asia/Tokyo") == ["2026-09-30", "2026-10-09"]
    assert [r["date"] for r in ran.json("usage", "daily", "--since", "2026-10-01", "--until", "2026-10-05")["rows"]] == ["2026-10-03"]


@pytest.mark.feature("cli.list")
def test_list_shows_captured_and_new_sessions_newest_first_with_a_resume_command(ran: Ctx):
    listing = ran.json("list", "--host", "claude", "--limit", "3")

    assert listing["counts"] == {"claude": 4}
    assert len(listing["sessions"]) == 3
    assert {s["state"] for s in listing["sessions"]} == {"captured"}
    assert all(s["session_id"] in s["resume"] for s in listing["sessions"])
    last = [s["last"] for s in listing["sessions"]]
    assert last == sorted(last, reverse=True)
    assert len(set(last)) == 3


@pytest.mark.feature("cli.list")
def test_list_works_before_anything_was_captured(ctx: Ctx):
    listing = ctx.json("list")

    assert {s["state"] for s in listing["sessions"]} == {"new"}
    assert {host: number for host, number in listing["counts"].items() if number} == {"claude": 4, "codex": 2}
    assert {(s["project"], s["title"]) for s in listing["sessions"]} >= {("bookshop-api", "CSV export for orders")}


@pytest.mark.feature("cli.show")
def test_show_tells_what_happened_in_a_session(ran: Ctx):
    detail = ran.json("show", "claude", DISCOUNTS[:8])

    assert detail["session"]["title"] == "Fix rounding in discount codes"
    assert detail["session"]["project"] == "bookshop-api"
    assert (detail["session"]["unknown"], detail["session"]["quarantined"]) == (0, 0)
    assert detail["kinds"]["prompt"] == 3
    assert detail["kinds"]["tool_call"] == detail["kinds"]["tool_result"] == 7
    assert detail["session"]["failed_tool_calls"] == 2
    assert DISCOUNTS in detail["resume"]


@pytest.mark.feature("cli.errors")
def test_an_unknown_session_is_an_error_with_the_nearest_ids_and_exit_1(ran: Ctx):
    done = ran("show", "claude", "51b369cd", ok=False)

    assert done.returncode == 1
    assert done.stdout == ""
    assert "hint:" in done.stderr
    assert DISCOUNTS in done.stderr


@pytest.mark.feature("cli.errors")
@pytest.mark.parametrize("words", [["nonsense"], ["import", "claude"], ["usage", "daily", "--since", "soon"], ["backfill"]])
def test_wrong_usage_is_exit_2(ran: Ctx, words: list[str]):
    done = ran(*words, ok=False)

    assert done.returncode == 2, done.stderr
    assert done.stderr


@pytest.mark.feature("cli.errors")
def test_reading_without_a_store_says_what_to_run(bare: Ctx):
    done = bare("signal", "summary", ok=False)

    assert done.returncode == 1
    assert "ctx run" in done.stderr


@pytest.mark.feature("cli.errors")
@pytest.mark.parametrize(
    "words",
    [
        *(["history", "latest"], ["search", "upload"], ["open"], ["heatmap", "--all"], ["signal", "summary"]),
        *(["work", *more] for more in ([], ["--by-day"], ["--time"], ["--errors"], ["--flaky"])),
    ],
)
def test_before_the_first_run_a_command_that_needs_a_store_names_the_one_that_makes_it(ctx: Ctx, words: list[str]):
    done = ctx(*words, ok=False)

    said = "there is no page yet" if words == ["open"] else "nothing was captured yet"
    assert done.stderr.splitlines() == [f"ctx: {said}", "hint: ctx run"]


@pytest.mark.feature("cli.search")
def test_search_finds_prompts_commands_and_output_and_says_how_to_resume(ran: Ctx):
    found = ran.json("search", "freezegun")

    assert {hit["session_id"] for hit in found["hits"]} == {DISCOUNTS}
    assert {hit["kind"] for hit in found["hits"]} >= {"tool_call", "tool_result"}
    assert all("freezegun" in hit["snippet"] for hit in found["hits"])
    assert all(DISCOUNTS in hit["resume"] for hit in found["hits"])


@pytest.mark.feature("cli.search")
def test_a_question_as_typed_finds_its_session(ran: Ctx):
    found = ran.json("search", "why", "is", "the", "map", "so", "slow", "on", "my", "phone?")

    assert found["hits"][0]["title"] == "Make the map fast on phones"


@pytest.mark.feature("cli.sql")
def test_sql_answers_over_the_tables_and_refuses_to_write_or_to_read_elsewhere(ran: Ctx):
    answer = ran.json("sql", "select host, count(*) as n from sessions group by 1 order by 1")

    assert answer == {"columns": ["host", "n"], "rows": [{"host": "claude", "n": 4}, {"host": "codex", "n": 2}]}
    for query in (
        "drop view sessions",
        "select 1; select 2",
        "select * from read_csv('/etc/hosts')",
        "selec 1",
        "copy sessions to '/tmp/x.csv'",
    ):
        done = ran("sql", query, ok=False)
        assert done.returncode == 2, query


@pytest.mark.feature("dashboard.first-signals")
def test_cost_corrections_checks_failing_commands_and_rebuilds_stand_first_wherever_signals_are_printed(ran: Ctx):
    five = ["session_cost", "user_correction_count", "last_test_outcome", "failed_command_count", "cache_rebuild_tokens"]
    shown = re.findall(r"(?m)^(\w+): ", ran("signal", "show", "claude", DISCOUNTS).stdout)
    added_up = re.findall(r"(?m)^(?:\w+ +)?([a-z]+(?:_\w+)+) ", ran("signal", "summary").stdout)
    every = re.findall(r"(?m)^([a-z]+(?:_\w+)+) ", ran("show", DISCOUNTS, "--all").stdout.partition("\nsignal ")[2])
    for printed in (shown, added_up, every):
        assert [name for name in printed[:6] if name in five] == [name for name in five if name in printed]
    few = ran("show", DISCOUNTS).stdout.partition("\nsignal ")[2]
    assert few.split("\n")[1].startswith("session cost ")


@pytest.mark.feature("cli.signal")
def test_signals_are_listed_and_a_session_shows_its_readings_with_quoted_evidence(ran: Ctx):
    catalogue = {s["signal"]: s for s in ran.json("signal", "list")["signals"]}
    shown = {r["signal"]: r for r in ran.json("signal", "show", "claude", DISCOUNTS)["readings"]}

    assert len(catalogue) >= 6
    assert set(shown) == set(catalogue)
    assert shown["failed_command_count"]["value"] == 2
    assert any("freezegun" in e["text"] for e in shown["failed_command_count"]["evidence"])
    assert shown["user_correction_count"]["value"] == 1
    assert all(s["how_to_read"] for s in catalogue.values())


@pytest.mark.feature("cli.doctor")
def test_doctor_finds_a_fresh_store_whole(ran: Ctx):
    report = ran.json("doctor")

    assert report["damaged"] == []
    assert report["quarantined"] == []
    assert report["vanished"] == 0


@pytest.mark.feature("cli.doctor", "doctor.rebuilt-sources")
def test_doctor_names_damage_and_after_a_rebuild_what_is_really_gone(ran: Ctx, tmp_path):
    shutil.copytree(ran.store, tmp_path / "store")
    copy = Ctx(ran.folder, {**ran.environ, "CTX_HOME": str(tmp_path / "store")})
    part = min((copy.store / "lake" / "events").rglob("*.parquet"))
    part.unlink()
    done = copy("doctor", ok=False)
    assert done.returncode == 1
    assert part.name in done.stdout

    rebuilt = json.loads(copy("doctor", "--rebuild-ledger", "--json", ok=False).stdout)
    assert rebuilt["vanished"] == 0
    assert [d["path"].rpartition("/")[2] for d in rebuilt["damaged"] if "lake/" in d["path"]] == [part.name]
    copy("run")
    assert copy.json("doctor")["damaged"] == []
    gone = min((ran.folder / "claude" / "projects").rglob("*.jsonl"))
    gone.rename(tmp_path / "kept.jsonl")
    try:
        assert "1 source kept here and gone from the homes" in copy("doctor").stdout
    finally:
        (tmp_path / "kept.jsonl").rename(gone)


@pytest.mark.feature("cli.status")
def test_status_after_a_run_is_all_fresh(ran: Ctx):
    report = ran.json("status")

    assert report["nothing_to_do"] is True
    assert all(a["stale"] == a["missing"] == 0 for a in report["assets"] if a["filled_by"] == "run")
    assert [a["asset"] for a in report["assets"] if a["missing"]] == ["tokens/exact", "memory/effect"]
    assert "ctx backfill tokens/exact" in ran("status").stdout
    assert {"raw/segments", "normalized/events", "signals/outcomes", "dashboard/site"} <= {a["asset"] for a in report["assets"]}


@pytest.mark.feature("cli.piped-output")
def test_piped_output_has_no_colour_and_no_wrapping(ran: Ctx):
    text = ran("usage", "session").stdout

    assert "\x1b" not in text
    assert any(DISCOUNTS in line and "$" in line for line in text.splitlines())


@pytest.mark.feature("cli.no-terminal-escapes")
def test_commands_print_through_one_function_that_leaves_out_what_a_terminal_obeys():
    from ctx_pipeline.cli import output

    folder = Path(output.__file__).parent
    others = [p.name for p in folder.glob("*.py") if p.name != "output.py" and re.search(r"click\.s?echo|\bprint\(", p.read_text())]

    assert others == []
    assert output.plain("a\x1b]0;owned\x07b\x1b[2Jc\u202ed\u009b31me\tf\ng") == "abcde\tf\ng"


@pytest.mark.feature("cli.no-terminal-escapes")
def test_a_hostile_branch_reaches_no_terminal(ctx: Ctx):
    path = next((ctx.folder / "claude" / "projects" / "-home-sam-code-trail-map").glob("*.jsonl"))
    path.write_text(path.read_text().replace('"gitBranch":"main"', '"gitBranch":"\\u001b]0;owned\\u0007\\u009b2J"'))
    ctx("sync")
    session = path.stem

    shown = ctx("show", "claude", session).stdout
    assert "owned" not in shown
    assert not {"\x1b", "\x07", "\u009b"} & set(shown)
    text = ctx("show", "claude", session, "--json").stdout
    assert not {"\x1b", "\x07", "\u009b"} & set(text)
    assert json.loads(text)["session"]["branch"] == "\x1b]0;owned\x07\u009b2J"


@pytest.mark.feature("cli.blocks-limit")
def test_blocks_are_limited_to_the_newest(ran: Ctx):
    every = ran.json("usage", "blocks")["blocks"]
    newest = ran.json("usage", "blocks", "--limit", "2")["blocks"]

    assert newest == every[-2:]
    assert f"\n{len(every) - 2} more: --limit {len(every)}\n" in ran("usage", "blocks", "--limit", "2").stdout


@pytest.mark.feature("cli.nothing-typed")
def test_a_session_in_which_nobody_typed_anything_says_so_wherever_it_is_named(ctx: Ctx):
    home = ClaudeHome(ctx.folder / "claude")
    main = home.session("99999999-9999-4999-8999-999999999999", cwd="/home/dev/silent")
    main.answer({"type": "text", "text": "Hello, I am ready."}).save()
    for agent, task in (("a1a1a1a", "Warmup"), ("b2b2b2b", "Find the leak in the pool")):
        below = home.agent(agent, "88888888-8888-4888-8888-888888888888", cwd="/home/dev/silent")
        below.prompt(task).answer({"type": "text", "text": "done"}).save()
    before = ctx("list", "--project", "silent").stdout
    ctx("run")

    shown = [
        ctx(*words).stdout for words in (["list", "--project", "silent"], ["usage", "session", "--project", "silent"], ["show", "9999"])
    ]
    page = (ctx.store / "site" / "data" / "sessions.js").read_text("utf-8")

    assert all("(no title)" in text for text in (before, *shown, page))
    assert all("subagent: Find the leak in the pool" in text for text in (*shown[:2], page)), "the first task that says something"


@pytest.mark.feature("session.gain-called")
def test_gain_without_a_name_is_of_the_newest_session_that_called_a_model(ctx: Ctx):
    home, where = ClaudeHome(ctx.folder / "claude"), str(ctx.folder)
    names = [f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "78"]
    for name, moment, called in zip(names, ("2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z"), (True, False), strict=True):
        main = home.session(name, cwd=where)
        main.prompt("go on", timestamp=moment)
        if called:
            main.answer({"type": "text", "text": "done"}, timestamp=moment)
        main.save()
    ctx("sync")
    assert names[0] in ctx("gain").stdout.splitlines()[0]
    assert names[1] in ctx("gain", names[1]).stdout.splitlines()[0]


@pytest.mark.feature("cli.show-restamped")
@pytest.mark.parametrize(("answers", "stamp", "said"), [(49, "500", False), (60, "500", True), (60, "{:03}", False)])
def test_a_session_whose_records_carry_one_time_says_that_it_is_that_of_a_copy(ctx: Ctx, answers: int, stamp: str, said: bool):
    home = ctx.folder / "claude" / "projects" / "-copy"
    home.mkdir(parents=True)
    lines = []
    for number in range(answers):
        body = {"id": f"m{number}", "role": "assistant", "model": "claude-opus-4-1", "content": [{"type": "text", "text": "done"}]}
        time = f"2026-03-01T10:00:00.{stamp.format(number)}Z"
        lines.append(json.dumps({"type": "assistant", "uuid": f"u{number}", "timestamp": time, "cwd": "/code/copy", "message": body}))
    (home / "88888888-8888-4888-8888-888888888888.jsonl").write_text("\n".join(lines) + "\n")
    ctx("sync")

    told = ctx.json("show", "8888")["restamped"]
    shown = ctx("show", "8888").stdout

    assert (told["events"] if told else 0) == answers * said
    assert ("carry the same time, 2026-03-01 10:00:00: it is that of a copy" in shown) == said


@pytest.mark.feature("cli.show-subagents")
def test_show_says_what_a_subagent_was_asked_to_do_and_what_it_answered(ran: Ctx):
    main, agent = ran.json("show", "CSV export for orders")["threads"]
    shown = ran("show", "CSV export for orders").stdout

    assert (main["task"], agent["task"]) == (None, "Find how invoices are exported and report files and conventions")
    assert agent["answer"].startswith("bookshop/invoices/export.py writes CSV with csv.DictWriter")
    assert agent["task"] in next(line for line in shown.splitlines() if line.startswith("subagent  a1c9e77 "))
    assert ran("history", "CSV export for orders", "--thread", "a1c9e77").stdout.splitlines()[1].count(", subagent thread, ") == 1


@pytest.mark.feature("usage.per-commit")
def test_outcomes_name_the_host_of_each_row(ran: Ctx):
    lines = ran("usage", "outcomes", "--by", "host").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["claude", "codex", "total"]


@pytest.mark.feature("search.resume")
def test_an_archived_session_is_taken_out_of_the_archive_before_it_is_resumed(ctx: Ctx):
    rollout = next((ctx.folder / "codex" / "sessions").rglob("rollout-*.jsonl"))
    session = rollout.stem[-36:]
    archive = ctx.folder / "codex" / "archived_sessions"
    archive.mkdir()
    rollout.rename(archive / rollout.name)
    ctx("sync")

    folder = shlex.quote(ctx.json("show", session)["session"]["cwd"])
    command = f"cd {folder} && codex unarchive {session} && codex resume {session}"
    assert ctx("resume", session).stdout.strip() == command
    assert [ctx.json("show", session)["resume"], ctx.json("session", "load", session)["command"]] == [command, command]
    assert command in {row["resume"] for row in ctx.json("list")["sessions"]}

"""The list of sessions: filters, order, one limit, and sessions in which nothing happened."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter

import pytest

from ctx_pipeline.model.display import money
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.claude import ClaudeHome, text


@pytest.mark.feature("cli.list-filters")
def test_the_list_takes_project_days_order_and_one_limit(ran: Ctx):
    everything = ran.json("list", "--limit", "100")
    rows = everything["sessions"]

    assert everything["total"] == len(rows) == sum(everything["counts"].values())
    assert [r["last"] for r in rows] == sorted((r["last"] for r in rows), reverse=True)
    for amount, heading in (("size", "size"), ("calls", "model calls"), ("time", "time")):
        assert f"  {heading}" in ran("list", "--sort", amount).stdout.splitlines()[0], "what a list is ordered by is in it"
    by_time = ran.json("list", "--sort", "time", "--limit", "2")["sessions"]
    longest = ran.json("work", "--time")["sessions"][:2]
    assert [r["session_id"] for r in by_time] == [r["session_id"] for r in longest]
    assert by_time[0]["seconds"] >= by_time[1]["seconds"] > 0
    by_cost = ran.json("list", "--sort", "cost", "--limit", "2")["sessions"]
    assert [r["session_id"] for r in by_cost] == [r["session_id"] for r in sorted(rows, key=lambda r: -(r["cost_usd"] or 0))[:2]]
    assert {r["host"] for r in rows} == {"claude", "codex"}
    project = rows[0]["project"]
    assert {r["session_id"] for r in ran.json("list", "--project", project)["sessions"]} == {
        r["session_id"] for r in rows if r["project"] == project
    }
    assert ran.json("list", "--since", "2026-09-22")["total"] + ran.json("list", "--until", "2026-09-21")["total"] == len(rows)
    spent = {r["session_id"]: r["cost_usd"] for r in ran.json("usage", "session")["rows"]}
    assert {r["session_id"]: pytest.approx(r["cost_usd"]) for r in rows if r["cost_usd"]} == spent


@pytest.mark.feature("cli.list-filters")
@pytest.mark.parametrize("words", [("--project", "bookshop-api"), ("--since", "2026-09-22"), ("--signal", "tool_call_count")])
def test_the_footer_counts_what_the_filters_keep_beyond_the_limit_too(ran: Ctx, words: tuple[str, ...]):
    rows = ran.json("list", "--limit", "100", *words)["sessions"]
    shown = ran.json("list", "--limit", "1", *words)
    counts = Counter(row["host"] for row in rows)

    assert len(rows) > 0
    assert (shown["total"], {host: count for host, count in shown["counts"].items() if count}) == (len(rows), counts)
    assert f"{', '.join(f'{count} {host}' for host, count in sorted(counts.items()))}; times in " in ran("list", *words).stdout


@pytest.mark.feature("cli.list-filters")
def test_a_pipe_gets_the_same_columns_whatever_is_listed(ran: Ctx):
    heads = {
        ran("list", *words).stdout.splitlines()[0].split("host")[1].strip() for words in ((), ("--host", "codex"), ("--host", "claude"))
    }

    assert {" ".join(head.split()) for head in heads} == {"state deleted in"}
    assert all(line.endswith("  never") for line in ran("list", "--host", "codex").stdout.splitlines()[1:3]), "it deletes nothing"


@pytest.mark.feature("cli.list-filters")
def test_the_rest_is_counted_and_the_limit_that_shows_it_is_named(ran: Ctx):
    assert "5 more: --limit 6" in ran("list", "--limit", "1").stdout


@pytest.mark.feature("cli.list-filters")
def test_sessions_in_which_nothing_happened_are_left_out_and_counted(ctx: Ctx):
    folder = ctx.folder / "claude" / "projects" / "-empty"
    folder.mkdir()
    line = {"type": "summary", "summary": "nothing", "leafUuid": "00000000-0000-4000-8000-000000000000"}
    (folder / "11111111-2222-4333-8444-555555555555.jsonl").write_text(json.dumps(line) + "\n")
    ctx("sync")
    shown = ctx.json("list")

    assert (len(shown["sessions"]), shown["total"], shown["empty"]) == (6, 6, 1)
    assert len(ctx.json("list", "--all")["sessions"]) == 7
    assert "1 session in which nothing happened left out: --all" in ctx("list").stdout


@pytest.mark.feature("cli.list-by-signal", "cli.list-unchecked")
def test_sessions_are_listed_by_what_a_signal_reads_the_largest_first(ran: Ctx):
    def readings(*words: str) -> dict[str, float | str]:
        return {s["session_id"]: s["reading"] for s in ran.json("list", *words)["sessions"]}

    rows = ran.json("sql", "SELECT session_id, signal, kind, value, label FROM readings")["rows"]
    calls = {r["session_id"]: r["value"] for r in rows if r["signal"] == "tool_call_count" and r["value"]}
    found = readings("--signal", "tool_call_count")
    assert found == calls
    assert list(found.values()) == sorted(found.values(), reverse=True)
    most = max(calls.values())
    assert readings("--signal", "tool_call_count", "--at-least", f"{most:g}") == {s: v for s, v in calls.items() if v == most}
    ends = {r["session_id"]: r["label"] for r in rows if r["signal"] == "last_test_outcome" and r["label"]}
    assert readings("--signal", "last_test_outcome") == ends
    assert readings("--signal", "last_test_outcome=passed") == {s: e for s, e in ends.items() if e == "passed"}
    unchecked = {r["session_id"] for r in rows if r["signal"] == "trajectory_premature_finish_without_validation" and r["value"]}
    changed = readings("--unchecked")
    assert set(changed) == unchecked
    accesses = ran.json("sql", "SELECT session_id, path, did FROM file_accesses WHERE did IN ('edit', 'write', 'create')")["rows"]
    for session, path in changed.items():
        assert path in {row["path"] for row in accesses if row["session_id"] == session}
    shown = ran("list", "--unchecked").stdout.splitlines()
    assert "changed, not checked" in shown[0]
    assert all(str(path).rpartition("/")[2] in "\n".join(shown) for path in changed.values())
    assert "tool_call_count" in ran("list", "--signal", "tool_call_count").stdout.splitlines()[0]


@pytest.mark.feature("cli.list-by-signal")
@pytest.mark.parametrize(
    ("signal", "told"),
    [
        ("context_peak_tokens", r"[\d.]+ k tokens"),
        ("context_peak_share", r"\d+%"),
        ("tool_call_count", r"\d+ calls?"),
        ("session_cost", r"\$[\d.]+"),
    ],
)
def test_readings_are_told_with_their_unit_as_one_session_tells_them(ran: Ctx, signal: str, told: str):
    line = ran("list", "--signal", signal).stdout.splitlines()[1]
    session = line.split()[0]
    shown = next(line for line in ran("show", session, "--all").stdout.splitlines() if line.startswith(f"{signal} "))

    reading = re.search(rf" (?:claude|codex) +({told}) +captured", line)
    assert reading, line
    assert f" {reading[1]} " in shown


@pytest.mark.feature("cli.list-by-signal")
def test_a_value_that_a_signal_may_have_is_no_error_where_no_session_has_it(ran: Ctx):
    assert ran("list", "--signal", "last_test_outcome=none").stdout.startswith("no session fits; last_test_outcome was measured in ")


@pytest.mark.feature("cli.list-by-signal")
@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--signal", "tool_cal_count"), 1, "did you mean tool_call_count"),
        (("--signal", "last_test_outcome=bogus"), 1, "last_test_outcome is 'bogus' in no session\nhint: its values, with their sessions: "),
        (("--signal", "tool_call_count=three"), 2, "tool_call_count reads numbers"),
        (("--signal", "last_test_outcome", "--at-least", "2"), 2, "last_test_outcome reads words"),
        (("--at-least", "2"), 2, "--at-least goes with --signal"),
        (("--unchecked", "--signal", "tool_call_count"), 2, "--unchecked, --not-passed and --uncommitted go one at a time"),
        (("--file", "a.py", "--unchecked"), 2, "--unchecked, --not-passed and --uncommitted go one at a time"),
        (("--unchecked", "--not-passed"), 2, "--unchecked, --not-passed and --uncommitted go one at a time"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_with_what_can(ran: Ctx, words: tuple[str, ...], status: int, told: str):
    done = ran("list", *words, ok=False)

    assert (done.returncode, done.stdout) == (status, "")
    assert told in done.stderr


@pytest.mark.feature("cli.list-not-passed")
def test_sessions_without_passing_tests_are_listed_and_the_unknown_ones_said_as_unknown(bare: Ctx):
    home = ClaudeHome(bare.folder / "claude")
    ends = {
        "passed": ("3 passed in 0.1s", False),
        "red": ("2 failed, 1 passed in 0.1s", True),
        "unknown": ("", None),
        "none": (None, None),
        "talk": (None, None),
    }
    ids = {name: f"{n}1111111-1111-4111-8111-111111111111" for n, name in enumerate(ends)}
    for name, (printed, failed) in ends.items():
        one = home.session(ids[name])
        one.prompt("do it")
        if name != "talk":
            one.call("t1", "Edit", "ok", file_path="/home/dev/shop/a.py", old_string="a", new_string="b")
        if printed is not None:
            one.call("t2", "Bash", f"Exit code 1\n{printed}" if failed else printed, is_error=failed, command="pytest -q || true; echo $?")
        one.answer(text("done")).save()
    there = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root)})
    there("run")

    told = {s["session_id"]: s["reading"] for s in there.json("list", "--not-passed")["sessions"]}
    assert told == {ids["red"]: "2 failed", ids["none"]: "never tested", ids["unknown"]: "unknown: how the last run ended"}
    assert list(told) == [ids["red"], ids["none"], ids["unknown"]], "what is known comes first"
    assert there.json("list", "--not-passed", "--limit", "1")["outcomes"] == {"failed": 1, "never tested": 1, "unknown": 1}
    head, columns, *_ = there("list", "--not-passed", "--limit", "1").stdout.splitlines()
    assert head == "3 sessions ended without passing tests: failed 1, never tested 1, unknown 1"
    assert " tests at the end " in columns
    assert there.json("list")["outcomes"] == {}


@pytest.mark.feature("cli.list-copies")
def test_a_copy_of_a_session_is_marked_and_counts_once_in_what_agents_did(bare: Ctx):
    home = ClaudeHome(bare.folder / "claude")
    one = home.session("11111111-1111-4111-8111-111111111111")
    one.prompt("run the tests").call("t1", "Bash", "Exit code 1\n1 failed in 0.1s", is_error=True, command="pytest -q")
    one.answer(text("it fails")).save()
    ctx = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root)})
    asked = [("work",), ("work", "--errors"), ("work", "--time"), ("work", "--by-day"), ("work", "--flaky"), ("wrapped", "all")]
    ctx("run")
    before = [ctx.json(*words) for words in asked]
    [file] = (home.root / "projects").rglob("11111111*.jsonl")
    copy = "22222222-2222-4222-8222-222222222222"
    (file.parent / f"{copy}.jsonl").write_text(file.read_text().replace(one.session_id, copy))
    ctx("run")

    rows = {row["session_id"]: row for row in ctx.json("list")["sessions"]}
    assert {name: row["copy_of"] for name, row in rows.items()} == {one.session_id: None, copy: one.session_id}
    shown = {line.split()[0]: line for line in ctx("list").stdout.splitlines() if "  run the tests  " in line}
    assert f"captured, copy of {one.session_id}" in shown[copy]
    assert "copy of" not in shown[one.session_id]
    narrow = Ctx(ctx.folder, ctx.environ | {"COLUMNS": "80"})("list").stdout.splitlines()
    assert max(map(len, narrow)) <= 80
    assert {line.split()[0][:8]: "  copy: run the" in line for line in narrow if "run the" in line} == {
        one.session_id[:8]: False,
        copy[:8]: True,
    }
    for words, told in zip(asked, before, strict=True):
        now = ctx.json(*words)
        if words[0] == "wrapped":
            assert (now["commands"], now["tools"]) == (told["commands"], told["tools"])
        else:
            assert now == told, words


@pytest.mark.feature("cli.list-uncommitted")
def test_sessions_are_listed_whose_last_git_status_showed_files_that_are_not_committed(bare: Ctx):
    home = ClaudeHome(bare.folder / "claude")
    dirty, clean = (
        "On branch main\nChanges not staged for commit:\n\tmodified:   shop/a.py\n",
        "On branch main\nnothing to commit, working tree clean\n",
    )
    ends = {
        "dirty": (dirty, ""),
        "clean": (clean, ""),
        "went on": (dirty, "Edit"),
        "committed": (dirty, "git commit -am x"),
        "agent": (dirty, "Task"),
    }
    ids = {name: f"{n}1111111-1111-4111-8111-111111111111" for n, name in enumerate(ends)}
    for name, (printed, then) in ends.items():
        one = home.session(ids[name], mark=f"m{ids[name][0]}")
        one.prompt(f"do {name}").call("t1", "Edit", "ok", file_path="/home/dev/shop/shop/a.py", old_string="a", new_string="b")
        one.call("t2", "Bash", printed, command="git status")
        if then == "Edit":
            one.call("t3", "Edit", "ok", file_path="/home/dev/shop/shop/b.py", old_string="a", new_string="b")
        elif then == "Task":
            one.call("t3", "Task", "done", prompt="change more", subagent_type="general-purpose")
        elif then:
            one.call("t3", "Bash", "[main abc1234] x\n 1 file changed", command=then)
        one.answer(text("done")).save()
    ctx = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root)})
    ctx("run")

    told = {s["session_id"]: s["reading"] for s in ctx.json("list", "--uncommitted")["sessions"]}
    assert told == {ids["dirty"]: "shop/a.py"}
    assert re.search(r" not committed [\s\S]*do dirty .* shop/a\.py ", ctx("list", "--uncommitted").stdout)


@pytest.mark.feature("cli.list-by-file")
@pytest.mark.parametrize("name", ["discounts.py", "bookshop/*.py", "*/discounts.py", "bookshop"])
def test_sessions_are_listed_that_read_or_changed_a_file_and_how_often(ran: Ctx, name: str):
    sql = (
        "SELECT session_id, count(*) FILTER (did <> 'read') AS changes, count(*) FILTER (did = 'read') AS reads"
        " FROM file_accesses WHERE did IN ('read', 'edit', 'write', 'delete', 'move') AND path LIKE '{}' GROUP BY 1"
    )
    there = ran.json("sql", sql.format("%/discounts.py" if "discounts" in name else "%/bookshop/%.py"))["rows"]
    listed = {s["session_id"]: s["reading"] for s in ran.json("list", "--file", name, "--limit", "99")["sessions"]}

    assert listed
    if "discounts" in name:
        counts = {r["session_id"]: ((r["changes"], "change"), (r["reads"], "read")) for r in there}
        assert listed == {s: ", ".join(f"{n} {what}{'s' * (n > 1)}" for n, what in told if n) for s, told in counts.items()}
    else:
        assert set(listed) >= {r["session_id"] for r in there}
    assert ran("list", "--file", "nobody_touched.this").stdout.startswith("no session fits")


@pytest.mark.feature("cli.usage-titles")
def test_usage_by_session_tells_titles(ran: Ctx):
    titles = {s["session_id"]: (s["title"], s["project"]) for s in ran.json("list")["sessions"]}
    rows = ran.json("usage", "session", "--limit", "3")["rows"]

    assert [(r["title"], r["project"]) for r in rows] == [titles[r["session_id"]] for r in rows]
    assert [r["began"] for r in rows] == sorted((r["began"] for r in rows), reverse=True)
    assert {"title", "project", "began"} <= set(csv.DictReader(io.StringIO(ran("usage", "session", "--csv").stdout)).fieldnames)


@pytest.mark.feature("cli.one-money-format")
@pytest.mark.parametrize(
    ("nano", "said"),
    [(0, "$0.00"), (8_000_000, "$0.01"), (4_000_000, "<$0.01"), (-8_000_000, "-$0.01"), (-1, "-<$0.01"), (1_234_560_000_000, "$1,234.56")],
)
def test_money_is_dollars_and_cents(nano: int, said: str):
    assert money(nano) == said


def _tells(ctx: Ctx, session: str, cwd: str, name: str, asked: dict[str, str]) -> None:
    """Write a transcript with one call of a tool that succeeded, and run everything over it."""
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": asked}
    told = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    records = [
        ("user", {"role": "user", "content": "please change it"}),
        ("assistant", {"id": "msg_1", "role": "assistant", "model": "claude-opus-4-5", "content": [call]}),
        ("user", {"role": "user", "content": [told]}),
    ]
    lines = [
        {"type": kind, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": session, "cwd": cwd, "version": "2.1.0"}
        | {"timestamp": f"2026-09-25T10:00:0{n}.000Z", "message": message}
        for n, (kind, message) in enumerate(records)
    ]
    folder = ctx.folder / "claude" / "projects" / "-elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ctx("run")


@pytest.mark.feature("cli.list-unchecked")
def test_a_changed_file_whose_name_the_shell_made_up_is_said_to_be_unknown(ctx: Ctx):
    session = "22222222-2222-4333-8444-555555555555"
    _tells(ctx, session, "/code/shop", "Bash", {"command": "mkdir -p out && cat > out/${NAME}.jsonl <<EOF\nx\nEOF"})

    row = next(line for line in ctx("list", "--unchecked").stdout.splitlines() if line.startswith(session))
    assert re.search(r"  claude  unknown +captured", row), row
    assert {s["session_id"]: s["reading"] for s in ctx.json("list", "--unchecked")["sessions"]}[session] is None


@pytest.mark.feature("cli.list-unchecked", "host.windows-paths")
def test_a_changed_file_is_cut_at_the_beginning_of_its_name_and_its_folder_on_windows_is_left_out(ctx: Ctx):
    session, folder = "33333333-2222-4333-8444-555555555555", r"e:\Workspace\src\shop"
    name = f"a{'_very' * 10}_long_timings.py"
    change = {"file_path": rf"{folder}\{name}", "old_string": "a", "new_string": "b"}
    _tells(ctx, session, folder, "Edit", change)

    row = next(line for line in ctx("list", "--unchecked").stdout.splitlines() if line.startswith(session))
    assert re.search(r"  …\S*_long_timings\.py ", row), row
    assert "Workspace" not in row
    assert {s["session_id"]: s["reading"] for s in ctx.json("list", "--unchecked")["sessions"]}[session] == change["file_path"]


@pytest.mark.feature("cli.unknown-filter")
def test_sessions_of_a_model_and_of_a_branch_are_listed_and_an_unknown_one_names_the_nearest(ran: Ctx):
    rows = ran.json("sql", "select session_id, branch, models from sessions where prompts > 0")["rows"]
    model = next(row["models"][0] for row in rows if row["models"])
    branch = next(row["branch"] for row in rows if row["branch"])

    for option, name, fits in (
        ("--model", model, lambda row: model in (row["models"] or ())),
        ("--branch", branch, lambda row: row["branch"] == branch),
    ):
        found = {one["session_id"] for one in ran.json("list", option, name)["sessions"]}
        assert found == {row["session_id"] for row in rows if fits(row)} != set()
        wrong = ran("list", option, name[:-1], ok=False)
        assert (wrong.returncode, f"did you mean {name}?" in wrong.stderr) == (1, True)


@pytest.mark.feature("cli.near-commands")
def test_of_a_mistyped_command_only_commands_are_named_where_one_is_near(ran: Ctx):
    assert "Did you mean list?" in ran("lst", ok=False).stderr

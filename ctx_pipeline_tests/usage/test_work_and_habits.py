"""What agents did, and the habits that cost, over stores of hand-made sessions."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery
from ctx_pipeline.cli import cli
from ctx_pipeline.facts.pauses import queued, waited
from ctx_pipeline.findings.rules import HABITS, find
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.sessions.reports.work import Ran, errors, report, work
from ctx_pipeline.sessions.session_details import turns as session_turns
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.factories.views import SECOND, START, view
from ctx_pipeline_tests.usage.conftest import ingested

DONE = {"stdout": "x", "stderr": "", "interrupted": False}


TOOK = {"total_seconds": 1.0, "waits": 0, "waited_seconds": 0.0}
NEVER = TOOK | {"timed": 0, "total_seconds": None, "median_seconds": None}


def worked(tmp_path: Path) -> Settings:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("mend it")
    main.call("t1", "Read", "x", file_path="/home/dev/shop/a.py")
    main.call("t2", "Bash", "ok", structured=DONE, command="cd src && git status && uv run pytest -q")
    main.call("t3", "Bash", "Exit code 1\nboom", is_error=True, command="uv run pytest -q")
    main.call("t4", "Bash", "Exit code 1", is_error=True, command="grep nothing a.py")
    main.call("t5", "Bash", "no", is_error=True, structured="User rejected tool use", command="rm -rf build")
    main.call("t6", "Edit", "no", is_error=True, file_path="/home/dev/shop/a.py", old_string="a", new_string="b")
    main.save()
    codex.write(tmp_path / "codex", codex.session(calls=2))
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    return ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots))


@pytest.mark.feature("work.copies")
def test_what_a_copy_repeats_before_it_went_on_counts_once(tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    origin = home.session("10000000-1111-4111-8111-111111111111").prompt("mend it")
    origin.call("t1", "Bash", "Exit code 1\nboom: it broke", is_error=True, command="make all")
    origin.call("t2", "Read", "x", file_path="/home/dev/shop/a.py")
    origin.save()
    copy = home.session("20000000-1111-4111-8111-111111111111")
    copy.records = [record | {"sessionId": copy.session_id} for record in origin.records]
    copy.call("t3", "Bash", "ok", structured=DONE, command="make all").save()
    chosen = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))

    told = work(settings=chosen)[0].to_json()

    assert (told["tool_calls"], told["commands"], told["failed_commands"]) == (3, 2, 1)
    assert [(row["program"], row["times"], row["failed"]) for row in told["top_programs"]] == [("make all", 2, 1)]
    assert [(one["from"], one["to"], one["times"]) for one in told["transitions"]] == [("read", "shell", 1), ("shell", "read", 1)]
    assert [(met.error, met.times, len(met.sessions)) for met in errors(settings=chosen)] == [("boom: it broke", 1, 1)]


@pytest.mark.feature("cli.one-row-a-file")
def test_a_file_is_one_row_however_it_was_named(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session().prompt("run the tests")
    for number, path in enumerate(("tests/test_a.py", "/home/dev/shop/tests/test_a.py", "/elsewhere/tests/test_a.py")):
        main.call(f"t{number}", "Bash", "1 passed in 0.1s", structured=DONE, command=f"pytest {path}")
    main.save()
    chosen = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))

    told = work(settings=chosen)[0].to_json()["top_commands"]
    assert [(row["command"], row["times"]) for row in told] == [("pytest tests/test_a.py", 2), ("pytest /elsewhere/tests/test_a.py", 1)]
    (turn,) = session_turns("claude", claude.SESSION, settings=chosen)
    assert [row["program"] for row in turn["checks"]] == ["pytest tests/test_a.py", "pytest /elsewhere/tests/test_a.py"]


@pytest.mark.feature("cli.analyze")
def test_commands_tools_failures_and_transitions_are_told_for_each_host_and_in_all(tmp_path: Path) -> None:
    everything, first, second = work(settings=worked(tmp_path))

    assert [(w.host, w.tool_calls.times, w.commands.times, w.commands.failed) for w in (everything, first, second)] == [
        ("all", 8, 6, 1),
        ("claude", 6, 4, 1),
        ("codex", 2, 2, 0),
    ]
    told = first.to_json()
    assert told["top_programs"][:2] == [
        {"program": "pytest", "times": 2, "failed": 1, "failure_rate": 0.5, **TOOK, "timed": 1, "median_seconds": 1.0},
        {"program": "git status", "times": 1, "failed": 0, "failure_rate": 0.0, **NEVER},
    ]
    assert told["top_tools"] == [
        {"tool": "Bash", "times": 4, "failed": 1, "failure_rate": 0.25, **TOOK, "timed": 3, "total_seconds": 3.0},
        {"tool": "Edit", "times": 1, "failed": 1, "failure_rate": 1.0, **TOOK, "timed": 1},
        {"tool": "Read", "times": 1, "failed": 0, "failure_rate": 0.0, **TOOK, "timed": 1},
    ]
    assert first.transitions == {("read", "shell"): 1, ("shell", "shell"): 3, ("shell", "edit"): 1}
    assert second.lines["make step1"].times == 1


@pytest.mark.feature("cli.analyze")
def test_the_figures_are_those_of_the_signals_and_can_be_narrowed(tmp_path: Path) -> None:
    settings = worked(tmp_path)
    with open_store(settings) as store:
        measure(store, settings, families=["activity", "outcomes"])
        rows = [
            r for c in store.ledger.cells() for f in ("activity", "outcomes") for r in store.lake.read_rows("readings", c, f"signals/{f}")
        ]

    everything = work(settings=settings)[0]

    assert everything.commands.times == sum(r.value for r in rows if r.signal == "command_count")
    assert everything.commands.failed == sum(r.value for r in rows if r.signal == "failed_command_count")
    assert [w.host for w in work("codex", settings=settings)] == ["codex"]
    assert [w.host for w in work(project="app", settings=settings)] == ["all", "codex"]
    assert [w.tool_calls.times for w in work(since="2026-03-05", until="2026-03-05", settings=settings)] == [6, 6]
    assert work(since="2030-01-01", settings=settings) == []


@pytest.mark.feature("cli.analyze")
def test_the_report_is_markdown_that_no_command_can_break(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("go").call("t1", "Bash", "ok", structured=DONE, command="echo `date` | tee x\x1b[31m").save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))

    text = report(work(settings=settings))

    assert "| `` echo `date` \\| tee x `` | 1 | 0 | 0% | 1.0 | 1.0 |" in text
    assert "\x1b" not in text
    assert text.startswith("# What the agents did\n\n## All agents\n\n1 commands, 0% failed; 1 tool calls, 0% failed.\n")


@pytest.mark.feature("cli.analyze")
def test_the_command_prints_the_work_and_writes_the_report_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worked(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))

    done = CliRunner().invoke(cli, ["work", "--out", str(tmp_path / "report.md")])

    assert done.exit_code == 0, done.output
    assert "6 commands, 17% failed; 8 tool calls" in done.stdout
    assert "most often: shell then shell 4" in done.stdout
    assert (tmp_path / "report.md").stat().st_mode & 0o777 == 0o600
    assert [h["host"] for h in json.loads(CliRunner().invoke(cli, ["work", "cx", "--json"]).stdout)["hosts"]] == ["codex"]


@pytest.mark.feature("cli.work-total")
def test_rows_show_the_total_that_they_are_ordered_by_and_one_agents_tables_come_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))

    lines = CliRunner().invoke(cli, ["work", "--sort", "time"]).stdout.splitlines()
    heads = [line.split() for line in lines if " times  failed " in f"{line} "]
    own = CliRunner().invoke(cli, ["work", "claude"]).stdout

    assert heads == [[name, "times", "failed", "total", "median", "time"] for name in ("check", "program", "command")] + [
        ["tool", "times", "failed", "total"]
    ]
    first = lines.index(next(line for line in lines if line.startswith("tool "))) + 1
    totals = [float(line.split()[-2]) for line in lines[first : first + 3]]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] >= 3.0, "three calls of Bash that were not refused, a second each"
    assert lines.count("times are of commands that ran one program alone; what they took beyond their limit is a wait for you") == 1
    assert "one agent's own: ctx work HOST (claude, codex)" in lines
    assert "codex" not in lines
    assert "4 commands, 25% failed; 6 tool calls" in own
    assert CliRunner().invoke(cli, ["work", "--host", "claude"]).stdout == own
    assert CliRunner().invoke(cli, ["work", "claude", "--host", "claude"]).stdout == own
    assert "HOST is claude and --host is codex\n" in str(CliRunner().invoke(cli, ["work", "claude", "--host", "codex"]).exception)
    assert "ctx work HOST" not in own


@pytest.fixture
def rereading(tmp_path: Path) -> Settings:
    """Three sessions; two read one file four times for nothing, one of these twice as often."""
    home = claude.ClaudeHome(tmp_path / "claude")
    for number, times in enumerate((1, 4, 8)):
        main = home.session(f"{number:08d}-1111-4111-8111-111111111111", mark=f"m{number}")
        main.prompt(f"task {number}")
        for n in range(times):
            main.call(f"t{n}", "Read", "x", file_path="/home/dev/shop/a.py")
        main.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    with open_store(settings) as store:
        measure(store, settings, families=["context_rot", "trajectory"])
    return settings


@pytest.mark.feature("cli.hints-of-the-house")
def test_a_habit_is_told_with_the_sessions_that_show_it_the_strongest_first(rereading: Settings) -> None:
    [one] = [h for h in find(settings=rereading) if h.signal == "file_reread_without_reason_count"]

    assert (one.cases, one.of) == (2, 3)
    assert one.title == "Files were read again 10 times though they were still in the context, unchanged"
    assert one.detail == "In the 2 of 3 measured sessions with 3 or more."
    assert [(s.session_id[:8], s.title, s.value) for s in one.examples] == [("00000002", "task 2", 7.0), ("00000001", "task 1", 3.0)]
    assert one.command == "ctx list --signal file_reread_without_reason_count --at-least 3"


@pytest.mark.feature("cli.hints-of-the-house")
def test_one_session_is_no_habit_and_other_projects_and_days_show_none(rereading: Settings) -> None:
    assert any(h.signal for h in find(settings=rereading))
    assert find(project="elsewhere", settings=rereading) == []
    assert find(since="2030-01-01", settings=rereading) == []
    assert find(host="codex", settings=rereading) == []


@pytest.mark.feature("cli.hints-of-the-house")
def test_every_habit_rests_on_a_signal_and_says_what_helps() -> None:
    known = discovery.signals()
    assert {h.signal for h in HABITS} | {h.needs[0] for h in HABITS if h.needs[0]} <= set(known)
    assert all(len(h.advice) > 15 and h.title.format(sum=3) for h in HABITS)
    assert all(known[h.signal].kind in ("numeric", "boolean") for h in HABITS)


@pytest.mark.feature("cli.hints-of-the-house")
def test_the_command_tells_them_without_asking_anybody(rereading: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))

    done = CliRunner().invoke(cli, ["hints"])

    assert done.exit_code == 0, done.output
    assert (
        "Files were read again 10 times though they were still in the context, unchanged (in the 2 of 3 measured sessions with 3 or more)"
        in " ".join(done.stdout.split())
    )
    assert "ctx list --signal file_reread_without_reason_count --at-least 3" in done.stdout
    made = json.loads(CliRunner().invoke(cli, ["hints", "--json"]).stdout)
    assert (made["schema"], {h["signal"] for h in made["habits"]}) == (2, {f["signal"] for f in made["findings"]} - {""})
    assert "no finding" in CliRunner().invoke(cli, ["hints", "--since", "2030-01-01"]).stdout


@pytest.mark.feature("cli.analyze")
def test_checks_are_added_up_by_what_they_check_and_order_is_by_failures_when_asked(tmp_path: Path) -> None:
    [everything, *_] = work(settings=worked(tmp_path))

    told = everything.to_json(by="failed")

    assert told["checks"][0] == {"check": "test", "times": 2, "failed": 1, "failure_rate": 0.5, **TOOK, "timed": 1, "median_seconds": 1.0}
    failures = [row["failed"] for row in told["top_commands"]]
    assert failures == sorted(failures, reverse=True)
    assert failures[0] == 1
    assert everything.to_json(by="time")["top_commands"][0]["median_seconds"] >= 1.0


@pytest.mark.feature("cli.work-waits")
def test_a_call_that_stood_behind_another_of_the_same_answer_did_not_wait_for_the_person() -> None:
    second = 1_000_000
    rows = [
        SimpleNamespace(call_event=name, thread_id="t", started=begun * second, ended=ended * second)
        for name, begun, ended in (("b", 0, 210), ("a", 0, 100), ("late", 300, 310))
    ]
    assert queued(rows) == {"a": 0, "b": 100 * second, "late": 0}


@pytest.mark.feature("cli.work-waits")
def test_of_a_command_of_an_agent_that_is_not_known_here_no_wait_is_certain() -> None:
    session = view(host="of a plug-in that was removed").shell("make").build()
    call = session.tool_calls[0]._replace(started=START, ended=START + 300 * SECOND)
    assert waited(session, call) == 0


@pytest.mark.feature("cli.work-waits")
def test_what_a_run_took_beyond_its_limit_is_a_wait_and_no_time_of_the_program(tmp_path: Path) -> None:
    ran = Ran()
    ran.join(2, 0, [2_000_000, 3_000_000], [700_000_000])
    assert (ran.total_seconds, ran.waits, ran.median_seconds) == (5.0, [700_000_000], 2.5)

    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("build it")
    for n in range(3):
        main.call(f"t{n}", "Bash", "ok", structured=DONE, command="npm run build")
    main.answer(claude.tool_use("late", "Bash", command="npm run build"))
    main.started += timedelta(seconds=40_000)
    main.result("late", "ok", structured=DONE)
    main.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    [row] = work(settings=settings)[0].to_json(by="time")["top_programs"]
    assert (row["timed"], row["waits"]) == (4, 1)
    assert (row["total_seconds"], row["waited_seconds"]) == (123.0, 39_881.0)
    done = CliRunner().invoke(cli, ["work"], env={"CTX_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")})
    assert "such waits: 1 of npm run build (11 h 04)" in done.stdout


@pytest.mark.feature("work.errors")
@pytest.mark.parametrize(
    ("command", "printed", "error"),
    [
        (
            "rg -n broken src tests",
            "src/a.rs:84: error: no such value\nrg: tests: No such file or directory (os error 2)",
            "rg: tests: No such",
        ),
        ("rg -n broken src tests 2>/dev/null", "src/a.rs:84: assert_eq!(error, missing)", ""),
        ("grep -n a. src/x | head", "grep: src/x: No such file or directory", "grep: src/x: No such file"),
        ("cargo build && rg -n x src", "error[E0425]: cannot find value `total`", "error[E0425]: cannot find"),
        ("git commit -m x", "╭──────╮\n│ 🥊 hook: pre-commit │\n╰──────╯\nnothing was staged", "nothing was staged"),
        (
            "pytest -m unit",
            "===== test session starts =====\ncollected 5 items / 5 deselected / 0 selected",
            "collected 5 items / 5 deselected / 0 sel",
        ),
    ],
)
def test_the_error_of_a_search_is_what_it_says_itself_none_where_it_found_something_and_a_frame_is_none(
    tmp_path: Path, command: str, printed: str, error: str
) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("look").call("t1", "Bash", f"Exit code 2\n{printed}", is_error=True, command=command)
    main.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))

    assert [met.error[: len(error)] for met in errors(settings=settings)] == ([error] if error else [])


@pytest.mark.feature("cli.analyze")
def test_a_line_that_merges_its_errors_into_its_output_is_the_same_line(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("mend it")
    main.call("t1", "Bash", "Exit code 1\nboom", is_error=True, command="mise run lint 2>&1")
    main.call("t2", "Bash", "ok", structured=DONE, command="mise run lint")
    main.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    lines = work(settings=settings)[0].lines
    assert [(line, ran.times, ran.failed) for line, ran in lines.items()] == [("mise run lint", 2, 1)]

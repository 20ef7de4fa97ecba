"""What a new chat is told of the last run of each kind of check, above all of one that is not known to have ended."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctx_pipeline.context.session_state.snapshot import lines_of
from ctx_pipeline.context.session_state.state import from_json
from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.sessions.states.state_fold import fold
from ctx_pipeline_tests.factories.views import SECOND, Builder, view

GOES_ON = "Command running in background with ID: b1. Output is being written to: /tmp/b1.output"


def told(work: Builder) -> list[str]:
    state = fold(work.build())
    assert from_json(state.to_json()) == state
    return [line.text for line in lines_of(state) if line.about == "tests"]


@pytest.mark.feature("session.proven")
def test_a_check_that_had_not_ended_is_told_with_how_the_one_before_it_did():
    work = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", text="5 passed in 0.1s")
    running = work.shell("pytest -q", exit=None, text=GOES_ON)
    assert told(running) == ["Last test run: `pytest -q` had not ended; before that it passed (5/5)"]

    work = (
        view(cwd="/w").prompt("Mend the cart").shell("pytest -q tests/a.py", exit=1, text="1 failed, 2 passed in 0.1s").edit("/w/cart.py")
    )
    running = work.shell("pytest -q", exit=None, text=GOES_ON)
    (line,) = told(running)
    before = "before that `pytest -q tests/a.py` failed (2/3 passed), then files were changed"
    assert line == f"Last test run: `pytest -q` had not ended; {before}"

    running.edit("/w/cart.py")
    assert told(running) == [f"Last test run: `pytest -q` had not ended; files were changed since (cart.py); {before}"]
    running.shell("pytest -q", text="6 passed in 0.1s")
    assert told(running) == ["Last test run: `pytest -q` passed (6/6)"]


@pytest.mark.feature("session.proven")
def test_a_check_without_a_result_is_not_said_to_have_printed_something():
    work = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", answered=False)
    assert told(work) == ["Last test run: `pytest -q` was called; no result is recorded"]


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize(
    ("seconds", "script", "result"),
    [
        (30.2, "const r = await tools.exec_command({}); text(r.output);", "running"),
        (12.0, "const r = await tools.exec_command({}); text(r.output);", "unknown"),  # answered before that time: it had ended
        (75.0, "const r = await tools.exec_command({}); text(r.output);", "unknown"),  # nobody looked when it was answered
        (30.2, "await tools.exec_command({}); await tools.exec_command({});", "unknown"),  # the time is that of both
    ],
)
def test_a_script_that_ended_when_its_command_was_to_be_answered_left_it_running(seconds: float, script: str, result: str):
    asked = script.replace("{}", json.dumps({"cmd": "cargo test", "yield_time_ms": 30000}))
    work = (
        view(host="codex", cwd="/w").prompt("Mend it").shell("cargo test", exit=None, text="Script completed\nOutput:\n   Compiling app\n")
    )
    built = work.build()
    call = built.tool_calls[0]
    ended = call.started + int(seconds * SECOND)
    events = [e._replace(text=asked) if e.event_id == call.call_event else e for e in built.events]
    built = replace(built, events=events, tool_calls=[call._replace(ended=ended)], facts={}, _made={})
    assert [run.result for run in command_runs(built)] == [result]
    said = {"running": "had not ended", "unknown": "ran; its output does not show how it ended"}[result]
    assert [line.text for line in lines_of(fold(built)) if line.about == "tests"] == [f"Last test run: `cargo test` {said}"]


@pytest.mark.feature("session.proven")
def test_a_check_that_a_hook_ran_behind_a_tool_is_told_as_one_of_the_hook():
    said = "\x1b[1mPostToolUse:Edit\x1b[22m [uv run ruff format] completed successfully: 1 file reformatted, 3 files left unchanged"
    work = view(cwd="/w").prompt("Mend the cart").edit("/w/cart.py").injected(said, "system")
    assert told(work) == ["Last lint or format run, in the PostToolUse hook: `uv run ruff format` passed"]
    # a formatter does not hide what a linter found
    work = view(cwd="/w").prompt("Mend the cart").shell("ruff check", exit=1, text="a.py:1:1: E501 Line too long\nFound 1 error.")
    (line,) = told(work.edit("/w/cart.py").injected(said, "system"))
    assert line.startswith("Last lint or format run: `ruff check` failed (1 problem)")


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize(
    ("kind", "record", "outcome"),
    [
        (
            "attachment/hook_success",
            {"hookEvent": "Stop", "command": "pytest -q", "stdout": "3 passed in 1s", "exitCode": 0},
            "passed (3/3)",
        ),
        ("attachment/hook_success", {"hookEvent": "Stop", "command": "pytest -q", "stdout": "", "exitCode": 0}, "passed"),
        ("attachment/hook_non_blocking_error", {"hookEvent": "Stop", "command": "pytest -q", "stderr": "boom", "exitCode": 1}, "failed"),
        ("attachment/hook_non_blocking_error", {"hookEvent": "Stop", "command": "pytest -q", "stderr": "no", "exitCode": 127}, ""),
        ("attachment/hook_success", {"hookEvent": "SessionStart", "command": "pytest -q", "stdout": "3 passed in 1s", "exitCode": 0}, ""),
        (
            "attachment/hook_blocking_error",
            {"hookEvent": "Stop", "blockingError": {"blockingError": "1 failed, 2 passed in 1s", "command": "pytest -q"}},
            "failed (2/3 passed)",
        ),
    ],
)
def test_a_check_that_a_hook_ran_is_told_by_its_record(kind: str, record: dict, outcome: str):
    work = view(cwd="/w").prompt("Mend the cart").edit("/w/cart.py")
    work.event("error" if "error" in kind else "attachment", "hook", json.dumps(record), subtype=kind)
    lines = [line.partition(" with “")[0] for line in told(work)]
    assert lines == ([f"Last test run, in the Stop hook: `pytest -q` {outcome}"] if outcome else [])


FOUND = "a.py:1:1: E501 Line too long\nFound 1 error."


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize(
    "formatter", ["ruff format", "ruff format --check", "cargo fmt", "npx prettier --write .", "npm run format", "black ."]
)
def test_a_formatter_that_ends_well_hides_nothing_that_a_linter_found(formatter: str):
    work = view(cwd="/w").prompt("Mend the cart").shell("ruff check", exit=1, text=FOUND).shell(formatter)
    (line,) = told(work)
    assert line.startswith("Last lint or format run: `ruff check` failed (1 problem)")
    assert told(view(cwd="/w").prompt("Mend the cart").shell(formatter)) == [f"Last lint or format run: `{formatter}` passed"]


@pytest.mark.feature("session.proven")
def test_a_formatter_that_fails_is_told_with_what_the_linter_before_it_found():
    work = view(cwd="/w").prompt("Mend the cart").shell("ruff check", text="All checks passed!")
    (line,) = told(work.shell("ruff format --check", exit=1, text="Would reformat: a.py\n1 file would be reformatted"))
    assert line.startswith("Last lint or format run: `ruff format --check` failed")
    assert line.endswith("before that `ruff check` passed")
    (line,) = told(work.shell("ruff format", text="1 file reformatted"))
    assert line.startswith("Last lint or format run: `ruff check` passed")


@pytest.mark.feature("session.proven")
def test_a_linter_of_a_file_named_like_a_formatter_stays_a_linter():
    work = view(cwd="/w").prompt("Mend the cart").shell("eslint src/format.ts", exit=1, text="✖ 2 problems (2 errors, 0 warnings)")
    (line,) = told(work.shell("ruff format"))
    assert line.startswith("Last lint or format run: `eslint src/format.ts` failed")
    said = "PostToolUse:Edit [eslint src/format.ts] completed successfully"
    assert told(work.injected(said, "system")) == ["Last lint or format run, in the PostToolUse hook: `eslint src/format.ts` passed"]


def answered(work: Builder, tool: str, asked: str, answer: str, status: int | None = None) -> Builder:
    """Add a call that waits for a command or stops it."""
    work.tool(tool, text=answer, exit=status)
    call = work.calls[-1].call_event
    work.events = [e._replace(text=asked) if e.event_id == call else e for e in work.events]
    return work


def shown(command: str, output: str) -> Builder:
    work = view(cwd="/w").prompt("Mend the cart").shell(command, exit=None, text=GOES_ON)
    return answered(work, "BashOutput", '{"bash_id":"b1"}', f"<status>running</status>\n\n<stdout>\n{output}\n</stdout>")


@pytest.mark.feature("session.proven")
def test_of_a_line_that_goes_on_what_ended_before_its_last_program_is_not_running():
    work = shown("pytest -q && npm run build", "5 passed in 0.1s\n\n> shop@1.0.0 build\n> vite build")
    assert told(work) == [
        "Last test run: `pytest -q && npm run build` passed (5/5)",
        "Last build: `pytest -q && npm run build` had not ended",
    ]
    formatted = shown("cargo fmt && cargo check", "    Checking shop v0.1.0 (/w)")
    assert told(formatted) == ["Last type check: `cargo fmt && cargo check` had not ended"]
    assert [(row.program, row.result) for row in check_runs(formatted.build())] == [("cargo fmt", "passed"), ("cargo check", "running")]
    beside = shown("pytest -q & npm run build", "> shop@1.0.0 build\n> vite build")
    assert {row.result for row in check_runs(beside.build())} == {"running"}


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize("tool", ["KillShell", "TaskStop"])
def test_a_check_that_the_agent_stopped_is_told_as_stopped_and_never_as_passed(tool: str):
    asked, said = ('{"shell_id":"b1"}', "killed shell") if tool == "KillShell" else ('{"task_id":"b1"}', "stopped task")
    answer = json.dumps({"message": f"Successfully {said}: b1"})
    work = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", exit=None, text=GOES_ON)
    assert told(answered(work, tool, asked, answer)) == ["Last test run: `pytest -q` was stopped by the agent before it ended"]

    work = shown("cargo test", "running 5 tests\ntest result: ok. 5 passed; 0 failed; 0 ignored\n\nrunning 7 tests")
    assert told(answered(work, tool, asked, answer)) == [
        "Last test run: `cargo test` was stopped by the agent before it ended (5/5 passed so far)"
    ]


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        ("Process exited with code 130\nOutput:\n^C", 130, "was stopped by the agent before it ended"),
        ("Process running with session ID 77\nOutput:\n^C", None, "ran; its output does not show how it ended"),  # it may go on
        ("Process exited with code 1\nOutput:\n1 failed, 2 passed in 3s", 1, "failed (2/3 passed)"),
    ],
)
def test_a_check_that_was_interrupted_is_stopped_where_it_then_exited(answer: str, status: int | None, outcome: str):
    running = "Process running with session ID 77\nOutput:\n"
    work = view(host="codex", cwd="/w").prompt("Mend the cart").shell("pytest -q", exit=None, text=running)
    work = answered(work, "write_stdin", '{"session_id":77,"chars":"\\u0003"}', answer, status)
    assert [line.partition(" with “")[0] for line in told(work)] == [f"Last test run: `pytest -q` {outcome}"]


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize(
    ("command", "status", "outcome"),
    [
        ("kill 4711", 143, "was stopped by the agent before it ended"),
        ("sleep 2; pkill -9 pytest", 137, "was stopped by the agent before it ended"),
        ("ls", 143, "was stopped before it ended"),  # no event says by whom
        ("ls", 137, "failed"),  # the system ended it for want of memory
        ("kill 4711", 1, "failed"),
    ],
)
def test_a_check_that_a_signal_ended_did_not_fail(command: str, status: int, outcome: str):
    note = (
        "<task-notification>\n<task-id>b1</task-id>\n<status>failed</status>\n<summary>Background command “pytest -q” failed with exit code"
    )
    work = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", exit=None, text=GOES_ON).shell(command, text="")
    work.injected(f"{note} {status}</summary>\n</task-notification>", "task-notification")
    assert [line.partition(" with “")[0] for line in told(work)] == [f"Last test run: `pytest -q` {outcome}"]

    at_once = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", exit=143, text="1 failed, 2 passed in 3s")
    assert told(at_once) == ["Last test run: `pytest -q` failed (2/3 passed)"]  # what it had found stands


@pytest.mark.feature("session.proven")
def test_a_check_that_was_ended_by_somebody_is_not_said_to_be_stopped_by_the_agent():
    note = "<task-notification>\n<task-id>b1</task-id>\n<status>killed</status>\n<summary>It was stopped</summary>\n</task-notification>"
    work = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", exit=None, text=GOES_ON).injected(note, "task-notification")
    assert told(work) == ["Last test run: `pytest -q` was stopped before it ended"]


@pytest.mark.feature("session.proven")
@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        ({"command": "make test", "stdout": "1 failed, 2 passed in 1s"}, "`make test` failed (2/3 passed)"),
        ({"command": "pytest -q\ntrue"}, "`pytest -q true` ran; its output does not show how it ended"),
        ({"command": "pytest -q &"}, "`pytest -q &` ran; its output does not show how it ended"),
        ({"command": "! pytest -q"}, "`! pytest -q` ran; its output does not show how it ended"),
        ({"command": "pytest -q 2>&1"}, "`pytest -q` passed"),
        ({"command": "pytest -q", "hookEvent": ["Stop"]}, ""),
    ],
)
def test_that_a_hook_ended_well_does_not_pass_what_failed_or_went_on_in_it(record: dict, outcome: str):
    work = view(cwd="/w").prompt("Mend the cart").edit("/w/cart.py")
    work.event("attachment", "hook", json.dumps({"hookEvent": "Stop", "exitCode": 0, **record}), subtype="attachment/hook_success")
    lines = [line.partition(" with “")[0] for line in told(work)]
    assert lines == ([f"Last test run, in the Stop hook: {outcome}"] if outcome else [])


@pytest.mark.feature("session.proven", "facts.command-end")
@pytest.mark.parametrize("failed", [True, False])
@pytest.mark.parametrize("background", [True, False])
def test_a_call_that_could_not_stop_a_check_says_nothing_of_how_it_ended(failed: bool, background: bool):
    work = view(cwd="/w").prompt("Mend the cart").shell("pytest -q", exit=None, text=GOES_ON)
    if background:
        work.events[1] = work.events[1]._replace(text='{"command":"pytest -q","run_in_background":true}')
    answered(work, "KillShell", '{"shell_id":"b1"}', "Shell b1 is not running, so cannot be killed (status: completed)")
    work.calls[-1] = work.calls[-1]._replace(is_error=failed)
    assert told(work) == ["Last test run: `pytest -q` ran; its output does not show how it ended"]

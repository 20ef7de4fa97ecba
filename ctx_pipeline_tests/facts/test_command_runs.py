"""How each command ended, by what the records show and nothing else."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline_tests.factories.views import view

RUNNING = "Chunk ID: 1a\nWall time: 30.0 seconds\nProcess running with session ID 77\nOutput:\n   Compiling app v0.1.0\n"
ENDED = "Chunk ID: 2b\nWall time: 2.0 seconds\nProcess exited with code 0\nOutput:\ntest result: ok. 3 passed; 0 failed; 0 ignored\n"
CELL = "Script running with cell ID 17\nWall time 10.0 seconds\nOutput:\n"


def poll(session, tool, arguments, text, **more):
    session.tool(tool, action=more.pop("action", "shell"), text=text, **more)
    place = next(n for n in range(len(session.events) - 1, -1, -1) if session.events[n].kind == "tool_call")
    session.events[place] = session.events[place]._replace(text=arguments)
    return session


def only(session):
    (run,) = command_runs(session.build())
    return run


@pytest.mark.feature("facts.command-end")
def test_a_codex_command_that_was_polled_ends_as_its_last_poll_says():
    session = view(host="codex").shell("cargo test", exit=None, text=RUNNING)
    poll(session, "write_stdin", '{"session_id":77,"chars":""}', RUNNING)
    poll(session, "write_stdin", '{"session_id":77,"chars":""}', ENDED, exit=0)
    run = only(session)
    assert (run.result, run.exit, run.event, run.line) == ("passed", 0, "s1.e5", "Process exited with code 0")
    assert (run.polls, run.outputs) == (["s1.e2", "s1.e4"], ["s1.e1", "s1.e3", "s1.e5"])


@pytest.mark.feature("facts.command-end")
def test_a_codex_cell_that_is_waited_for_is_one_command():
    script = 'const r = await tools.exec_command({cmd:"just test"}); text(r);'
    session = view(host="codex").tool("exec", action="shell", argv=[script], text=CELL)
    poll(session, "wait", '{"cell_id":"17"}', 'Script completed\nOutput:\n{"chunk_id":"a","exit_code":2,"output":"boom"}', action="other")
    run = only(session)
    assert (run.command, run.result, run.exit) == ("just test", "failed", 2)


@pytest.mark.feature("facts.command-end")
def test_what_was_last_seen_compiling_is_running_and_not_passed():
    run = only(view(host="codex").shell("cargo test", exit=None, text=RUNNING))
    assert (run.result, run.line) == ("running", "Process running with session ID 77")


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("<status>running</status>\n\n<stdout>\nstill\n</stdout>", "running"),
        ("<status>completed</status>\n\n<exit_code>0</exit_code>", "passed"),
        ("<status>completed</status>\n\n<exit_code>3</exit_code>", "failed"),
        ("<status>killed</status>", "unknown"),
    ],
)
def test_a_claude_background_command_ends_as_its_output_tool_says(answer, result):
    session = view().shell("npm run build", exit=None, text="Command running in background with ID: ab12")
    poll(session, "BashOutput", '{"bash_id":"ab12"}', answer)
    assert only(session).result == result


def notice(status, summary, task="ab12"):
    return f"<task-notification>\n<task-id>{task}</task-id>\n<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>"


@pytest.mark.feature("facts.command-notice")
@pytest.mark.parametrize(
    ("text", "result", "exit_status", "line"),
    [
        (notice("completed", 'Background command "b" completed (exit code 0)'), "passed", 0, "exit code 0"),
        (notice("failed", 'Background command "b" failed with exit code 7'), "failed", 7, "exit code 7"),
        (notice("killed", 'Background command "b" was stopped'), "unknown", None, "<status>killed</status>"),
        (notice("completed", 'Monitor "b" stream ended'), "unknown", None, None),
        (notice("completed", "(exit code 0)", task="other"), "running", None, "Command running in background with ID: ab12"),
        (f"I saw {notice('completed', '(exit code 0)')}", "running", None, "Command running in background with ID: ab12"),
    ],
)
def test_a_claude_background_command_ends_as_the_host_notes_later(text, result, exit_status, line):
    session = view().shell("npm run build", exit=None, text="Command running in background with ID: ab12")
    session.event("injected", "system", text, subtype="task-notification")
    run = only(session)
    assert (run.result, run.exit) == (result, exit_status)
    assert (line or "") in (run.line or "")
    assert run.outputs == ["s1.e1"]
    assert run.event == ("s1.e1" if result == "running" else "s1.e2")


@pytest.mark.feature("facts.command-notice")
def test_what_the_output_tool_said_of_the_end_stands_before_a_later_note():
    session = view().shell("npm run build", exit=None, text="Command running in background with ID: ab12")
    poll(session, "BashOutput", '{"bash_id":"ab12"}', "<status>completed</status>\n\n<exit_code>3</exit_code>")
    session.event("injected", "system", notice("completed", "(exit code 0)"), subtype="task-notification")
    run = only(session)
    assert (run.result, run.exit, run.event) == ("failed", 3, "s1.e3")


@pytest.mark.feature("facts.command-end")
def test_a_refused_command_has_neither_passed_nor_failed():
    run = only(view().shell("rm -rf build", refused="use make clean"))
    assert (run.result, run.event) == ("refused", "s1.e1")


@pytest.mark.feature("facts.command-end")
def test_an_unanswered_command_is_unknown():
    assert only(view().shell("make", answered=False)).result == "unknown"


@pytest.mark.feature("facts.command-end")
def test_a_result_that_stands_before_its_call_in_the_file_is_joined():
    session = view().shell("make", exit=None, answered=False)
    early = session.event("tool_result", "tool", "Exit code 2\nmake: *** [all] Error 2", call_id="c0")
    run = only(session)
    assert (run.result, run.exit, run.event, run.line) == ("failed", 2, early.event_id, "Exit code 2")


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("command", "text", "result"),
    [
        ("pytest -q | tail -3", "no summary here", "unknown"),
        ("pytest -q | tail -3", "5 passed in 0.31s", "passed"),
        ("pytest -q | tail -3", "1 failed, 5 passed in 0.31s", "failed"),
        ("set -o pipefail; pytest -q | tail -3", "", "passed"),
        ("pytest -q; echo done", "done", "unknown"),
        ("pytest -q || true", "", "unknown"),
        ("ruff check . && pytest -q", "", "passed"),
        ("npm ci 2>&1 | tail -5", "added 3 packages", "unknown"),
        ("git log | head -3", "abc", "passed"),
        ("npm start &", "", "unknown"),
        ("grep -n x src/a.py", "", "passed"),
    ],
)
def test_a_status_that_is_another_programs_proves_nothing(command, text, result):
    assert only(view().shell(command, exit=0, text=text)).result == result


@pytest.mark.feature("facts.command-end")
def test_a_search_that_found_nothing_has_not_failed():
    assert only(view().shell("grep -rn todo src", exit=1)).result == "passed"


@pytest.mark.feature("facts.command-parts")
def test_a_command_line_is_taken_apart():
    run = only(view().shell("cd web && CI=1 uv run pytest -q tests | tail -3 | grep -v warn"))
    assert run.programs == ["pytest", "tail", "grep"]
    assert run.purposes == ["test", "other", "other"]
    assert run.argv == ["pytest", "-q", "tests"]
    assert (run.environment, run.pipeline) == (["CI=1"], ["tail", "grep"])
    assert run.folder == "/w/app/web"
    assert not run.background


@pytest.mark.feature("facts.command-parts")
def test_the_folder_is_the_one_recorded_or_the_one_that_the_shell_stands_in():
    claude = view().shell("cd sub").shell("make").shell("cd $OTHER").shell("ls")
    assert [r.folder for r in command_runs(claude.build())] == ["/w/app", "/w/app/sub", "/w/app/sub", None]
    codex = view(host="codex").shell("make").shell("cd sub && make").shell("make")
    codex.events[0] = codex.events[0]._replace(text='{"cmd":"make","workdir":"/other"}')
    assert [r.folder for r in command_runs(codex.build())] == ["/other", "/w/app/sub", "/w/app"]

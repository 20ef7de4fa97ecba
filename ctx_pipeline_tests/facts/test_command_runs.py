"""How each command ended, by what the records show and nothing else."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.command_runs import command_runs, failed_program, output_of, shown_in_part
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


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("host", "text", "printed"),
    [
        ("claude", "a < b <stdouts>\n<stdout>\n1 < <b>2</b>\n</stdout>\n<stdout>3</stdout>", "1 < <b>2</b>"),
        ("claude", "<<output>one\n</stdout>", "one"),
        ("claude", "x <stdout> y\n<stderr>\nwrong\n</stderr>", "wrong"),
        ("claude", "a < b <stdout> y", "a < b <stdout> y"),
        ("codex", "Wall time: 1\nNo Output:\nOutput:\nall\nOutput:\n", "all\nOutput:\n"),
    ],
)
def test_what_a_host_says_around_an_output_is_no_part_of_it(host, text, printed):
    session = view(host=host).shell("npm run build", exit=None, text=text).build()
    assert output_of(session, command_runs(session)[0]) == printed


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize("before", ["", "Error: ", "some\nError: ", "some\n"])
def test_an_exit_status_is_shown_where_a_line_begins_with_it(before):
    told = f"an Exit code 7\n{before}Exit code 3\nmore"
    assert only(view().shell("npm run build", exit=3, text=told)).line == f"{before.rpartition(chr(10))[2]}Exit code 3"


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
        ("ruff check . && pytest -q | tail -3", "5 passed in 0.31s", "passed"),
        ("ruff check . ; pytest -q | tail -3", "5 passed in 0.31s", "unknown"),
    ],
)
def test_a_status_that_is_another_programs_proves_nothing(command, text, result):
    assert only(view().shell(command, exit=0, text=text)).result == result


@pytest.mark.feature("facts.command-end")
def test_a_search_that_found_nothing_has_not_failed():
    assert only(view().shell("grep -rn todo src", exit=1)).result == "passed"
    assert only(view().shell("command -v shellcheck", exit=1)).result == "passed"


@pytest.mark.feature("facts.command-end")
def test_checks_of_a_pull_request_that_are_pending_are_no_failure_of_the_command():
    assert only(view().shell("gh pr checks 10870", exit=8, text="build\tpending\t0")).result == "passed"
    assert only(view().shell("gh pr checks 10870", exit=1, text="build\tfail\t2m")).result == "failed"
    assert only(view().shell("gh pr view 10870", exit=8, text="x")).result == "failed"


STOPPED = "[Request interrupted by user for tool use]\npre-push: building"
BLOCKED = "<tool_use_error>Blocked: sleep 180 followed by: echo done. Use run_in_background.</tool_use_error>"
REJECTED = (
    'Script failed\nWall time 0.0 seconds\nOutput:\n\nScript error:\nexec_command failed for `/bin/sh -lc "rm -rf x"`: '
    'CreateProcess { message: "Rejected(\\"`rm -rf x` rejected: rm -f style commands are not permitted\\")" }'
)


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("host", "text", "line"),
    [
        ("claude", STOPPED, "[Request interrupted by user for tool use]"),
        ("claude", BLOCKED, "Blocked: sleep 180 followed by: echo done. Use run_in_background.</tool_use_error>"),
        ("codex", REJECTED, "rejected: rm -f style commands are not permitted"),
    ],
)
def test_a_command_that_the_host_or_the_person_stopped_is_refused_and_has_not_failed(host, text, line):
    run = only(view(host=host).shell("make build", exit=None, failed=True, text=text))
    assert (run.result, run.line) == ("refused", line)
    printed = only(view(host=host).shell("cat log.txt", exit=0, text=text))
    assert printed.result == "passed"


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Rebasing (1/22)\rRebasing (2/22)\rerror: could not apply fb89908", "error: could not apply fb89908"),
        ("=== test session starts ===\n1 failed, 2 passed in 0.3s", "1 failed, 2 passed in 0.3s"),
        ("\x1b[31mFound 1 error.\x1b[0m", "Found 1 error."),
        ("oh\nno", "oh"),
    ],
)
def test_a_failure_without_a_status_shows_the_line_that_speaks_of_it(text, line):
    run = only(view().shell("pytest" if "session" in text else "git rebase main", exit=None, failed=True, text=text))
    assert (run.result, run.line) == ("failed", line)


def noted(text, subtype="task-notification"):
    session = view().shell("npm run build", exit=None, text="Command running in background with ID: ab12")
    place = len(session.events) - 2
    session.events[place] = session.events[place]._replace(text='{"command":"npm run build","run_in_background":true}')
    return only(session.injected(text, subtype))


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("words", "result", "status"),
    [
        ('<status>completed</status>\n<summary>Background command "Build" completed (exit code 0)</summary>', "passed", 0),
        ('<status>failed</status>\n<summary>Background command "Build" failed with exit code 2</summary>', "failed", 2),
        ("<status>completed</status>\n<summary>Monitor ended</summary>", "unknown", None),
        ("<status>killed</status>\n<summary>Background command was stopped</summary>", "unknown", None),
        ("<summary>Monitor event</summary>", "running", None),
    ],
)
def test_a_background_command_ends_as_the_host_says_later(words, result, status):
    run = noted(f"<task-notification>\n<task-id>ab12</task-id>\n{words}\n</task-notification>")
    assert (run.result, run.exit, run.event) == (result, status, "s1.e1" if result == "running" else "s1.e2")
    assert run.outputs == ["s1.e1"]


@pytest.mark.feature("facts.command-end")
def test_what_a_person_types_about_a_task_ends_no_command():
    text = "<task-notification>\n<task-id>ab12</task-id>\n<status>failed</status></task-notification>"
    assert noted(text, "hook").result == "running"
    assert noted(f"see {text}").result == "running"


@pytest.mark.feature("facts.command-end")
def test_a_codex_script_that_prints_its_session_is_joined_with_the_calls_that_wait_for_it():
    script = 'const r = await tools.exec_command({cmd:"cargo test"}); text(r.output); text(`SESSION_ID=${r.session_id}`);'
    session = view(host="codex").tool(
        "exec", action="shell", argv=[script], text="Script completed\nOutput:\n   Compiling\n\nSESSION_ID=63437"
    )
    wait = 'const r = await tools.write_stdin({session_id:63437,chars:""}); text(r.output)'
    for answer in ("Script completed\nOutput:\nstill compiling", "Script completed\nOutput:\ntest result: ok. 3 passed; 0 failed"):
        poll(session, "exec", wait, answer)
    run = only(session)
    assert (run.result, run.polls, run.event) == ("passed", ["s1.e2", "s1.e4"], "s1.e5")


@pytest.mark.feature("facts.command-end")
def test_a_command_that_the_agent_interrupts_has_not_failed():
    session = view(host="codex").shell("gh run watch 1", exit=None, text=RUNNING)
    poll(session, "write_stdin", '{"session_id":77,"chars":"\\u0003"}', ENDED.replace("code 0", "code 130"), exit=130)
    run = only(session)
    assert (run.result, run.exit, run.line) == ("unknown", 130, "Process exited with code 130")


@pytest.mark.feature("facts.command-end")
def test_the_status_inside_a_scripts_answer_is_the_line_that_shows_it():
    script = 'const r = await tools.exec_command({cmd:`x`,cmd:"make"}); text(JSON.stringify(r,null,2));'
    answer = 'Script completed\nOutput:\n{\n  "shell": {\n  "chunk_id": "a",\n  "exit_code": 2,\n  "output": "boom"\n}}'
    script = 'const r = await tools.exec_command({cmd:"make"}); text(JSON.stringify({shell:r},null,2));'
    run = only(view(host="codex").tool("exec", action="shell", argv=[script], text=answer))
    assert (run.result, run.exit, run.line) == ("failed", 2, '"exit_code": 2,')


@pytest.mark.feature("dashboard.scripted-calls")
@pytest.mark.parametrize(
    ("listed", "call"),
    [
        (
            '[\n  ["auth", ["gh","auth","status"]],\n  ["repo", ["gh", "repo", "view",]],\n]',
            '([k,argv]) => tools.exec_command({cmd:argv.join(" "),workdir:"/w"})',
        ),
        ('[\n  "gh auth status",\n  "gh repo view",\n]', 'cmd => tools.exec_command({cmd, workdir:"/w"})'),
        ('["gh auth status", "gh repo view"]', "one => tools.exec_command({cmd: one})"),
    ],
)
def test_a_script_that_runs_a_list_of_commands_ran_each_of_them(listed, call):
    script = f"const cmds = {listed};\nconst out = await Promise.all(cmds.map({call}));"
    run = only(view(host="codex").tool("exec", action="shell", argv=[script], text="Script completed\nOutput:\nok"))
    assert run.command == "gh auth status\ngh repo view"


@pytest.mark.feature("facts.command-end")
def test_a_script_that_only_looks_at_the_tools_is_no_command():
    script = 'const all = ["a.py", "b.py"].map(f => tools.exec_command({cmd: `cat ${f}`}))'
    assert command_runs(view(host="codex").tool("exec", action="shell", argv=[script]).build()) == []
    session = view(host="codex").tool("exec", action="shell", argv=["ALL_TOOLS.filter(x => /git/.test(x.name)).forEach(x=>text(x))"])
    assert command_runs(session.build()) == []


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
    assert only(view().shell("cd -- sub && make")).folder == "/w/app/sub"
    codex = view(host="codex").shell("make").shell("cd sub && make").shell("make")
    codex.events[0] = codex.events[0]._replace(text='{"cmd":"make","workdir":"/other"}')
    assert [r.folder for r in command_runs(codex.build())] == ["/other", "/w/app/sub", "/w/app"]


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("npm run build 2>&1 | head -50", "npm run build"),
        ("mise run fmt && mise run lint 2>&1 | tail -3", "mise lint"),
        ("pytest -q | grep FAILED", "pytest"),
        ("git add . && git commit -m x", "git commit"),
        ("cat x | jq .", "jq"),
        ("head -5 missing", "head"),
        ("echo hi > a", ""),
    ],
)
def test_a_failure_belongs_to_what_a_filter_reads_from_not_to_the_filter(command, program):
    assert failed_program(command) == program


@pytest.mark.feature("facts.chains")
@pytest.mark.parametrize(
    ("command", "output", "program"),
    [
        ("docker compose up -d && pytest", "no configuration file provided: not found", ""),
        ("docker compose up -d && pytest", "1 failed in 0.1s", "pytest"),
        ("docker compose up -d && pytest", "cannot read pytest.ini", ""),
        ("docker compose up -d && pytest", "bash: line 1: pytest: command not found", "pytest"),
        ("docker compose up -d && make deploy", "make: *** [Makefile:3: deploy] Error 1", "make deploy"),
        ("npm ci | tail -3 && npm run deploy", "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve", ""),
        ("npm ci && npm test", "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve", ""),
        ("npm ci && npm test", "> shop@1.0.0 test\n> node check.js\n\nboom\nnpm error Lifecycle script `test` failed", "npm test"),
        ("npm install && npm run build", "npm ERR! code E404", ""),
        ("npm ci && make test", "gyp ERR! stack Error: `make` failed with exit code: 2", ""),
        ("npm ci && make test", "make: *** [addon.target.mk:133: Release/a.o] Error 1\ngyp ERR! build error\nnpm ERR! code 1", ""),
        ("pip install -r requirements.txt && pytest", "ERROR: No matching distribution found for pytest==99.0", ""),
        ("uv sync && uv run pytest", "  x No solution found:\n  Because there is no version of pytest==99", ""),
        ("uv sync && uv run pytest", "error: Failed to spawn: `pytest`", "pytest"),
        ("go mod tidy && go test ./...", "go: github.com/x/y@v1: invalid version", ""),
        ("ruff check . && pytest", "a.py:1:1: F401 `os` imported but unused\nFound 1 error.", ""),
        ("cargo fmt --check && cargo check", "Diff in /w/src/a.rs:43:\n-    let a = 1;\n+    let a =", ""),
        ("cd web && npm ci", "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve", "npm ci"),
        ("cd web && pytest", "bash: line 1: cd: web: No such file or directory", ""),
        ("cd web && pytest", "(eval):cd:1: no such file or directory: web", ""),
        ("cd web && pytest", "/bin/sh: 1: cd: can't cd to web", ""),
        ("source .venv/bin/activate && pytest", "bash: line 1: .venv/bin/activate: No such file or directory", ""),
        ("git add a.py && pytest", "fatal: pathspec 'a.py' did not match any files", ""),
        ("git branch --show-current && git rev-parse @{u}", "fatal: HEAD does not point to a branch", "git rev-parse"),
        ("mkdir out && make test", "mkdir: cannot create directory 'out': File exists", ""),
        ("pytest -q; docker compose up -d && pytest -q", "3 passed in 0.1s\nno configuration file provided: not found", ""),
        ("make db; pytest", "", "pytest"),
    ],
)
def test_the_failure_of_a_chain_belongs_to_no_program_where_what_was_printed_does_not_show_which(command, output, program):
    assert failed_program(command, output) == program


@pytest.mark.feature("facts.command-end")
@pytest.mark.parametrize(
    ("command", "program", "part"),
    [
        ("mise run lint && mise run test 2>&1 | tail -20", "mise test", True),
        ("mise run lint && mise run test 2>&1 | tail -20", "mise lint", False),
        ("pytest -q | tail -3 && mypy", "mypy", False),
        ("pytest -q | tee log.txt | tail -3", "", True),
        ("cat names.txt | head -3; pytest -q", "", False),
    ],
)
def test_a_program_of_a_line_prints_through_what_stands_behind_its_own_pipe(command, program, part):
    assert shown_in_part(command, program) is part

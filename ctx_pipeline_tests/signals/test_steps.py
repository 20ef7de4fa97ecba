"""Steps and commands of a session: what each is for, when two are the same, how each ended."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.signals.inputs.steps import steps
from ctx_pipeline_tests.factories.views import view

RUNNING = "Chunk ID: 1a2b3c\nWall time: 1.0 seconds\nProcess running with session ID 28560\nOutput:\n"
ENDED = "Chunk ID: 4d5e6f\nWall time: 9.0 seconds\nProcess exited with code 101\nOutput:\ntest result: FAILED. 4 passed; 1 failed;"


def kinds(session):
    return [s.category for s in steps(session.build()).all]


@pytest.mark.feature("signals.trajectory-mix")
@pytest.mark.parametrize(
    ("command", "category"),
    [
        ("rg -n 'failed|exception' src", "search"),
        ("cd src && grep -rn error .", "search"),
        ("git grep -n todo", "search"),
        ("find . -name '*.py' | head", "search"),
        ("ls -la", "explore"),
        ("cat src/error_handling.py", "explore"),
        ("sed -n '1,80p' src/a.py", "explore"),
        ("sed -n '200,280p' src/a.py", "locate"),
        ("nl -ba src/a.py | sed -n '40,60p'", "explore"),
        ("git blame -L 3,9 src/a.py", "locate"),
        ("git log --oneline -5", "explore"),
        ("gh pr view 3", "explore"),
        ("pytest -q tests/", "run_tests"),
        ("npm run lint && npm test", "run_tests"),
        ("cargo check", "run_tests"),
        ("make", "run_tests"),
        ("cd app && uv run mypy src | tail -3", "run_tests"),
        ("python scripts/repro.py", "reproduce"),
        ("curl -s localhost:8000/health", "reproduce"),
        ("cargo run -- --help", "reproduce"),
        ("ruff format .", "refactor"),
        ("gofmt -w .", "refactor"),
        ("gofmt -l .", "run_tests"),
        ("git mv a.py b.py", "refactor"),
        ("cat > src/new.py <<'EOF'\nraise ValueError('failed')\nEOF", "generate_fix"),
        ("sed -i 's/a/b/' src/a.py", "generate_fix"),
        ("cat > docs/notes.md <<'EOF'\nfailed\nEOF", "explain"),
        ("rg x > /tmp/out.txt", "search"),
        ("git commit -m 'fix the failing test'", "other"),
        ("pip install requests", "other"),
    ],
)
def test_a_command_is_for_what_its_programs_do_and_not_for_its_words(command, category):
    assert kinds(view().shell(command)) == [category]


@pytest.mark.feature("signals.trajectory-mix")
def test_tools_are_for_what_they_do():
    session = (
        view()
        .tool("Read", action="read", paths=("a.py",))
        .tool("Grep", action="search")
        .tool("Glob", action="search")
        .tool("LS", action="search")
        .tool("WebFetch", action="web")
        .edit("src/exception_failed.py")
        .edit("README.md")
        .tool("Task", action="task")
        .tool("TodoWrite", action="plan")
        .tool("ExitPlanMode", action="plan")
        .tool("mcp__ide__get_definition", action="mcp")
        .tool("mcp__page__navigate", action="mcp")
        .tool("Unheard", action="other")
    )
    assert kinds(session) == [
        *("explore", "search", "search", "explore", "search", "generate_fix", "explain", "explain", "explain", "permission"),
        *("locate", "reproduce", "other"),
    ]


@pytest.mark.feature("signals.trajectory-mix")
def test_a_ranged_read_goes_to_a_place_and_an_announced_clean_up_is_a_refactoring():
    session = (
        view()
        .tool("Read", action="read", paths=("a.py",))
        .answer("Now I'll rename the field for clarity.")
        .edit("a.py")
        .prompt("go on")
        .edit("a.py")
    )
    session.calls[0] = session.calls[0]._replace(ranges=["40-80"])
    assert kinds(session) == ["locate", "refactor", "generate_fix"]


@pytest.mark.feature("signals.trajectory-mix")
def test_a_call_that_never_worked_is_an_error_and_a_refused_one_a_permission():
    session = (
        view()
        .edit("a.py", failed=True)
        .tool("Edit", action="edit", paths=("a.py",), refused="")
        .shell("npm install", refused="")
        .shell("pytest", exit=None, failed=True, text="=== 1 failed in 0.10s ===")
    )
    assert kinds(session) == ["error", "permission", "permission", "run_tests"]
    assert [s.failed for s in steps(session.build()).all] == [True, False, False, True]


@pytest.mark.feature("signals.trajectory-steps")
def test_a_command_that_runs_on_takes_its_end_from_the_call_that_waited_for_it():
    session = view(host="codex").shell("cargo test", exit=None, text=RUNNING)
    session.tool("write_stdin", action="shell", text=RUNNING).tool("write_stdin", action="shell", exit=101, text=ENDED)
    for place in (2, 4):
        session.events[place] = session.events[place]._replace(text='{"session_id":28560,"chars":""}')
    session.shell("ls")
    (first, second) = command_runs(session.build())
    assert (first.command, first.exit, first.result, first.event) == ("cargo test", 101, "failed", "s1.e5")
    assert second.result == "passed"
    assert kinds(session) == ["run_tests", "explore"]


@pytest.mark.feature("signals.trajectory-mix")
def test_a_check_is_a_step_of_checking_where_the_table_of_checks_says_that_it_ran():
    session = view().shell("pytest --collect-only -q").shell("pytest -q", text="3 passed in 0.1s").shell("ruff format . && ruff check .")
    assert kinds(session) == ["other", "run_tests", "run_tests"]


@pytest.mark.feature("signals.trajectory-steps")
def test_a_command_still_running_has_not_failed():
    (run,) = command_runs(view(host="codex").shell("cargo test", exit=None, failed=True, text=RUNNING).build())
    assert run.result == "running"


@pytest.mark.feature("signals.commands")
def test_commands_inside_a_script_of_tool_calls_are_commands():
    script = 'const r = await tools.exec_command({cmd:"pytest -q",workdir:"/w"});\ntext(r.output);'
    only_waits = 'const r = await tools.write_stdin({session_id:1,chars:""});'
    lists = "const hits = ALL_TOOLS.filter(x => /github/i.test(x.name)); text(hits);"
    session = (
        view(host="codex")
        .shell(script, exit=None, text='Script completed\nOutput:\n{"exit_code":1,"output":"1 failed in 0.1s"}')
        .shell(only_waits)
        .shell(lists)
    )
    (run,) = command_runs(session.build())
    assert (run.command, run.exit, run.result) == ("pytest -q", 1, "failed")


@pytest.mark.feature("signals.trajectory-steps")
def test_steps_of_threads_stand_apart_and_follow_each_other_in_time():
    session = view().edit("a.py").on("agent-1").shell("pytest").on("main").edit("b.py")
    found = steps(session.build())
    assert [[s.category for s in thread] for thread in found] == [["generate_fix", "generate_fix"], ["run_tests"]]
    assert [s.category for s in found.in_time()] == ["generate_fix", "run_tests", "generate_fix"]


@pytest.mark.feature("signals.repetition-redundancy")
def test_temporary_names_do_not_make_a_command_another_one():
    session = view().shell("cat /tmp/x-11111.log").shell("cat  /tmp/y-22222.log").shell("cat /w/app/z.log")
    found = steps(session.build()).all
    assert [found[0].key == s.key for s in found] == [True, True, False]

"""How a project is checked, as even one session shows it, and which tools this machine lacks."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view


def lessons(name, *sessions):
    method = discovery.methods()[name]
    return consolidate(method.combine([c for s in sessions for c in draw(method, s.build())[0]]))


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place)


@pytest.mark.feature("mining.project-facts")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("DATABASE_URL=sqlite:// pytest", "DATABASE_URL=sqlite:// pytest"),
        ("(source .venv/bin/activate && pytest)", "source .venv/bin/activate && pytest"),
        ("cd /w/app/server && npm test", "cd server && npm test"),
        ("just verify-tests", None),
        ("pytest", None),
    ],
)
def test_what_one_session_ran_again_and_again_is_kept_with_its_folder_environment_and_variables(command, told):
    session = day("a", 1).shell(command, text="3 passed").edit("/w/app/a.py").shell(command, text="3 passed")
    found = [m for m in lessons("project_conventions", session) if m.body.get("once")]
    assert [m.body["commands"] for m in found] == ([[told]] if told else [])
    assert lessons("project_conventions", day("a", 1).shell(command, text="3 passed")) == []


@pytest.mark.feature("mining.project-facts")
def test_a_habit_names_the_variable_that_every_passing_run_had():
    sessions = [day(n, i).shell("DATABASE_URL=sqlite:// uv run pytest", text="3 passed") for i, n in enumerate("abc")]
    (found,) = lessons("project_conventions", *sessions)
    assert found.text == "run the tests with `DATABASE_URL=sqlite:// uv run pytest`"
    assert "once" not in found.body


@pytest.mark.feature("mining.project-facts")
def test_a_program_that_is_not_installed_is_a_warning_until_it_runs():
    absent = day("a", 1).shell("ruff check .", exit=127, text="bash: ruff: command not found")
    (found,) = lessons("reme", absent)
    assert found.text == "`ruff` is not installed here (“bash: ruff: command not found”)"
    assert (found.body["warning"], found.body["once"], found.when_to_use) == (True, True, "`ruff` is about to run")
    assert lessons("reme", absent, day("b", 2).shell("ruff check .", text="All checks passed!")) == []


@pytest.mark.feature("mining.project-facts")
def test_an_error_that_comes_again_is_one_warning_whatever_it_quotes():
    sessions = [
        day(n, i).shell(f"gh pr view {i} --json {f}", exit=1, text=f'Unknown JSON field: "{f}"')
        for i, (n, f) in enumerate(zip("ab", ("x", "threads"), strict=True))
    ]
    (found,) = lessons("reme", *sessions)
    assert (found.support, found.body["warning"]) == (2, True)


_LEFTHOOK = "\x1b[1m\u2502 lefthook v1.12.3  hook: pre-commit \u2502\x1b[0m\n\u2503  format \u276f \n\n\u2503  lint \u276f \n"
_PRE_COMMIT = "eol.......Passed\nruff (x).......(no files to check)Skipped\nmypy........Failed\n"


@pytest.mark.feature("mining.git-hooks")
@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        (
            "git commit -m x",
            _LEFTHOOK,
            "`git commit` runs the pre-commit hook of lefthook here (`format`, `lint`); 1 of 2 commits that ran it failed",
        ),
        (
            "git add . && git commit -m x",
            _PRE_COMMIT,
            "`git commit` runs the pre-commit hook of pre-commit here (`eol`, `ruff (x)`, `mypy`); 1 of 2 commits that ran it failed",
        ),
        (
            "git push",
            "husky - pre-push hook exited with code 1\n",
            "`git push` runs the pre-push hook of husky here; 1 of 2 pushes that ran it failed",
        ),
        ("git commit -m x", "[main 1a2b3c4] x\n 1 file changed", None),
        ("cat lefthook.log", _LEFTHOOK, None),
    ],
)
def test_hooks_of_git_that_ran_twice_are_a_fact_with_their_steps_and_failures(command, output, told):
    twice = day("a", 1).shell(command, exit=1, text=output).shell(command, text=output)
    found = lessons("project_conventions", twice)
    assert [(m.text, m.body["fact"]) for m in found] == ([(told, True)] if told else [])
    assert lessons("project_conventions", day("a", 1).shell(command, exit=1, text=output)) == []
    sessions = [day(n, i).shell(command, exit=i, text=output) for i, n in enumerate("ab")]
    assert [m.text for m in lessons("project_conventions", *sessions)] == ([told] if told else [])


@pytest.mark.feature("mining.project-facts")
def test_a_call_that_failed_again_after_it_had_been_called_well_is_told_of_one_session():
    wrong = "error: unexpected argument '{}' found"
    session = (
        day("a", 1)
        .shell("cargo test one two", exit=1, text=wrong.format("two"))
        .shell("cargo test one", text="test result: ok. 1 passed; 0 failed")
        .shell("cargo test one " + "mod::" * 20 + "two", exit=1, text=wrong.format("mod::" * 20 + "two"))
        .shell("cargo test two", text="test result: ok. 1 passed; 0 failed")
    )
    (found,) = lessons("reme", session)
    quoted = "\u201cerror: unexpected argument 'two' found\u201d"
    assert found.text == f"`cargo test one two` fails with {quoted} (2 times in one session): `cargo test one` works"
    assert found.body["once"]
    at_once = (
        day("b", 1).shell("cargo test one two", exit=1, text=wrong.format("two")).shell("cargo test one 2", exit=1, text=wrong.format("2"))
    )
    assert lessons("reme", at_once) == []


@pytest.mark.feature("mining.package-checks")
def test_how_a_package_is_checked_is_told_beside_how_the_project_is():
    whole = [day(n, i).shell("make check", text="ok").shell("uv run pytest", text="3 passed") for i, n in enumerate("abc")]
    part = "npm --prefix web run test"
    two = [day(n, i).shell(part, text="3 passed") for i, n in enumerate("de", 3)]
    (found,) = [m for m in lessons("project_conventions", *whole, *two) if "web" in m.text]
    assert (found.text, found.when_to_use) == ("in `web`: run the tests with `npm --prefix web run test`", "`web` is changed")
    assert (found.support, "once" in found.body) == (2, False)
    assert [m for m in lessons("project_conventions", *whole, two[0]) if "web" in m.text] == []
    (again,) = [m for m in lessons("project_conventions", *whole, two[0].shell(part, text="3 passed")) if "web" in m.text]
    assert again.body["once"] is True

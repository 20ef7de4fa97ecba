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

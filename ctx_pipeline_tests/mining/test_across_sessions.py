"""What only several sessions of a project prove: habits, comparisons, skills; and the course of one session."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.stages.mine import draw
from ctx_pipeline_tests.factories.views import SECOND, START, view


def lessons(name, *sessions):
    method = discovery.methods()[name]
    drawn = [c for s in sessions for c in draw(method, s.build())[0]]
    return consolidate(method.combine(drawn) if method.combine else drawn)


def day(name, number, **place):
    return view(name, start=START + number * 86_400 * SECOND, **place)


@pytest.mark.feature("mining.conventions")
def test_the_command_that_most_sessions_tested_with_is_the_habit_of_the_project():
    sessions = [
        day("a", 1).shell("make check 2>&1 | tail -5", text="ok").shell("pytest tests/test_a.py::test_b -v", text="1 passed"),
        day("b", 2).shell("cd /w/app && make check", text="ok"),
        day("c", 3).shell("make check", exit=1, text="error: boom").shell("pytest", text="3 passed"),
        day("d", 4).shell("pytest -q", text="3 passed"),
        day("e", 5, cwd="/w/other").shell("npm test", text="ok"),
    ]
    (found,) = lessons("project_conventions", *sessions)
    assert found.kind == "repo_convention"
    assert found.text == "run the tests with `make check` (2 of 4 sessions), also `pytest` (2); only some: `pytest tests/test_a.py::test_b`"
    assert (found.support, found.repository, found.confidence) == (2, "/w/app", 0.5)
    assert set(found.sessions) == {"claude/a", "claude/b"}
    assert len(found.evidence) == 6
    assert json.loads(found.structured)["commands"] == ["make check", "pytest"]


@pytest.mark.feature("mining.conventions")
def test_the_order_of_checks_that_sessions_end_with_is_a_habit():
    sessions = [
        day("a", 1).shell("make fmt").shell("make lint").shell("make test"),
        day("b", 2).shell("make test").edit("/w/app/a.py").shell("make fmt").shell("make lint").shell("make test"),
    ]
    found = [m for m in lessons("project_conventions", *sessions) if "order" in m.text]
    assert [m.text for m in found] == ["`make fmt` → `make lint` → `make test`, in this order in 2 of 2 sessions that ran them"]
    both_ways = [sessions[0], day("c", 3).shell("make test").shell("make lint").shell("make fmt")]
    assert [m for m in lessons("project_conventions", *both_ways) if "order" in m.text] == []


@pytest.mark.feature("mining.conventions")
def test_a_fork_that_repeats_its_parents_calls_and_one_session_alone_make_no_habit():
    once = day("a", 1).shell("make check", text="ok")
    assert lessons("project_conventions", once) == []
    assert lessons("project_conventions", once, day("fork", 1).shell("make check", text="ok")) == []
    asks = [day(n, i).shell("command -v ruff", text="/bin/ruff") for i, n in enumerate("ab")]
    assert lessons("project_conventions", *asks) == []


@pytest.mark.feature("mining.success-failure")
def test_a_step_after_which_a_check_passes_and_without_which_it_fails_is_a_success_pattern():
    with_it = [day(f"w{n}", n).edit("/w/app/a.py").shell("make fmt").shell("make lint", text="ok") for n in range(3)]
    without = [day(f"o{n}", 10 + n).edit("/w/app/a.py").shell("make lint", exit=1, text="error: unformatted") for n in range(2)]
    found = [m for m in lessons("reme", *with_it, *without) if m.kind == "procedure"]
    assert [m.text for m in found] == ["`make lint` passed at once in 3 of 3 sessions after `make fmt`, in 0 of 2 without it"]
    assert found[0].support == 3
    assert [m for m in lessons("reme", *with_it, without[0]) if m.kind == "procedure"] == []


@pytest.mark.feature("mining.success-failure")
def test_a_failure_that_two_sessions_met_is_a_trigger_and_one_alone_is_not():
    first = day("a", 1).shell("make test", exit=1, text="error: port 5432 is taken")
    second = day("b", 2).shell("make test", exit=1, text="error: port 6000 is taken").shell("make test", text="ok")
    found = [m for m in lessons("reme", first, second) if m.kind == "failure_trigger"]
    assert [m.text for m in found] == ["`make test` failed with “error: port 6000 is taken” in 2 sessions; 1 of them got it to pass"]
    assert found[0].support == 2
    assert lessons("reme", first) == []
    assert list(lessons("reme", first, day("c", 3, cwd="/w/other").shell("make test", exit=1, text="error: port 1 is taken"))) == []


@pytest.mark.feature("mining.success-failure")
def test_a_program_that_was_absent_in_one_session_and_ran_otherwise_in_others_is_a_tool_lesson():
    absent = day("a", 1).shell("pytest", exit=127, text="bash: pytest: command not found")
    works = [day(n, i + 2).shell("uv run pytest", text="3 passed") for i, n in enumerate("bc")]
    found = [m for m in lessons("reme", absent, *works) if m.kind == "tool_lesson"]
    assert [m.text for m in found] == ["`pytest` fails with “bash: pytest: command not found”; `uv run pytest` passed in 2 other sessions"]
    assert any(e.startswith("b.") for e in found[0].evidence)


@pytest.mark.feature("mining.success-failure")
def test_what_the_person_refused_with_a_rule_is_a_risk_rule_and_a_mere_no_is_not():
    def refused(said, command="npm install"):
        text = f"The tool use was rejected. The user provided the following reason for the rejection: {said}"
        return day("a", 1).shell(command, exit=None, failed=True, text=text)

    (found,) = lessons("reme", refused("don't install globally, use pnpm"))
    assert (found.kind, found.text) == ("risk_rule", "`npm install` was refused: “don't install globally, use pnpm”")
    for said in ("i'll take it from here", "what does this do?", "no", "use " + "long " * 50):
        assert lessons("reme", refused(said)) == []


def changed(name, number, ask, *files, check="make test"):
    return day(name, number).prompt(ask).edit(*(f"/w/app/{f}" for f in files)).shell(check, text="ok")


@pytest.mark.feature("mining.skills", "mining.turn-boundaries")
def test_a_file_that_two_sessions_changed_and_checked_becomes_a_skill_with_its_companions():
    (found,) = lessons(
        "skill_pro",
        changed("a", 1, "add a flag that skips hidden files please", "export.py", "docs.md"),
        changed("b", 2, "make the export keep empty folders as well", "export.py", "docs.md"),
        changed("c", 3, "rename the loader to something that fits better", "loader.py"),
    )
    assert found.kind == "skill"
    assert found.text == (
        "`export.py` was changed in 2 sessions, together with `docs.md` (2), and checked with `make test` (2): "
        "“add a flag that skips hidden files please”, “make the export keep empty folders as well”"
    )
    body = json.loads(found.structured)
    assert body["steps"] == ["change `export.py`", "see whether `docs.md` changes with it", "run `make test`"]
    assert body["termination"] == "`make test` passes"
    assert body["verification"] == ["`make test`"]
    assert len(body["activation"]) == 2


@pytest.mark.feature("mining.turn-boundaries")
def test_a_turn_that_failed_at_the_end_or_was_corrected_supports_no_skill():
    good = changed("a", 1, "add a flag that skips hidden files please", "export.py")
    for bad in (
        changed("b", 2, "make the export keep empty folders as well", "export.py").prompt("no, that's wrong, revert it"),
        day("b", 2)
        .prompt("make the export keep empty folders as well")
        .edit("/w/app/export.py")
        .shell("make test", exit=1, text="error: x"),
        day("b", 2).prompt("make the export keep empty folders as well").shell("make test", text="ok").edit("/w/app/export.py"),
    ):
        assert lessons("skill_pro", good, bad) == []
    assert len(lessons("skill_pro", good, changed("b", 2, "make the export keep empty folders", "export.py"))) == 1


@pytest.mark.feature("mining.procedures")
def test_a_session_is_a_procedure_with_goal_preconditions_steps_warnings_and_outcome():
    session = (
        view()
        .prompt("add a flag to the export command that skips hidden files")
        .shell("uv sync", text="ok")
        .edit("/w/app/export.py")
        .shell("make test", exit=1, text="E   KeyError: 'hidden'")
        .edit("/w/app/export.py")
        .shell("make test", text="ok")
        .prompt("no, the default is the other way round")
        .edit("/w/app/export.py", "/w/app/cli.py")
        .shell("make test", text="ok")
        .shell('git commit -m "flag"', text="[main 1a2b3c] flag")
    )
    (found,) = lessons("memp_procedural", session)
    body = json.loads(found.structured)
    assert body["goal"] == "add a flag to the export command that skips hidden files"
    assert body["preconditions"] == ["`uv sync` has run"]
    assert body["steps"] == ["run `uv sync`", "edit `export.py`", "run `make test`", "edit `cli.py`"]
    assert body["warnings"] == ["`make test`: KeyError: 'hidden'", "the person: “no, the default is the other way round”"]
    assert body["outcome"] == "`make test` passed"
    assert found.text.startswith("“add a flag to the export command that skips hidden files”: `export.py`, `cli.py`; `make test` passed")
    assert found.confidence == 0.5


@pytest.mark.feature("mining.procedures", "mining.text-in-project-terms")
def test_two_sessions_that_did_the_same_kind_of_thing_differ_in_text_and_an_unfinished_one_is_none():
    def course(name, number, what, file):
        return (
            day(name, number)
            .prompt(f"add {what} to the export command today")
            .edit(f"/w/app/{file}")
            .prompt("and document it in the readme file please")
            .edit("/w/app/README.md")
            .shell("make docs-build", text="ok")
        )

    found = lessons("memp_procedural", course("a", 1, "a flag", "export.py"), course("b", 2, "a filter", "filters.py"))
    assert len({m.text for m in found}) == 2
    unfinished = (
        day("c", 3)
        .prompt("add a flag to the export command now")
        .edit("/w/app/a.py")
        .prompt("go on with the second part")
        .edit("/w/app/b.py")
    )
    assert lessons("memp_procedural", unfinished) == []


@pytest.mark.feature("mining.success-failure")
def test_a_program_that_two_sessions_lacked_is_told_with_what_worked_instead_whatever_it_is_for():
    def lacking(name, number, instead):
        lacks = day(name, number).shell("cargo deny check", exit=101, text="error: no such command: `deny`")
        return lacks.shell(f"mise x {instead} -- cargo deny check", text="advisories ok")

    (found,) = lessons("reme", lacking("a", 1, "cargo:cargo-deny"), lacking("b", 2, "aqua:cargo-deny"))
    assert found.text == (
        "`cargo deny check` failed with “error: no such command: `deny`” in 2 sessions; "
        "what worked: `mise x cargo:cargo-deny -- cargo deny check`, `mise x aqua:cargo-deny -- cargo deny check`"
    )
    assert set(found.evidence) >= {"a.e0", "a.e1", "a.e2", "a.e3", "b.e3"}
    other = [
        day(n, i).shell("cargo deny check", exit=1, text="error: a licence is denied").shell("cargo deny check") for i, n in enumerate("cd")
    ]
    assert lessons("reme", *other) == []


@pytest.mark.feature("mining.conventions")
def test_every_check_of_a_line_that_passed_counts():
    sessions = [day(n, i).shell("make fmt && make lint && make test", text="ok") for i, n in enumerate("ab", 1)]
    texts = {m.text for m in lessons("project_conventions", *sessions)}
    assert "run the tests with `make test` (2 of 2 sessions)" in texts
    assert "`make fmt` → `make lint` → `make test`, in this order in 2 of 2 sessions that ran them" in texts
    either = [day(n, i).shell("make lint || make test", text="ok") for i, n in enumerate("ab", 1)]
    assert not any("make test" in m.text for m in lessons("project_conventions", *either))

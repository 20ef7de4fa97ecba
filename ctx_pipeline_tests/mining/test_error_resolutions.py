"""Failures and their cures in hand-made sessions."""

from __future__ import annotations

import pytest

from ctx_pipeline.mining._failures import looks_red, salient_line, signature
from ctx_pipeline.mining.error_resolutions import extract
from ctx_pipeline_tests.factories.views import view

FAILED = "--- FAIL: TestCount (0.00s)\n    count_test.go:42: expected 3, got 4\nFAIL\nexit status 1"


def lessons(session):
    return list(extract(session.build()))


@pytest.mark.feature("mining.error-resolution-edit")
def test_a_failed_test_that_passes_after_an_edit_is_a_lesson_with_cause_files_and_evidence():
    session = (
        view()
        .shell("go test ./... 2>&1 | tail -20", exit=1, text=FAILED)
        .answer("Let me look. The counter starts at 1 because init runs twice. I will fix it.")
        .edit("/w/app/count.go")
        .shell("go test ./...", text="ok  app  0.1s")
    )
    (found,) = lessons(session)
    assert found.kind == "failure_trigger"
    assert found.text == (
        "`go test ./...` failed with “count_test.go:42: expected 3, got 4”; it passed after changes in `count.go`. "
        "The agent's reason: “The counter starts at 1 because init runs twice.”"
    )
    assert found.when_to_use == "`go test` fails with “count_test.go:42: expected 3, got 4”"
    assert found.evidence_refs == ("s1.e0", "s1.e1", "s1.e3", "s1.e5", "s1.e6")
    assert found.structured["files"] == ["count.go"]


@pytest.mark.feature("mining.error-resolution-command")
def test_another_way_to_call_the_program_is_the_lesson():
    session = view().shell("pytest -q", exit=127, text="bash: pytest: command not found").shell("uv run pytest -q", text="12 passed")
    (found,) = lessons(session)
    assert found.kind == "tool_lesson"
    assert found.text == "`pytest -q` fails with “bash: pytest: command not found”; `uv run pytest -q` works."


@pytest.mark.feature("mining.error-resolution-setup")
def test_what_had_to_be_installed_is_the_lesson():
    session = (
        view()
        .shell("pytest", exit=1, text="ModuleNotFoundError: No module named 'yaml'")
        .shell("uv sync", text="Installed 12 packages")
        .shell("pytest", text="3 passed")
    )
    (found,) = lessons(session)
    assert found.text == "`pytest` fails with “ModuleNotFoundError: No module named 'yaml'” until `uv sync` has run."
    assert found.evidence_refs == ("s1.e0", "s1.e1", "s1.e2", "s1.e3", "s1.e4", "s1.e5")


@pytest.mark.feature("mining.nothing-to-learn")
@pytest.mark.parametrize(
    "session",
    [
        view().prompt("hello").answer("hi"),
        view().shell("pytest", text="3 passed"),
        view().shell("pytest", exit=1, text="E   AssertionError: boom").edit("/w/app/a.py"),
        view().shell("pytest", exit=1, text="E   AssertionError: boom").shell("pytest", text="3 passed"),
        view()
        .shell("pytest", exit=1, text="E   AssertionError: boom")
        .edit("/w/app/a.py")
        .shell("pytest | tail -1", text="1 failed, 2 passed"),
        view().shell("cat missing.txt", exit=1, text="cat: missing.txt: No such file or directory").shell("cat there.txt", text="x"),
        view().shell("rg todo", exit=1).edit("/w/app/a.py").shell("rg todo", text="x"),
        view().shell("pytest", exit=1, text="E   boom").edit("/w/app/a.py").on("agent").shell("pytest", text="ok"),
        view().shell("pytest", exit=1, text="E   AssertionError: boom").edit("/tmp/scratch.py").shell("pytest", text="3 passed"),
    ],
    ids=["talk", "green", "unsolved", "flaky", "red-behind-a-pipe", "looking", "no-hit", "other-thread", "outside"],
)
def test_a_session_with_nothing_to_learn_gives_nothing(session):
    assert lessons(session) == []


@pytest.mark.feature("mining.error-resolution-edit")
def test_a_different_error_in_between_breaks_the_pair():
    session = (
        view()
        .shell("pytest", exit=1, text="E   KeyError: 'a'")
        .edit("/w/app/a.py")
        .shell("pytest", exit=1, text="E   TypeError: spam takes no eggs")
        .edit("/w/app/b.py")
        .shell("pytest", text="3 passed")
    )
    assert [c.structured["error"] for c in lessons(session)] in ([], ["TypeError: spam takes no eggs"])


@pytest.mark.feature("mining.salient-line")
@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Exit code 1\n[lint] ERROR task failed\nsrc/a.go:4:1: unused variable x (unused)", "src/a.go:4:1: unused variable x (unused)"),
        ("\x1b[31merror[E0382]: borrow of moved value: `x`\x1b[0m\n --> src/main.rs:4", "error[E0382]: borrow of moved value: `x`"),
        ("Traceback (most recent call last):\n  File x\nValueError: bad", "ValueError: bad"),
        ("all good", ""),
        ("", ""),
        ("Found 3 errors.", ""),
    ],
)
def test_the_line_that_says_what_is_wrong(output, line):
    assert salient_line(output) == line


@pytest.mark.feature("mining.salient-line")
def test_paths_of_the_person_and_numbers_do_not_make_two_errors():
    assert salient_line("/w/app/src/x.py:3: error: bad name", "/w/app") == "src/x.py:3: error: bad name"
    assert "paul" not in salient_line("/Users/paul/x.py:3: error: bad")
    assert signature("x.py:3: error at 0xdeadbeef") == signature("/tmp/1/x.py:99: error at 0xfeedface")
    assert looks_red("FAILED tests/test_a.py::test_b")
    assert not looks_red("0 failed, 3 passed")


@pytest.mark.feature("mining.salient-line")
def test_hostile_output_ends():
    for text in (
        "\x1b]" * 50_000,
        "error" * 20_000,
        "a:" * 50_000,
        "=" * 100_000,
        "E" + " " * 100_000,
        "\n".join(["x.py:1: bad"] * 20_000),
        "/Users/" * 20_000,
    ):
        salient_line(text, "/w")
        signature(text[:2000])
        looks_red(text)

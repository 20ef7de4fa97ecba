"""What was checked, by which runner, how many of what, and whether anything ran at all."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.signals.checks import last_test_outcome, test_run_count
from ctx_pipeline_tests.factories.views import view

GO = "".join(f"ok  \texample.org/app/p{n}\t0.01s\n" for n in range(19))


def checks(command, text="", status=0, host="claude"):
    return check_runs(view(host=host).shell(command, exit=status, text=text).build())


@pytest.mark.feature("facts.checks")
def test_counts_come_with_their_unit_and_the_line_that_shows_them():
    (row,) = checks("pytest -q", "....\n1 failed, 3 passed, 2 skipped in 0.31s", 1)
    assert (row.runner, row.kind, row.passed, row.failed, row.skipped, row.unit) == ("pytest", "test", 3, 1, 2, "test")
    assert (row.result, row.event, row.line, row.ran) == ("failed", "s1.e1", "1 failed, 3 passed, 2 skipped in 0.31s", True)


@pytest.mark.feature("facts.checks")
def test_packages_are_not_tests_and_those_of_a_tail_are_no_total():
    (whole,) = checks("go test ./...", GO)
    assert (whole.passed, whole.unit, whole.result) == (19, "package", "passed")
    (cut,) = checks("go test ./... | tail -30", GO)
    assert (cut.passed, cut.unit, cut.result) == (None, "", "passed")


@pytest.mark.feature("facts.checks")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("pytest --markers", "@pytest.mark.slow: slow"),
        ("pytest --collect-only -q", "5 tests collected in 0.02s"),
        ("pytest -q -k nothing", "no tests ran in 0.01s"),
        ("go test ./... -run Nothing", "ok  \texample.org/app\t0.01s [no tests to run]\n"),
        ("cargo test nothing", "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n"),
    ],
)
def test_what_lists_or_finds_no_test_has_not_run_and_not_passed(command, text):
    rows = checks(command, text)
    assert [(r.ran, r.result) for r in rows] == [(False, "unknown")]


@pytest.mark.feature("facts.checks")
def test_looking_for_a_runner_is_no_check():
    assert checks("command -v pytest || true", "/usr/bin/pytest") == []


@pytest.mark.feature("facts.checks")
def test_a_script_named_check_is_what_its_output_shows():
    (row,) = checks("npm run check", "Checked 3 files\n✖ 2 problems (2 errors, 0 warnings)", 1)
    assert (row.runner, row.kind, row.failed, row.unit, row.result) == ("eslint", "lint", 2, "problem", "failed")
    (silent,) = checks("npm run check")
    assert (silent.kind, silent.result) == ("check", "passed")
    assert test_run_count.function(view().shell("npm run check").build()).value == 0


@pytest.mark.feature("facts.checks")
def test_a_chain_of_checks_is_a_row_each():
    rows = checks("ruff check . && mypy . && pytest -q", "All checks passed!\nSuccess: no issues found in 3 source files\n4 passed in 0.2s")
    assert sorted((r.kind, r.result) for r in rows) == [("lint", "passed"), ("test", "passed"), ("types", "passed")]
    assert [r.place for r in rows] == [0, 1, 2]


@pytest.mark.feature("facts.checks")
def test_a_check_that_was_refused_or_runs_on_says_so():
    (refused,) = check_runs(view().shell("pytest", refused="").build())
    assert (refused.result, refused.ran) == ("refused", False)
    text = "Process running with session ID 9\nOutput:\nCompiling app"
    running = view(host="codex").shell("cargo test", exit=None, text=text).build()
    assert [r.result for r in check_runs(running)] == ["running"]
    assert last_test_outcome.function(running).value is None


@pytest.mark.feature("facts.checks")
def test_an_end_that_nothing_shows_is_unknown():
    (row,) = checks("pytest -q | tail -1", "warnings")
    assert (row.ran, row.result) == (None, "unknown")
    assert last_test_outcome.function(view().shell("pytest -q | tail -1", text="warnings").build()).value is None

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
    (cut,) = checks("go test ./... | tail -19", GO)
    assert (cut.passed, cut.unit, cut.result) == (None, "", "passed")
    (short,) = checks("go test ./... | tail -30", GO)
    assert (short.passed, short.unit) == (19, "package")


@pytest.mark.feature("facts.checks")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("pytest --markers", "@pytest.mark.slow: slow"),
        ("pytest --collect-only -q", "5 tests collected in 0.02s"),
        ("pytest -q -k nothing", "no tests ran in 0.01s"),
        ("go test ./... -run Nothing", "ok  \texample.org/app\t0.01s [no tests to run]\n"),
        ("npx vitest run", "No Test Files found, exiting with code 0"),
        ("npx jest nothing", "\u2716 NO TESTS FOUND, exiting with code 0"),
        ("pytest -q -k nothing", "COLLECTED 0 items / 9 deselected"),
        ("npx prettier --check src", "No files were processed in the specified paths."),
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
@pytest.mark.parametrize("status", [0, 1])
def test_a_report_belongs_to_the_program_that_printed_it(status):
    said = "[fmt] $ gofmt -w .\n[lint] $ golangci-lint run\n1 issues:\n* errcheck: 1" if status else "0 issues.\n[fmt] $ gofmt -w ."
    report, silent = checks("mise run fmt && mise run lint", said, status)
    assert (report.runner, report.program, report.failed, report.result) == (
        ("golangci-lint", "mise run lint", 1, "failed") if status else ("golangci-lint", "mise run lint", 0, "passed")
    )
    assert (silent.program, silent.ran, silent.result) == ("mise run fmt", True, "passed")


@pytest.mark.feature("facts.checks")
def test_ty_and_cargo_check_are_type_checkers_though_they_print_what_others_print():
    (ty,) = checks("uv run ty check", "All checks passed!\nWARN ty is pre-release software")
    assert (ty.runner, ty.kind, ty.program, ty.failed, ty.line) == ("ty", "types", "uv run ty check", 0, "All checks passed!")
    (cargo,) = checks("cargo check", "error: could not compile `a` (lib) due to 2 previous errors", 101)
    assert (cargo.runner, cargo.kind, cargo.failed, cargo.unit) == ("cargo", "types", 2, "error")


@pytest.mark.feature("facts.checks")
@pytest.mark.parametrize(
    ("command", "text", "status", "expected"),
    [
        ("make build && pytest -q | tail -3", "3 passed in 0.1s", 0, {"test": "passed", "build": "passed"}),
        ("make build; pytest -q | tail -3", "3 passed in 0.1s", 0, {"test": "passed", "build": "unknown"}),
        ("make build || pytest -q", "3 passed in 0.1s", 0, {"test": "passed", "build": "unknown"}),
        ("make build && pytest -q", "1 failed in 0.1s", 1, {"test": "failed", "build": "passed"}),
        ("pytest -q && make build", "1 failed in 0.1s", 1, {"test": "failed", "build": "unknown"}),
        ("make build; git status", "", 1, {"build": "unknown"}),
        ("cd web && make build", "", 2, {"build": "failed"}),
        ("set -o pipefail; make build | tail -3", "", 0, {"build": "passed"}),
        ("make build &", "", 0, {"build": "unknown"}),
    ],
)
def test_a_program_without_a_report_ended_as_the_line_proves(command, text, status, expected):
    rows = checks(command, text, status)
    assert {r.kind: r.result for r in rows} == expected
    assert all(r.line is None for r in rows if r.result == "unknown")


@pytest.mark.feature("facts.checks")
def test_a_script_failed_with_what_it_ran():
    tsc, script = checks("npm run build 2>&1 | head -50", "> tsc\na.ts(1,1): error TS1005: x")
    assert (tsc.runner, tsc.kind, tsc.program, tsc.failed) == ("tsc", "types", "", 1)
    assert (script.kind, script.result, script.line) == ("build", "failed", "a.ts(1,1): error TS1005: x")


@pytest.mark.feature("facts.checks")
def test_a_runner_that_gave_up_before_its_first_test_failed_and_counted_nothing():
    (row,) = checks("pytest tests/gone.py", "ERROR: file or directory not found: tests/gone.py\n\n=== no tests ran in 0.00s ===", 4)
    assert (row.result, row.ran, row.passed, row.failed, row.unit) == ("failed", None, None, None, "")
    assert row.line == "ERROR: file or directory not found: tests/gone.py"
    session = view().shell("pytest tests/gone.py", exit=4, text="ERROR: file or directory not found: tests/gone.py\n").build()
    assert last_test_outcome.function(session).value == "failed"


@pytest.mark.feature("facts.checks")
@pytest.mark.parametrize(
    ("command", "text", "status"),
    [
        ("go test ./docs/...", "?   \texample.org/docs\t[no test files]\n", 0),
        ("pytest -m unit", "collected 205 items / 205 deselected / 0 selected\n\n=== 205 deselected in 0.58s ===\n", 5),
        ("npx biome check dist/a.js", "No files were processed in the specified paths.\nChecked 0 files in 2ms.", 1),
        ("mypy -V", "mypy 1.19.0", 0),
        ("npx tsc --init", "Created a new tsconfig.json", 0),
    ],
)
def test_what_looked_at_nothing_has_not_run(command, text, status):
    assert [(r.ran, r.result) for r in checks(command, text, status)] == [(False, "unknown")]


@pytest.mark.feature("facts.checks")
@pytest.mark.parametrize(
    "command",
    ["pre-commit install", "rustc -Vv", "clang -dumpversion", "npx playwright install chromium", "ruff rule E501", "npx vitest list"],
)
def test_what_a_runner_sets_up_or_explains_is_no_check(command):
    assert checks(command, "done", 0) == []


@pytest.mark.feature("facts.checks")
def test_a_linter_that_runs_a_hook_of_its_own_first_has_run():
    text = "src/a.py:1:0: C0114: Missing\n\nYour code has been rated at 9.00/10"
    assert [r.ran for r in checks("pylint --init-hook='import sys' src", text, 0)] == [True]


@pytest.mark.feature("facts.checks")
def test_an_output_quoted_in_json_is_read_like_any_other():
    said = '"output":"running 2 tests\\r\\ntest result: ok. 2 passed; 0 failed\\r\\n"'
    cell = f'Script completed\nOutput:\n\n{{"chunk_id":"a","exit_code":0,{said}}}'
    script = 'const r = await tools.exec_command({cmd:"cargo test"}); text(JSON.stringify(r));'
    (row,) = check_runs(view(host="codex").tool("exec", action="shell", argv=[script], text=cell).build())
    assert (row.runner, row.passed, row.line) == ("cargo", 2, "test result: ok. 2 passed; 0 failed")


@pytest.mark.feature("facts.checks")
def test_an_end_that_nothing_shows_is_unknown():
    (row,) = checks("pytest -q | tail -1", "warnings")
    assert (row.ran, row.result) == (None, "unknown")
    assert last_test_outcome.function(view().shell("pytest -q | tail -1", text="warnings").build()).value is None


@pytest.mark.feature("facts.checks-of-dependencies")
@pytest.mark.parametrize(
    ("command", "kind", "result"),
    [
        ("mise x aqua:EmbarkStudios/cargo-deny -- cargo deny check advisories", "lint", "passed"),
        ("cargo-deny check", "lint", "passed"),
        ("npm audit --audit-level high", "lint", "passed"),
        ("uv run pip-audit", "lint", "passed"),
        ("cargo deny --version", "lint", "unknown"),
        ("npm audit fix", None, None),
        ("git deny", None, None),
    ],
)
def test_what_checks_dependencies_is_a_check(command: str, kind: str | None, result: str | None):
    found = check_runs(view().prompt("go").shell(command, exit=0, text="ok").build())
    assert [(row.kind, row.result) for row in found] == ([(kind, result)] if kind else [])


@pytest.mark.feature("facts.chains")
@pytest.mark.parametrize(
    ("command", "text", "result"),
    [
        ("docker compose up -d && pytest", "no configuration file provided: not found", "unknown"),
        ("docker compose up -d && pytest", "E   KeyError: 'X'\n1 failed, 2 passed in 0.1s", "failed"),
        ("docker compose up -d && pytest", "bash: line 1: pytest: command not found", "failed"),
        ("set -e; npm ci; make test", "npm error code ERESOLVE", "unknown"),
        ("cd web && pytest", "", "failed"),
        ("git add -A && pytest", "", "failed"),
        ("docker compose up -d; pytest", "no configuration file provided", "failed"),
    ],
)
def test_a_check_that_an_earlier_program_of_its_chain_may_have_kept_from_running_has_not_failed(command, text, result):
    assert [row.result for row in checks(command, text, 1)] == [result]


@pytest.mark.feature("facts.chains")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("npm ci && npm test", "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve"),
        ("cd web && pytest", "bash: line 1: cd: web: No such file or directory"),
        ("go mod tidy && go test ./...", "go: github.com/x/y@v1: invalid version"),
    ],
)
def test_a_check_that_a_failed_program_before_it_kept_from_running_did_not_fail(command, output):
    runs = check_runs(view(cwd="/w").shell(command, exit=1, text=output).build())
    assert [(run.result, run.ran) for run in runs] == [("unknown", None)]

"""What outputs of test runners, linters, type checkers and builds say."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.check_results import check_results

TESTS = [
    ("===== 1 failed, 4 passed, 2 skipped, 3 warnings in 0.31s =====", "pytest", (4, 1, 2)),
    ("..F\n1 failed, 2 passed in 0.02s", "pytest", (2, 1, 0)),
    ("3 passed, 1 xfailed, 2 errors in 61.20s (0:01:01)", "pytest", (3, 2, 1)),
    ("collected 0 items\n\n===== no tests ran in 0.01s =====", "pytest", (0, 0, 0)),
    ("ERROR: file or directory not found: test/test_x.py\n\n===== no tests ran in 0.00s =====", "pytest", (0, 1, 0)),
    ("!!!!!!!! Interrupted: 1 error during collection !!!!!!!!\n===== 1 error in 0.10s =====", "pytest", (0, 1, 0)),
    ("Ran 12 tests in 0.004s\n\nOK", "unittest", (12, 0, 0)),
    ("Ran 5 tests in 0.004s\n\nFAILED (failures=1, errors=2, skipped=1)", "unittest", (1, 3, 1)),
    ("Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 2 skipped, 30 passed, 33 total", "jest", (30, 1, 2)),
    ("Test Suites: 1 failed, 1 total\nTests:       0 total", "jest", (0, 1, 0)),
    (" Test Files  1 failed | 2 passed (3)\n      Tests  2 failed | 41 passed | 1 todo (44)\n   Duration  1.20s", "vitest", (41, 2, 1)),
    (" Test Files  1 passed (1)\n   Duration  1.20s", "vitest", (1, 0, 0)),
    ("  14 passing (35ms)\n  2 pending\n  1 failing\n\n  1) adds:", "mocha", (14, 1, 2)),
    ("  1 failed\n    [chromium] > a.spec.ts:3:5 > adds\n  5 passed (3.2s)", "playwright", (5, 1, 0)),
    ("# tests 4\n# pass 3\n# fail 1\n# skipped 0", "node", (3, 1, 0)),
    ("1..3\nok 1 adds\nnot ok 2 divides\nok 3 ends", "tap", (2, 1, 0)),
    (" 7 pass\n 1 fail\n 20 expect() calls\nRan 8 tests across 2 files. [12.00ms]", "bun", (7, 1, 0)),
    ("ok | 3 passed | 0 failed (5ms)", "deno", (3, 0, 0)),
    ("--- FAIL: TestAdd (0.00s)\n    add_test.go:9: got 3\n--- PASS: TestSub (0.00s)\nFAIL\texample.com/calc\t0.003s", "go", (1, 1, 0)),
    ("ok  \texample.com/a\t0.2s\nok  \texample.com/b\t(cached)\n?   \texample.com/c\t[no test files]", "go", (2, 0, 0)),
    ("FAIL\texample.com/calc [build failed]\nFAIL", "go", (0, 1, 0)),
    ("FAIL Required test coverage of 99% not reached. Total coverage: 98.82%\n==== 66 passed in 3.84s ====", "pytest", (66, 0, 0)),
    ("test result: ok. 12 passed; 0 failed; 1 ignored\n\ntest result: FAILED. 4 passed; 2 failed; 0 ignored", "cargo", (16, 2, 1)),
    ("     Summary [   0.105s] 5 tests run: 4 passed, 1 failed, 2 skipped", "nextest", (4, 1, 2)),
    ("Tests run: 3, Failures: 0, Errors: 0, Skipped: 0 - in 1 s\nTests run: 5, Failures: 1, Errors: 1, Skipped: 1", "maven", (2, 2, 1)),
    ("8 tests completed, 2 failed, 1 skipped", "gradle", (5, 2, 1)),
    ("[         3 tests successful      ]\n[         1 tests failed          ]", "junit", (3, 1, 0)),
    ("5 examples, 1 failure, 1 pending", "rspec", (3, 1, 1)),
    ("5 runs, 9 assertions, 1 failures, 1 errors, 0 skips", "minitest", (3, 2, 0)),
    ("Tests: 4, Assertions: 5, Failures: 1, Skipped: 1.", "phpunit", (2, 1, 1)),
    ("OK (4 tests, 5 assertions)", "phpunit", (4, 0, 0)),
    ("Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 20 ms", "dotnet", (2, 1, 0)),
    ("67% tests passed, 1 tests failed out of 3", "ctest", (2, 1, 0)),
    ("\t Executed 3 tests, with 1 failure (0 unexpected) in 0.1 (0.1) seconds", "xctest", (2, 1, 0)),
    ("2 doctests, 5 tests, 1 failure, 1 skipped", "exunit", (3, 1, 1)),
    ("00:01 +3: adds\n00:02 +3 ~1 -1: Some tests failed.", "dart", (3, 1, 1)),
    ("[  PASSED  ] 3 tests.\n[  FAILED  ] 1 test, listed below:", "googletest", (3, 1, 0)),
    ("test cases: 3 | 2 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed", "catch2", (2, 1, 0)),
    ("FAIL! -- 4 Passed | 1 Failed | 0 Pending | 2 Skipped", "ginkgo", (4, 1, 2)),
    ("[test] $ pytest -q\n[test] ===== 2 passed in 0.10s =====", "pytest", (2, 0, 0)),
    ("\x1b[31m===== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 0.10s =====\x1b[0m", "pytest", (2, 1, 0)),
]  # fmt: skip

PROBLEMS = [
    ("Found 3 errors.\n[*] 2 fixable with the `--fix` option.", "ruff", "lint", 3),
    ("Found 3 errors (3 fixed, 0 remaining).", "ruff", "lint", 0),
    ("Found 3 errors (1 fixed, 2 remaining).", "ruff", "lint", 2),
    ("All checks passed!", "ruff", "lint", 0),
    ("a.py:1: error: Incompatible types\nFound 1 error in 1 file (checked 3 source files)", "mypy", "types", 1),
    ("Success: no issues found in 3 source files", "mypy", "types", 0),
    ("src/a.ts(3,5): error TS2322: Type\nsrc/b.ts(1,1): error TS1005: ';' expected.", "tsc", "types", 2),
    ("src/a.ts:3:5 - error TS2322: Type\n\nFound 1 error in src/a.ts:3", "tsc", "types", 1),
    ("✖ 12 problems (3 errors, 9 warnings)", "eslint", "lint", 12),
    ("3 errors, 1 warning, 0 informations", "pyright", "types", 3),
    ("0 errors, 0 warnings, 0 informations", "pyright", "types", 0),
    ("Found 4 diagnostics", "ty", "types", 4),
    ("[lint] $ golangci-lint run ./...\n0 issues.", "golangci-lint", "lint", 0),
    ("5 issues:\n* errcheck: 5", "golangci-lint", "lint", 5),
    ("10 files inspected, 3 offenses detected", "rubocop", "lint", 3),
    ("10 files inspected, no offenses detected", "rubocop", "lint", 0),
    ("would reformat a.py\n2 files would be reformatted, 3 files already formatted", "formatter", "lint", 2),
    ("Checking formatting...\n[warn] src/a.ts\n[warn] src/b.tsx\n[warn] Code style issues found", "prettier", "lint", 2),
    ("a.py:1:1: F401 'os' imported but unused\nb.py:2:80: E501 line too long", "flake8", "lint", 2),
    ("a.py:1:0: C0114: Missing module docstring\n\nYour code has been rated at 7.50/10", "pylint", "lint", 1),
    ("ruff.....................................................................Failed\nmypy.....Passed", "pre-commit", "lint", 1),
    ("error: could not compile `acme` (lib) due to 3 previous errors; 2 warnings emitted", "cargo", "build", 3),
    ("    Finished `dev` profile [unoptimized] target(s) in 0.1s", "cargo", "build", 0),
    ("BUILD FAILED in 3s", "gradle", "build", 1),
    ("2 errors generated.", "clang", "build", 2),
    ("Checking formatting...\nAll matched files use Prettier code style!", "prettier", "lint", 0),
    ("Diff in /w/src/a.rs:6:\n-x\n+y\nDiff in /w/src/b.rs:9:", "rustfmt", "lint", 2),
    ("cmd/a.go:42:26: undefined: defaultAgent\ncmd/a.go:85:14: undefined: defaultAgent", "go", "build", 2),
]


@pytest.mark.feature("signals.tests-parsed")
@pytest.mark.parametrize(("output", "tool", "counts"), TESTS, ids=lambda v: v if isinstance(v, str) and v.isalnum() else "")
def test_a_runners_sum_is_read(output, tool, counts):
    (found,) = [r for r in check_results(f"collecting ...\n{output}\n") if r.purpose == "test"]
    assert (found.tool, (found.passed, found.failed, found.skipped)) == (tool, counts)
    assert found.ok is (counts[1] == 0)


@pytest.mark.feature("signals.tests-parsed")
@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("=== short ===\n3 passed in 0.1s\n1 error in the log", "3 passed in 0.1s"),
        ("Ran 2 tests in 0.1s\n\nFAILED (errors=1)", "FAILED (errors=1)"),
        ("  Tests:  1 failed, 2 passed\nTime: 1 s", "Tests:  1 failed, 2 passed"),
        ("  3 passing\n  1 failing\n\n  1) adds", "1 failing"),
        ("--- PASS: TestA (0.1s)\nPASS\nok  \texample.org/a\t0.3s\n[test] $ go test", "ok  \texample.org/a\t0.3s"),
        ("ok  \texample.org/a\t0.3s\nFAIL\texample.org/b\t0.2s\nok  \texample.org/c\t0.3s\nFAIL", "FAIL\texample.org/b\t0.2s"),
        (
            "test result: ok. 5 passed; 0 failed\n\ntest result: ok. 0 passed; 0 failed\nFinished in 3s",
            "test result: ok. 5 passed; 0 failed",
        ),
        ("Found 0 tests\n0 issues.\n[lint] ok, tests: none", "0 issues."),
        ("a.ts(1,1): error TS1005: x\n\nFAILED", "a.ts(1,1): error TS1005: x"),
        ("Finished early\n    Finished `dev` profile in 3s\nnote: 1 error", "Finished `dev` profile in 3s"),
        ("ERROR: file or directory not found: a.py\n\n=== no tests ran in 0.00s ===", "ERROR: file or directory not found: a.py"),
        ("1 error, 0 warnings\nWARNING: 1 new version", "1 error, 0 warnings"),
    ],
)
def test_the_line_that_says_so_is_that_of_the_report(output, line):
    found = check_results(f"{output}\n")
    assert line in [r.line for r in found]


@pytest.mark.feature("signals.tests-parsed")
def test_lines_are_counted_in_the_whole_output_and_sums_at_its_end():
    noise = "x" * 99 + "\n"
    listed = "".join(f"--- PASS: Test{n} (0.00s)\n{noise}" for n in range(200))
    (go,) = check_results(f"{listed}PASS\nok  \texample.org/a\t0.3s\n")
    assert (go.passed, go.by_line) == (200, True)
    (tsc,) = check_results("".join(f"a.ts({n},1): error TS1005: x\n{noise}" for n in range(90)))
    assert (tsc.failed, tsc.by_line) == (90, True)


@pytest.mark.feature("signals.tests-parsed")
def test_go_counts_packages_where_it_names_the_failed_tests_alone():
    quiet = "--- FAIL: TestAdd (0.00s)\nFAIL\nFAIL\texample.org/a\t0.1s\nok  \texample.org/b\t0.1s\n"
    (packages,) = check_results(quiet)
    assert (packages.passed, packages.failed, packages.unit) == (1, 1, "package")
    (tests,) = check_results(f"=== RUN   TestAdd\n{quiet}")
    assert (tests.passed, tests.failed, tests.unit) == (0, 1, "test")


@pytest.mark.feature("signals.tests-parsed")
@pytest.mark.parametrize("output", ["?   \texample.org/a\t[no test files]\n", "=== 205 deselected in 0.58s ===\n"])
def test_a_runner_that_found_no_test_reports_none(output):
    (found,) = check_results(output)
    assert (found.passed, found.failed, found.skipped, found.stopped) == (0, 0, 0, False)


@pytest.mark.feature("signals.lint-types")
@pytest.mark.parametrize(("output", "tool", "purpose", "count"), PROBLEMS)
def test_problems_of_linters_type_checkers_and_builds_are_counted(output, tool, purpose, count):
    (found,) = check_results(f"{output}\n")
    assert (found.tool, found.purpose, found.failed) == (tool, purpose, count)


@pytest.mark.feature("signals.tests-parsed")
def test_two_tools_of_one_command_are_two_results():
    found = check_results("Found 2 errors.\n[*] 1 fixable\n===== 5 passed in 0.2s =====\n")
    assert [(r.tool, r.passed, r.failed) for r in found] == [("pytest", 5, 0), ("ruff", 0, 2)]


@pytest.mark.feature("signals.tests-parsed")
@pytest.mark.parametrize(
    "output",
    [
        "",
        "total 12\n-rw-r--r-- 1 sam sam 12 failed.txt",
        "The build passed and 3 tests failed last week.",
        "def test_passed(): ...\n# Tests: none yet",
        "error: cannot open a.txt",
        "git: 2 files changed, 3 insertions(+)",
        "src/a.go:12:func main() {",
    ],
)
def test_ordinary_output_is_no_result(output):
    assert check_results(output) == ()


@pytest.mark.feature("signals.hostile-text")
def test_hostile_output_is_read_in_linear_time():
    pieces = (
        "1 failed, ",
        "Tests:  1 failed | ",
        "=",
        "= ",
        "Ran 1 tests in ",
        "--- FAIL: ",
        "[ 1 tests failed ",
        "1..1\nok 1",
        "\x1b[",
        "a.go:1:1: ",
        "error TS1005 ",
        "Diff in a ",
        "   ",
        ".",
        "9",
    )
    for piece in pieces:
        for text in (piece * 40_000, f"\n{piece}" * 20_000, f"x{piece * 3000}\n" * 5):
            assert all(len(result.line) <= 1_000 and result.failed <= 200_000 for result in check_results(text))

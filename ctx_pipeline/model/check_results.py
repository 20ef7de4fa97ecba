"""What the output of tests, linters, type checkers and builds says: how many passed, how many did not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.model import check_readers as readers
from ctx_pipeline.model.check_readers import CheckResult

if TYPE_CHECKING:
    from ctx_pipeline.model.check_readers import Read

__all__ = ["CheckResult", "check_results"]

_HEAD, _TAIL = 1_500, 4_500
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_TASK = re.compile(r"^\[(?!warn\])[\w:.-]{1,30}\] (?=\S| )", re.MULTILINE)
"""Task runners put the task's name before each line."""


def check_results(output: str) -> tuple[CheckResult, ...]:
    """Return what each tool in an output reported, tests first; empty where none is recognized.

    Reads the first 1,500 and the last 4,500 characters, where tools sum up. Several
    sums of one tool (packages, crates, modules) are added. A runner that stopped before
    its first test counts one failure.
    """
    text = output if len(output) <= _HEAD + _TAIL else f"{output[:_HEAD]}\n{output[-_TAIL:]}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r", "\n")
    if text.startswith("[") or "\n[" in text:
        text = _TASK.sub("", text)
    missing = 0
    for bit, gate in _GATES:
        if gate not in text:
            missing |= bit
    hit = {place for gates, literal, place in _LITERALS if not gates & missing and literal in text}
    return tuple(result for place in sorted(hit) for result in _READERS[place](text))


def _mapping() -> dict[tuple[str, ...], Read]:
    counts = r"(?P<counts>\d[^\n]{0,200})"
    return {
        (" passed", " failed", " error", "no tests ran", "ERROR: "): readers.pytest,
        ("Ran ",): readers.unittest,
        ("Tests", "Test Files", "Test Suites:"): readers.jest,
        ("passing", "failing"): readers.indented("mocha", "passing|failing|pending"),
        (" passed", " failed"): readers.indented("playwright", "passed|failed|flaky|skipped"),
        (" pass\n", " fail\n"): readers.indented("bun", "pass|fail|skip"),
        ("--- ", "ok  ", "FAIL"): readers.go,
        ("DONE ",): readers.lines("gotestsum", r"^DONE (?P<total>\d{1,9}) tests?(?P<counts>[^\n]{0,100}) in ", total="total"),
        ("test result:",): readers.lines("cargo", r"^test result: (?:ok|FAILED)\. " + counts),
        ("tests run:",): readers.lines("nextest", r"^\s{0,12}Summary \[[^\]\n]{1,20}\]\s{1,8}\d[\d/]{0,20} tests? run: " + counts),
        ("Tests run:",): readers.maven,
        ("tests completed",): readers.lines("gradle", r"(?P<total>\d{1,9}) tests completed, (?P<counts>\d[^\n]{0,100})", total="total"),
        ("tests successful", "tests failed"): readers.lines(
            "junit", r"^\[ {0,12}(?P<counts>\d{1,9} tests (?:successful|failed|skipped)) {0,16}\]"
        ),
        ("Tests: succeeded",): readers.lines("scalatest", r"Tests: (?P<counts>succeeded \d[^\n]{0,120})", fields=True),
        (" examples, ", " example, "): readers.lines(
            "rspec", r"^(?P<total>\d{1,9}) examples?, (?P<counts>\d{1,9} failures?[^\n]{0,80})", total="total"
        ),
        (" runs, ",): readers.lines("minitest", r"^(?P<total>\d{1,9}) runs, \d{1,9} assertions, (?P<counts>\d[^\n]{0,100})", total="total"),
        (" assertions, ",): readers.lines(
            "test-unit", r"^(?P<total>\d{1,9}) tests, \d{1,9} assertions, (?P<counts>\d[^\n]{0,100})", total="total"
        ),
        ("Assertions: ",): readers.lines(
            "phpunit", r"^Tests: (?P<total>\d{1,9}), Assertions: \d{1,9}(?P<counts>[^\n]{0,120})", fields=True, total="total"
        ),
        (" assertions)", " assertion)"): readers.lines(
            "phpunit", r"^OK \((?P<total>\d{1,9}) tests?(?P<counts>), \d{1,9} assertions?\)", total="total"
        ),
        ("!  - Failed:",): readers.lines("dotnet", r"(?:Failed|Passed)!  - (?P<counts>Failed:[^\n]{0,120})", fields=True),
        ("Test summary: total:",): readers.lines("dotnet", r"Test summary: (?P<counts>total:[^\n]{0,120})", fields=True),
        ("Total tests: ",): readers.lines(
            "dotnet", r"^Total tests: \d{1,9}\n(?P<counts>(?:\s{1,8}\w{1,12}: \d{1,9}\n?){1,4})", fields=True
        ),
        ("tests passed, ",): readers.lines(
            "ctest", r"\d{1,3}% tests passed, (?P<counts>\d{1,9} tests failed) out of (?P<total>\d{1,9})", total="total"
        ),
        ("Executed ",): readers.lines(
            "xctest", r"^\s{0,8}Executed (?P<total>\d{1,9}) tests?, with (?P<counts>\d{1,9} failures?)", total="total"
        ),
        (" tests, ", " test, "): readers.lines(
            "exunit",
            r"^(?:\d{1,9} doctests?, )?(?P<total>\d{1,9}) tests?, (?P<counts>\d{1,9} failures?(?:, \d{1,9} \w{1,12}){0,3})$",
            total="total",
        ),
        (": All tests passed!", ": Some tests failed."): readers.flutter,
        ("[  PASSED  ]", "[  FAILED  ]"): readers.googletest,
        ("test cases:",): readers.lines("catch2", r"^test cases:\s{1,8}\d{1,9} \| (?P<counts>\d[^\n]{0,100})"),
        (" failures, ",): readers.lines(
            "clojure", r"^Ran (?P<total>\d{1,9}) tests containing \d{1,9} assertions\.\n(?P<counts>\d[^\n]{0,60})", total="total"
        ),
        (" Passed | ",): readers.lines("ginkgo", r"^(?:Ran[^\n]{0,80}\n)?(?:FAIL|SUCCESS)! -- (?P<counts>\d[^\n]{0,100})"),
        (" passed | ",): readers.lines("deno", r"^(?:ok|FAILED) \| (?P<counts>\d{1,9} passed \| \d{1,9} failed[^\n]{0,60})"),
        ("Total tests run:",): readers.lines(
            "testng", r"^Total tests run: (?P<total>\d{1,9})(?P<counts>, (?:Passes|Failures)[^\n]{0,80})", fields=True, total="total"
        ),
        ("# pass ", "\u2139 pass ", "ok 1"): readers.tap,
        ("Found ", "error TS", "All checks passed!", "Success: no issues found"): readers.found_errors,
        (" problem",): readers.problems("eslint", "lint", r"✖ (?P<count>\d{1,9}) problems?\b"),
        (" warnings", " warning,"): readers.problems(
            "pyright", "types", r"^(?P<count>\d{1,9}) errors?, \d{1,9} warnings?(?:, \d{1,9} (?:informations?|notes?))? ?$"
        ),
        ("ound ",): readers.problems("ty", "types", r"^Found (?P<count>\d{1,9}) diagnostics?\b"),
        (" issues", "issues:"): readers.problems("golangci-lint", "lint", r"^(?P<count>\d{1,9}) issues(?:\.|:)"),
        ("inspected, ",): readers.problems(
            "rubocop", "lint", r"\d{1,9} files? inspected, (?P<count>\d{1,9}) offenses?", r"inspected, no offenses"
        ),
        ("would be reformatted", "would reformat"): readers.problems(
            "formatter", "lint", r"^(?P<count>\d{1,9}) files? would be reformatted"
        ),
        ("[warn] ",): readers.each("prettier", "lint", r"^\[warn\] \S+\.\w{1,8}$"),
        (" (https://www.shellcheck.net", "SC1", "SC2"): readers.each("shellcheck", "lint", r"\^-*\^? ?-{0,2} ?SC\d{4}\b"),
        ("rated at ",): readers.pylint,
        (": E", ": W", ": F"): readers.flake8,
        ("....Failed", "....Passed"): readers.each("pre-commit", "lint", r"\.{3,80}Failed$"),
        ("could not compile", "    Finished "): readers.cargo_build,
        ("BUILD SUCCESS", "BUILD FAIL"): readers.built,
        (" errors generated", " error generated"): readers.problems(
            "clang", "build", r"^(?P<count>\d{1,9}) (?:warnings? and \d{1,9} )?errors? generated\."
        ),
        (": error: ", ": fatal error: "): readers.each(
            "gcc", "build", r"^\S{1,200}\.(?:[cChm]|cc|cpp|cxx|hpp|mm|java|kt|swift|cu):\d{1,9}(?::\d{1,9})?: (?:fatal )?error: "
        ),
        (".go:",): readers.each("go", "build", r"^(?:\./)?[\w./-]{1,200}\.go:\d{1,9}:\d{1,9}: (?!.*\([a-z]+\)$)"),
    }


_READERS = tuple(_mapping().values())
_GATES = tuple(
    (1 << number, gate)
    for number, gate in enumerate(
        (
            "ests",
            "est ",
            "pass",
            "fail",
            "erro",
            "sserti",
            "issues",
            "warn",
            "ould ",
            "ound ",
            " examp",
            "....",
            "SC",
            *"FSTELDRAWB,:|!/-\u2139",
        )
    )
)
"""Most outputs lack most of these (one character is found at once), and a word that holds one need not be looked for then."""
_LITERALS = tuple(
    (sum(bit for bit, gate in _GATES if gate in literal), literal, place)
    for place, literals in enumerate(_mapping())
    for literal in literals
)

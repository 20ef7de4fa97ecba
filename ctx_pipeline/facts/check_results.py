"""What the output of tests, linters, type checkers and builds says: how many passed, how many did not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[str], Iterator["CheckResult"]]

_MOST = 1_000_000_000
_LONGEST_LINE = 1_000


class CheckResult(NamedTuple):
    """What one tool reported in an output; for a linter or compiler ``failed`` counts its problems."""

    tool: str
    """pytest, jest, go, ... ; where several print the same, the commonest"""
    purpose: str
    """test, lint, types or build"""
    passed: int
    failed: int
    skipped: int = 0
    counts: str = ""
    """What is counted where that is not the usual: package, file."""
    line: str = ""
    """Line of the output that says so; empty where none does."""
    stopped: bool = False
    """The runner gave up before its first test; ``failed`` is 1 then."""
    by_line: bool = False
    """Counted line by line, so that a cut output counts too few."""

    @property
    def unit(self) -> str:
        """What is counted: test, package, file, problem or error."""
        return self.counts or {"test": "test", "lint": "problem"}.get(self.purpose, "error")

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return not self.failed


_WORD = lazy_pattern(r"(\d{1,9}) (?:tests? )?(\w+)")
_NAMED = lazy_pattern(r"(\w+) ?[:=] {0,8}(\d{1,9})")
_ROLES = {
    "passed": ("passed", "pass", "passing", "xpassed", "succeeded", "successful", "ok"),
    "failed": ("failed", "fail", "failing", "failure", "failures", "error", "errors", "errored", "unexpected"),
    "skipped": ("skipped", "skip", "skips", "pending", "todo", "ignored", "xfailed", "canceled", "cancelled", "excluded", "disabled"),
}  # fmt: skip
_ROLE = {word: role for role, words in _ROLES.items() for word in words}


def _summed(pairs: list[tuple[int, str]], total: int | None = None) -> tuple[int, int, int]:
    """Return (passed, failed, skipped) of counts by word; what a total leaves over passed."""
    found = {"passed": 0, "failed": 0, "skipped": 0}
    named = False
    for count, word in pairs:
        role = _ROLE.get(word.lower())
        if role:
            found[role] += count
            named = named or role == "passed"
    if total is not None and not named:
        found["passed"] = max(0, total - found["failed"] - found["skipped"])
    return found["passed"], found["failed"], found["skipped"]


def _words(text: str) -> list[tuple[int, str]]:
    return [(int(count), word) for count, word in _WORD.findall(text)]


def _fields(text: str) -> list[tuple[int, str]]:
    return [(int(count), word) for word, count in _NAMED.findall(text)]


def line_at(text: str, place: int) -> str:
    """Return the line of a text that a place is in, without blanks around it."""
    last = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : last if last >= 0 else len(text)].strip()[:_LONGEST_LINE]


def _added(tool: str, purpose: str, found: list[tuple[str, tuple[int, int, int]]]) -> CheckResult:
    """Return the sum of (line, (passed, failed, skipped)); the line that shows it is the last with a failure, else with a test."""
    passed, failed, skipped = (sum(counts[i] for _, counts in found) for i in range(3))
    role = 1 if failed else 0
    line = next((line for line, counts in reversed(found) if counts[role]), found[-1][0])
    return CheckResult(tool, purpose, passed, failed, skipped, line=line)


def lines(tool: str, pattern: str, *, fields: bool = False, total: str = "", purpose: str = "test") -> Read:
    """Return a reader that adds up every line of a pattern: its ``counts`` as ``3 failed`` or, with ``fields``, as ``Failed: 3``."""
    look = lazy_pattern(pattern, re.MULTILINE)

    def read(text: str) -> Iterator[CheckResult]:
        found = []
        for match in look.finditer(text):
            pairs = (_fields if fields else _words)(match["counts"] or "")
            whole = int(match[total]) if total and match[total] else None
            found.append((line_at(text, match.start()), _summed(pairs, whole)))
        if found:
            yield _added(tool, purpose, found)

    return read


_PYTEST = lazy_pattern(r"^(?:=+ )?(?P<counts>\d{1,9} \w+[^\n]{0,200}?|no tests ran)(?: in \d[\d.]*s\b)", re.MULTILINE)
_PYTEST_STOP = lazy_pattern(
    r"^ERROR: (?:file or directory not found|usage:|not found:)|^!+ Interrupted: \d+ errors? during collection", re.MULTILINE
)


def pytest(text: str) -> Iterator[CheckResult]:
    """Read pytest: its last line, and a stop before the first test."""
    found = [(line_at(text, m.start("counts")), _summed(_words(m["counts"]))) for m in _PYTEST.finditer(text)]
    stop = _PYTEST_STOP.search(text)
    if found:
        result = _added("pytest", "test", found)
        if not stop or result.failed:
            yield result
            return
    if stop:
        yield CheckResult("pytest", "test", 0, 1, line=line_at(text, stop.start()), stopped=True)


_RAN = lazy_pattern(r"^Ran (\d{1,9}) tests? in [^\n]{1,40}\n\s*(OK|FAILED)(?: \(([^)\n]{1,200})\))?", re.MULTILINE)


def unittest(text: str) -> Iterator[CheckResult]:
    """Read unittest: ``Ran N tests`` and the verdict below it."""
    found = [(line_at(text, m.start(2)), _summed(_fields(m[3] or ""), int(m[1]))) for m in _RAN.finditer(text)]
    if found:
        yield _added("unittest", "test", found)


_JEST = lazy_pattern(r"^\s{0,12}Tests:?  ?\s{0,8}(\d[^\n]{0,200})", re.MULTILINE)
_JEST_FILES = lazy_pattern(r"^\s{0,12}Test (?:Suites:|Files)\s{1,8}(\d[^\n]{0,200})", re.MULTILINE)
_JEST_SUITES = lazy_pattern(r"^\s{0,12}Test (?:Suites:|Files)\s{1,8}(\d{1,9}) failed", re.MULTILINE)


def jest(text: str) -> Iterator[CheckResult]:
    """Read jest, vitest and pest: the ``Tests`` line, else that of files; a suite that failed to load is one failure."""
    tests = [m for m in _JEST.finditer(text) if "Assertions" not in m[1]]
    found = [(line_at(text, m.start(1)), _summed(_words(m[1]))) for m in tests or _JEST_FILES.finditer(text)]
    if not found:
        return
    result = _added("vitest" if "Test Files" in text else "jest", "test", found)._replace(counts="" if tests else "file")
    suites = _JEST_SUITES.search(text)
    if suites and not result.failed:
        result = result._replace(failed=int(suites[1]), line=line_at(text, suites.start(1)))
    yield result


def indented(tool: str, words: str) -> Read:
    """Return a reader of counts that stand on lines of their own, as mocha and playwright print them."""
    look = lazy_pattern(rf"^ {{1,8}}(?:✔ |✖ )?(\d{{1,9}}) (?:tests? )?({words})(?: \([\dhms. ]{{1,20}}\))?$", re.MULTILINE)

    def read(text: str) -> Iterator[CheckResult]:
        found = [(line_at(text, m.start(1)), _summed([(int(m[1]), m[2])])) for m in look.finditer(text)]
        if found:
            yield _added(tool, "test", found)

    return read


_GO_TEST = lazy_pattern(r"^--- (PASS|FAIL|SKIP): ", re.MULTILINE)
_GO_PACKAGE = lazy_pattern(
    r"^(ok|FAIL)[ \t]{1,8}[\w./~-]{1,200}[ \t]{1,8}(?:\(cached\)|\d{1,9}(?:\.\d{1,9})?s\b|\[[^\]\n]{1,60}\]|coverage: )", re.MULTILINE
)
_GO_EMPTY = lazy_pattern(r"^(?:\?|ok)[ \t]{1,8}[\w./~-]{1,200}[ \t][^\n]{0,60}\[no test(?: files|s to run)\]", re.MULTILINE)


def go(text: str) -> Iterator[CheckResult]:
    """Read ``go test``: tests where ``-v`` names them all, else packages; a package without a test to run counts as none."""
    tests = [(m[1], line_at(text, m.start())) for m in _GO_TEST.finditer(text)]
    packages = [(m[1], line) for m in _GO_PACKAGE.finditer(text) if "[no test" not in (line := line_at(text, m.start()))]
    empty = _GO_EMPTY.search(text)
    if not tests and not packages and not empty:
        return
    named = any(word != "FAIL" for word, _ in tests) or "=== RUN " in text or not packages
    counted = tests if tests and named else packages
    words = [word for word, _ in counted]
    failed = words.count("FAIL") or sum(word == "FAIL" for word, _ in packages)
    shown = [line for word, line in [*counted, *packages] if (word == "FAIL") is bool(failed)]
    line = shown[-1] if shown else line_at(text, empty.start()) if empty else ""
    unit = "package" if counted is packages else ""
    yield CheckResult("go", "test", words.count("PASS") + words.count("ok"), failed, words.count("SKIP"), unit, line, by_line=True)


_SUREFIRE = lazy_pattern(r"Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9}), Skipped: (\d{1,9})([^\n]{0,60})")


def maven(text: str) -> Iterator[CheckResult]:
    """Read surefire: the sums of modules, else those of classes."""
    found = list(_SUREFIRE.finditer(text))
    found = [m for m in found if "Time elapsed" not in m[5] and " in " not in m[5]] or found
    if found:
        counts = [tuple(int(m[i]) for i in range(1, 5)) for m in found]
        sums = [(max(0, run - failures - errors - skipped), failures + errors, skipped) for run, failures, errors, skipped in counts]
        yield _added("maven", "test", [(line_at(text, m.start()), one) for m, one in zip(found, sums, strict=True)])


_TAP = lazy_pattern(r"^(?:# |\u2139 )(pass|fail|skipped) (\d{1,9})$", re.MULTILINE)
_TAP_LINE = lazy_pattern(r"^(not ok|ok) \d{1,9}\b(?! # SKIP)", re.MULTILINE)
_TAP_PLAN = lazy_pattern(r"^1\.\.\d{1,9}$", re.MULTILINE)


def tap(text: str) -> Iterator[CheckResult]:
    """Read TAP: the sums of ``node --test``, else the lines of a plan."""
    sums = list(_TAP.finditer(text))
    if sums:
        yield _added("node", "test", [(line_at(text, m.start()), _summed([(int(m[2]), m[1])])) for m in sums])
    elif _TAP_PLAN.search(text):
        found = [(line_at(text, m.start()), (int(m[1] == "ok"), int(m[1] != "ok"), 0)) for m in _TAP_LINE.finditer(text)]
        if found:
            yield _added("tap", "test", found)._replace(by_line=True)


_FLUTTER = lazy_pattern(r"^\d\d:\d\d \+(\d{1,9})(?: ~(\d{1,9}))?(?: -(\d{1,9}))?: ", re.MULTILINE)


def flutter(text: str) -> Iterator[CheckResult]:
    """Read dart and flutter: the last state of the counter."""
    last = next(reversed(list(_FLUTTER.finditer(text))), None)
    if last:
        yield CheckResult("dart", "test", int(last[1]), int(last[3] or 0), int(last[2] or 0), line=line_at(text, last.start()))


def problems(tool: str, purpose: str, pattern: str, clean: str = "") -> Read:
    """Return a reader of a sum of problems (``count``); ``clean`` is what the tool prints without any."""
    look = lazy_pattern(pattern, re.MULTILINE)
    nothing = lazy_pattern(clean, re.MULTILINE) if clean else None

    def read(text: str) -> Iterator[CheckResult]:
        found = [(line_at(text, m.start("count")), (0, min(_MOST, int(m["count"] or 0)), 0)) for m in look.finditer(text)]
        if found:
            yield _added(tool, purpose, found)
        elif nothing and (match := nothing.search(text)):
            yield CheckResult(tool, purpose, 0, 0, line=line_at(text, match.start()))

    return read


def each(tool: str, purpose: str, pattern: str, clean: str = "") -> Read:
    """Return a reader that counts lines, each one problem; ``clean`` is what the tool prints without any."""
    look = lazy_pattern(pattern, re.MULTILINE)
    nothing = lazy_pattern(clean, re.MULTILINE) if clean else None

    def read(text: str) -> Iterator[CheckResult]:
        found = [m.start() for m in look.finditer(text)]
        if found:
            yield CheckResult(tool, purpose, 0, len(found), line=line_at(text, found[-1]), by_line=True)
        elif nothing and (match := nothing.search(text)):
            yield CheckResult(tool, purpose, 0, 0, line=line_at(text, match.start()))

    _COUNTING.add(read)
    return read


_FOUND = lazy_pattern(r"^Found (\d{1,9}) errors?\b([^\n]{0,80})", re.MULTILINE)
_REMAINING = lazy_pattern(r" \(\d{1,9} fixed, (\d{1,9}) remaining\)")
_ALL_GOOD = lazy_pattern(r"^(?:(All checks passed!)|Success: no issues found)", re.MULTILINE)
_TSC = lazy_pattern(r"error TS\d{1,6}\b")


def found_errors(text: str) -> Iterator[CheckResult]:
    """Read "Found 3 errors", which mypy, ruff, tsc and biome print each in its own way; those that ruff has fixed are none."""
    sums: dict[tuple[str, str], list[tuple[str, tuple[int, int, int]]]] = {}
    for match in _FOUND.finditer(text):
        count, rest = match.groups()
        if " in " in rest and "file" in rest and "checked" in rest:
            key = ("mypy", "types")
        elif "error TS" in text or "Watching for file changes" in text:
            key = ("tsc", "types")
        elif "━━" in text or "Checked " in text:
            key = ("biome", "lint")
        else:
            key = ("ruff", "lint")
        remaining = _REMAINING.match(rest)
        sums.setdefault(key, []).append((line_at(text, match.start()), (0, int(remaining[1] if remaining else count), 0)))
    for match in _ALL_GOOD.finditer(text):
        sums.setdefault(("ruff", "lint") if match[1] else ("mypy", "types"), []).append((line_at(text, match.start()), (0, 0, 0)))
    by_line = False
    if ("tsc", "types") not in sums:
        places = [match.start() for match in _TSC.finditer(text)]
        if places:
            sums["tsc", "types"] = [(line_at(text, places[-1]), (0, len(places), 0))]
            by_line = True
    for (tool, purpose), found in sums.items():
        yield _added(tool, purpose, found)._replace(by_line=by_line and tool == "tsc")


_CARGO = lazy_pattern(r"could not compile `[^`\n]{1,80}`[^\n]{0,80}? due to (?:(?P<count>\d{1,9}) previous errors?|(?:1 )?previous error)")


def cargo_build(text: str) -> Iterator[CheckResult]:
    """Read cargo: crates that could not be compiled, or that the build finished."""
    found = [(line_at(text, m.start()), (0, int(m["count"] or 1), 0)) for m in _CARGO.finditer(text)]
    if found:
        yield _added("cargo", "build", found)
    elif (finished := text.rfind("    Finished ")) >= 0 and "test result:" not in text:
        yield CheckResult("cargo", "build", 0, 0, line=line_at(text, finished))


_GTEST = lazy_pattern(r"^\[  (PASSED|FAILED)  \] (\d{1,9}) tests?", re.MULTILINE)


def googletest(text: str) -> Iterator[CheckResult]:
    """Read googletest: the two sums at the end."""
    found = [(line_at(text, m.start()), _summed([(int(m[2]), m[1])])) for m in _GTEST.finditer(text)]
    if found:
        yield _added("googletest", "test", found)


_PYLINT = lazy_pattern(r"^\S{1,200}:\d{1,9}:\d{1,9}: [CRWEF]\d{4}: ", re.MULTILINE)


def pylint(text: str) -> Iterator[CheckResult]:
    """Read pylint: one line a message, above the rating."""
    rated = text.rfind("Your code has been rated at ")
    if rated >= 0:
        yield CheckResult("pylint", "lint", 0, sum(1 for _ in _PYLINT.finditer(text)), line=line_at(text, rated), by_line=True)


_FLAKE8 = lazy_pattern(r"^\S{1,200}\.py:\d{1,9}:\d{1,9}: [A-Z]{1,3}\d{3,4} ", re.MULTILINE)
_RUFF_SUM = lazy_pattern(r"^(?:Found \d{1,9} error|All checks passed)", re.MULTILINE)


def flake8(text: str) -> Iterator[CheckResult]:
    """Read flake8: one line a problem; ruff prints the same and a sum, which counts then."""
    found = [m.start() for m in _FLAKE8.finditer(text)]
    if found and not _RUFF_SUM.search(text):
        yield CheckResult("flake8", "lint", 0, len(found), line=line_at(text, found[-1]), by_line=True)


def built(text: str) -> Iterator[CheckResult]:
    """Read maven and gradle: whether the build succeeded."""
    good = "BUILD SUCCESS" in text
    line = line_at(text, text.rfind("BUILD SUCCESS" if good else "BUILD FAIL"))
    tool = "gradle" if "BUILD SUCCESSFUL" in text or "BUILD FAILED" in text else "maven"
    yield CheckResult(tool, "build", int(good), int(not good), line=line)


_HEAD, _TAIL, _WHOLE = 1_500, 4_500, 200_000
_ANSI = lazy_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]")
_TASK = lazy_pattern(r"^\[(?!warn\])[\w:.-]{1,30}\] (?=\S| )", re.MULTILINE)
"""Task runners put the task's name before each line."""


def check_results(output: str) -> tuple[CheckResult, ...]:
    """Return what each tool in an output reported, tests first; empty where none is recognized.

    Tools sum up at the beginning or at the end: the first 1,500 and the last 4,500
    characters are read, and 200,000 for what is counted line by line. Several sums of one
    tool (packages, crates, modules) are added. A runner that stopped before its first test
    counts one failure.
    """
    text = plain(output if len(output) <= _HEAD + _TAIL else f"{output[:_HEAD]}\n{output[-_TAIL:]}")
    missing = 0
    for bit, gate in _GATES:
        if gate not in text:
            missing |= bit
    hit = {place for gates, literal, place in _LITERALS if not gates & missing and literal in text}
    whole = plain(output[-_WHOLE:]) if len(output) > _HEAD + _TAIL and any(_READERS[place] in _COUNTING for place in hit) else text
    return tuple(result for place in sorted(hit) for result in _READERS[place](whole if _READERS[place] in _COUNTING else text))


def plain(text: str) -> str:
    """Return a text without terminal colors and the names of tasks that task runners put before each line."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r", "\n")
    if text.startswith("[") or "\n[" in text:
        text = _TASK.sub("", text)
    return text


def _mapping() -> dict[tuple[str, ...], Read]:
    counts = r"(?P<counts>\d[^\n]{0,200})"
    return {
        (" passed", " failed", " error", " deselected in ", "no tests ran", "ERROR: "): pytest,
        ("Ran ",): unittest,
        ("Tests", "Test Files", "Test Suites:"): jest,
        ("passing", "failing"): indented("mocha", "passing|failing|pending"),
        (" passed", " failed"): indented("playwright", "passed|failed|flaky|skipped"),
        (" pass\n", " fail\n"): indented("bun", "pass|fail|skip"),
        ("--- ", "ok  ", "FAIL", "[no test files]"): go,
        ("DONE ",): lines("gotestsum", r"^DONE (?P<total>\d{1,9}) tests?(?P<counts>[^\n]{0,100}) in ", total="total"),
        ("test result:",): lines("cargo", r"^test result: (?:ok|FAILED)\. " + counts),
        ("tests run:",): lines("nextest", r"^\s{0,12}Summary \[[^\]\n]{1,20}\]\s{1,8}\d[\d/]{0,20} tests? run: " + counts),
        ("Tests run:",): maven,
        ("tests completed",): lines("gradle", r"(?P<total>\d{1,9}) tests completed, (?P<counts>\d[^\n]{0,100})", total="total"),
        ("tests successful", "tests failed"): lines("junit", r"^\[ {0,12}(?P<counts>\d{1,9} tests (?:successful|failed|skipped)) {0,16}\]"),
        ("Tests: succeeded",): lines("scalatest", r"Tests: (?P<counts>succeeded \d[^\n]{0,120})", fields=True),
        (" examples, ", " example, "): lines(
            "rspec", r"^(?P<total>\d{1,9}) examples?, (?P<counts>\d{1,9} failures?[^\n]{0,80})", total="total"
        ),
        (" runs, ",): lines("minitest", r"^(?P<total>\d{1,9}) runs, \d{1,9} assertions, (?P<counts>\d[^\n]{0,100})", total="total"),
        (" assertions, ",): lines("test-unit", r"^(?P<total>\d{1,9}) tests, \d{1,9} assertions, (?P<counts>\d[^\n]{0,100})", total="total"),
        ("Assertions: ",): lines(
            "phpunit", r"^Tests: (?P<total>\d{1,9}), Assertions: \d{1,9}(?P<counts>[^\n]{0,120})", fields=True, total="total"
        ),
        (" assertions)", " assertion)"): lines(
            "phpunit", r"^OK \((?P<total>\d{1,9}) tests?(?P<counts>), \d{1,9} assertions?\)", total="total"
        ),
        ("!  - Failed:",): lines("dotnet", r"(?:Failed|Passed)!  - (?P<counts>Failed:[^\n]{0,120})", fields=True),
        ("Test summary: total:",): lines("dotnet", r"Test summary: (?P<counts>total:[^\n]{0,120})", fields=True),
        ("Total tests: ",): lines("dotnet", r"^Total tests: \d{1,9}\n(?P<counts>(?:\s{1,8}\w{1,12}: \d{1,9}\n?){1,4})", fields=True),
        ("tests passed, ",): lines(
            "ctest", r"\d{1,3}% tests passed, (?P<counts>\d{1,9} tests failed) out of (?P<total>\d{1,9})", total="total"
        ),
        ("Executed ",): lines("xctest", r"^\s{0,8}Executed (?P<total>\d{1,9}) tests?, with (?P<counts>\d{1,9} failures?)", total="total"),
        (" tests, ", " test, "): lines(
            "exunit",
            r"^(?:\d{1,9} doctests?, )?(?P<total>\d{1,9}) tests?, (?P<counts>\d{1,9} failures?(?:, \d{1,9} \w{1,12}){0,3})$",
            total="total",
        ),
        (": All tests passed!", ": Some tests failed."): flutter,
        ("[  PASSED  ]", "[  FAILED  ]"): googletest,
        ("test cases:",): lines("catch2", r"^test cases:\s{1,8}\d{1,9} \| (?P<counts>\d[^\n]{0,100})"),
        (" failures, ",): lines(
            "clojure", r"^Ran (?P<total>\d{1,9}) tests containing \d{1,9} assertions\.\n(?P<counts>\d[^\n]{0,60})", total="total"
        ),
        (" Passed | ",): lines("ginkgo", r"^(?:Ran[^\n]{0,80}\n)?(?:FAIL|SUCCESS)! -- (?P<counts>\d[^\n]{0,100})"),
        (" passed | ",): lines("deno", r"^(?:ok|FAILED) \| (?P<counts>\d{1,9} passed \| \d{1,9} failed[^\n]{0,60})"),
        ("Total tests run:",): lines(
            "testng", r"^Total tests run: (?P<total>\d{1,9})(?P<counts>, (?:Passes|Failures)[^\n]{0,80})", fields=True, total="total"
        ),
        ("# pass ", "\u2139 pass ", "ok 1"): tap,
        ("Found ", "error TS", "All checks passed!", "Success: no issues found"): found_errors,
        (" problem",): problems("eslint", "lint", r"✖ (?P<count>\d{1,9}) problems?\b"),
        (" warnings", " warning,"): problems(
            "pyright", "types", r"^(?P<count>\d{1,9}) errors?, \d{1,9} warnings?(?:, \d{1,9} (?:informations?|notes?))? ?$"
        ),
        ("ound ",): problems("ty", "types", r"^Found (?P<count>\d{1,9}) diagnostics?\b"),
        (" issues", "issues:"): problems("golangci-lint", "lint", r"^(?P<count>\d{1,9}) issues(?:\.|:)"),
        ("inspected, ",): problems("rubocop", "lint", r"\d{1,9} files? inspected, (?P<count>\d{1,9}) offenses?", r"inspected, no offenses"),
        ("would be reformatted", "would reformat"): problems("formatter", "lint", r"^(?P<count>\d{1,9}) files? would be reformatted"),
        ("[warn] ", "use Prettier code style!"): each(
            "prettier", "lint", r"^\[warn\] \S+\.\w{1,8}$", r"^All matched files use Prettier code style!"
        ),
        ("Diff in ",): each("rustfmt", "lint", r"^Diff in \S{1,400}"),
        (" (https://www.shellcheck.net", "SC1", "SC2"): each("shellcheck", "lint", r"\^-*\^? ?-{0,2} ?SC\d{4}\b"),
        ("rated at ",): pylint,
        (": E", ": W", ": F"): flake8,
        ("....Failed", "....Passed"): each("pre-commit", "lint", r"\.{3,80}Failed$"),
        ("could not compile", "    Finished "): cargo_build,
        ("BUILD SUCCESS", "BUILD FAIL"): built,
        (" errors generated", " error generated"): problems(
            "clang", "build", r"^(?P<count>\d{1,9}) (?:warnings? and \d{1,9} )?errors? generated\."
        ),
        (": error: ", ": fatal error: "): each(
            "gcc", "build", r"^\S{1,200}\.(?:[cChm]|cc|cpp|cxx|hpp|mm|java|kt|swift|cu):\d{1,9}(?::\d{1,9})?: (?:fatal )?error: "
        ),
        (".go:",): each("go", "build", r"^(?:\./)?[\w./-]{1,200}\.go:\d{1,9}:\d{1,9}: (?!.*\([a-z]+\)$)"),
    }


_COUNTING: set[Read] = {go, tap, found_errors, pylint, flake8}
"""Readers that count lines, which a cut would leave out."""
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

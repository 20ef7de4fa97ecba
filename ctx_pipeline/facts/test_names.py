"""Which tests an output names, and whether each of them passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.facts.check_results import plain
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHOLE = 400_000
"""Characters of an output that are read, from its end: runners tell of failures there."""
_LONGEST = 200


class NamedTests(NamedTuple):
    """The tests that an output names."""

    passed: frozenset[str]
    failed: frozenset[str]
    both: frozenset[str]
    """told as passed and as failed; in neither of the two"""
    retried: frozenset[str]
    """the runner itself says that they failed first and passed when tried again"""


_PATTERNS = tuple(
    (literals, lazy_pattern(rf"(?m)^{pattern}"))
    for literals, pattern in (
        (("::",), r"(?P<verdict>FAILED|ERROR|PASSED) (?P<name>\S+::[^\s\[]+(?:\[.*?\](?= - |$))?)(?: - .*)?$"),
        (("::",), r"(?P<name>\S+::.+?) (?P<verdict>PASSED|FAILED|ERROR|RERUN)(?: *\[ *\d+%\])?$"),
        (("::",), r"(?:\[gw\d+\] )?\[ *\d+%\] (?P<verdict>PASSED|FAILED|ERROR|RERUN) (?P<name>\S+::.+?) *$"),
        ((" ... ",), r"test (?P<name>\S.*?) \.\.\. (?P<verdict>ok|FAILED)$"),
        ((" ... ",), r"(?P<name>test\w* \([\w.]+\))(?:\n.*)? \.\.\. (?P<verdict>ok|FAIL|ERROR)$"),
        (("FAIL: ", "ERROR: "), r"(?P<verdict>FAIL|ERROR): (?P<name>test\w* \([\w.]+\))$"),
        (("[  ",), r"\[ {2}(?P<verdict>     OK|FAILED ) \] (?P<name>\w[\w/.]*\.[\w/.]+)(?: \(\d+ ms\))?$"),
        ((" [",), r" {2,}(?:TRY \d+ )?(?P<verdict>PASS|FAIL|FLAKY) (?:\d+/\d+ )?\[[^\]\n]+\] (?:\([^)\n]*\) )?(?P<name>\S+ \S+)$"),
        ((" > ",), r"(?P<name>[\w.$]+(?: > [^>\n]+)+) (?P<verdict>PASSED|FAILED)$"),
        (("Test #", "Test  #"), r" *\d+/\d+ Test +#\d+: (?P<name>\S+) \.*(?P<verdict> +Passed|\*\*\*Failed)"),
        (("rspec ./",), r"(?P<verdict>rspec) (?P<name>\./\S+:\d+) # "),
        (("ok ",), r"(?P<verdict>not ok|ok) \d+ (?:- )?(?P<name>[^#\n]+?)(?: # (?:time|duration).*)?$"),
        (("\u203a",), r" {0,4}● (?P<verdict>)(?P<name>[^\n●]*\u203a[^\n]+)$"),
        (("FAIL ",), r" {0,3}(?P<verdict>FAIL) {1,3}(?P<name>[\w./@-]+\.\w+ > [^\n]+)$"),
        (
            (" > ", "\u203a"),
            (
                r" {0,4}(?P<verdict>[✓✔√✕✖\u00d7✗✘]) +(?:\d+ )?"
                r"(?P<name>(?:\[[\w -]+\] \u203a |[\w./@-]+\.\w+ > )[^\n]+?)(?: \(?[\d.]+ ?m?s\)?)?$"
            ),
        ),
    )
)
"""Words of which one stands in an output that a pattern fits, and the pattern: pytest, cargo, unittest, googletest, nextest, gradle, ctest,
rspec, TAP, jest, vitest, playwright."""
_GOOD = frozenset({"PASSED", "ok", "OK", "PASS", "Passed", "✓", "✔", "√"})
_AGAIN = frozenset({"RERUN", "FLAKY"})
_GO = lazy_pattern(r"(?m)^\s*--- (?P<verdict>PASS|FAIL): (?P<name>\S+) \(|^(?:ok|FAIL)[ \t]+(?P<package>[\w./~-]+)[ \t]")
_PLAYWRIGHT_FLAKY = lazy_pattern(r"(?m)^ +\d+ flaky\n(?P<names>(?: {4,}\[[^\n]+\n?)+)")
_RULE = " ─"


def named_tests(output: str) -> NamedTests:
    """Return the tests that the output of test runners names; none where it prints sums alone.

    A name is as the runner prints it, a test of Go has its package before it.
    """
    text = plain(output[-_WHOLE:])
    told: dict[str, set[bool]] = {}
    retried: set[str] = set()
    for literals, pattern in _PATTERNS:
        if any(literal in text for literal in literals):
            for match in pattern.finditer(text):
                verdict, name = match["verdict"].strip(), _shortened(match["name"])
                if verdict in _AGAIN:
                    retried.add(name)
                else:
                    told.setdefault(name, set()).add(verdict in _GOOD)
    if "--- " in text:
        for name, passed in _of_go(text):
            told.setdefault(name, set()).add(passed)
    for section in _PLAYWRIGHT_FLAKY.finditer(text) if " flaky\n" in text else ():
        retried.update(_shortened(line) for line in section["names"].splitlines())
    both = frozenset(name for name, verdicts in told.items() if len(verdicts) > 1)
    good = frozenset(name for name, verdicts in told.items() if verdicts == {True})
    bad = frozenset(name for name, verdicts in told.items() if verdicts == {False})
    # of a test that was tried again each try may be told; one that only failed again did not pass
    return NamedTests(good, bad, both, frozenset(retried) - bad)


def _of_go(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the tests that Go names, each with the package whose line follows."""
    open_tests: list[tuple[str, bool]] = []
    for match in _GO.finditer(text):
        if match["name"]:
            open_tests.append((match["name"], match["verdict"] == "PASS"))
        elif open_tests:
            yield from ((f"{match['package']} {name}", good) for name, good in open_tests)
            open_tests = []
    yield from open_tests


def _shortened(name: str) -> str:
    return " ".join(name.partition(_RULE)[0].split())[:_LONGEST]

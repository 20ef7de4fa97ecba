"""What tests, linters, type checkers, builds and other commands said: runs, results, exit statuses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals._runs import COLUMNS, runs

if TYPE_CHECKING:
    from ctx_pipeline.model.check_results import CheckResult
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.signals._runs import Run, Runs

_BOTH = ("events", "tool_calls")
_PAIRS = ("tool_call", "tool_result")
_TOP = 10
_NOT_FOUND = 127
_TIMED_OUT = frozenset({124, 137, 143})


def _of(view: SessionView, purpose: str) -> list[Run]:
    """Return the answered commands that test, lint, check types or build."""
    return [run for run in view.once(runs) if run.answered and not run.refused and purpose in run.purposes()]


def _said(shell: Runs, run: Run, purpose: str) -> list[CheckResult]:
    return [r for r in shell.results(run) if r.purpose == purpose]


def _red(shell: Runs, run: Run, purpose: str) -> bool:
    """Tell whether a check failed: by what it reported, else by the status of its command."""
    said = _said(shell, run, purpose)
    if said:
        return any(not r.ok for r in said) or (run.failed and run.purposes() == {purpose})
    return run.failed


def _failed_runs(view: SessionView, purpose: str) -> tuple[list[Run], list[Run]]:
    shell = view.once(runs)
    found = _of(view, purpose)
    return found, [run for run in found if _red(shell, run, purpose)]


def _runs_of(view: SessionView, purpose: str) -> Reading:
    found = _of(view, purpose)
    subjects = Counter(s.subject for run in found for s in run.steps if s.purpose == purpose)
    top = dict(sorted(subjects.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP])
    return Reading(float(len(found)), tuple(run.evidence for run in found), metadata={"commands": top} if top else None)


def _failed_of(view: SessionView, purpose: str) -> Reading:
    found, failed = _failed_runs(view, purpose)
    if not found:
        return Reading(None, reason=f"no {_NAMES[purpose]} ran")
    return Reading(float(len(failed)), tuple(run.evidence for run in failed), metadata={"runs": len(found)})


_NAMES = {"test": "test", "lint": "linter", "types": "type checker", "build": "build"}


def _last_sum(view: SessionView, purpose: str) -> tuple[Run, list[CheckResult]] | None:
    shell = view.once(runs)
    for run in reversed(_of(view, purpose)):
        said = _said(shell, run, purpose)
        if said:
            return run, said
    return None


@signal(version=2, group="outcome", unit="runs", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def test_run_count(view: SessionView) -> Reading:
    """Commands that ran tests, with the runners' names.

    ``pytest``, ``go test``, ``npm test``, ``mise run test`` and their like, each command
    once. None in a session that changed source files means that nothing was tested; see
    ``trajectory_validation_presence``.
    """
    return _runs_of(view, "test")


@signal(version=2, group="outcome", unit="runs", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def failed_test_run_count(view: SessionView) -> Reading:
    """Test runs that failed: by the sum that the runner printed, else by the status of the command.

    ``pytest | tail`` ends with 0 and still counts when the sum says that tests failed.
    Red runs before a fix are healthy; ``tests_failing_at_end`` says how it ended. Unknown
    where no test ran.
    """
    return _failed_of(view, "test")


@signal(version=2, group="outcome", unit="ratio", better="higher", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def test_pass_ratio(view: SessionView) -> Reading:
    """Share of test runs in which nothing failed, 0 to 1.

    Around a half is test-driven work; below 0.2 over many runs the agent fights the
    tests or their environment. Unknown where no test ran.
    """
    found, failed = _failed_runs(view, "test")
    if not found:
        return Reading(None, reason="no test ran")
    return Reading(
        1 - len(failed) / len(found), tuple(run.evidence for run in failed), metadata={"runs": len(found), "failed": len(failed)}
    )


@signal(version=2, group="outcome", kind="categorical", better="higher", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def last_test_outcome(view: SessionView) -> Reading:
    """How the last test run of the session ended: passed, failed, or nothing ran in it.

    The best single sign of whether the work works. ``none`` is a run that found no test
    to run. Unknown where no test ran, or the last one had not ended.
    """
    shell = view.once(runs)
    found = _of(view, "test")
    if not found:
        return Reading(None, reason="no test ran")
    last = found[-1]
    if last.running:
        return Reading(None, reason="the last test run had not ended")
    if _red(shell, last, "test"):
        return Reading("failed", (last.evidence,))
    said = _said(shell, last, "test")
    if said and not any(r.passed for r in said):
        return Reading("none", (last.evidence,))
    return Reading("passed", (last.evidence,), confidence=1.0 if said or last.exit == 0 else 0.6)


@signal(version=2, group="outcome", unit="tests", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def tests_failing_at_end(view: SessionView) -> Reading:
    """Tests that failed in the last test run; packages or files where the runner names no tests.

    Zero is green. Above zero the session ended, or went on to other things, with red
    tests. Unknown where no test ran, or the last run failed without saying how many.
    """
    shell = view.once(runs)
    found = _of(view, "test")
    if not found:
        return Reading(None, reason="no test ran")
    run = found[-1]
    said = _said(shell, run, "test")
    if not said:
        if run.exit == 0:
            return Reading(0.0, (run.evidence,), confidence=0.8)
        return Reading(None, reason="the last test run printed no sum")
    sums = {"passed": sum(r.passed for r in said), "skipped": sum(r.skipped for r in said), "runner": said[0].tool}
    return Reading(float(sum(r.failed for r in said)), (run.evidence,), metadata=sums)


@signal(version=2, group="outcome", unit="runs", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def lint_run_count(view: SessionView) -> Reading:
    """Commands that ran a linter or a formatter.

    ruff, eslint, clippy, golangci-lint, prettier and their like, also through make, npm
    or mise. Many failing runs in a row mean that the agent does not know the rules: put
    them into its instructions.
    """
    return _runs_of(view, "lint")


@signal(version=2, group="outcome", unit="runs", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def failed_lint_run_count(view: SessionView) -> Reading:
    """Runs of linters and formatters that reported problems or failed.

    Unknown where no linter ran. Compare with ``lint_run_count``: a linter that fails
    first every time could run as a hook after each edit.
    """
    return _failed_of(view, "lint")


@signal(group="outcome", unit="problems", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def lint_problems_at_end(view: SessionView) -> Reading:
    """Problems in the last sum that a linter printed.

    Zero is clean. Unknown where no linter printed a sum that is known.
    """
    return _problems_at_end(view, "lint")


@signal(version=2, group="outcome", unit="runs", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def type_check_run_count(view: SessionView) -> Reading:
    """Commands that ran a type checker: mypy, pyright, tsc, ``cargo check`` and their like.

    None in a typed project that was changed means that the checker was left to the
    continuous integration.
    """
    return _runs_of(view, "types")


@signal(version=2, group="outcome", unit="runs", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def failed_type_check_run_count(view: SessionView) -> Reading:
    """Runs of type checkers that reported errors or failed.

    Unknown where no type checker ran. A high share late in the session is a change of a
    signature that reached further than the agent saw.
    """
    return _failed_of(view, "types")


@signal(group="outcome", unit="errors", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def type_errors_at_end(view: SessionView) -> Reading:
    """Errors in the last sum that a type checker printed.

    Zero is clean. Unknown where no type checker printed a sum that is known.
    """
    return _problems_at_end(view, "types")


def _problems_at_end(view: SessionView, purpose: str) -> Reading:
    found = _last_sum(view, purpose)
    if found is None:
        return Reading(None, reason=f"no {_NAMES[purpose]} printed a sum")
    run, said = found
    return Reading(float(sum(r.failed for r in said)), (run.evidence,), metadata={"tools": sorted({r.tool for r in said})})


@signal(version=2, group="outcome", unit="runs", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def failed_build_count(view: SessionView) -> Reading:
    """Builds that failed.

    ``make``, ``go build``, ``npm run build``, ``cargo build`` and their like. Unknown
    where nothing was built. Several in a row without an edit between them are the
    environment and not the code.
    """
    return _failed_of(view, "build")


@signal(group="outcome", kind="text", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def exit_statuses(view: SessionView) -> Reading:
    """Exit statuses of shell commands other than 0, status: times, commonest first, as ``1: 4, 127: 1``.

    1 is a failure, 2 wrong usage, 101 a panic of Rust, 126 and 127 a command that cannot
    be run or found, 124 and 137 one that was stopped. Unknown where every command ended
    with 0 or the host kept no status.
    """
    found = [run for run in view.once(runs) if run.exit]
    if not found:
        return Reading(None, reason="no command ended with another status than 0")
    counts = sorted(Counter(run.exit for run in found).items(), key=lambda pair: (-pair[1], pair[0] or 0))
    return Reading(", ".join(f"{status}: {count}" for status, count in counts[:_TOP]), tuple(run.evidence for run in found))


@signal(group="outcome", unit="commands", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def command_not_found_count(view: SessionView) -> Reading:
    """Shell commands that ended with status 127: a program that is not installed or not on the path.

    The agent guesses at tools. Name the project's own commands in its instructions, or
    install what it reaches for.
    """
    found = [run for run in view.once(runs) if run.exit == _NOT_FOUND]
    return Reading(
        float(len(found)), tuple(run.evidence for run in found), metadata={"commands": [r.shown for r in found[:3]]} if found else None
    )


@signal(group="outcome", unit="commands", better="lower", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def stopped_command_count(view: SessionView) -> Reading:
    """Shell commands that were stopped before they ended: status 124, 137 or 143.

    A timeout, or a lack of memory. Long suites belong in the background, or in a subset.
    """
    found = [run for run in view.once(runs) if run.exit in _TIMED_OUT]
    return Reading(
        float(len(found)), tuple(run.evidence for run in found), metadata={"commands": [r.shown for r in found[:3]]} if found else None
    )


@signal(version=2, group="outcome", kind="text", reads=_BOTH, columns=COLUMNS, kinds=_PAIRS)
def failing_commands(view: SessionView) -> Reading:
    """Programs whose runs failed, worst first: ``pytest 3/7, go build 1/1`` are failures of runs.

    The metadata has runs and failures of the ten commonest programs. A program that
    always fails is missing or misused; one that fails in every session belongs in the
    instructions. Unknown where no command failed.
    """
    shell = view.once(runs)
    table: dict[str, list[int]] = {}
    evidence: list[str] = []
    for run in shell:
        if not run.answered or run.refused or not run.steps:
            continue
        checks = [s for s in run.steps if s.purpose in _NAMES]
        row = table.setdefault((checks or run.steps)[0].subject, [0, 0])
        row[0] += 1
        if shell.bad(run):
            row[1] += 1
            evidence.append(run.evidence)
    failing = sorted(((subject, row) for subject, row in table.items() if row[1]), key=lambda pair: (-pair[1][1], pair[0]))
    top: dict[str, Any] = dict(sorted(table.items(), key=lambda pair: (-pair[1][0], pair[0]))[:_TOP])
    if not failing:
        return Reading(None, reason="no command failed", metadata={"commands": top} if top else None)
    text = ", ".join(f"{subject[:60]} {row[1]}/{row[0]}" for subject, row in failing[:_TOP])
    return Reading(text, tuple(evidence), metadata={"commands": top})

"""What tests, linters, type checkers, builds and other commands said: runs, results, exit statuses."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.command_runs import command_runs, failed_program, printed
from ctx_pipeline.model.declared import Reading, signal

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_CHECKS = ("check_runs",)
_RUNS = ("command_runs",)
_TOP = 10
_NOT_FOUND = 127
_TIMED_OUT = frozenset({124, 137, 143})
_NAMES = {"test": "test", "lint": "linter", "types": "type checker", "build": "build"}


def _of(view: SessionView, kind: str) -> list[list[Any]]:
    """Return the check runs of a kind, those of one command together; what was refused, never answered or only listed is left out."""
    rows = [c for c in check_runs(view) if c.kind == kind and c.result != "refused" and c.ts is not None and (c.ran is not False or c.unit)]
    return [list(members) for _, members in groupby(rows, key=attrgetter("call_event"))]


def _red(members: list[Any]) -> bool:
    return any(c.result == "failed" for c in members)


def _ran(members: list[Any]) -> bool:
    return any(c.ran is not False for c in members)


def _evidence(found: list[list[Any]]) -> tuple[str, ...]:
    return tuple(next((c.event for c in members if c.result == "failed"), members[-1].event) for members in found)


def _failed_runs(view: SessionView, kind: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return the runs whose end is known, and those of them that failed."""
    found = [m for m in _of(view, kind) if _ran(m) and any(c.result in ("passed", "failed") for c in m)]
    return found, [m for m in found if _red(m)]


def _runs_of(view: SessionView, kind: str) -> Reading:
    found = [m for m in _of(view, kind) if _ran(m)]
    runners = Counter(c.runner for members in found for c in members)
    top = dict(sorted(runners.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP])
    return Reading(float(len(found)), _evidence(found), metadata={"runners": top} if top else None)


def _failed_of(view: SessionView, kind: str) -> Reading:
    found, failed = _failed_runs(view, kind)
    if not found:
        return Reading(None, reason=f"no {_NAMES[kind]} is known to have ended")
    return Reading(float(len(failed)), _evidence(failed), metadata={"runs": len(found)})


@signal(version=3, group="outcome", unit="runs", reads=_CHECKS)
def test_run_count(view: SessionView) -> Reading:
    """Commands that ran tests, with the runners' names.

    ``pytest``, ``go test``, ``npm test``, ``mise run test`` and their like, each command
    once; a listing of tests is no run, and a script named check is one where its output
    shows tests. None in a session that changed source files means that nothing was tested; see
    ``trajectory_validation_presence``.
    """
    return _runs_of(view, "test")


@signal(version=3, group="outcome", unit="runs", better="lower", reads=_CHECKS)
def failed_test_run_count(view: SessionView) -> Reading:
    """Test runs that failed: by the sum that the runner printed, else by the status of the command.

    ``pytest | tail`` ends with 0 and still counts when the sum says that tests failed.
    Red runs before a fix are healthy; ``tests_failing_at_end`` says how it ended. Unknown
    where no test ran.
    """
    return _failed_of(view, "test")


@signal(version=3, group="outcome", unit="ratio", better="higher", reads=_CHECKS)
def test_pass_ratio(view: SessionView) -> Reading:
    """Share of test runs in which nothing failed, 0 to 1.

    Around a half is test-driven work; below 0.2 over many runs the agent fights the
    tests or their environment. Only runs whose end is known count. Unknown without one.
    """
    found, failed = _failed_runs(view, "test")
    if not found:
        return Reading(None, reason="no test run is known to have ended")
    return Reading(1 - len(failed) / len(found), _evidence(failed), metadata={"runs": len(found), "failed": len(failed)})


@signal(version=3, group="outcome", kind="categorical", better="higher", reads=_CHECKS)
def last_test_outcome(view: SessionView) -> Reading:
    """How the last test run of the session ended: passed, failed, or nothing ran in it.

    The best single sign of whether the work works. ``none`` is a run that found no test
    to run. Unknown where no test ran, or how the last one ended is not known.
    """
    found = _of(view, "test")
    if not found:
        return Reading(None, reason="no test ran")
    last = found[-1]
    if any(c.result == "running" for c in last):
        return Reading(None, reason="the last test run had not ended")
    evidence = _evidence([last])
    if _red(last):
        return Reading("failed", evidence)
    if not _ran(last):
        return Reading("none", evidence)
    if not any(c.result == "passed" for c in last):
        return Reading(None, evidence, reason="how the last test run ended is not known")
    return Reading("passed", evidence, confidence=1.0 if any(c.unit for c in last) else 0.8)


@signal(version=3, group="outcome", unit="tests", better="lower", reads=_CHECKS)
def tests_failing_at_end(view: SessionView) -> Reading:
    """Tests that failed in the last test run; packages or files where the runner names no tests.

    Zero is green. Above zero the session ended, or went on to other things, with red
    tests. Unknown where no test ran, or the last run failed without saying how many.
    """
    found = _of(view, "test")
    if not found:
        return Reading(None, reason="no test ran")
    last = found[-1]
    said = [c for c in last if c.failed is not None]
    if not said:
        if all(c.result == "passed" for c in last):
            return Reading(0.0, _evidence([last]), confidence=0.8)
        return Reading(None, reason="the last test run printed no sum")
    sums = {"passed": sum(c.passed or 0 for c in said), "skipped": sum(c.skipped or 0 for c in said), "runner": said[0].runner}
    return Reading(float(sum(c.failed for c in said)), _evidence([last]), metadata=sums | {"unit": said[0].unit})


@signal(version=3, group="outcome", unit="runs", reads=_CHECKS)
def lint_run_count(view: SessionView) -> Reading:
    """Commands that ran a linter or a formatter.

    ruff, eslint, clippy, golangci-lint, prettier and their like, also through make, npm
    or mise. Many failing runs in a row mean that the agent does not know the rules: put
    them into its instructions.
    """
    return _runs_of(view, "lint")


@signal(version=3, group="outcome", unit="runs", better="lower", reads=_CHECKS)
def failed_lint_run_count(view: SessionView) -> Reading:
    """Runs of linters and formatters that reported problems or failed.

    Unknown where no linter ran. Compare with ``lint_run_count``: a linter that fails
    first every time could run as a hook after each edit.
    """
    return _failed_of(view, "lint")


@signal(version=3, group="outcome", unit="problems", better="lower", reads=_CHECKS)
def lint_problems_at_end(view: SessionView) -> Reading:
    """Problems in the last sum that a linter printed; 0 where the same command passed later.

    Unknown where no linter printed a sum that is known, where the last run failed without one, and where
    only another command, or one whose end is not known, ran later.
    """
    return _problems_at_end(view, "lint")


@signal(version=3, group="outcome", unit="runs", reads=_CHECKS)
def type_check_run_count(view: SessionView) -> Reading:
    """Commands that ran a type checker: mypy, pyright, tsc, ``cargo check`` and their like.

    None in a typed project that was changed means that the checker was left to the
    continuous integration.
    """
    return _runs_of(view, "types")


@signal(version=3, group="outcome", unit="runs", better="lower", reads=_CHECKS)
def failed_type_check_run_count(view: SessionView) -> Reading:
    """Runs of type checkers that reported errors or failed.

    Unknown where no type checker ran. A high share late in the session is a change of a
    signature that reached further than the agent saw.
    """
    return _failed_of(view, "types")


@signal(version=3, group="outcome", unit="errors", better="lower", reads=_CHECKS)
def type_errors_at_end(view: SessionView) -> Reading:
    """Errors in the last sum that a type checker printed; 0 where the same command passed later.

    Unknown where no type checker printed a sum that is known, where the last run failed without one, and where
    only another command, or one whose end is not known, ran later.
    """
    return _problems_at_end(view, "types")


def _problems_at_end(view: SessionView, kind: str) -> Reading:
    found = _of(view, kind)
    place, said = next(((n, m) for n, m in reversed(list(enumerate(found))) if any(c.failed is not None for c in m)), (0, None))
    if said is None:
        return Reading(None, reason=f"no {_NAMES[kind]} printed a sum")
    counted = [c for c in said if c.failed is not None]
    tools = {"tools": sorted({c.runner for c in counted})}
    if found[place + 1 :] and _red(found[-1]):
        return Reading(None, _evidence([found[-1]]), reason=f"the last {_NAMES[kind]} failed and printed no sum")
    if _red(said):
        every = [c for c in check_runs(view) if c.program and c.ts is not None and c.result in ("passed", "failed")]
        own = {c.program for c in said if c.program}
        beside = {c.program for c in every if c.call_event == said[-1].call_event}
        # a tool that a task runs names no program: the task does, where it is alone
        ran = own or (beside if len(beside) == 1 else set())
        last = next((c for c in reversed(every) if c.program in ran and c.ts > said[-1].ts), None)
        if last is not None and all(c.result == "passed" for c in every if c.call_event == last.call_event and c.program in ran):
            return Reading(0.0, (last.event,), confidence=0.8, metadata=tools)  # what is clean prints no sum
        if any(not _red(m) for m in found[place + 1 :]):
            return Reading(
                None, _evidence([said]), reason=f"a later {_NAMES[kind]} found nothing or did not end, or looked at something else"
            )
    return Reading(float(sum(c.failed for c in counted)), _evidence([said]), metadata=tools)


@signal(version=3, group="outcome", unit="runs", better="lower", reads=_CHECKS)
def failed_build_count(view: SessionView) -> Reading:
    """Builds that failed.

    ``make``, ``go build``, ``npm run build``, ``cargo build`` and their like. Unknown
    where nothing was built. Several in a row without an edit between them are the
    environment and not the code.
    """
    return _failed_of(view, "build")


@signal(version=2, group="outcome", kind="text", reads=_RUNS)
def exit_statuses(view: SessionView) -> Reading:
    """Exit statuses of shell commands other than 0, status: times, commonest first, as ``1: 4, 127: 1``.

    1 is a failure, 2 wrong usage, 101 a panic of Rust, 126 and 127 a command that cannot
    be run or found, 124 and 137 one that was stopped. Unknown where every command ended
    with 0 or the host kept no status.
    """
    found = [run for run in command_runs(view) if run.exit]
    if not found:
        return Reading(None, reason="no command ended with another status than 0")
    counts = sorted(Counter(run.exit for run in found).items(), key=lambda pair: (-pair[1], pair[0] or 0))
    return Reading(", ".join(f"{status}: {count}" for status, count in counts[:_TOP]), tuple(run.event for run in found))


@signal(version=2, group="outcome", unit="commands", better="lower", reads=_RUNS)
def command_not_found_count(view: SessionView) -> Reading:
    """Shell commands that ended with status 127: a program that is not installed or not on the path.

    The agent guesses at tools. Name the project's own commands in its instructions, or
    install what it reaches for.
    """
    found = [run for run in command_runs(view) if run.exit == _NOT_FOUND]
    return Reading(
        float(len(found)), tuple(run.event for run in found), metadata={"commands": [r.command[:120] for r in found[:3]]} if found else None
    )


@signal(version=2, group="outcome", unit="commands", better="lower", reads=_RUNS)
def stopped_command_count(view: SessionView) -> Reading:
    """Shell commands that were stopped before they ended: status 124, 137 or 143.

    A timeout, or a lack of memory. Long suites belong in the background, or in a subset.
    """
    found = [run for run in command_runs(view) if run.exit in _TIMED_OUT]
    return Reading(
        float(len(found)), tuple(run.event for run in found), metadata={"commands": [r.command[:120] for r in found[:3]]} if found else None
    )


@signal(version=4, group="outcome", kind="text", reads=_RUNS)
def failing_commands(view: SessionView) -> Reading:
    """Programs whose runs failed, worst first: ``pytest 3/7, go build 1/1`` are failures of runs.

    A command line is a run of each of its programs, and fails with one of them, as in
    ``ctx work``. The metadata has runs and failures of the ten commonest. A program that
    always fails is missing or misused; one that fails in every session belongs in the
    instructions. Unknown where no command failed.
    """
    table: dict[str, list[int]] = {}
    evidence: list[str] = []
    for run in command_runs(view):
        if not run.outputs or run.result == "refused" or not run.programs:
            continue
        blamed = failed_program(run.command, printed(view, run)) if run.result == "failed" else ""
        for program in dict.fromkeys(filter(None, run.programs)):
            row = table.setdefault(program, [0, 0])
            row[0] += 1
            row[1] += program == blamed
        if blamed:
            evidence.append(run.event)
    failing = sorted(((subject, row) for subject, row in table.items() if row[1]), key=lambda pair: (-pair[1][1], pair[0]))
    top: dict[str, Any] = dict(sorted(table.items(), key=lambda pair: (-pair[1][0], pair[0]))[:_TOP])
    if not failing:
        return Reading(None, reason="no command failed", metadata={"commands": top} if top else None)
    text = ", ".join(f"{subject[:60]} {row[1]}/{row[0]}" for subject, row in failing[:_TOP])
    return Reading(text, tuple(evidence), metadata={"commands": top})

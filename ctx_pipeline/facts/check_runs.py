"""Which tests, linters, type checkers and builds ran, and what each of them reported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import CHECKS, command_runs, results_of, shown_by
from ctx_pipeline.model.tables import CHECK_RUNS
from ctx_pipeline.shell.commands import Step, steps

if TYPE_CHECKING:
    from ctx_pipeline.facts.check_results import CheckResult
    from ctx_pipeline.model.session_view import SessionView

_ASKS_ONLY = re.compile(
    r"--(?:markers|collect-only|co|fixtures|fixtures-per-test|setup-plan|version|help|list|listTests|list-tests|showConfig|show-config"
    r"|print-config|list-files|dry-run|just-print|setup-only|no-run)\b|-(?:list|h|V)$"
)
"""Options with which a runner only lists or explains: nothing is checked."""
_NONE_FOUND = re.compile(
    r"no tests ran|no tests (?:to run|found|were found|collected)|collected 0 items|running 0 tests|No test files found|no test files",
    re.IGNORECASE,
)
_CUTS = frozenset({"tail", "head", "grep", "rg", "sed", "awk"})


def check_runs(view: SessionView) -> list[Any]:
    """Return the rows of ``check_runs`` of a session: one for each runner of each command, in order.

    Without a report of the runner there are no counts, and the command's own result
    stands where it is the runner's. A listing of tests has not run.
    """
    return view.fact(CHECK_RUNS.name, _rows)


def _rows(view: SessionView) -> list[Any]:
    return [row for run in command_runs(view) if CHECKS.intersection(run.purposes) for row in _of_command(view, run)]


def _of_command(view: SessionView, run: Any) -> list[Any]:
    programs = [s for s in steps(run.command) if s.purpose in CHECKS]
    reported = list(results_of(view, run))
    rows: list[Any] = []
    matched: set[int] = set()
    for result in reported:
        at = next((i for i, s in enumerate(programs) if s.purpose == result.purpose and i not in matched), None)
        if at is None:
            at = next((i for i, s in enumerate(programs) if s.purpose in ("check", result.purpose)), None)
        if at is not None:
            matched.add(at)
        elif result.purpose == "build":
            continue  # a test or a linter that compiles first is no build
        rows.append(_reported(view, run, result, programs[at] if at is not None else None, len(reported)))
    rows += [_silent(run, s, len(programs)) for i, s in enumerate(programs) if i not in matched]
    return [row._replace(place=place) for place, row in enumerate(rows)]


def _reported(view: SessionView, run: Any, result: CheckResult, program: Step | None, reports: int) -> Any:
    ran = bool(result.passed or result.failed or result.skipped) if result.purpose == "test" else True
    ran = ran and not (program is not None and _asks_only(program))
    outputs = [e for event in run.outputs if (e := view.by_event.get(event)) is not None]
    event, line = shown_by(outputs, result)
    if run.result in ("refused", "running"):
        end, event, line = run.result, run.event, run.line
    elif not ran:
        end = "unknown"
    elif not result.ok and not (run.result == "passed" and run.exit == 0):
        end = "failed"
    elif result.ok and reports == 1 and run.result == "failed" and not run.pipeline and len(run.programs) == 1:
        end, event, line = "failed", run.event, run.line
    else:
        end = "passed"
    counted = ran and not (result.unit == "package" and _CUTS.intersection(p.partition(" ")[0] for p in run.pipeline))
    return _row(
        run,
        runner=result.tool,
        kind=result.purpose,
        program=program.text if program else "",
        ran=ran,
        passed=result.passed if counted and result.purpose == "test" else None,
        failed=result.failed if counted else None,
        skipped=result.skipped if counted and result.purpose == "test" else None,
        unit=result.unit if counted else "",
        result=end,
        event=event,
        line=line,
    )


def _silent(run: Any, program: Step, programs: int) -> Any:
    """Return the row of a program whose report nobody saw."""
    nothing = _asks_only(program) or bool(run.line and _NONE_FOUND.search(run.line))
    end = "unknown" if nothing else run.result
    if programs > 1 and end == "failed":
        end = "unknown"
    ran = False if nothing or end == "refused" else True if end in ("passed", "running") else None
    return _row(
        run,
        runner=program.subject.partition(" ")[0],
        kind=program.purpose,
        program=program.text,
        ran=ran,
        passed=None,
        failed=None,
        skipped=None,
        unit="",
        result=end,
        event=run.event,
        line=run.line,
    )


def _row(run: Any, **found: Any) -> Any:
    return CHECK_RUNS.row(
        host=run.host,
        session_id=run.session_id,
        thread_id=run.thread_id,
        seq=run.seq,
        call_event=run.call_event,
        place=0,
        ts=run.ended,
        **found,
    )


def _asks_only(program: Step) -> bool:
    return any(_ASKS_ONLY.match(word) for word in program.words[1:])

"""Which tests, linters, type checkers and builds ran, and what each of them reported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.begun_tasks import task_begun
from ctx_pipeline.facts.check_results import check_results
from ctx_pipeline.facts.command_runs import CHECKS, command_runs, may_have_ended_before, printed, results_of, shown_by, stops_at_errors
from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.facts.stopped_runs import stopped
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.tables import CHECK_RUNS
from ctx_pipeline.shell.commands import Step, steps, steps_by_piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.facts.check_results import CheckResult
    from ctx_pipeline.model.session_view import SessionView

_ASKS_ONLY = lazy_pattern(
    r"--(?:markers|collect-only|co|fixtures|fixtures-per-test|setup-plan|version|help|list|listTests|list-tests|showConfig|show-config"
    r"|print|print-config|list-files|dry-run|just-print|setup-only|no-run|init(?!-))\b"
    r"|-(?:list|h|V|Vv|vV|version|dumpversion|dumpmachine)$"
)
"""Options with which a runner only lists or explains: nothing is checked."""
_NONE_FOUND = lazy_pattern(
    r"no tests ran|no tests (?:to run|found|were found|collected)|collected 0 items|running 0 tests|No test files found|no test files"
    r"|No files were processed",
    re.IGNORECASE,
)
_OF_NONE_FOUND = ("no test", " 0 ", "no files")
"""One of these stands in what the pattern finds."""
_FILTERS = frozenset({"grep", "rg", "sed", "awk"})
_CUT = lazy_pattern(r"\|\s{0,4}(?:head|tail)\b(?:\s{1,4}(?:-n\s{0,4}|--lines=|-)(\d{1,7})\b)?")
_CUT_TO = 10
"""Lines that ``head`` and ``tail`` leave unless told otherwise (POSIX)."""
_LONGEST = 20_000
_FORMATS = frozenset({"fmt", "format"})
_FORMATTERS = frozenset({"formatter", "prettier", "rustfmt"})
_ONLY_FORMATS = frozenset({"autopep8", "black", "clang-format", "gofmt", "gofumpt", "isort", "prettier", "rustfmt", "shfmt", "yapf"})
_COMPILES = lazy_pattern(r"(?m)^ {3,12}(?:Checking|Compiling) \S")
"""What cargo prints once it builds; its formatter prints nothing of the kind."""


def check_runs(view: SessionView) -> list[Any]:
    """Return the rows of ``check_runs`` of a session: one for each runner of each command, in order.

    Without a report of the runner there are no counts, and the command's own result
    stands where it is the runner's. A listing of tests has not run.
    """
    return view.fact(CHECK_RUNS.name, _rows)


class PersonRun(NamedTuple):
    """A test runner, linter, type checker or build that the person ran in the prompt of a thread, or has a hook run."""

    command: str
    kind: str
    passed: int
    failed: int
    unit: str
    result: str
    """passed, failed or unknown: no exit status is recorded"""
    event: str
    """event_id of what it printed"""
    printed: str
    thread_id: str
    seq: int
    started: int | None
    hook: str = ""
    """the moment at which the hook ran it; empty where the person typed it"""


_OF_HOOK = lazy_pattern(
    r"(?:\x1b\[\d*m)?(Stop|SubagentStop|PostToolUse)(?::[\w|*-]{1,80})?(?:\x1b\[\d*m)? "
    r"\[([^\n]{1,400}?)\](?: (completed|failed)\b([^:\n]{0,80}):?|\s*\Z)"
)
"""How an agent tells of a command of the person's that ran at a moment (Claude Code until 2.0), for one tool or any."""
_AT_MOMENTS = frozenset({"Stop", "SubagentStop", "PostToolUse"})
_SEVERAL = lazy_pattern(r"[;|\n]|(?<![<>])&(?!>)|^\s*!")
"""A shell does more than run one program and end as it does."""
_NOT_FOUND = lazy_pattern(r"\b12[67]\b")
"""The status of a shell that could not start a command (POSIX)."""


class _HookRun(NamedTuple):
    """What is told of a command that ran in a hook."""

    hook: str
    command: str
    printed: str
    exit: int | None = None
    """its exit status where one is recorded"""
    failed: bool = False
    """it is said to have failed"""


def _of_hook(event: Any) -> _HookRun | None:
    text = event.text or ""
    if event.subtype in ("system", "system/stop_hook_summary"):
        told = _OF_HOOK.match(text)
        if told is None:
            return None
        said = told[4] or ""
        status = 0 if said.strip() == "successfully" else 127 if told[3] == "failed" and _NOT_FOUND.search(said) else None
        return _HookRun(told[1], told[2], text[told.end() :].strip(), status, told[3] == "failed")
    if event.subtype not in ("attachment/hook_success", "attachment/hook_non_blocking_error", "attachment/hook_blocking_error"):
        return None
    row = arguments_of(text)  # since 2.0
    blocking = row.get("blockingError")
    row |= blocking if isinstance(blocking, dict) else {}
    hook, command, status = row.get("hookEvent"), row.get("command"), row.get("exitCode")
    if not isinstance(hook, str) or hook not in _AT_MOMENTS or not isinstance(command, str):
        return None
    output = "\n".join(said for name in ("stdout", "stderr", "blockingError") if isinstance(said := row.get(name), str) and said)
    return _HookRun(hook, command, output, status if isinstance(status, int) else None, event.kind == "error")


def runs_of_hooks(view: SessionView) -> list[PersonRun]:
    """Return the checks that the person's hooks ran, in order.

    How one ended is known from what it printed, and from its exit status, or from that it failed, where the command is nothing but the
    check: a pipe that succeeds tells nothing, and of several commands another may have failed. Tests that failed did so
    whatever the status of what ran them. What was not found did not run.
    """
    found: list[PersonRun] = []
    for event in view.events:
        told = _of_hook(event)
        if told is None:
            continue
        alone = not _SEVERAL.search(told.command)
        if alone and told.exit in (126, 127):
            continue
        ended = "failed" if alone and told.failed else "passed" if alone and told.exit == 0 else ""
        runs = _of_person(event, told.command, event.event_id, told.printed)
        found += [
            run._replace(hook=told.hook, result=run.result if run.kind == "test" and run.result == "failed" else ended or run.result)
            for run in runs
        ]
    return found


def runs_of_person(view: SessionView) -> list[PersonRun]:
    """Return the checks that the person ran in the prompt and that were answered, in order; what was asked of the agent is none of them."""
    ran, printed_by = (discovery.declared_pattern(f"records.{name}") for name in ("shell_command", "shell_output"))
    found: list[PersonRun] = []
    asked: tuple[Any, str] | None = None
    for event in view.of_kinds("injected"):
        text = (event.text or "").lstrip()
        if match := ran.match(text):
            asked = event, next(filter(None, match.groups()), "")
        elif asked and asked[0].thread_id == event.thread_id and printed_by.match(text):
            found += _of_person(*asked, event.event_id, event.text or "")
            asked = None
    return found


def _of_person(event: Any, command: str, answer: str, text: str) -> Iterator[PersonRun]:
    kinds = {step.purpose: step for step in steps(command) if step.purpose in CHECKS and not _asks_only(step)}
    results = [_as_program(told, step) for told in check_results(text) for step in list(kinds.values())[:1]]
    for kind in kinds:
        own = [told for told in results if told.purpose == kind]
        yield PersonRun(
            command,
            kind,
            sum(told.passed for told in own),
            sum(told.failed for told in own),
            own[0].unit if own else "",
            "unknown" if not own else "failed" if any(not told.ok for told in own) else "passed",
            answer,
            text,
            event.thread_id,
            event.seq,
            event.ts,
        )


def commands_that_checked(view: SessionView) -> frozenset[str]:
    """Return the call_event of each command that checked something: it ran, was answered, and no listing of tests."""
    return frozenset(row.call_event for row in check_runs(view) if row.ran is not False and row.result != "refused" and row.ts is not None)


def _rows(view: SessionView) -> list[Any]:
    return [row for run in command_runs(view) if CHECKS.intersection(run.purposes) for row in _of_command(view, run)]


def _of_command(view: SessionView, run: Any) -> list[Any]:
    pieces = steps_by_piece(run.command)
    placed = [(at, step) for at, (_, members) in enumerate(pieces) for step in members if step.purpose in CHECKS]
    programs = [step for _, step in placed]
    reported: list[tuple[CheckResult, int | None]] = []
    matched: set[int] = set()
    for told in results_of(view, run):
        own = _program_of(told, programs, matched)
        reported.append((_as_program(told, programs[own]) if own is not None else told, own))
        if own is not None:
            matched.add(own)
    begun = _last_begun(view, run, placed, matched) if run.result == "running" else -1
    cut_off = run.result == "unknown" and bool(stopped(view, run))
    rows: list[Any] = []
    for result, own in reported:
        if own is None and result.purpose == "build":
            continue  # a test or a linter that compiles first is no build
        at = placed[own][0] if own is not None else len(pieces)
        row = _reported(view, run, result, programs[own] if own is not None else None, len(reported), ended=at < begun)
        if cut_off and row.result == "passed" and all(piece.piped for piece, _ in pieces[at + 1 :]):
            row = row._replace(result="unknown")  # more of its tests may have been ahead
        rows.append(row)
    broken = next((row for row in rows if not row.program and row.result == "failed"), None)
    last = begun if run.result == "running" else max((placed[i][0] for i in matched), default=-1)
    rows += [_silent(view, run, step, at, last) for i, (at, step) in enumerate(placed) if i not in matched]
    if broken is not None and len(programs) == 1 and rows[-1].result == "unknown":
        # what a script ran has failed, and with it the script
        rows[-1] = rows[-1]._replace(result="failed", event=broken.event, line=broken.line)
    return [row._replace(place=place) for place, row in enumerate(rows)]


def _last_begun(view: SessionView, run: Any, placed: Sequence[tuple[int, Step]], matched: set[int]) -> int:
    """Return the place of the last program of a line that its output shows to have begun: those before it have ended; -1 for none."""
    output = printed(view, run) if len(placed) > 1 else ""
    begun = [at for i, (at, step) in enumerate(placed) if output and (i in matched or task_begun(output, step) >= 0)]
    building = [at for at, step in placed if step.subject.startswith("cargo ") and not of_format(step)]
    begun += building[:1] if output and _COMPILES.search(output) else []
    last = max(begun, default=-1)
    # what runs beside another one ends when it likes
    return -1 if any(piece.behind == "&" for piece, _ in steps_by_piece(run.command)[1 : last + 1]) else last


def of_format(step: Step) -> bool:
    """Tell whether a program rewrites files in a format, or checks that they have it, and finds nothing else."""
    program, *words = step.words
    named = {program.rpartition("/")[2], *(words[1:2] if words[:1] == ["-m"] else ())}
    return not (_ONLY_FORMATS.isdisjoint(named) and _FORMATS.isdisjoint((*words[:1], *re.split(r"[ :_-]", step.subject))))


def _program_of(result: CheckResult, programs: Sequence[Step], matched: set[int]) -> int | None:
    """Return the program of a command that printed a report: one that it names, else the first of its purpose, else a script."""
    free = [i for i, p in enumerate(programs) if i not in matched and _as_program(result, p).purpose == p.purpose]
    named = [i for i in free if result.tool in programs[i].text]
    fitting = [i for i in free if (_FORMATS.isdisjoint(re.split(r"[ :]", programs[i].subject))) or result.tool in _FORMATTERS]
    scripts = [i for i, p in enumerate(programs) if p.purpose in ("check", result.purpose)]
    return next(iter([*named, *fitting, *free, *scripts]), None)


def _as_program(result: CheckResult, program: Step) -> CheckResult:
    """Return a report as that of a program which prints what another one prints: cargo when it only checks, and ty like ruff."""
    if result.tool == "ruff" and result.ok and program.subject.partition(" ")[0] == "ty":
        return result._replace(tool="ty", purpose=program.purpose)
    if result.tool == "cargo" and result.purpose == "build" and program.subject in ("cargo check", "cargo clippy"):
        return result._replace(purpose=program.purpose, counts="error")
    return result


def _reported(view: SessionView, run: Any, result: CheckResult, program: Step | None, reports: int, *, ended: bool) -> Any:
    ran: bool | None = not (program is not None and _asks_only(program))
    if result.stopped:
        ran = None
    elif result.purpose == "test":
        ran = ran and bool(result.passed or result.failed or result.skipped)
    outputs = [e for event in run.outputs if (e := view.by_event.get(event)) is not None]
    event, line = shown_by(view, outputs, result)
    if run.result == "refused" or (run.result == "running" and not ended):
        end, event, line = run.result, run.event, run.line
    elif ran is False:
        end = "unknown"
    elif not result.ok and not (run.result == "passed" and run.exit == 0):
        end = "failed"
    elif result.ok and reports == 1 and run.result == "failed" and not run.pipeline and len(run.programs) == 1:
        end, event, line = "failed", run.event, run.line
    else:
        end = "passed"
    counted = ran and not (result.by_line and _cuts(view, run))
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


def _cuts(view: SessionView, run: Any) -> bool:
    """Tell whether a pipeline may have left out lines of a program's output."""
    if any(p.partition(" ")[0] in _FILTERS for p in run.pipeline):
        return True
    kept = [int(m[1] or _CUT_TO) for m in _CUT.finditer(run.command)] if run.pipeline else []
    return bool(kept) and len(printed(view, run).splitlines()) >= min(kept)


def _found_none(text: str) -> bool:
    """Tell whether a runner says that there was nothing to check."""
    # letters beyond ASCII may count as small ones that they are not lowered to
    lowered = text.lower() if text.isascii() else ""
    return (not lowered or any(words in lowered for words in _OF_NONE_FOUND)) and _NONE_FOUND.search(text) is not None


def _silent(view: SessionView, run: Any, program: Step, at: int, last: int) -> Any:
    """Return the row of a program whose report nobody saw; ``at`` is its place, ``last`` that of the last one that reported or began."""
    alone = len(run.programs) == 1
    owns = not run.background and _owns(run.command, at)
    if run.result == "refused" or (run.result == "running" and at >= last):
        end = run.result
    elif _asks_only(program) or (alone and _found_none(run.line or printed(view, run)[:_LONGEST])):
        end = ""
    elif (owns and run.exit == 0) or (at < last and _owns(run.command, at, last + 1)):
        end = "passed"
    else:
        sole = sum(purpose in CHECKS for purpose in run.purposes) == 1
        end = run.result if alone or (sole and owns) else "unknown"
        if end == "running":
            end = "unknown"  # a later one goes on
        if end == "failed" and may_have_ended_before(run.command, at, program, printed(view, run)):
            end = "unknown"
    ran = False if end in ("", "refused") else True if end in ("passed", "running") else None
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
        result=end or "unknown",
        event=run.event,
        line=None if end == "unknown" else run.line,
    )


def _owns(command: str, at: int, until: int | None = None) -> bool:
    """Tell whether a line that ended well, or got to the piece before ``until``, shows that the piece at a place ended well."""
    behind = [piece.behind for piece, _ in steps_by_piece(command)]
    if "||" in behind[1 : at + 1]:
        return False
    later = behind[at + 1 : until]
    return not later or stops_at_errors(command) or (later[0] == "&&" and {"&&", "|"}.issuperset(later))


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

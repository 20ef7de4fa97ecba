"""The last run of each kind of check of a session: how it ended, and whether files were changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.session_state.state import CheckRun
from ctx_pipeline.facts.check_runs import PersonRun, check_runs, of_format, runs_of_hooks, runs_of_person
from ctx_pipeline.facts.command_runs import printed, runs_by_call, shown_in_part
from ctx_pipeline.facts.stopped_runs import stopped
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.mining.lessons.failures import salient_line, shorten_paths, shortened, without_warnings
from ctx_pipeline.mining.lessons.quoting import quotable
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.changed_files import changed_since
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView


CHECKED = ("test", "check", "types", "lint", "build")
"""Purposes of a command that say how the work stands, the most telling first; ``check`` is a task that checks several things."""

_LONG, _NAMED = 400, 90
_EMPTY = lazy_pattern(r"(?m)^ok\s+\S+\s.*\[no tests to run\]\s*$")


def last_checks(view: SessionView) -> list[CheckRun]:
    """Return the last run of each kind of check that checked anything or still may, tests first; none that a later pass covers."""
    checks = list(_last_checks(view))
    fresh = {c.purpose: c for c in checks if c.ok and not c.stale}
    return [c for c in checks if not (c.ok and ((c.stale and _covered(c, fresh)) or _shown_beside(c, checks)))]


def _shown_beside(check: CheckRun, checks: Sequence[CheckRun]) -> bool:
    """Tell whether a check is a formatter that ended well in a command of which another check is told."""
    return check.purpose == "lint" and _all_format(check.command) and any(c.command == check.command and c is not check for c in checks)


_WHOLE_CARGO = lazy_pattern(r"\bcargo (?:test|nextest run)(?: --(?:workspace|all|all-features))*$")


def _covered(check: CheckRun, passed: Mapping[str, CheckRun]) -> bool:
    """Tell whether what passed since says more than an earlier pass of a check: tests of a whole project build it."""
    if "check" in passed:
        return check.purpose in ("types", "lint", "build")
    tests = passed.get("test")
    if check.purpose != "build" or tests is None:
        return False
    if "go build" in check.command:
        return tests.unit == "package" and ("./..." in tests.command or "go test" not in tests.command)
    return "cargo " in check.command and _WHOLE_CARGO.search(tests.command) is not None


def _last_checks(view: SessionView) -> Iterator[CheckRun]:
    """Yield the last run of each kind of check that checked anything or still may, and how the one before it ended where it did not."""
    commands = runs_by_call(view)
    known = [c for c in check_runs(view) if c.ran is not False]
    hooks = view.once(runs_of_hooks)
    telling = [run for run in hooks if run.result != "unknown"]
    by_person = sorted([*runs_of_person(view), *telling], key=lambda run: (run.started or 0, run.seq))
    for kind in CHECKED:
        ran: Sequence[Any] = [c for c in known if c.kind == kind]
        theirs: Sequence[PersonRun] = [run for run in by_person if run.kind == kind]
        if kind == "lint":
            ran, theirs = _linted(ran, theirs, commands)
        last = max(ran, key=lambda c: _place(c, commands), default=None)
        own = theirs[-1] if theirs else None
        if last is None and own is None:  # a hook that shows nothing says less than any other run
            own = next((run for run in reversed(hooks) if run.kind == kind), None)
        if own is not None and (last is None or (own.started or 0) >= _place(last, commands)[0]):
            yield _ran_by_person(view, own)
            continue
        if last is None or (not last.program and _superseded(last, known, commands)):
            continue  # what its output told of is over: the same program ran again and told of nothing
        check = _of_agent(view, last, ran)
        over = check.result in ("passed", "failed")
        if over and not _of_format(last):
            yield check
            continue
        at = _place(last, commands)
        ended = [c for c in ran if c.result in ("passed", "failed") and c.call_event != last.call_event and not (over and _of_format(c))]
        earlier = max((c for c in ended if _place(c, commands) < at), key=lambda c: _place(c, commands), default=None)
        if own is not None and own.result != "unknown" and (earlier is None or (own.started or 0) > _place(earlier, commands)[0]):
            yield check._replace(before=_before(_ran_by_person(view, own), check))
        else:
            yield check._replace(before=_before(_of_agent(view, earlier, ran), check) if earlier is not None else "")


def _linted(ran: Sequence[Any], theirs: Sequence[PersonRun], commands: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[PersonRun]]:
    """Return the runs that say what a linter finds, and the last of a formatter where that failed; all of them where no linter ran."""
    found, own = [c for c in ran if not _of_format(c)], [run for run in theirs if not _all_format(run.command)]
    if not found and not own:
        return ran, theirs
    formatted = max((c for c in ran if _of_format(c)), key=lambda c: (*_place(c, commands), c.place), default=None)
    return [*found, *([formatted] if formatted is not None and formatted.result == "failed" else ())], own


def _of_format(check: Any) -> bool:
    return check.kind == "lint" and _all_format(check.program)


def _all_format(command: str) -> bool:
    lint = [step for step in steps(command) if step.purpose == "lint"]
    return bool(lint) and all(map(of_format, lint))


def _place(check: Any, commands: Mapping[str, Any]) -> tuple[int, int]:
    return commands[check.call_event].started or 0, check.seq


def _before(ended: CheckRun, check: CheckRun) -> str:
    """Return how a check had ended before one of which no end is known, as a sentence goes on."""
    by = f" in the {ended.hook} hook" if ended.hook else " by the person" if ended.by_person else ""
    named = "it" if ended.command == check.command else f"`{truncate(ended.command, _NAMED)}`"
    return f"before that {named} {ended.outcome}{by}{', then files were changed' if ended.stale else ''}"


def _of_agent(view: SessionView, last: Any, known: Sequence[Any]) -> CheckRun:
    """Return a run of a kind of check with all that its command told of that kind."""
    cwd, run = view.session.cwd, runs_by_call(view)[last.call_event]
    same = [c for c in known if c.call_event == last.call_event and c.kind == last.kind]
    results = {c.result for c in same}
    result = next((r for r in ("failed", "refused", "running", "unknown", "passed") if r in results), "unknown")
    why = why_failed(view, last) if result == "failed" else ""
    return CheckRun(
        shown(run.command, cwd),
        last.kind,
        sum(c.passed or 0 for c in same),
        sum(c.failed or 0 for c in same),
        ok=result == "passed",
        stale=bool(since := changed_since(view, run)),
        since=since,
        event=last.event,
        why=truncate(why, _LONG),
        result=_unended(view, run) if result == "unknown" else result,
        unit="" if {c.unit for c in same} <= {"", "test"} else next(c.unit for c in same if c.unit not in ("", "test")),
        skipped=sum(c.skipped or 0 for c in same),
        empty=len(_EMPTY.findall(printed(view, run))) if last.kind == "test" else 0,
        cut=any(shown_in_part(run.command, c.program) for c in same),
    )


def _unended(view: SessionView, run: Any) -> str:
    return stopped(view, run) or "unknown" if run.outputs else "unanswered"


def _ran_by_person(view: SessionView, run: PersonRun) -> CheckRun:
    failed = run.result == "failed"
    return CheckRun(
        shown(run.command, view.session.cwd),
        run.kind,
        run.passed,
        run.failed,
        ok=run.result == "passed",
        stale=bool(since := changed_since(view, run)),
        since=since,
        event=run.event,
        why=truncate(salient_line(run.printed, view.session.cwd, of_tests=run.kind == "test"), _LONG) if failed else "",
        result=run.result,
        unit="" if run.unit == "test" else run.unit,
        by_person=not run.hook,
        hook=run.hook,
    )


def _superseded(check: Any, known: Sequence[Any], commands: Mapping[str, Any]) -> bool:
    """Tell whether a program of the same command that a check's output came from ran in a later command."""
    behind = [c for c in known if (commands[c.call_event].started or 0, c.seq) > (commands[check.call_event].started or 0, check.seq)]
    programs = {c.program for c in known if c.call_event == check.call_event and c.program}
    return any(c.program in programs for c in behind)


def why_failed(view: SessionView, check: Any) -> str:
    """Return the line of what a check printed that says what is wrong, or where: the first place that it names."""
    output = shortened(printed(view, runs_by_call(view)[check.call_event]))
    line = salient_line(output, view.session.cwd, of_tests=check.kind == "test")
    causes = [cause for cause in _CAUSE.findall(output) if quotable(cause)] if line.startswith("error: ") else []
    if causes:
        return f"{line}: {shorten_paths(causes[-1], view.session.cwd)}"
    if line and not (check.kind == "test" and _BESIDE.match(line)):
        return line
    failed = (_TEST_FAILED_AT if check.kind == "test" else _WRONG_AT).search(without_warnings(output))
    return shorten_paths(failed[1], view.session.cwd) if failed and quotable(failed[1]) else line


_BESIDE = lazy_pattern(r"(?i)(?:error|fatal): ")
"""What the program under test may have printed as well."""

_CAUSE = lazy_pattern(r"(?m)^Caused by:\n[ \t]{1,8}(?:\d{1,2}: )?(\S[^\n]{0,200})$")
"""What an error of a Rust program comes from, the innermost last."""

_TEST_FAILED_AT = lazy_pattern(r"(?m)^ {0,8}--- FAIL: .*\n(?:.*\n){0,2}? +(\w[\w.-]{0,80}\.go:\d{1,6}): ")
_WRONG_AT = lazy_pattern(
    r"(?m)^((?:[\w@.-]{1,60}/){0,12}[\w@-][\w@.-]{0,80}\.[A-Za-z]\w{0,7}:\d{1,7}(?::\d{1,5})?):? (?![^\n]{0,300}\b(?i:warn))\S"
)

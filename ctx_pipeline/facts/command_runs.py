"""Which commands an agent gave to a shell, and how each of them ended."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.facts.check_results import CheckResult, check_results
from ctx_pipeline.model.permissions import KEPT
from ctx_pipeline.model.shell_answers import ShellAnswers
from ctx_pipeline.model.tables import COMMAND_RUNS
from ctx_pipeline.shell.commands import Step, command_text, found_nothing, steps_by_piece
from ctx_pipeline.shell.files import below

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.parsing import Piece

CHECKS = frozenset({"test", "lint", "types", "build", "check"})
"""Purposes of programs that check the work; ``check`` is a script of that name, which may do any of them."""

_JUDGED = CHECKS | {"install", "run"}
"""Purposes of programs whose end matters: it is not taken from another program behind a pipe."""
_ACTIONS = frozenset({"shell", "other", "task"})
_LONGEST_LINE = 200
_LONGEST_NOTICE = 4_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_STRICT = re.compile(r"\bset\s+-\w*e|pipefail")
_IN_BACKGROUND = re.compile(r"(?<![&>])&\s*$")
_CHANGES_FOLDER = frozenset({"cd", "pushd"})


def command_runs(view: SessionView) -> list[Any]:
    """Return the rows of ``command_runs`` of a session, in the order of its threads.

    A call that waits for a command which went on, or writes to it, belongs to that
    command, and so does what the host injects when it has ended. Reads tool calls,
    threads, and events of kind tool_call, tool_result and injected.
    """
    return view.fact(COMMAND_RUNS.name, lambda view: [_row(view, run) for run in view.once(_joined)])


def runs_by_call(view: SessionView) -> dict[str, Any]:
    """Return event_id of a call -> its row of ``command_runs``; the calls that waited for a command lead to that command."""
    return view.once(_by_call)


def _by_call(view: SessionView) -> dict[str, Any]:
    return {event: run for run in command_runs(view) for event in (run.call_event, *run.polls)}


def printed(view: SessionView, run: Any) -> str:
    """Return all that a command printed, as far as the view holds the events."""
    return "\n".join(e.text for event in run.outputs if (e := view.by_event.get(event)) is not None and e.text)


def results_of(view: SessionView, run: Any) -> tuple[CheckResult, ...]:
    """Return what the test runners, linters, type checkers and builds of a command reported."""
    known: dict[str, tuple[CheckResult, ...]] = view.once(_results)
    if run.call_event not in known:
        known[run.call_event] = check_results(text) if CHECKS.intersection(run.purposes) and (text := printed(view, run)) else ()
    return known[run.call_event]


def _results(_view: SessionView) -> dict[str, tuple[CheckResult, ...]]:
    return {}


@dataclass(slots=True, eq=False)
class _Run:
    """One command with the calls and answers that belong to it, while they are joined."""

    call: Any
    command: str
    folder: str | None
    answers: list[Any] = field(default_factory=list)
    polls: list[str] = field(default_factory=list)
    exit: int | None = None
    failed: bool = False
    """the host marks its last answer as an error"""
    refused: bool = False
    running: bool = False
    stopped: bool = False
    """the agent ended it"""
    background: bool = False
    notice: Any = None
    """the injected record by which the host says that it has ended"""
    ended: int | None = None

    def take(self, answer: Any, call: Any, host: ShellAnswers) -> str:
        """Add what a call was answered; return the id by which later calls wait for the command, empty where none can."""
        self.ended = call.ended
        self.answers.append(answer)
        text = answer.text or ""
        head = text[: host.head]
        self.refused = self.refused or answer.subtype in KEPT
        self.failed = call.is_error
        status = call.exit if call.exit is not None else _status(text, host)
        self.exit = status if status is not None else self.exit
        named = _found(host.running, head) if self.exit is None else None
        waits = bool(self.polls) and _found(host.goes_on, head) is not None
        self.stopped = self.stopped or (bool(self.polls) and _found(host.stopped, head) is not None)
        self.running = self.exit is None and not self.stopped and (named is not None or waits)
        return next(filter(None, named.groups()), "") if named else ""

    def end(self, notice: Any, host: ShellAnswers) -> None:
        """Note what the host says of its end after the last answer."""
        text = notice.text[:_LONGEST_NOTICE]
        status = _found(host.noticed_exit, text)
        self.notice, self.running, self.ended = notice, False, notice.ts
        self.exit = int(status[1]) if status else None
        self.stopped = _found(host.noticed_stopped, text) is not None
        self.failed = _found(host.noticed_failed, text) is not None


def _joined(view: SessionView) -> list[_Run]:
    host = _phrases(view.host)
    late = _late_answers(view)
    home = {t.thread_id: t.cwd for t in view.threads}
    folders: dict[str, str | None] = {}
    going: dict[tuple[str, str], _Run] = {}
    found: list[_Run] = []
    for call in view.tool_calls:
        if call.action not in _ACTIONS:
            continue
        answer = view.by_event.get(call.result_event) if call.result_event else late.get((call.thread_id, call.call_id))
        command = command_text(call.argv) if call.action == "shell" and call.argv else ""
        if command:
            asked = view.call_text(call)
            start = folders.get(call.thread_id, home.get(call.thread_id) or getattr(view.session, "cwd", None))
            run = _Run(call, command, _argument(asked, host.folder) or start)
            run.background = _found(host.background, asked[-host.head :]) is not None
            found.append(run)
            if host.keeps_folder:
                folders[call.thread_id] = _moved(command, run.folder)
        else:
            named = _found(host.waits, view.call_text(call)[: host.head]) if going else None
            waited = going.get((call.thread_id, next(filter(None, named.groups()), ""))) if named else None
            if waited is None:
                continue
            run = waited
            run.polls.append(call.call_event)
        key = run.take(answer, call, host) if answer is not None else ""
        if key:
            going[call.thread_id, key] = run
    if host.noticed and any(run.running for run in going.values()):
        _notice(view, host, going)
    return found


def _notice(view: SessionView, host: ShellAnswers, going: dict[tuple[str, str], _Run]) -> None:
    """End the commands of which an injected record says so; that of a subagent's command may stand in the main thread."""
    by_key = {key: run for (_, key), run in going.items()}
    for event in view.of_kinds("injected"):
        said = re.search(host.noticed, (event.text or "")[:_LONGEST_NOTICE])
        run = (going.get((event.thread_id, said[1])) or by_key.get(said[1])) if said else None
        if run is not None and run.running:
            run.end(event, host)


def _late_answers(view: SessionView) -> dict[tuple[str, str], Any]:
    """Return (thread, call id) -> answer, of calls that the decoder found no answer for: it stands before its call in the file."""
    open_calls = {(c.thread_id, c.call_id) for c in view.tool_calls if not c.result_event and c.action in _ACTIONS}
    if not open_calls:
        return {}
    results = view.of_kinds("tool_result")
    return {key: e for e in results if (key := (e.thread_id, e.call_id)) in open_calls}


@cache
def _phrases(host: str) -> ShellAnswers:
    declared = discovery.hosts().get(host)
    return declared.shell_answers if declared else ShellAnswers()


def _found(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text, re.MULTILINE) if pattern else None


def _status(text: str, host: ShellAnswers) -> int | None:
    """Return the exit status that an answer tells in words: the first that is not 0 where a script ran several programs."""
    if not host.exit:
        return None
    said = [int(next(filter(None, m.groups()))) for m in re.finditer(host.exit, text, re.MULTILINE)]
    return next((status for status in said if status), 0) if said else None


def _argument(text: str, name: str) -> str | None:
    if not name or f'"{name}"' not in text:
        return None
    match = re.search(rf'"{name}"\s?:\s?("(?:[^"\\]|\\.){{1,4000}}")', text)
    try:
        return str(json.loads(match[1])) if match else None
    except ValueError:
        return None


def _moved(command: str, folder: str | None) -> str | None:
    """Return the folder in which a shell stands after a command; None where its words do not tell."""
    for piece, _ in steps_by_piece(command):
        if piece.words[:1] and piece.words[0] in _CHANGES_FOLDER:
            folder = _cd(piece, folder)
    return folder


def _cd(piece: Piece, folder: str | None) -> str | None:
    to = piece.words[1] if len(piece.words) > 1 else "-"
    if to.startswith(("-", "$", "`")):
        return None
    return below(folder or "/", to) if folder or to.startswith("/") else None


@dataclass(frozen=True, slots=True)
class _Line:
    """What the words of a command line say of its main program."""

    steps: tuple[Step, ...]
    main: Step | None
    folder: str | None
    environment: tuple[str, ...]
    pipeline: tuple[str, ...]
    background: bool
    owns_exit: bool
    """the line's exit status of 0 is the main program's"""


def _line(command: str, folder: str | None) -> _Line:
    pieces = steps_by_piece(command)
    every = tuple(step for _, members in pieces for step in members)
    main = next((s for s in every if s.purpose in CHECKS), every[0] if every else None)
    at = next((i for i, (_, members) in enumerate(pieces) if main in members), 0)
    for piece, _ in pieces[:at]:
        if piece.words[:1] and piece.words[0] in _CHANGES_FOLDER:
            folder = _cd(piece, folder)
    behind = [(piece, members) for piece, members in pieces[at + 1 :]]
    pipeline: list[str] = []
    for piece, members in behind:
        if not piece.piped:
            break
        pipeline += [s.subject for s in members] or [piece.words[0] if piece.words else ""]
    words = pieces[at][0].words if pieces else ()
    environment: list[str] = []
    for word in words[1:] if words[:1] == ("env",) else words:
        if not _ASSIGNMENT.match(word):
            break
        environment.append(word)
    background = bool(_IN_BACKGROUND.search(command)) or bool(behind and behind[0][0].behind == "&")
    alone = all(piece.behind == "&&" for piece, _ in behind) or bool(_STRICT.search(command) and "||" not in command)
    reached = not any(piece.behind == "||" for piece, _ in pieces[1 : at + 1])
    return _Line(every, main, folder, tuple(environment), tuple(pipeline), background, alone and reached and not background)


def _row(view: SessionView, run: _Run) -> Any:
    call = run.call
    line = _line(run.command, run.folder)
    row = COMMAND_RUNS.row(
        host=view.host,
        session_id=view.session_id,
        thread_id=call.thread_id,
        seq=call.seq,
        call_event=call.call_event,
        tool=call.tool,
        command=run.command,
        programs=[s.subject for s in line.steps],
        purposes=[s.purpose for s in line.steps],
        argv=list(line.main.words) if line.main else [],
        folder=line.folder,
        environment=list(line.environment),
        pipeline=list(line.pipeline),
        background=run.background or line.background,
        polls=run.polls,
        outputs=[e.event_id for e in run.answers],
        result="unknown",
        exit=run.exit,
        event=(run.notice or run.answers[-1]).event_id if run.answers else call.call_event,
        line=None,
        started=call.started,
        ended=run.ended,
    )
    result, event, shown = _result(view, run, row, line)
    return row._replace(result=result, event=event, line=shown)


def _result(view: SessionView, run: _Run, row: Any, line: _Line) -> tuple[str, str, str | None]:
    """Return how a command ended, the event that shows it, and the line of that event."""
    host = _phrases(view.host)
    if not run.answers:
        return "unknown", row.event, None
    last = run.notice or run.answers[-1]
    text = (last.text or "")[:_LONGEST_NOTICE] if run.notice else last.text or ""
    if run.refused:
        kept = next(e for e in reversed(run.answers) if e.subtype in KEPT)
        return "refused", kept.event_id, first_line(kept.text or "")
    if run.running:
        return "running", row.event, line_of(text, _found(f"{host.running}|{host.goes_on}".strip("|"), text[: host.head]))
    if run.stopped:
        shown = _found(host.noticed_stopped, text) if run.notice else _found(host.stopped, text[: host.head])
        return "unknown", row.event, line_of(text, shown)
    status = line_of(text, _found(host.noticed_exit if run.notice else host.exit_line, text))
    owned = line.owns_exit and (run.notice is not None or not row.background)
    nothing = found_nothing((run.command,), run.exit)
    if (run.exit and not nothing) or (run.exit is None and run.failed):
        return "failed", row.event, status or first_line(text)
    reported = results_of(view, row)
    bad = next((r for r in reported if not r.ok and not (owned and run.exit == 0 and r.purpose != "test")), None)
    if bad is not None:
        return "failed", *shown_by(run.answers, bad)
    well = run.exit == 0 or nothing or (run.exit is None and host.marks_errors and not row.background and run.notice is None)
    judged = line.main is not None and line.main.purpose in _JUDGED
    if well and (owned or not judged):
        return "passed", row.event, status
    ran = next((r for r in reported if r.ok and (r.passed or r.purpose != "test")), None)
    if ran is not None and not row.background:
        return "passed", *shown_by(run.answers, ran)
    return "unknown", row.event, None


def shown_by(answers: list[Any], result: CheckResult) -> tuple[str, str | None]:
    """Return the event, of a command's answers, that shows a check's result, and its line; the last event where no line does."""
    count = result.failed or result.passed
    look = re.compile(rf"\b{count}\b") if count else None
    for event in reversed(answers):
        for text in reversed((event.text or "").splitlines()[-400:]):
            if (look.search(text) if look else True) and _SUMS_UP.search(text):
                return event.event_id, text.strip()[:_LONGEST_LINE]
    return answers[-1].event_id, None


_SUMS_UP = re.compile(r"pass|fail|\bok\b|error|problem|success|finished|issue|warning|offense|found|ran\b|tests?\b", re.IGNORECASE)


def first_line(text: str) -> str | None:
    """Return the first line that is not empty, at most 200 characters."""
    return next((line.strip()[:_LONGEST_LINE] for line in text[:4000].splitlines() if line.strip()), None)


def line_of(text: str, match: re.Match[str] | None) -> str | None:
    """Return the line of a text that a match begins in, at most 200 characters."""
    if match is None:
        return None
    first = text.rfind("\n", 0, match.start()) + 1
    last = text.find("\n", match.start())
    line = text[first : last if last >= 0 else len(text)].strip()
    return line if len(line) <= _LONGEST_LINE else match[0][:_LONGEST_LINE]

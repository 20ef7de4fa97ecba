"""Which commands an agent gave to a shell, and how each of them ended."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.begun_tasks import task_begun
from ctx_pipeline.facts.check_results import CheckResult, check_results, line_at, plain
from ctx_pipeline.facts.killed_runs import ended_by_signal
from ctx_pipeline.model.host_records import KEPT, ShellAnswers
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.tables import COMMAND_RUNS
from ctx_pipeline.shell.commands import Step, command_text, found_nothing, steps_by_piece
from ctx_pipeline.shell.files import CHANGES_FOLDER, entered

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


CHECKS = frozenset({"test", "lint", "types", "build", "check"})
"""Purposes of programs that check the work; ``check`` is a script of that name, which may do any of them."""

_JUDGED = CHECKS | {"install", "run"}
"""Purposes of programs whose end matters: it is not taken from another program behind a pipe."""
_ACTIONS = frozenset({"shell", "other", "task"})
_LONGEST_LINE = 200
_LONGEST_REFUSAL, _LONGEST_NOTICE = 5_000, 2_000
_SHORTEST_ID, _NEWEST = 3, 20
_PASSES_ON = frozenset({"cat", "column", "cut", "head", "less", "more", "nl", "sort", "tail", "tee", "tr", "uniq", "wc"})
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w*=")
_STRICT = lazy_pattern(r"\bset\s+-\w*e|pipefail")
_IN_BACKGROUND = lazy_pattern(r"(?<![&>])&\s*$")


def command_runs(view: SessionView) -> list[Any]:
    """Return the rows of ``command_runs`` of a session, in the order of its threads.

    A call that waits for a command which went on, or writes to it, belongs to that
    command, and so does the note that a command in the background ended. Reads tool calls,
    threads, and events of kind tool_call, tool_result and injected.
    """
    return view.fact(COMMAND_RUNS.name, lambda view: [_row(view, run) for run in view.once(_joined)])


def asked_folder(host: str, arguments: str) -> str | None:
    """Return the folder that the arguments of a command's call ask for; None where they name none."""
    return _argument(arguments, phrases(host).folder)


def start_folders(view: SessionView) -> dict[str, str | None]:
    """Return event_id of a command's call -> the folder in which its shell began; None where that is not known."""
    return {run.call.call_event: run.folder for run in view.once(_joined)}


def waiting_calls(view: SessionView) -> set[str]:
    """Return the event_ids of the calls that waited for a command that went on, or wrote to it."""
    return {event for run in command_runs(view) for event in run.polls}


def runs_by_call(view: SessionView) -> dict[str, Any]:
    """Return event_id of a call -> its row of ``command_runs``; the calls that waited for a command lead to that command."""
    return view.once(_by_call)


def _by_call(view: SessionView) -> dict[str, Any]:
    return {event: run for run in command_runs(view) for event in (run.call_event, *run.polls)}


def failed_program(command: str, output: str | None = None) -> str:
    """Return the program to which the failure of a command line belongs; empty where it runs none, or which one is not known.

    It is in the last pipeline: the first that checks, else the last one that does not merely pass on what it reads.
    With what the line printed, a chain that may have ended before it belongs to none.
    """
    found: list[tuple[int, Step]] = []
    every = steps_by_piece(command)
    for place, (piece, members) in reversed(list(enumerate(every))):
        found = [*((place, step) for step in members), *found]
        if found and not piece.piped:
            break
    check = next((one for one in found if one[1].purpose in CHECKS), None)
    own = [one for one in found if one[1].subject.partition(" ")[0] not in _PASSES_ON] or found[:1]
    blamed = check or (own[-1] if own else None)
    if blamed is None or (output is not None and may_have_ended_before(command, *blamed, output)):
        return ""
    return blamed[1].subject


_SELDOM_FAIL = frozenset(
    {"cd", "pushd", "popd", "export", "set", "source", ".", "echo", "printf", "true", "sleep", "mkdir", "touch", "unset"}
    | {"git add", "git status", "git diff", "git log", "git show", "git branch", "git rev-parse"}
)
"""What sets the shell, makes a folder or looks around, and ends a chain only where it says so."""


def may_have_ended_before(command: str, place: int, step: Step, output: str) -> bool:
    """Tell whether a line that failed may have ended in a program before a step of the piece at a place, which then never ran.

    Behind ``&&`` a program runs only where the one before ended well. What it reports, or a message under its name, shows that it ran.
    """
    every = steps_by_piece(command)
    strict = stops_at_errors(command)
    before: list[tuple[str, ...]] = []
    for at in range(place, 0, -1):
        joined = every[at][0].behind
        if joined == "&&" or (joined in (";", "\n") and strict) or (joined == "|" and before):
            before.append(every[at - 1][0].words)
        elif joined != "|":
            break
    if not any(_SELDOM_FAIL.isdisjoint((*words[:1], " ".join(words[:2]))) or _failed_itself(output, words, step) for words in before):
        return False
    earlier = [other for _, members in every[:place] for other in members]
    return not (_reports(output, step, earlier) or _speaks_last(output, step, before))


def _failed_itself(output: str, words: tuple[str, ...], step: Step) -> bool:
    """Tell whether an output has a message of a program that seldom fails; one of the step's own program may be the step's."""
    return words[:1] != step.words[:1] and _speaks(output, words) >= 0


def _reports(output: str, step: Step, earlier: list[Step]) -> bool:
    """Tell whether an output has a report of a step: one that is not that of an earlier step which checks the same."""
    alike = any(step.purpose == other.purpose for other in earlier)
    return any(
        (step.purpose not in _REPORTING or told.purpose == step.purpose or told.tool in step.text) and not (alike and told.ok)
        for told in check_results(output)
    )


_REPORTING = CHECKS - {"check"}
"""Purposes of programs that print reports of their own purpose."""


def _speaks_last(output: str, step: Step, before: list[tuple[str, ...]]) -> bool:
    """Tell whether a message of a step's program stands in an output behind those of the programs before it, or a task runner's head."""
    program = step.subject.partition(" ")[0]
    if (place := _missing(output, program)) < 0 and not any(_bare(word) == _bare(program) for words in before for word in words[:2]):
        place = _speaks(output, (program,))
    if place >= 0 and place > max((_speaks(output, words) for words in before), default=-1):
        return True
    return task_begun(output, step) >= 0


_OF_SHELL = r"(?:(?:-?(?:/\S{1,80}/)?(?:ba|z|da|k)?sh|\(eval\)):(?: ?(?:line )?\d{1,9}:)? ?)?"


def _bare(program: str) -> str:
    return program.rpartition("/")[2]


def _speaks(output: str, words: tuple[str, ...]) -> int:
    """Return the place of the last message of a program (``make: ***``, ``npm ERR!``), or of the shell about it; else -1."""
    if not words:
        return -1
    names = "|".join(re.escape(name) for name in {words[0], _bare(words[0]), *(words[1:2] if words[0] in _READS_FILE else ())})
    own = rf"{_OF_SHELL}(?:{names})(?:\[\d{{1,3}}\]|:\d{{1,9}})?(?:: | ERR! | error )"
    look = rf"(?m)^(?:{own}|fatal: )" if words[0] == "git" else rf"(?m)^{own}"
    return max((found.start() for found in re.finditer(look, output)), default=-1)


_READS_FILE = frozenset({"source", "."})
"""Of these a shell names the file that it does not find."""


def _missing(output: str, program: str) -> int:
    """Return the place of the last line that says that there is no such program; else -1."""
    name = re.escape(_bare(program))
    said = (
        rf"(?:\b{name}: (?:command )?not found|[Cc]ommand not found: {name}|Failed to spawn: [`'\"]{name}[`'\"]|: No module named {name})$"
    )
    return max((found.start() for found in re.finditer(rf"(?m){said}", output)), default=-1)


def _not_found(output: str, step: Step) -> str:
    """Return the last line of an output where a shell says in it that there is no program of a step; else an empty text."""
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "").strip()[:_LONGEST_LINE]
    name = re.escape(_bare(step.subject.partition(" ")[0]))
    return last if re.fullmatch(rf"{_OF_SHELL[:-1]}(?:{name}: (?:command )?not found|command not found: {name})", last) else ""


_CUTS = frozenset({"tail", "head", "grep", "egrep", "rg", "sed", "awk", "less", "cut"})
"""Programs behind a pipe that show a part of what a program prints."""


def shown_in_part(command: str, program: str) -> bool:
    """Tell whether what a program of a command line prints goes through one that shows a part of it; an empty name stands for any check."""
    piping = False
    for piece, members in steps_by_piece(command):
        piping = piece.piped and piping
        if piping and piece.words[:1] and piece.words[0] in _CUTS:
            return True
        piping = piping or any(program in (s.text, s.subject) if program else s.purpose in CHECKS for s in members)
    return False


SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "git grep"})
_OWN_MESSAGE = lazy_pattern(
    r"(?m)^(?:(?:\S*/)?(?:[ef]?grep|rg|ag|ack|(?:ba|z|da)?sh|cd|fatal|error(?:\[\w+\])?): |zsh:\d+: |regex parse error:).*$"
)


def without_hits(program: str, text: str) -> str:
    """Return what a failed program says itself: of one that searches, the lines that are no hits in files."""
    return "\n".join(found[0] for found in _OWN_MESSAGE.finditer(text)) if program in SEARCHES else text


def printed(view: SessionView, run: Any) -> str:
    """Return all that a command printed, as far as the view holds the events."""
    host = phrases(view.host)
    return "\n".join(_printed(e.text, host) for event in run.outputs or () if (e := view.by_event.get(event)) is not None and e.text)


def output_of(view: SessionView, run: Any) -> str:
    """Return what the programs of a command printed, without what its host says above it."""
    text = printed(view, run)
    found = next((match for pattern in phrases(view.host).printed if (match := re.search(pattern, text, re.MULTILINE))), None)
    return found[1] if found else text


def _printed(answer: str, host: ShellAnswers) -> str:
    """Return what the programs printed, where an answer quotes it as JSON strings; else the answer."""
    if not host.output:
        return answer
    try:
        return "\n".join(json.loads(quoted) for quoted in re.findall(host.output, answer)) or answer
    except ValueError:
        return answer


def results_of(view: SessionView, run: Any) -> tuple[CheckResult, ...]:
    """Return what the test runners, linters, type checkers and builds of a command reported."""
    known: dict[str, tuple[CheckResult, ...]] = view.once(_results)
    if run.call_event not in known:
        known[run.call_event] = check_results(text) if CHECKS.intersection(run.purposes) and (text := printed(view, run)) else ()
    return known[run.call_event]


def _results(_view: SessionView) -> dict[str, tuple[CheckResult, ...]]:
    return {}


@dataclass(slots=True, repr=False, eq=False)
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
    refusal: Any = None
    """event by which it was kept from running, or stopped by the person"""
    running: bool = False
    stopped: bool = False
    """the agent ended it"""
    background: bool = False
    ended: int | None = None
    end: Any = None
    """event that shows how it ended: its last answer, or a later note of the host"""

    def take(self, answer: Any, call: Any, asked: str, host: ShellAnswers) -> str:
        """Add what a call was answered; return the id by which later calls wait for the command, empty where none can."""
        self.ended = call.ended
        self.answers.append(answer)
        self.end = answer
        text = answer.text or ""
        head = text[: host.head]
        if answer.subtype in KEPT or (call.is_error and _found(host.refused, text[:_LONGEST_REFUSAL])):
            self.refusal = answer
        self.failed = call.is_error and call is self.call  # another one that fails waited in vain, and ended nothing
        status = call.exit if call.exit is not None else _status(text, host)
        self.exit = status if status is not None else self.exit
        named = _found(host.running, head) if self.exit is None else None
        waits = bool(self.polls) and _found(host.goes_on, head) is not None
        self.stopped = self.stopped or (bool(self.polls) and bool(_found(host.stopped, head) or _found(host.stops, asked)))
        self.running = self.exit is None and not self.stopped and (named is not None or waits)
        return _group(named)

    def take_notice(self, event: Any, host: ShellAnswers) -> None:
        """Add that the host says later how the command ended, unless that is known."""
        if not self.running:
            return
        self.exit = _status(event.text, host, host.notice_exit)
        self.stopped = self.exit is None and _found(host.stopped, event.text) is not None
        self.running, self.background = False, True
        self.ended, self.end = event.ts, event


def _joined(view: SessionView) -> list[_Run]:
    host = phrases(view.host)
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
        asked = view.call_text(call)
        if command:
            start = folders.get(call.thread_id, home.get(call.thread_id) or getattr(view.session, "cwd", None))
            run = _Run(call, command, asked_folder(view.host, asked) or start)
            run.background = _found(host.background, asked[-host.head :]) is not None
            found.append(run)
        else:
            key = _group(_found(host.waits, asked[: host.head])) if found else ""
            waited = going.get((call.thread_id, key)) or (_started(found, call, key, host) if key else None)
            if waited is None:
                continue
            run = going[call.thread_id, key] = waited
            run.polls.append(call.call_event)
        key = run.take(answer, call, asked[: host.head], host) if answer is not None else ""
        if key:
            going[call.thread_id, key] = run
        if command and host.keeps_folder:
            folders[call.thread_id] = _left_in(run, host)
    for event in view.of_kinds("injected") if host.notices and going else ():
        if event.subtype in host.notices and (key := _group(_found(host.notice, (event.text or "")[:_LONGEST_NOTICE]))):
            noticed = going.get((event.thread_id, key))
            if noticed is not None:
                noticed.take_notice(event, host)
    return found


def _started(found: list[_Run], call: Any, key: str, host: ShellAnswers) -> _Run | None:
    """Return the newest command of a call's thread whose last answer tells the id in words of a script."""
    look = re.compile(rf"(?<!\w){re.escape(key)}\s{{0,8}}\Z") if len(key) >= _SHORTEST_ID and host.output else None
    for run in found[: -_NEWEST - 1 : -1] if look else ():
        if run.call.thread_id == call.thread_id and run.answers and look and look.search((run.answers[-1].text or "")[-host.head :]):
            return run
    return None


def _group(match: re.Match[str] | None) -> str:
    return next(filter(None, match.groups()), "") if match else ""


def _late_answers(view: SessionView) -> dict[tuple[str, str], Any]:
    """Return (thread, call id) -> answer, of calls that the decoder found no answer for: it stands before its call in the file."""
    open_calls = {(c.thread_id, c.call_id) for c in view.tool_calls if not c.result_event and c.action in _ACTIONS}
    if not open_calls:
        return {}
    results = view.of_kinds("tool_result")
    return {key: e for e in results if (key := (e.thread_id, e.call_id)) in open_calls}


@cache
def phrases(host: str) -> ShellAnswers:
    """Return how a host tells of shell commands."""
    declared = discovery.hosts().get(host)
    return declared.shell if declared else ShellAnswers()


def _found(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text, re.MULTILINE) if pattern else None


def _status(text: str, host: ShellAnswers, pattern: str = "") -> int | None:
    """Return the exit status that an answer tells in words: the first that is not 0 where a script ran several programs."""
    pattern = pattern or host.exit
    said = [int(_group(m)) for m in re.finditer(pattern, text, re.MULTILINE)] if pattern else []
    return next((status for status in said if status), 0) if said else None


def _exit_shown(text: str, status: int | None, host: ShellAnswers) -> str | None:
    """Return the line of an answer that tells an exit status."""
    if status is None:
        return None
    told = (m for pattern in (host.exit_line, host.notice_exit) if pattern for m in re.finditer(pattern, text, re.MULTILINE))
    return line_of(text, next((m for m in told if re.search(rf"(?<![\w-]){status}\b", m[0])), None))


def _argument(text: str, name: str) -> str | None:
    if not name or name not in text:
        return None
    match = re.search(rf'\b{name}"?\s?:\s?("(?:[^"\\]|\\.){{1,4000}}")', text)
    try:
        return str(json.loads(match[1])) if match else None
    except ValueError:
        return None


def _left_in(run: _Run, host: ShellAnswers) -> str | None:
    """Return the folder in which a shell stands after a command; None where neither its words nor its answer tell."""
    folder, text = run.folder, (run.end.text or "") if run.end is not None else ""
    if reset := _group(_found(host.folder_reset, text[-host.head :])):
        return reset
    if run.failed or run.background:
        return folder
    for piece, _ in steps_by_piece(run.command):
        if piece.words[:1] and piece.words[0] in CHANGES_FOLDER:
            folder = entered(piece.words, folder)
    return folder


@dataclass(frozen=True, slots=True, repr=False, eq=False)
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
    chained: bool
    """each program runs only where the ones before it ended well, or reads what they print"""


def _line(command: str, folder: str | None) -> _Line:
    pieces = steps_by_piece(command)
    every = tuple(step for _, members in pieces for step in members)
    main = next((s for s in every if s.purpose in CHECKS), every[0] if every else None)
    at = next((i for i, (_, members) in enumerate(pieces) if main in members), 0)
    for piece, _ in pieces[:at]:
        if piece.words[:1] and piece.words[0] in CHANGES_FOLDER:
            folder = entered(piece.words, folder)
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
    alone = all(piece.behind == "&&" for piece, _ in behind) or stops_at_errors(command)
    reached = not any(piece.behind == "||" for piece, _ in pieces[1 : at + 1])
    chained = all(piece.behind in ("", "&&", "|") for piece, _ in pieces)
    return _Line(every, main, folder, tuple(environment), tuple(pipeline), background, alone and reached and not background, chained)


def stops_at_errors(command: str) -> bool:
    """Tell whether a command line ends at the first program that fails (``set -e``, ``pipefail``)."""
    return bool(_STRICT.search(command)) and "||" not in command


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
        event=run.end.event_id if run.end is not None else call.call_event,
        line=None,
        started=call.started,
        ended=run.ended,
    )
    result, event, shown = _result(view, run, row, line)
    return row._replace(result=result, event=event, line=shown)


def _result(view: SessionView, run: _Run, row: Any, line: _Line) -> tuple[str, str, str | None]:
    """Return how a command ended, the event that shows it, and the line of that event."""
    host = phrases(view.host)
    if run.end is None:
        return "unknown", row.event, None
    text = run.end.text or ""
    if run.refusal is not None:
        words = run.refusal.text or ""
        return "refused", run.refusal.event_id, _group(_found(host.refused, words[:_LONGEST_REFUSAL])) or first_line(words)
    if run.running:
        return "running", row.event, line_of(text, _found(f"{host.running}|{host.goes_on}".strip("|"), text[: host.head]))
    status = _exit_shown(text, run.exit, host)
    if run.stopped:
        return "unknown", row.event, line_of(text, _found(host.stopped, text[: host.head])) or status
    owned = line.owns_exit and (not run.background or run.exit is not None)
    nothing = found_nothing((run.command,), run.exit)
    reported = results_of(view, row)
    if ended_by_signal(view, run.exit, run.call.started, run.ended) and all(r.ok for r in reported):
        return "unknown", row.event, status
    if (run.exit and not nothing) or (run.exit is None and run.failed):
        shown = next((r.line for r in reported if not r.ok and r.line), None)
        return "failed", row.event, status or (shown and shown[:_LONGEST_LINE]) or _error_line(text)
    bad = next((r for r in reported if not r.ok and not (owned and run.exit == 0 and r.purpose != "test")), None)
    if bad is not None:
        return "failed", *shown_by(view, run.answers, bad)
    well = run.exit == 0 or nothing or (run.exit is None and host.marks_errors and not row.background and not run.polls)
    if run.exit is None and not well and line.main is not None and (shown := _not_found(output_of(view, row), line.main)):
        return "failed", row.event, shown
    judged = line.main is not None and line.main.purpose in _JUDGED
    if well and (owned or not judged):
        return "passed", row.event, status
    ran = [r for r in reported if r.ok and (r.passed or r.purpose != "test")]
    proven = (run.exit == 0 and line.chained) or len(ran) >= sum(s.purpose in CHECKS for s in line.steps)
    if ran and proven and not row.background:
        return "passed", *shown_by(view, run.answers, ran[0])
    return "running" if _yielded(view, run, host) else "unknown", row.event, None


def _yielded(view: SessionView, run: _Run, host: ShellAnswers) -> bool:
    """Tell whether a script ended when the one command that it waited for was to be answered at the latest: that goes on then."""
    asked = view.call_text(run.call)
    after = re.findall(host.yields, asked) if host.yields and run.exit is None and run.call.started and run.ended else []
    if len(after) != 1 or len(re.findall(host.embedded, asked)) != 1 or len(re.findall(host.waits, asked)) > 0:
        return False
    late = run.ended - run.call.started - int(after[0]) * 1_000
    return bool(0 <= late <= _ANSWERED_WITHIN)


_ANSWERED_WITHIN = 1_000_000
"""Microseconds in which a script is answered once it ended, at most."""


def shown_by(view: SessionView, answers: list[Any], result: CheckResult) -> tuple[str, str | None]:
    """Return the event, of a command's answers, that shows a check's result, and its line; the last event where no line does."""
    host = phrases(view.host)
    if result.line:
        for event in reversed(answers):
            if result.line in plain(_printed(event.text or "", host)):
                return event.event_id, result.line[:_LONGEST_LINE]
    return answers[-1].event_id, None


_ERROR = lazy_pattern(r"(?i)\b(?:error|fatal|fail(?:ed|ure)?|cannot|could not|not found|no such|denied|conflict|exception)\b")


def _error_line(text: str) -> str | None:
    """Return the first line that speaks of an error, else the first that is not empty, at most 200 characters."""
    return next(
        (line.strip()[:_LONGEST_LINE] for line in plain(text[:_LONGEST_REFUSAL]).splitlines() if _ERROR.search(line)), first_line(text)
    )


def first_line(text: str) -> str | None:
    """Return the first line that is not empty, at most 200 characters."""
    return next((line.strip()[:_LONGEST_LINE] for line in text[:4000].splitlines() if line.strip()), None)


def line_of(text: str, match: re.Match[str] | None) -> str | None:
    """Return the line of a text that a match begins in, at most 200 characters."""
    if match is None:
        return None
    line = line_at(text, match.start())
    return line if len(line) <= _LONGEST_LINE else match[0][:_LONGEST_LINE]


# Which tool calls failed.


class FailedCall(NamedTuple):
    """A tool call that ran and ended in an error."""

    call_event: str
    tool: str
    event: str
    """event_id of the record that shows the error"""


def failed_calls(view: SessionView) -> list[FailedCall]:
    """Return the tool calls that failed, in the order of the threads.

    A command fails once, by its row of ``command_runs``, however many calls waited for
    it; what was refused never ran. Reads tool calls, command runs and the subtype of events
    of kind tool_result.
    """
    runs = runs_by_call(view)
    found = []
    for call in view.tool_calls:
        run = runs.get(call.call_event)
        if run is not None:
            if run.result == "failed" and run.call_event == call.call_event:
                found.append(FailedCall(call.call_event, call.tool, run.event))
        elif call.is_error and call.action != "shell":
            result = view.by_event.get(call.result_event)
            if result is None or result.subtype not in KEPT:
                found.append(FailedCall(call.call_event, call.tool, call.result_event or call.call_event))
    return found

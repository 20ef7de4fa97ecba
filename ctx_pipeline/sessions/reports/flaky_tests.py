"""Flaky tests: those that failed and passed though no command or edit between could have changed a file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.command_runs import command_runs, printed, runs_by_call
from ctx_pipeline.facts.file_accesses import CHANGES, TOOL, counts, file_accesses, is_document
from ctx_pipeline.facts.test_names import named_tests
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.check_scope import Scope, scope_of
from ctx_pipeline.shell.commands import steps_by_piece
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.rollup import moment
from ctx_pipeline.usage.session_figures import Figure, figures
from ctx_pipeline.usage.usage_figures import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.shell.commands import Step

APART_HOURS = 12
"""Hours between two runs up to which they are compared: what a person changes by hand in a longer time is not recorded."""

_APART = APART_HOURS * 3_600_000_000
_LONGEST = 160
_MOST_PROOFS = 5


class Run(NamedTuple):
    """One run of tests in a session, as it proves that a test failed or passed."""

    host: str
    session_id: str
    event: str
    """event_id of the record that shows the result"""
    command: str
    at: str
    """when it ended, ISO"""


@dataclass(slots=True)
class FlakyTest:
    """A test that failed and passed with the same files."""

    test: str
    project: str
    failed: int = 0
    """runs in which it failed, of those with the same files as one in which it passed; one in which it was tried again counts in both"""
    passed: int = 0
    sessions: dict[tuple[str, str], None] = field(default_factory=dict)
    """(host, session), the first first"""
    last: int = 0
    """microseconds since 1970"""
    proofs: list[tuple[Run, Run]] = field(default_factory=list)
    """a run in which it failed and one in which it passed, the newest first"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "test": self.test,
            "project": self.project,
            "failed": self.failed,
            "passed": self.passed,
            "sessions": [{"host": host, "session_id": name} for host, name in self.sessions],
            "last": iso(self.last),
            "evidence": [{"failed": bad._asdict(), "passed": good._asdict()} for bad, good in self.proofs],
        }


class Flaky(NamedTuple):
    """The flaky tests, and in how much they were looked for."""

    tests: list[FlakyTest]
    looked_at: int
    """tests that outputs name"""
    runs: int
    """runs whose output names a test"""
    all_runs: int
    sessions: int
    """sessions with a run of tests"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        counts = {"tests_named": self.looked_at, "runs_with_names": self.runs, "runs": self.all_runs, "sessions": self.sessions}
        return {"flaky": [one.to_json() for one in self.tests], **counts}


def flaky_tests(
    host: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> Flaky:
    """Return the tests that failed and passed in runs between which nothing changed a file, those that failed most first.

    Runs of one folder are compared, of one session or of several, with the same tool, options
    and environment, at most :data:`APART_HOURS` apart. A run whose output names only failures
    shows that a test passed where all of it passed and it ran as much. A command that is not
    known to leave files alone may have changed one. What a person changes by hand is not
    recorded: runs of two turns prove it only where the test turned twice, such as failed,
    passed and failed.
    """
    by_folder: dict[str, list[tuple[tuple[str, str], str, Any]]] = defaultdict(list)
    with reading(settings) as (store, chosen):
        filters = parse_filters(chosen, host=host, project=project, since=since, until=until, timezone=timezone)
        first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)
        meant, copied = fits(store, chosen, filters), store.ledger.copied_sessions()
        for key, values in figures(store, chosen, TESTS, only=lambda key: key not in copied):
            for value in values:
                if value["cwd"]:
                    by_folder[value["cwd"]].append((key, value["project"], value))
    found: dict[tuple[str, str], FlakyTest] = {}
    names: set[tuple[str, str]] = set()
    naming = counted = 0
    sessions: set[tuple[str, str]] = set()
    for members in by_folder.values():
        runs = [
            run
            for run in _runs(members)
            if meant(run.key) and (first is None or run.started >= first) and (last is None or run.started < last)
        ]
        for run in runs:
            told = run.failed | run.passed | run.retried
            names |= {(run.project, name) for name in told}
            naming += bool(told)
            counted += 1
            sessions.add(run.key)
        for stretch in _stretches(runs, sorted(tuple(c) for _, _, value in members for c in value["changes"])):
            _add(found, stretch)
    tests = sorted(found.values(), key=lambda one: (-one.failed, -one.last, one.test))
    for one in tests:
        one.proofs = sorted(one.proofs, key=lambda pair: max(pair[0].at, pair[1].at), reverse=True)[:_MOST_PROOFS]
    return Flaky(tests, len(names), naming, counted, len(sessions))


class _Run(NamedTuple):
    key: tuple[str, str]
    project: str
    turn: int
    """prompts before it in its session"""
    started: int
    ended: int
    setting: tuple[Any, ...]
    """where and how it ran: runs are compared with those of the same"""
    scope: Scope | None
    failed: frozenset[str]
    passed: frozenset[str]
    retried: frozenset[str]
    whole: bool
    """all of it passed"""
    ran: int | None
    event: str
    command: str

    def shown(self) -> Run:
        return Run(*self.key, self.event, self.command, iso(self.ended) or "")


def _runs(members: Iterable[tuple[tuple[str, str], str, Any]]) -> Iterator[_Run]:
    """Yield the runs of some sessions in order of time; what a copy of a session repeats counts once."""
    found: dict[tuple[Any, ...], _Run] = {}
    for key, project, value in members:
        for started, ended, setting, scope, failed, passed, retried, whole, ran, event, command in value["runs"]:
            where = tuple(tuple(part) if isinstance(part, list) else part for part in setting)
            asked = None if scope is None else Scope(*scope[:3], *map(frozenset, scope[3:]))
            turn = bisect_right(value["prompts"], started)
            names = (frozenset(failed), frozenset(passed), frozenset(retried))
            run = _Run(key, project, turn, started, ended, where, asked, *names, whole, ran, event, command)
            found.setdefault((started, ended, command), run)
    return iter(sorted(found.values(), key=lambda run: (run.started, run.key)))


def _stretches(runs: Iterable[_Run], changes: list[tuple[int, ...]]) -> Iterator[list[_Run]]:
    """Yield runs of the same setting between which nothing changed a file; one during which something did is in none."""
    begins, ends = [change[0] for change in changes], sorted(change[1] for change in changes)
    found: dict[tuple[Any, ...], list[_Run]] = defaultdict(list)
    for run in runs:
        before = bisect_right(ends, run.started)
        if before == bisect_left(begins, run.ended):
            found[before, run.setting].append(run)
    yield from found.values()


def _add(found: dict[tuple[str, str], FlakyTest], stretch: list[_Run]) -> None:
    """Add the tests that failed and passed in runs with the same files."""
    for name in sorted(frozenset().union(*(run.failed | run.retried for run in stretch))):
        bad = [run for run in stretch if name in run.failed]
        again = [run for run in stretch if name in run.retried]
        good = [run for run in stretch if name in run.passed or any(_covers(run, other, name) for other in bad)]
        sure = _turns_back(bad, good)
        pairs = [
            (one, other)
            for one in bad
            for other in good
            if abs(one.started - other.started) <= _APART and (sure or (one.key, one.turn) == (other.key, other.turn))
        ]
        pairs += [(run, run) for run in again]
        if not pairs:
            continue
        failed, passed = ({pair[side] for pair in pairs} for side in (0, 1))
        project = pairs[0][0].project
        one = found.setdefault((project, name), FlakyTest(name, project))
        one.failed += len(failed)
        one.passed += len(passed)
        one.sessions |= dict.fromkeys(run.key for run in sorted(failed | passed, key=lambda run: run.started))
        one.last = max(one.last, *(run.ended for run in failed | passed))
        one.proofs += [(bad.shown(), min(goods, key=lambda run: abs(run.started - bad.started)).shown()) for bad, goods in _by_first(pairs)]


def _turns_back(bad: Iterable[_Run], good: Iterable[_Run]) -> bool:
    """Tell whether a test turned twice: it passed between failures, or failed between passes."""
    ends = [end for _, end in sorted([*((run.started, False) for run in bad), *((run.started, True) for run in good)])]
    return sum(one is not other for one, other in pairwise(ends)) > 1


def _by_first(pairs: list[tuple[_Run, _Run]]) -> list[tuple[_Run, list[_Run]]]:
    found: dict[_Run, list[_Run]] = {}
    for bad, good in pairs:
        found.setdefault(bad, []).append(good)
    return list(found.items())


def _covers(run: _Run, failed: _Run, name: str) -> bool:
    """Tell whether a run without names in which all passed shows that a test of another run passed."""
    if not run.whole or not run.ran or run.scope is None or failed.scope is None:
        return False
    if run.scope.targets == {name} and run.scope.narrowed <= failed.scope.narrowed:
        return True
    return failed.ran is not None and run.ran >= failed.ran and failed.scope.within(run.scope)


def _tests(view: SessionView, _settings: Settings) -> dict[int | None, Any]:
    """Return the runs of tests of a session, and when something may have changed a file."""
    tests: dict[str, list[Any]] = defaultdict(list)
    for check in check_runs(view):
        if check.kind == "test" and check.result in ("passed", "failed") and check.ran is not False:
            tests[check.call_event].append(check)
    runs: list[Any] = []
    changes = {tuple(sorted((micros(run.started) or 0, micros(run.ended) or 0))) for run in _changing(view)}
    for run in command_runs(view):
        started, ended = micros(run.started), micros(run.ended)
        if run.call_event in tests and started is not None and ended is not None and run.folder:
            runs.append([started, ended, *_shown_by(view, run, tests[run.call_event])])
    session = view.session
    project = session.repository or session.project or ""
    prompts = sorted(event.ts for event in view.prompts if event.ts is not None and event.thread_id == view.session_id)
    return {None: {"cwd": session.cwd or "", "project": project, "prompts": prompts, "runs": runs, "changes": sorted(changes)}}


_LOOPS = lazy_pattern(r"\b(?:for|while|until)\b|\bseq\b")
_AGAIN = lazy_pattern(r"-count[= ](?:[2-9]|\d\d)|\bfor \w+ in (?:\$\(seq |\{1\.\.|1 2 )|\bfor \(\(|\bwhile (?:true|:)")
"""Words that run the same tests several times in one command."""


def _shown_by(view: SessionView, run: Any, checks: list[Any]) -> tuple[Any, ...]:
    """Return what a run of tests shows: setting, scope, names by verdict, whether all passed, how many ran, event and command."""
    told = named_tests(printed(view, run))
    retried = told.retried | (told.both if _AGAIN.search(run.command) else frozenset())
    [check, *more] = checks
    alone = not more and not _LOOPS.search(run.command)
    scope = scope_of(check, view.session.cwd) if alone else None
    whole = alone and check.result == "passed" and not check.failed
    amounts = [count for count in (check.passed, check.failed) if count is not None]
    prepared = [
        piece.text for piece, members in steps_by_piece(run.command) if not members and piece.words[:1] and piece.words[0] in _PREPARE
    ]
    settings = sorted(scope.settings) if scope else []
    setting = [run.folder, check.runner, sorted(run.environment), prepared, settings]
    names = (sorted(names) for names in (told.failed, told.passed, retried))
    kept = [*scope[:3], *(sorted(part) for part in scope[3:])] if scope else None
    ran = sum(amounts) if amounts and alone else None
    return setting, kept, *names, whole, ran, check.event, truncate(" ".join(run.command.split()), _LONGEST)


_PREPARE = frozenset({"export", "source", ".", "set"})
_LOOK = frozenset(
    {
        "ls",
        "pwd",
        "cat",
        "nl",
        "head",
        "tail",
        "less",
        "more",
        "wc",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "tree",
        "stat",
        "file",
        "du",
        "df",
    }
    | {
        "which",
        "type",
        "command",
        "ps",
        "pgrep",
        "lsof",
        "env",
        "printenv",
        "date",
        "id",
        "uname",
        "whoami",
        "jq",
        "sort",
        "uniq",
        "cut",
        "tr",
    }
    | {"awk", "diff", "cmp", "basename", "dirname", "realpath", "readlink", "test", "[", "[[", "printf", "false", "man", "xargs", "column"}
    | {
        f"git {name}"
        for name in ("status", "diff", "log", "show", "blame", "branch", "ls-files", "rev-parse", "rev-list", "remote", "fetch")
    }
    | {f"git {name}" for name in ("add", "commit", "push", "describe", "grep", "merge-base", "config", "tag", "check-ignore", "cat-file")}
    | {f"gh {name}" for name in ("run", "issue", "api", "release", "search", "auth")}
    | {
        "gh pr view",
        "gh pr checks",
        "gh pr list",
        "gh pr diff",
        "go list",
        "go env",
        "go version",
        "cargo tree",
        "cargo metadata",
        "npm ls",
    }
)
"""Programs, with their subcommands, that change no file which a test could see."""
_REWRITES = lazy_pattern(
    r"(?:^|\s)(?:-u|-w|-i\S*|-o|-delete|-exec\w*|--(?:fix|write|update|updateSnapshot|snapshot-update|in-place|output|bless))(?:[\s=]|$)"
)
_ONLY_CHECK = frozenset({"test", "lint", "types"})
_FORMATTERS = lazy_pattern(r"\b(?:ruff format|black|isort|prettier|gofmt|fmt|pre-commit|rustfmt)\b(?!.*(?:--check|--diff|-l\b))")
_QUIET = frozenset({"read", "search", "web", "plan", "ask"})


def _changing(view: SessionView) -> Iterator[Any]:
    """Yield the calls and commands that changed a file which a test could see, or may have."""
    runs = runs_by_call(view)
    changed = {access.call_event for access in file_accesses(view) if access.did in CHANGES and not _is_prose(access.path)}
    documents = {access.call_event for access in file_accesses(view) if access.did in CHANGES and access.through == TOOL} - changed
    asked = discovery.declared_pattern("records.shell_command")
    for call in view.tool_calls:
        run = runs.get(call.call_event)
        if run is not None:
            if (
                run.call_event == call.call_event
                and run.result != "refused"
                and (call.call_event in changed or not leaves_files(run.command))
            ):
                yield run
        elif call.call_event in changed or (call.action not in _QUIET and not call.is_error and call.call_event not in documents):
            yield call
    for event in view.of_kinds("injected"):
        if (match := asked.match((event.text or "").lstrip())) and not leaves_files(next(filter(None, match.groups()), "")):
            yield _ByPerson(event.ts, event.ts)


def _is_prose(path: str) -> bool:
    """Tell whether a file is a text that tests do not read; of ``.txt`` some are lists of requirements and data."""
    return is_document(path) and not path.endswith(".txt")


class _ByPerson(NamedTuple):
    started: Any
    ended: Any


def leaves_files(command: str) -> bool:
    """Tell whether a command line is known to change no file that a test could see."""
    return len(command) < _LONGEST_READ and all(
        not any(counts(path, None) for path in piece.writes) and all(map(_leaves, members)) for piece, members in steps_by_piece(command)
    )


_LONGEST_READ = 4_000


def _leaves(step: Step) -> bool:
    if _REWRITES.search(step.text):
        return step.subject in ("grep", "rg", "sort", "git log", "git diff", "git push", "cut", "ls", "ps") and "--output" not in step.text
    if step.purpose in _ONLY_CHECK:
        return not _FORMATTERS.search(step.text)
    program, _, rest = step.subject.partition(" ")
    if program in ("find", "sed"):
        return True  # what makes them write is among the options above
    return step.subject in _LOOK or program in _LOOK or (program == "gh" and f"gh {rest} {' '.join(step.words[2:3])}" in _LOOK)


def _tests_in_all(values: Iterable[Any]) -> Any:
    [value] = values
    return value


TESTS = Figure(
    "tests",
    1,
    _tests,
    _tests_in_all,
    {
        "events": ("event_id", "thread_id", "seq", "ts", "kind", "actor", "subtype", "text"),
        "tool_calls": ("thread_id", "tool", "action", "is_error", "started", "ended", "call_event", "result_event"),
        "command_runs": (
            "call_event",
            "command",
            "programs",
            "purposes",
            "folder",
            "environment",
            "polls",
            "outputs",
            "result",
            "started",
            "ended",
        ),
        "check_runs": ("call_event", "runner", "kind", "program", "ran", "passed", "failed", "result", "event"),
        "file_accesses": ("call_event", "path", "did", "through"),
    },
    ("tool_call", "tool_result", "injected", "prompt"),
    timeless=True,
)
"""What is kept of each session: its runs of tests with the tests that they name, and when a file may have changed."""

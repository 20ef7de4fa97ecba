"""What broke in a project and what made it work: commands that failed and later passed."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining._changes import is_test, telling_change
from ctx_pipeline.mining._failures import clean, looks_red, salient_line, shorten_paths, signature
from ctx_pipeline.mining._runs import CHECKS, OUTSIDE, Run, listed, run_of, shown
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining._changes import Change
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_REACH = 60
"""Tool calls after a failure within which its resolution is looked for."""
_MOST = 8
_ALIKE = 60
"""Likeness from which two calls of a program that is no check try the same thing."""

_ENVIRONMENT = re.compile(
    r"(?i)command not found|No module named|ModuleNotFoundError|Cannot find module|not a git repository|No such file or directory"
    r"|unknown (?:option|command|flag|argument)|unrecognized|invalid (?:option|choice|argument)|flag provided but not defined|not installed"
    r"|permission denied|no such (?:command|option)|unknown JSON field|already (?:used by|checked out)"
    r"|usage:|unexpected argument|could not find|not found in PATH"
)

_CALL = re.compile(
    r"(?i)command not found|no such (?:command|option|subcommand)|not installed|unrecogni[sz]ed|unexpected argument|no library targets"
    r"|unknown (?:option|command|flag|argument)|invalid (?:option|choice|argument)|flag provided but not defined|usage:"
)
"""Says that the program was called wrongly, whatever it was called for."""


@dataclass
class _Between:
    """What happened from a failure to the command that passed."""

    files: list[str] = field(default_factory=list)
    edits: list[Any] = field(default_factory=list)
    setup: list[Run] = field(default_factory=list)


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield a candidate for each failed command of a session that passed later, with the cause and the cure."""
    threads: dict[str, list[Any]] = {}
    for call in view.tool_calls:
        threads.setdefault(call.thread_id, []).append(call)
    found: dict[tuple[str, str], MemoryCandidate] = {}
    for calls in threads.values():
        if any(c.action == "shell" and c.is_error for c in calls):
            for subject, lesson, candidate in _pairs(view, calls):
                kept = found.get((subject, lesson))
                if kept is None or candidate.confidence > kept.confidence:
                    found[subject, lesson] = candidate
    yield from sorted(found.values(), key=lambda c: (-c.confidence, c.text))[:_MOST]


def _pairs(view: SessionView, calls: list[Any]) -> Iterator[tuple[str, str, MemoryCandidate]]:
    runs = [run for place, call in enumerate(calls) if (run := run_of(view, place, call))]
    last_edit = -1
    for index, run in enumerate(runs):
        if not run.failed:
            continue
        if any(
            r.failed and r.step.subject == run.step.subject and last_edit < r.place
            for r in runs[max(0, index - 6) : index]
            if last_edit >= 0
        ):
            continue
        error = _error(view, run)
        if not error:
            continue
        passed, between = _resolution(view, calls, runs, index, error)
        if passed is not None:
            candidate = _candidate(view, run, passed, between, error)
            if candidate is not None:
                did = (candidate.structured or {}).get("did")
                yield run.step.subject, " ".join(did) if did else signature(error), candidate


def _error(view: SessionView, run: Run) -> str:
    return salient_line(run.output, view.session.cwd, of_tests=run.step.purpose == "test")


def _resolution(view: SessionView, calls: list[Any], runs: list[Run], index: int, error: str) -> tuple[Run | None, _Between]:
    """Return the first later run that shows the same thing working, and what was done before it."""
    run = runs[index]
    between = _Between()
    environment, called = bool(_ENVIRONMENT.search(error)), bool(_CALL.search(error))
    edits_from = run.place + 1
    for later in runs[index + 1 :]:
        if later.place - run.place > _REACH:
            break
        for call in calls[edits_from : later.place]:
            if call.action in ("edit", "write") and not call.is_error:
                between.edits.append(call)
                between.files += [p for p in call.paths if not OUTSIDE.search(p)]
        edits_from = later.place
        if (run.step.purpose in CHECKS and not called and _apart(run, later)) or not _same_goal(run, later, environment=environment):
            if not later.failed and later.step.purpose == "install":
                between.setup.append(later)
            continue
        if later.failed:
            if signature(_error(view, later)) != signature(error) and (between.edits or not environment):
                return None, between
            continue
        if looks_red(later.output) and later.step.purpose in ("test", "lint", "types", "build"):
            continue
        return later, between
    return None, between


def _same_goal(run: Run, later: Run, *, environment: bool) -> bool:
    """Tell whether two runs try the same thing.

    The same program and target do; after a fault of the environment also the same
    program called in another way.
    """
    if run.step.subject == later.step.subject:
        return run.step.purpose in CHECKS or _likeness(run, later) >= _ALIKE
    if not environment or run.step.purpose != later.step.purpose or run.step.purpose not in ("test", "lint", "types", "build", "run"):
        return False
    first, second = run.step.subject.split(), later.step.subject.split()
    return first[0] == second[0] or first[-1] == second[-1]


def _apart(run: Run, later: Run) -> bool:
    """Tell whether two checks chose tests or files that have nothing in common."""
    chosen = [
        [w.strip("'\"") for w in r.step.text.split() if not w.startswith("-") and len(w) > _LEAST_NAME and w not in r.step.subject.split()]
        for r in (run, later)
    ]
    return all(chosen) and not any(a in b or b in a for a in chosen[0] for b in chosen[1])


_LEAST_NAME = 5
"""Characters of the longest word of a call that names neither a test nor a file."""


def _likeness(run: Run, later: Run) -> float:
    """Return how alike two command lines are, 0 to 100."""
    from rapidfuzz import fuzz

    return fuzz.token_set_ratio(run.step.text, later.step.text)


def _candidate(view: SessionView, run: Run, passed: Run, between: _Between, error: str) -> MemoryCandidate | None:
    cwd = view.session.cwd
    failed_text, passed_text = shown(run.command, cwd), shown(passed.command, cwd)
    files = list(dict.fromkeys(shorten_paths(p, cwd) for p in between.files))
    setup = list(dict.fromkeys(shown(r.command, cwd) for r in between.setup))
    environment = bool(_ENVIRONMENT.search(error))
    body: dict[str, Any] = {"failed": failed_text, "error": error, "signature": signature(error), "passed": passed_text}
    evidence = [run.call.call_event, *run.shown_by(view, error)]
    check = run.step.purpose in CHECKS
    if setup and environment:
        body |= {"resolution": "setup", "did": setup[:3], "steps": [f"run `{c}`" for c in (*setup[:3], failed_text)]}
        text = f"`{failed_text}` fails with “{error}” until {listed(setup[:3])} has run."
        kind, confidence = "tool_lesson", 0.7
        evidence += [e for r in between.setup[:2] for e in (r.call.call_event, r.call.result_event)]
    elif _changed(run, passed) and (environment or not between.files):
        if not environment and not check:
            return None
        body |= {"resolution": "command", "did": [passed_text], "steps": [f"run `{passed_text}`"]}
        text = _both(run, passed, error, cwd)
        kind, confidence = "tool_lesson", 0.7 if environment else 0.55
    elif files and check:
        said = _explanation(view, run, between)
        change = telling_change(view, between.edits, error)
        rule = _rule(error)
        body |= {"resolution": "edit", "files": files[:6]} | ({"said": said} if said else {}) | ({"rule": rule} if rule else {})
        body |= {"change": change._asdict()} if change else {}
        body["steps"] = [_step(change, files[0]), *(f"change `{f}`" for f in files[1:3] if change is None), f"run `{passed_text}`"]
        text = f"`{failed_text}` failed with “{error}”; it passed after {_done(change)} in {listed(files[:4], len(files))}."
        if said:
            text += f" The agent's reason: “{said}”"
        kind, confidence = "failure_trigger", 0.6 if said else 0.55 if change and rule else 0.45
        evidence += [c.call_event for c in (*between.edits[:2], between.edits[-1])]
    else:
        return None
    return MemoryCandidate(
        kind=kind,
        text=text,
        when_to_use=f"`{run.step.subject}` fails with “{error}”",
        evidence_refs=tuple(dict.fromkeys([*evidence, passed.call.call_event, passed.call.result_event])),
        confidence=confidence,
        priority=4 if kind == "tool_lesson" else 3,
        scope="repo",
        risk="low" if kind == "failure_trigger" or check else "medium",
        structured=body,
        subject=run.step.subject,
        ts=run.call.ended,
    )


_LONG, _SAME, _PART, _WORD = 110, 50, 80, 40


def _both(run: Run, passed: Run, error: str, cwd: str | None) -> str:
    """Return how a command failed and the one that works; of two long ones that are alike only where they differ."""
    failed, works = shown(run.command, cwd), shown(passed.command, cwd)
    first, second = (clean(shorten_paths(r.command, cwd)).replace("`", "'").split() for r in (run, passed))
    head = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    alike = len(" ".join(first[:head])) >= _SAME and min(len(failed), len(works)) >= _LONG
    left, right = " ".join(first[head:]), " ".join(second[head:])
    if not alike or max(len(left), len(right)) > _PART:
        return f"`{_shorter(failed)}` fails with “{error}”; `{_shorter(works)}` works."
    start = " ".join(first[:3])
    instead = f"with `{right}` in place of `{left}`" if left and right else f"without `{left}`" if left else f"with `{right}` added"
    return f"`{start} …{' ' + left if left else ''}` fails with “{error}”; {instead} it works."


def _shorter(command: str) -> str:
    """Return a long command with its long words cut: what it does shows in the short ones."""
    if len(command) < _LONG:
        return command
    return " ".join(w if len(w) <= _WORD else f"{w[: _WORD - 1]}…" for w in command.split())


def _done(change: Change | None) -> str:
    if change is None:
        return "changes"
    return f"`{change.before}` became `{change.after}`" if change.before else f"`{change.after}` was added"


def _step(change: Change | None, file: str) -> str:
    if change is None:
        return f"change `{file}`"
    return f"make `{change.before}` into `{change.after}`" if change.before else f"add `{change.after}`"


_RULES = re.compile(r"\(([a-z][a-z0-9_-]{2,30})\)$|\b(TS\d{4,5}|E0\d{3}|SC\d{4}|[A-Z]{1,4}\d{3,4})\b|\s([a-z@][\w@-]*/[\w-]+)$")


def _rule(error: str) -> str:
    """Return the name of the rule that a linter or compiler gives with its finding; empty when there is none."""
    match = _RULES.search(error)
    return next(filter(None, match.groups()), "") if match else ""


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the lessons that help whoever was not there.

    A change of files alone tells nothing: it needs the agent's reason, the name of a rule,
    a line of the program itself that became another one, or a second session with the
    same error. What a session mended in tests of its own making is left out.
    """
    sessions: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for c in candidates:
        # a fork repeats its parent's calls with their times
        sessions[c.repository or c.cwd, c.subject, c.body.get("signature")].add(c.ts or c.candidate_id)
    for c in candidates:
        body = c.body
        of_program = "change" in body and not all(is_test(f) for f in body.get("files", ()))
        met = len(sessions[c.repository or c.cwd, c.subject, body.get("signature")])
        if body.get("resolution") != "edit" or body.get("said") or body.get("rule") or of_program or met > 1:
            yield c


def _changed(run: Run, passed: Run) -> bool:
    """Tell whether the command itself became another one, beyond pipes, redirections and filters behind it."""
    return [w for w in run.step.text.split() if w != "2>&1"] != [w for w in passed.step.text.split() if w != "2>&1"] or _before(
        run
    ) != _before(passed)


def _before(run: Run) -> str:
    """Return what stands before the step that counts: a change of folder or of the environment is part of the cure."""
    return " ".join(run.command.partition(run.step.text)[0].split())


def _explanation(view: SessionView, run: Run, between: _Between) -> str:
    """Return the sentence in which the agent says what is wrong, between the failure and its first edit."""
    if not between.edits:
        return ""
    first, last = run.call.seq, between.edits[-1].seq
    for event in view.events:
        if event.kind == "answer" and event.thread_id == run.call.thread_id and first < event.seq < last:
            for sentence in re.split(r"(?<=[.!:])\s+|\n+", clean_lines(event.text or "")):
                if 30 <= len(sentence) <= 240 and _CAUSE.search(sentence) and not _PLAN.match(sentence) and _NAMES.search(sentence):
                    return shorten_paths(sentence.rstrip(":"), view.session.cwd)
    return ""


_CAUSE = re.compile(
    r"(?i)\b(?:because|since|due to|caused? by|the (?:issue|problem|cause|reason|culprit|bug) (?:is|was|here)|missing|needs? to"
    r"|needs? \w+ing|requires?|expects?|instead of|rather than|too \w+|doesn't (?:exist|support|handle|match|include)"
    r"|(?:is|are|was|were)n't|not (?:allowed|supported|set))\b"
)
_NAMES = re.compile(r"[`_/\d]|[a-z][A-Z]|\w\.\w|\w\(\)")
"""Something of the program itself: a reason without it would be true of any."""

_PLAN = re.compile(
    r"(?i)^(?:let me|let's|i'll|i will|i'm going|i need|i should|now\b|first\b|next\b|looking|checking|i see"
    r"|good|great|perfect|okay|ok\b|done|all)"
)


def clean_lines(text: str) -> str:
    """Return a text whose lines are free of control characters; code blocks are left out."""
    return "\n".join(clean(line) for line in re.sub(r"```.*?(?:```|\Z)", "", text[:4000], flags=re.DOTALL).splitlines())


ERROR_RESOLUTIONS = Method(
    name="error_resolutions",
    version=2,
    describe=(
        "Commands that failed and passed later in the same session, with the error and what cured it.\n\n"
        "A candidate quotes the command, the line of its output that says what is wrong, and either the command that worked "
        "instead, what had to be set up first, or the files that were changed, with the agent's own reason where it gave one. "
        "A session in which nothing failed, or nothing was cured, gives nothing."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls"),
    kinds=("tool_call", "tool_result", "answer"),
)

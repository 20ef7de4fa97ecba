"""What broke in a project and what made it work: commands that failed and later passed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining._failures import clean, looks_red, salient_line, shorten_paths, signature
from ctx_pipeline.mining._runs import CHECKS, OUTSIDE, Run, listed, run_of, shown
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView

_REACH = 60
"""Tool calls after a failure within which its resolution is looked for."""
_MOST = 8
_ALIKE = 60
"""Likeness from which two calls of a program that is no check try the same thing."""

_ENVIRONMENT = re.compile(
    r"(?i)command not found|No module named|ModuleNotFoundError|Cannot find module|not a git repository|No such file or directory"
    r"|unknown (?:option|command|flag|argument)|unrecognized|invalid (?:option|choice|argument)|flag provided but not defined|not installed"
    r"|permission denied|no such (?:command|option)|usage:|unexpected argument|could not find|not found in PATH"
)


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
    environment = bool(_ENVIRONMENT.search(error))
    edits_from = run.place + 1
    for later in runs[index + 1 :]:
        if later.place - run.place > _REACH:
            break
        for call in calls[edits_from : later.place]:
            if call.action in ("edit", "write") and not call.is_error:
                between.edits.append(call)
                between.files += [p for p in call.paths if not OUTSIDE.search(p)]
        edits_from = later.place
        if not _same_goal(run, later, environment=environment):
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
    evidence = [run.call.call_event, run.call.result_event]
    check = run.step.purpose in CHECKS
    if setup and environment:
        body |= {"resolution": "setup", "did": setup[:3]}
        text = f"`{failed_text}` fails with “{error}” until {listed(setup[:3])} has run."
        kind, confidence = "tool_lesson", 0.7
        evidence += [e for r in between.setup[:2] for e in (r.call.call_event, r.call.result_event)]
    elif _changed(run, passed) and (environment or not between.files):
        if not environment and not check:
            return None
        body |= {"resolution": "command", "did": [passed_text]}
        text = f"`{failed_text}` fails with “{error}”; `{passed_text}` works."
        kind, confidence = "tool_lesson", 0.7 if environment else 0.55
    elif files and check:
        said = _explanation(view, run, between)
        body |= {"resolution": "edit", "files": files[:6]} | ({"said": said} if said else {})
        text = f"`{failed_text}` failed with “{error}”; it passed after changes in {listed(files[:4], len(files))}."
        if said:
            text += f" The agent's reason: “{said}”"
        kind, confidence = "failure_trigger", 0.6 if said else 0.45
        evidence += [c.call_event for c in between.edits[:3]]
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
                if 30 <= len(sentence) <= 240 and _CAUSE.search(sentence) and not _PLAN.match(sentence):
                    return shorten_paths(sentence.rstrip(":"), view.session.cwd)
    return ""


_CAUSE = re.compile(
    r"(?i)\b(?:because|since|due to|caused? by|the (?:issue|problem|cause|reason|culprit|bug) (?:is|was|here)|missing|needs? to"
    r"|needs? \w+ing|requires?|expects?|instead of|rather than|too \w+|doesn't (?:exist|support|handle|match|include)"
    r"|(?:is|are|was|were)n't|not (?:allowed|supported|set))\b"
)
_PLAN = re.compile(
    r"(?i)^(?:let me|let's|i'll|i will|i'm going|i need|i should|now\b|first\b|next\b|looking|checking|i see"
    r"|good|great|perfect|okay|ok\b|done|all)"
)


def clean_lines(text: str) -> str:
    """Return a text whose lines are free of control characters; code blocks are left out."""
    return "\n".join(clean(line) for line in re.sub(r"```.*?(?:```|\Z)", "", text[:4000], flags=re.DOTALL).splitlines())


ERROR_RESOLUTIONS = Method(
    name="error_resolutions",
    version=1,
    describe=(
        "Commands that failed and passed later in the same session, with the error and what cured it.\n\n"
        "A candidate quotes the command, the line of its output that says what is wrong, and either the command that worked "
        "instead, what had to be set up first, or the files that were changed, with the agent's own reason where it gave one. "
        "A session in which nothing failed, or nothing was cured, gives nothing."
    ),
    extract=extract,
    reads=("events", "tool_calls"),
    kinds=("tool_result", "answer"),
)

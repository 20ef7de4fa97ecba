"""Whole-session procedures: goal, preconditions, steps, warnings and outcome, after Memp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining._failures import salient_line
from ctx_pipeline.mining._runs import CHECKS, listed, runs, shown
from ctx_pipeline.mining._turns import done, goal, last_check, tells, turns
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.mining._turns import Turn
    from ctx_pipeline.model.session_view import SessionView

_LEAST_TURNS, _LEAST_STEPS, _LEAST_FILES, _STEPS, _WARNINGS = 2, 3, 2, 14, 4


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield the procedure of a session of several turns that changed files and ended with a check that passed or a commit."""
    made = view.once(turns)
    worked = [t for t in made if t.edits]
    outcome, last = _outcome(view, made) if len(worked) >= _LEAST_TURNS else ("", [])
    telling = [t for t in made if tells(t.ask)] if outcome else []
    if not telling:
        return
    steps: list[str] = []
    calls: list[Any] = []
    for turn in worked:
        some, of = done(view, turn)
        fresh = [(s, c) for s, c in zip(some, of, strict=True) if s not in steps]
        steps += [s for s, _ in fresh]
        calls += [c for _, c in fresh]
    if len(steps) < _LEAST_STEPS or all(s.startswith("run ") for s in steps):
        return
    task = goal(telling[0].ask)
    asked = [a for a in dict.fromkeys(goal(t.ask) for t in telling[1:] if t.edits and not t.corrected) if a != task]
    files = list(dict.fromkeys(s.partition(" ")[2].strip("`") for s in steps if not s.startswith("run ")))
    warnings = _warnings(view, made)
    if len(files) < _LEAST_FILES and not warnings:
        return
    text = f"“{task}”"
    if asked:
        text += ", then " + ", ".join(f"“{a}”" for a in asked[:2])
    text += f": {listed(files[:4], len(files))}; {outcome}"
    if warnings:
        text += f"; on the way {warnings[0]}"
    evidence = [telling[0].prompt.event_id, *(c.call_event for c in calls[:8]), *last]
    yield MemoryCandidate(
        kind="procedure",
        text=text,
        when_to_use=task,
        evidence_refs=tuple(dict.fromkeys(evidence)),
        confidence=0.5 if any(t.corrected for t in made) else 0.6,
        priority=3,
        risk="low",
        structured={
            "title": task,
            "goal": task,
            "preconditions": _preconditions(view, worked[0]),
            "steps": steps[:_STEPS],
            "warnings": warnings,
            "outcome": outcome,
            "files": files[:16],
        },
        subject=task,
        ts=telling[0].prompt.ts,
    )


def _outcome(view: SessionView, made: list[Turn]) -> tuple[str, list[str]]:
    """Return how the session ended, by its last check or commit that passed, with the events that show it."""
    cwd = view.session.cwd
    for turn in reversed(made):
        commits = [r for r in turn.runs if r.step.subject == "git commit" or " git commit" in r.command]
        check = last_check(turn)
        if turn.edits and check is None and not commits:
            return "", []
        end = check or (commits[-1] if commits and commits[-1].passed else None)
        if end is not None:
            what = "passed" if end is check else "committed it"
            shows = shown(end.command if end is check else end.command.partition("\n")[0].partition(" -m")[0], cwd)
            return f"`{shows}` {what}", [end.call.call_event, end.call.result_event]
    return "", []


def _preconditions(view: SessionView, first: Turn) -> list[str]:
    begin = first.edits[0].seq
    ran = [r for r in view.once(runs) if r.step.purpose == "install" and not r.failed and r.call.thread_id == first.prompt.thread_id]
    return [f"`{shown(r.command, view.session.cwd)}` has run" for r in ran if r.call.seq < begin][:3]


def _warnings(view: SessionView, made: list[Turn]) -> list[str]:
    """Return the failures on the way and what the person objected to, in their words."""
    cwd = view.session.cwd
    found: dict[str, None] = {}
    for turn, following in zip(made, [*made[1:], None], strict=True):
        for run in turn.runs:
            error = salient_line(run.output, cwd, of_tests=run.step.purpose == "test") if run.failed and run.step.purpose in CHECKS else ""
            if error:
                found.setdefault(f"`{shown(run.command, cwd)}`: {error}")
        if turn.corrected and following is not None and turn.edits:
            found.setdefault(f"the person: “{goal(following.ask)}”")
    return list(found)[:_WARNINGS]


MEMP_PROCEDURAL = Method(
    name="memp_procedural",
    version=2,
    describe=(
        "The course of a whole session: what was asked for, what had to be there, the steps, what went wrong, and how it ended.\n\n"
        "Drawn where at least two turns changed files and the last of them ended with a check that passed or a commit. The "
        "steps are files and commands as they were, the warnings errors that were printed and objections that were typed."
    ),
    extract=extract,
    reads=("events", "tool_calls"),
    kinds=("prompt", "tool_call", "tool_result"),
)

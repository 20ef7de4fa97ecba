"""Whole-session procedures: goal, preconditions, steps, warnings and outcome, after Memp."""

from __future__ import annotations

import re
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining.lessons.commands import CHECKS, harmless, listed, outside, runs, shown
from ctx_pipeline.mining.lessons.failures import clean, salient_line, shorten_paths
from ctx_pipeline.mining.lessons.quoting import look_for, repeats
from ctx_pipeline.mining.lessons.turns import done, goal, last_check, tells, turns
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.turns import Turn
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_LEAST_TURNS, _LEAST_STEPS, _LEAST_TOLD, _STEPS, _WARNINGS, _TEXT = 2, 3, 2, 14, 4, 3
_WORDS = (4, 24)
"""Words of a sentence that can say what a step was for."""

_INTENT = re.compile(
    r"(?i)^(?:(?:now|next|then|first|second|finally|also|good|great|perfect|ok(?:ay)?|so|and|i'll|i will|i'm going to|i need to"
    r"|i am going to|i should|i can|we need to|we should|let me|let's|let us|going to|time to|proceeding to|need to)\b[\s,.!:-]*)*"
    r"(?P<does>(?:add|fix|implement|make|update|remove|change|refactor|ensure|replace|use|create|support|write|move|rename|convert|handle"
    r"|simplify|improve|migrate|upgrade|set|bump|port|allow|extend|drop|split|extract|enable|disable|validate|document|wire|register"
    r"|rewrite|mark|reuse|address|resolve|restrict|prevent|expose|parse|cache|log|patch|adjust|introduce|include|pass|export|import|define"
    r"|switch|guard|return|skip|generate|install|regenerate|sync|swap|clean up|cover|delete|inline|route)(?:ing)?\b.*)$"
)
_VAGUE = re.compile(
    r"(?i)\b(?:this|that|these|those|it|them|todo list|above|below|next (?:step|task|one)"
    r"|the (?:fix|changes?|edits?|remaining|rest|plan))\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CLOSING = re.compile(r"[\s:.…]+$")


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield the course of a session of several turns that changed files and ended with a check that passed or a commit.

    It is a procedure where it tells how, see ``combine``; else it stays what was seen.
    """
    made = view.once(turns)
    worked = [t for t in made if t.edits]
    check, outcome, last = _outcome(view, made) if len(worked) >= _LEAST_TURNS else ("", "", [])
    significant_terms = [t for t in made if tells(t.ask)] if outcome else []
    if not significant_terms:
        return
    perhaps: dict[str, list[str]] = {}
    calls: list[Any] = []
    for turn in worked:
        for step, call in zip(*done(view, turn), strict=True):
            if step not in perhaps:
                perhaps[step] = [] if turn.corrected else _purposes(view, turn, call)
                calls.append(call)
    if len(perhaps) < _LEAST_STEPS or all(s.startswith("run ") for s in perhaps):
        return
    look_for(view, "\n".join(said for purposes in perhaps.values() for said in purposes))
    steps = {step: next((said for said in purposes if not repeats(view, said)), "") for step, purposes in perhaps.items()}
    steps = {step: f"{said[:1].lower()}{said[1:]}" for step, said in steps.items()}
    task = goal(significant_terms[0].ask)
    files = list(dict.fromkeys(s.partition(" ")[2].strip("`") for s in steps if not s.startswith("run ")))
    how = [f"{step}: {said}" for step, said in steps.items() if said]
    warnings = _warnings(view, made)
    told = [f"{said} (`{step.partition(' ')[2].strip('`')}`)" for step, said in steps.items() if said]
    asked = [a for a in dict.fromkeys(goal(t.ask) for t in significant_terms[1:] if t.edits and not t.corrected) if a != task]
    text = f"“{task}”" + (", then " + ", ".join(f"“{a}”" for a in asked[:2]) if asked else "")
    text += f": {'; '.join(told[:_TEXT]) if len(told) >= _LEAST_TOLD else listed(files[:4], len(files))}; {outcome}"
    if warnings:
        text += f"; on the way {warnings[0]}"
    evidence = [significant_terms[0].prompt.event_id, *(c.call_event for c in calls[:8]), *last]
    full = [f"{s}: {said}" if said else s for s, said in steps.items() if said or s.startswith("run ") or len(how) < _LEAST_TOLD]
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
            "preconditions": _preconditions(view, worked),
            "steps": full[:_STEPS],
            "told": len(how),
            "verification": [f"`{check}`"] if check else [],
            "warnings": warnings,
            "outcome": outcome,
            "files": files[:16],
        },
        subject=task,
        ts=significant_terms[0].prompt.ts,
    )


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the courses that tell how: two steps that say what they were for, what has to be there, and a check that passed."""
    for c in candidates:
        body = c.body
        if body["told"] >= _LEAST_TOLD and body["preconditions"] and body["verification"]:
            yield c


def _purposes(view: SessionView, turn: Turn, call: Any) -> list[str]:
    """Return what the agent said a call was for, after the change or command before it: sentences that may tell it, the last one first."""
    before = max((c.seq for c in turn.calls if c.seq < call.seq and c.action in ("edit", "write", "shell")), default=turn.prompt.seq)
    answers = view.once(_answers).get(call.thread_id, [])
    at = bisect_left(answers, call.seq, key=_by_seq)
    said = answers[at - 1].text or "" if at and answers[at - 1].seq > before else ""
    told = []
    for sentence in reversed(_SENTENCE.split(said[-_LONGEST:])) if said else ():
        found = _INTENT.match(clean(sentence).lstrip("*-#> "))
        does = _CLOSING.sub("", found["does"].replace("**", "").replace("`", "")) if found else ""
        if does and _WORDS[0] <= len(does.split()) <= _WORDS[1] and not _VAGUE.search(does):
            told.append(does)
    return told


_LONGEST = 1_500
_by_seq = attrgetter("seq")


def _answers(view: SessionView) -> dict[str, list[Any]]:
    """Return thread -> its answers in order."""
    found: dict[str, list[Any]] = {}
    for event in view.of_kinds("answer"):
        found.setdefault(event.thread_id, []).append(event)
    return found


def _outcome(view: SessionView, made: list[Turn]) -> tuple[str, str, list[str]]:
    """Return the last check that passed, how the session ended by it or by a commit, and the events that show it."""
    cwd = view.session.cwd
    for turn in reversed(made):
        commits = [r for r in turn.runs if r.step.subject == "git commit" or " git commit" in r.command]
        check = last_check(turn)
        if turn.edits and check is None and not commits:
            return "", "", []
        end = check or (commits[-1] if commits and commits[-1].passed else None)
        if end is not None:
            events = [end.call.call_event, end.call.result_event]
            ran = harmless(end, cwd) if end is check else ""
            return (ran, f"`{shown(ran, cwd)}` passed", events) if ran else ("", "`git commit` committed it", events)
    return "", "", []


def _preconditions(view: SessionView, worked: list[Turn]) -> list[str]:
    """Return what was installed before the first change, and the files that were changed and not made."""
    first, cwd = worked[0], view.session.cwd
    begin = first.edits[0].seq
    ran = [r for r in view.once(runs) if r.step.purpose == "install" and r.well and r.call.thread_id == first.prompt.thread_id]
    found = [f"`{shown(r.command, cwd)}` has run" for r in ran if r.call.seq < begin and not dangers(r.command)][:3]
    touched = [(c.action, shorten_paths(p, cwd)) for t in worked for c in t.edits for p in c.paths if not outside(p)]
    new = {path for action, path in touched if action == "write"}
    there = list(dict.fromkeys(path for action, path in touched if action == "edit" and path not in new))
    return [*found, f"{listed(there[:4], len(there))} {'is' if len(there) == 1 else 'are'} there"] if there else found


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
    version=5,
    describe=(
        "The course of a whole session: what was asked for, what had to be there, the steps, what went wrong, and how it ended.\n\n"
        "Drawn where at least two turns changed files and the last of them ended with a check that passed or a commit. Steps are "
        "changes with what the agent said right before them, and checks; warnings are errors that were printed and objections that "
        "were typed. It becomes a memory where two steps tell what they were for, a check passed at the end and it is known what has "
        "to be there; a list of files stays an observation."
    ),
    wants="two steps of which the agent said right before them what they were for, and a check that passed at the end",
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("prompt", "tool_call", "tool_result", "answer"),
)

"""What is to be kept of one session: how it ended, what was decided, preferred, done wrong, and what is left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.prompts import answered, arguments_of
from ctx_pipeline.mining import error_resolutions, repeated_corrections
from ctx_pipeline.mining.lessons.commands import PROVING, listed, outside, shown
from ctx_pipeline.mining.lessons.failures import clean, salient_line, shorten_paths
from ctx_pipeline.mining.lessons.turns import asked, goal, last_check, turns
from ctx_pipeline.mining.reme import refusals
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.mining.lessons.turns import Turn
    from ctx_pipeline.model.memories import MemoryCandidate
    from ctx_pipeline.model.session_view import SessionView

_MOST, _WIDTH = 8, 300
_LEFT = re.compile(
    r"(?i)\b(?:next steps?|follow[- ]?ups?|(?<!no )remaining|remains to|still (?:to do|open|missing|needs?)"
    r"|not (?:yet|done|covered|tested|verified)"
    r"|left (?:out|open|for later)|out of scope|haven't|has not been|to be done)\b"
)
_LISTED = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


class Entry(NamedTuple):
    """One line of a record with the events it rests on."""

    text: str
    evidence: tuple[str, ...]


class Record(NamedTuple):
    """A session as one record; every part is empty where the session shows nothing of it."""

    host: str
    session_id: str
    task: str
    outcome: list[Entry]
    decisions: list[Entry]
    preferences: list[Entry]
    mistakes: list[Entry]
    follow_ups: list[Entry]


PARTS = ("outcome", "decisions", "preferences", "mistakes", "follow_ups")


def record_of(view: SessionView) -> Record:
    """Return the record of a session, drawn from its own events alone; at most eight entries a part.

    The outcome is the last check and commit after the last change, decisions are approved
    plans and answered questions, preferences the rules that the person typed and the
    reasons of refusals, mistakes what failed with its cure and what the person objected
    to, follow-ups what was planned and not done, and what the last answer calls open.
    """
    made = view.once(turns)
    task = next((goal(t.ask) for t in made if t.ask), "")
    parts = (
        _outcome(view, made),
        [*_decisions(view)],
        [_entry(c) for c in (*repeated_corrections.extract(view), *refusals(view)) if c.kind in ("user_preference", "risk_rule")],
        [*map(_entry, error_resolutions.extract(view)), *_objections(made)],
        [*_planned(view), *_open(view)],
    )
    return Record(view.host, view.session_id, task, *(list(dict.fromkeys(part))[:_MOST] for part in parts))


def _entry(c: MemoryCandidate) -> Entry:
    return Entry(c.text, tuple(c.evidence_refs))


def _short(text: str) -> str:
    return truncate(clean(text), _WIDTH)


def _outcome(view: SessionView, made: list[Turn]) -> list[Entry]:
    cwd = view.session.cwd
    changed = [c for t in made for c in t.edits if any(not outside(p) for p in c.paths)]
    if not changed:
        return []
    files = list(dict.fromkeys(shorten_paths(p, cwd) for c in changed for p in c.paths if not outside(p)))
    found = [Entry(f"changed {listed(files[:6], len(files))}", tuple(c.call_event for c in changed[:3]))]
    last = next(t for t in reversed(made) if t.edits)
    check = last_check(last)
    ran = [r for t in made for r in t.runs if r.step.purpose in PROVING and r.call.seq > changed[-1].seq]
    end = ran[-1] if ran else check
    if end is None:
        found.append(Entry("the last change was not checked", (changed[-1].call_event,)))
    else:
        error = "" if end.passed else salient_line(end.output, cwd, of_tests=end.step.purpose == "test")
        said = "passed" if end.passed else f"failed{f': “{error}”' if error else ''}"
        found.append(Entry(f"`{shown(end.command, cwd)}` {said} after the last change", _both(end.call)))
    commits = [r for t in made for r in t.runs if " git commit" in f" {r.command}" and r.passed and r.call.seq > changed[-1].seq]
    return [*found, *([Entry("committed", _both(commits[-1].call))] if commits else [])]


def _both(call: Any) -> tuple[str, ...]:
    return tuple(e for e in (call.call_event, call.result_event) if e)


def _decisions(view: SessionView) -> Iterator[Entry]:
    for call in view.tool_calls:
        if call.is_error or call.result_event is None:
            continue
        if call.action == "ask":
            yield from (Entry(_short(f"“{question}” → “{answer}”"), _both(call)) for question, answer in answered(view, call))
        elif call.action == "plan":
            plan = arguments_of(view.call_text(call)).get("plan")
            title = next((line for line in plan.splitlines() if line.strip(" #*")), "") if isinstance(plan, str) else ""
            if title:  # a list is a list of steps, of which nobody was asked
                yield Entry(_short(f"the person approved the plan “{title.strip(' #*')}”"), _both(call))


def _objections(made: list[Turn]) -> Iterator[Entry]:
    for turn in made:
        if turn.corrected and turn.following is not None and turn.edits:
            yield Entry(_short(f"the person objected: “{goal(asked(turn.following.text or ''))}”"), (turn.following.event_id,))


def _planned(view: SessionView) -> Iterator[Entry]:
    """Yield what the last plan of the main thread, or its tasks, left undone."""
    thread = view.prompts[0].thread_id if view.prompts else ""
    calls = [c for c in view.tool_calls if c.action == "plan" and not c.is_error and c.thread_id == thread]
    tasks: dict[str, tuple[str, str, Any]] = {}
    plan: Any = None
    for call in calls:
        body = arguments_of(view.call_text(call))
        if _listed_steps(body) is not None:
            plan = call
        elif body.get("subject"):
            number = re.search(r"#(\d+)", view.result_text(call))
            tasks[number[1] if number else str(len(tasks) + 1)] = (str(body["subject"]), "pending", call)
        elif body.get("taskId") is not None and body.get("status") and str(body["taskId"]) in tasks:
            tasks[str(body["taskId"])] = (tasks[str(body["taskId"])][0], str(body["status"]), call)
    left = [(text, call) for text, status, call in tasks.values() if status in ("pending", "in_progress")]
    if plan is not None:
        steps = _listed_steps(arguments_of(view.call_text(plan))) or ()
        items = [i for i in steps if isinstance(i, dict) and i.get("status") in ("pending", "in_progress")]
        left += [(str(i.get("content") or i.get("step") or ""), plan) for i in items]
    yield from (Entry(_short(f"planned and not done: {text}"), (call.call_event,)) for text, call in left if text.strip())


def _listed_steps(body: dict[str, Any]) -> list[Any] | None:
    """Return the steps that a plan lists, none where it was cleared; None for a call that lists no steps."""
    return next((body[name] for name in ("todos", "plan") if isinstance(body.get(name), list)), None)


def _open(view: SessionView) -> Iterator[Entry]:
    """Yield the sentences of the last answer that say what is open, a heading with the points below it."""
    thread = view.prompts[0].thread_id if view.prompts else ""
    answers = [e for e in view.of_kinds("answer") if e.thread_id == thread and (e.text or "").strip()]
    below = False
    for line in re.sub(r"```.*?(?:```|\Z)", "", (answers[-1].text or "")[-6_000:], flags=re.DOTALL).splitlines() if answers else ():
        if _LISTED.match(line):
            if below:
                yield Entry(_short(_LISTED.sub("", line).replace("**", "")), (answers[-1].event_id,))
            continue
        heading = line.strip(" #*:")
        below = bool(heading) and bool(_LEFT.search(heading)) and (line.lstrip().startswith("#") or line.rstrip(" *").endswith(":"))
        for sentence in re.split(r"(?<=[.!?])\s+", line) if not below else ():
            if _LEFT.search(sentence) and len(sentence.split()) > 3 and not sentence.rstrip().endswith("?"):
                yield Entry(_short(sentence.replace("**", "")), (answers[-1].event_id,))

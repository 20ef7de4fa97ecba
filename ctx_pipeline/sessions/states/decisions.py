"""What the person decided: answers to questions of the agent, and options that a prompt names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.session_state.state import Item
from ctx_pipeline.facts.prompts import arguments_of, typed
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import repeats
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.times import micros, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView

_ANSWER, _QUESTION = 400, 160


def decisions(view: SessionView) -> list[Item]:
    """Return what the person chose, in order of time; later ones rank higher.

    What to do next, which some agents ask with a menu, is no decision about the work.
    """
    told = [
        (call.started, f"{said} → {_answers(answer)}", call.call_event)
        for said, answer, call in asked_of_person(view, view.tool_calls)
        if answer and not _NEXT.search(said)
    ]
    told += _options(view)
    told.sort(key=lambda one: micros(one[0]))
    return [Item(text, "question", written(at), event, score=1 + n) for n, (at, text, event) in enumerate(told)]


def asked_of_person(view: SessionView, calls: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield each question that was put to the person, its answer (empty without one) and the call."""
    for call in calls:
        if call.action != "ask":
            continue
        questions = arguments_of(view.call_text(call)).get("questions")
        wanted = [str(q["question"]) for q in questions if isinstance(q, dict) and q.get("question")] if isinstance(questions, list) else []
        said = truncate(clean(" / ".join(wanted)), _QUESTION)
        if said:
            yield said, "" if call.is_error else truncate(clean(view.result_text(call)), _ANSWER), call


_NEXT = lazy_pattern(
    r"(?i)\bwhat would you like (?:me )?to do\b|\b(?:do|be done) next\b|\bhow (?:would you like|should (?:i|we)|do you want) to proceed\b"
    r"|\b(?:shall|should) (?:i|we) (?:proceed|continue|start|begin|go on)\b|\bready to (?:proceed|continue|start|begin|implement)\b"
)
_ANSWERED = lazy_pattern(r'"[^"]{1,400}"="([^"]{1,300})"')


def _answers(answer: str) -> str:
    """Return what the person chose, without the words that hosts put around it."""
    chosen = _ANSWERED.findall(answer)
    return " / ".join(chosen) if chosen else answer


_OPTION = lazy_pattern(r"(?i)\boption\s{1,3}#?([a-z]|\d{1,2})\b")
_AGAINST = lazy_pattern(r"(?i)\b(?:not|no|don'?t|without|neither|against|except|instead of|rather than|why|what|how)\b|\?")
_LONGEST_CHOICE = 200
"""Characters of a prompt that does little more than choose."""


def _options(view: SessionView) -> Iterator[tuple[Any, str, str]]:
    """Yield time, text and event of each prompt that chooses one option of the answer before it."""
    for prompt in typed(view):
        said = prompt.text or ""
        named = {name.upper() for name in _OPTION.findall(said[: _LONGEST_CHOICE + 1])}
        if len(named) != 1 or len(said) > _LONGEST_CHOICE or _AGAINST.search(said):
            continue
        (name,) = named
        before = [e for e in view.events if e.kind == "answer" and e.thread_id == prompt.thread_id and e.seq < prompt.seq and e.text]
        offered = (
            re.search(rf"(?i)\boption\s+#?{name}\b[*_`)]*\s*[:.\u2013\u2014-]+\s*[*_`]*(\S.{{3,200}})", before[-1].text) if before else None
        )
        if offered and not repeats(view, offered[1]):
            yield prompt.ts, f"option {name}: {truncate(clean(offered[1].strip('*_` ')), _ANSWER)}", prompt.event_id

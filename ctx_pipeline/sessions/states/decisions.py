"""What the person decided: answers to questions of the agent, options that a prompt names, and what stood in refusals of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.session_state.state import Item
from ctx_pipeline.facts.prompts import answered, arguments_of, is_request, one_line, stands_alone, typed
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import repeats
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.host_records import words_of_refusals
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.ending import called
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
        (call.started, f"{said} → {_answers(view, call, answer)}", call.call_event)
        for said, answer, call in asked_of_person(view, view.tool_calls)
        if answer and not _NEXT.search(said)
    ]
    told += [*_options(view), *_refused(view)]
    told.sort(key=lambda one: micros(one[0]))
    return [Item(text, "question", written(at), event, score=1 + n) for n, (at, text, event) in enumerate(told)]


def _refused(view: SessionView) -> Iterator[tuple[Any, str, str]]:
    """Yield time, text and event of each refusal in which the person said how it is to be, and not only "try again"."""
    calls = {call.call_id: call for call in view.tool_calls if call.action != "ask"}
    for event in words_of_refusals(view):
        words = one_line(event.text or "")
        if event.call_id in calls and is_request(words) and stands_alone(words) and not _asks_only(words):
            yield event.ts, f"“{truncate(words, _ANSWER)}” (refusing {called(view, calls[event.call_id])})", event.event_id


def _asks_only(words: str) -> bool:
    """Tell whether words are nothing but questions: who asks why not otherwise has not decided yet, who ends an order with one has."""
    return all(said.endswith("?") and _ASKS.match(said) for said in _SENTENCE_ENDS.split(words.strip()))


_SENTENCE_ENDS = lazy_pattern(r"(?<=[.!?])\s+")
_ASKS = lazy_pattern(
    r"(?i)(?:(?:and|but|so|or|ok(?:ay)?|hm+|huh|wait|well|then|also|just)\b[\s,.:\u2026-]*){0,3}"
    r"(?:(?:why|what|how|who|whose|which|really|seriously)\b"
    r"|(?:can|could|should|would|will|shall|must|may|might|is|are|am|was|were|has|did|does)(?:n?['\u2019]?t)?\b"
    r"|(?:do|have|had|where|when) ?(?:you|we|i|they|these|those|any|is|are|was|were|do|does|did|can|could|should|would|will)\b)"
)
"""How a question begins. One that begins with an order, or with "no, ", has no more than a question at its end."""


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


def _answers(view: SessionView, call: Any, answer: str) -> str:
    """Return what the person chose with what they noted beside it, without the words that hosts put around it."""
    chosen = (one_line(given.replace("\n", "; ", 1)) for _, given in answered(view, call))
    return truncate(clean(" / ".join(filter(None, chosen))), _ANSWER) or answer


_CHOSEN = lazy_pattern(
    r"(?:(?:ok(?:ay)?|yes|sure|great)\W{1,3})?(?:(?:let'?s |please )?(?:use|take|do|pick|choose|go with|go for)"
    r"|i(?:'d| would)? (?:like|prefer|choose|want|pick|go with|go for))?"
    r"\W{0,3}(?i:option) #?([A-Z]|\d{1,2})\W*(?:please|thanks|thank you)?\W*"
)
"""A prompt that does nothing but choose; its words are in lower case, and the name of the option is not."""
_OFFERED = lazy_pattern(r"\b[Oo]ption\s+#?([A-Z]|\d{1,2})\b[*_`)]*\s*[:.\u2013\u2014-]+\s*[*_`]*(\S.{3,200})")
_LONGEST_CHOICE = 80
"""Characters of a prompt that chooses."""


def _options(view: SessionView) -> Iterator[tuple[Any, str, str]]:
    """Yield time, text and event of each prompt that chooses one option of the answer before it."""
    prompts = {p.event_id for p in typed(view)}
    before: dict[str, str] = {}
    for event in view.events:
        if event.kind == "answer" and event.text:
            before[event.thread_id] = event.text
        said = (event.text or "").strip() if event.event_id in prompts else ""
        chosen = _CHOSEN.fullmatch(said[:1].lower() + said[1:]) if 0 < len(said) <= _LONGEST_CHOICE else None
        if chosen is None:
            continue
        offered = next((one[2] for one in _OFFERED.finditer(before.get(event.thread_id, "")) if one[1] == chosen[1]), "")
        if offered and not repeats(view, offered):
            yield event.ts, f"option {chosen[1]}: {truncate(clean(offered.strip('*_` ')), _ANSWER)}", event.event_id

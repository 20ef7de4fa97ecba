"""The question of the agent that a few words of the person answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.context.session_state.state import REFUSAL
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import repeats
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.context.session_state.state import Item
    from ctx_pipeline.model.session_view import SessionView

BRIEF = 80
"""Characters of what may say nothing without the question that it answers."""

_END = 400
"""Characters at the end of an answer in which its question stands."""


def with_offer(view: SessionView, said: Item | None) -> Item | None:
    """Return a few words of the person with the question of the agent that they answer."""
    brief = said is not None and said.by != REFUSAL and len(said.text) <= BRIEF
    offer = _asked_by_agent(view, said) if said is not None and brief else ""
    return said._replace(reason=offer) if said is not None and offer else said


def _asked_by_agent(view: SessionView, said: Item) -> str:
    """Return the question at the end of the answer that what a person said stands behind; empty where there is none."""
    event = view.by_event.get(said.event or "")
    before = [e for e in view.of_kinds("answer") if e.text and event is not None and e.thread_id == event.thread_id and e.seq < event.seq]
    asks = _QUESTION.search(clean(_last_paragraph(before[-1].text[-_END:]))) if before else None
    return asks[1] if asks and not repeats(view, asks[1]) else ""


def _last_paragraph(text: str) -> str:
    """Return the last lines of a text without the list or the code above them; the last point of a list may end in no full stop."""
    lines = text.rstrip().rpartition("```")[2].splitlines()
    above = (
        n for n in reversed(range(len(lines) - 1)) if not lines[n].strip() or (_POINT.match(lines[n]) and not lines[n + 1][:1].isspace())
    )
    return "\n".join(lines[next(above, -1) + 1 :])


_POINT = lazy_pattern(r"\s{0,9}(?:[-*+\u2022]|\d{1,3}[.)])\s")
_QUESTION = lazy_pattern(r"(?:^|[.!?:)*`]\s+)([^.!?\s](?:[^.!?]|\.(?=\w)){8,200}\?)[\s*_]{0,4}$")

"""The question of the agent that a few words of the person answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.context.session_state.state import REFUSAL, Item
from ctx_pipeline.facts.prompts import asked, taken_back, typed
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import repeats
from ctx_pipeline.model.display import GAP, truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.times import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

BRIEF = 80
"""Characters of what may say nothing without the question that it answers."""

_END, _ROOM = 2_000, 400
"""Characters at the end of an answer in which its question stands with the choices that it lists, and without."""
_LEAST, _LONGEST = 10, 300
"""Characters of a question that stands in a list, or is told with one."""


def with_offer(view: SessionView, said: Item | None) -> Item | None:
    """Return a few words of the person with the question of the agent that they answer."""
    brief = said is not None and said.by != REFUSAL and len(said.text) <= BRIEF
    offer = _asked_by_agent(view, said) if said is not None and brief else ""
    return said._replace(reason=offer) if said is not None and offer else said


def reply_between(view: SessionView, since: Item, until: Item) -> Item | None:
    """Return the last prompt between two that answers a question of the agent in a few words, with it; None where none does."""
    begin, end = (view.by_event.get(item.event or "") for item in (since, until))
    if begin is None or end is None:
        return None
    back = taken_back(view)
    between = (e for e in typed(view) if begin.seq < e.seq < end.seq and e.thread_id == end.thread_id and e.event_id not in back)
    items = (Item(asked(e.text or ""), "prompt", written(e.ts), e.event_id) for e in reversed(list(between)))
    return next((told for item in items if (told := with_offer(view, item)) is not None and told.reason), None)


def _asked_by_agent(view: SessionView, said: Item) -> str:
    """Return the question at the end of the answer that what a person said stands behind; empty where there is none."""
    event = view.by_event.get(said.event or "")
    before = [e for e in view.of_kinds("answer") if e.text and event is not None and e.thread_id == event.thread_id and e.seq < event.seq]
    asks = _question(before[-1].text) if before else ""
    return asks if asks and not repeats(view, asks) else ""


def _question(text: str) -> str:
    """Return the question at the end of an answer, with the choices that it lists; empty where there is none."""
    lines = text[-_END:].rstrip().rpartition("```")[2].splitlines()
    at = _last_paragraph(lines)
    if at < len(lines) and _POINT.match(lines[at]):
        return _with_choices(lines, at)
    own = "\n".join(lines[at:])
    above = next((line for line in reversed(lines[:at]) if line.strip()), "")
    if own[:1].islower() and not _POINT.match(above):
        own = f"{_unended(above)} {own}".lstrip()
    asks = _QUESTION.search(clean(own[-_ROOM:]))
    return asks[1] if asks else ""


def _last_paragraph(lines: Sequence[str]) -> int:
    """Return the first of the last lines, without the list above them; the last point of a list may end in no full stop."""
    above = (
        n for n in reversed(range(len(lines) - 1)) if not lines[n].strip() or (_POINT.match(lines[n]) and not lines[n + 1][:1].isspace())
    )
    return next(above, -1) + 1


def _with_choices(lines: Sequence[str], at: int) -> str:
    """Return the question that ends with the last point of a list: that point, or the whole where it only is the last of the choices."""
    first = next((n for n in reversed(range(at)) if lines[n].strip() and not lines[n][:1].isspace() and not _POINT.match(lines[n])), -1) + 1
    points: list[str] = []
    for line in filter(str.strip, lines[first:]):
        mark = _POINT.match(line)
        points += [""] if mark else []
        if not points:  # the rest of a line that was cut, or of code
            continue
        points[-1] += f" {line[mark.end('bullet') if mark and mark['bullet'] else 0 :].strip(' *_')}"
    points = [point.strip().rstrip(",;") for point in points]
    last = _POINT.sub("", points[-1])
    if not last.endswith("?"):
        return ""
    asks = _unended(lines[first - 1]) if first else ""
    if not asks or _ASKS.match(last) or any(point.endswith((".", "!", "?")) for point in points[:-1]):
        return clean(last) if _LEAST <= len(last) <= _LONGEST else ""
    whole = clean(f"{asks} {', '.join(points)}")
    return whole if len(whole) <= _LONGEST else truncate(clean(f"{asks} {GAP} {last}"), _LONGEST)


def _unended(line: str) -> str:
    """Return the sentence that a line does not end; empty where it ends, or is a heading."""
    said = line.strip(" *_")
    return "" if said.startswith("#") or said.endswith((".", "!", "?")) else _SENTENCE_END.split(said)[-1]


_POINT = lazy_pattern(r"\s{0,9}(?:(?P<bullet>[-*+\u2022])|\d{1,3}[.)])\s")
_SENTENCE_END = lazy_pattern(r"(?<=[^\d\s][.!?])\s+")
_ASKS = lazy_pattern(
    r"(?i)(?:(?:shall|should|would|do|does|did|can|could|may|will|is|are)\s+(?:i|we|you|it|this|that|these|they|there|the)"
    r"|want me|wh\w+|how)\b"
)
"""How a point begins that asks by itself."""
_QUESTION = lazy_pattern(r"(?:^|[.!?:)*`]\s+)([^.!?\s](?:[^.!?]|\.(?=\w)){8,200}\?)[\s*_]{0,4}$")

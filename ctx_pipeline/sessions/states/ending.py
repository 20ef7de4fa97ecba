"""How a session ended: its last answer, and what came behind it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.session_state.state import Item
from ctx_pipeline.facts.command_runs import runs_by_call
from ctx_pipeline.facts.prompts import in_time, is_request, one_line
from ctx_pipeline.facts.turns import INTERRUPTED, turn_rows
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import own_words
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.host_records import KEPT
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.times import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

_DIRECTIVE = lazy_pattern(r"^[ \t]*::[a-z][\w-]*(?:\{[^{}\n]*\}|\[[^][\n]*\])+[ \t]*$", re.MULTILINE)
"""A line that is a Markdown directive: it speaks to the program that shows the answer."""


_FULL_STOP = lazy_pattern(r"(?<=[.!?])(?<!\d\.)\s+|(?<=[\u3002\uff01\uff1f])")
_SENTENCE = lazy_pattern(r"(?<=[.!?])(?<!\d\.)\s+|(?<=[\u3002\uff01\uff1f])|\s+(?=[-*\u2022] \S)")
_WORD = 30
"""Characters in which a word ends, in a script that has blanks between them."""


class _Room(NamedTuple):
    """Characters of a long answer that are told, and how many of them are its beginning."""

    whole: int
    head: int


_FEW, _MORE = _Room(400, 150), _Room(1_000, 650)

_SKIPPED = 120
"""Characters of the end of a long answer that are left out so that it begins with a sentence."""

_GAP, _REST = " […] ", 20
"""What stands for sentences that repeat an output, and how many characters of an answer with such gaps say anything."""

_SHORT = 100


class Ending(NamedTuple):
    """The last answer and what came behind it."""

    answer: Item | None = None
    """its beginning, where its outcome mostly stands, and its end"""
    more: Item | None = None
    """the same with more of it, where it is longer"""
    of_subagent: bool = False
    """the thread itself has no answer"""
    calls_since: int = 0
    unanswered: bool = False
    """a prompt is behind it, and no call"""
    asked_since: bool = False
    """a prompt that asks for something is behind it"""
    last_call: Item | None = None
    """how the last call ended, where it was about a file, the person refused it, or no result is recorded"""


def ending(view: SessionView, main: Sequence[Any], *, whole: bool) -> Ending:
    """Return how the thread of these events ended; of rows that are not ``whole`` the beginning may be missing."""
    answers = _answers(main)
    if not answers:
        others = _answers(view.events)
        few, more = _few_and_more(view, others[-1], whole=whole) if others else (None, None)
        return Ending(few, more, bool(others), last_call=None if others else _last_call(view, main))
    last = answers[-1]
    behind = [e for e in main if e.kind in ("tool_call", "prompt") and e is not last and in_time([last, e])[-1] is e and e.seq > last.seq]
    calls = sum(e.kind == "tool_call" for e in behind)
    asked = any(e.kind == "prompt" and is_request(one_line(e.text or "")) for e in behind)
    few, more = _few_and_more(view, last, whole=whole)
    return Ending(few, more, False, calls, bool(behind) and not calls, asked, _last_call(view, behind) if calls else None)


def _answers(events: Sequence[Any]) -> list[Any]:
    return in_time([e for e in events if e.kind == "answer" and e.text and e.text.strip()])


def _few_and_more(view: SessionView, answer: Any, *, whole: bool) -> tuple[Item, Item | None]:
    few, more = (Item(_quoted(view, answer, room, whole=whole), "answer", written(answer.ts), answer.event_id) for room in (_FEW, _MORE))
    return few, more if more.text != few.text else None


def _quoted(view: SessionView, answer: Any, room: _Room, *, whole: bool) -> str:
    """Return the beginning and the end of an answer, without what repeats an output; empty where that leaves nothing."""
    written_as = _DIRECTIVE.sub("", answer.text)
    text = clean(written_as)
    parts = [text]
    if len(text) > room.whole:
        head = text[: text.find("```") if 0 < text.find("```") <= room.head else room.head + 1]
        ends = [found.start() for found in _SENTENCE.finditer(head)]
        parts = [head[: ends[-1]].rstrip() if ends else truncate(head, room.head)]
        parts.append(f"…{_tail(written_as, text, len(parts[0]), room.whole - room.head)}")
    own = " ".join(filter(None, (own_words(view, part, gap=_GAP, whole=whole) for part in parts)))
    said = len(own.replace(_GAP.strip(), "").strip("… "))
    return own if said > (_REST if _GAP.strip() in own else 0) else ""


def _tail(answer: str, text: str, begun: int, room: int) -> str:
    """Return the end of a long answer, behind so many characters: its last paragraphs that fit the room, else its last sentences.

    A list without the words above it would say something else.
    """
    kept: list[str] = []
    for paragraph in reversed(_paragraphs(answer)):
        if sum(map(len, kept)) + len(kept) + len(paragraph) > min(room, len(text) - begun):
            break
        kept.insert(0, paragraph)
    while kept and _MEMBER.match(kept[0]):
        del kept[0]
    if kept:
        return " ".join(kept)
    tail = text[max(begun, len(text) - room) :]
    whole_from = _FULL_STOP.search(tail, 0, _SKIPPED)
    # where no sentence begins soon, a word that the cut goes through is left out, if the script has blanks
    begin = whole_from.end() if whole_from else 0 if tail[:1].isspace() else tail.find(" ", 0, _WORD) + 1
    return tail[begin:].lstrip()


_MEMBER = lazy_pattern(r"[-*+\u2022>]\s|\d{1,3}[.)]\s|\||```")
"""The beginning of a list, a quotation, a table or code."""


def _paragraphs(answer: str) -> list[str]:
    """Return what blank lines part, each on one line; code between fences is one."""
    found: list[list[str]] = [[]]
    code = False
    for line in answer.splitlines():
        if line.strip() or code:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
        code ^= line.lstrip().startswith("```")
    return [clean(" ".join(lines)) for lines in found if lines]


def _last_call(view: SessionView, behind: Sequence[Any]) -> Item | None:
    """Return what became of the last call of these events, where it has no result of its own or was about a file."""
    calls = {call.call_event: call for call in view.tool_calls}
    last = max((e for e in behind if e.event_id in calls), key=lambda e: e.seq, default=None)
    if last is None:
        return None
    call = calls[last.event_id]
    named = called(view, call)
    result = view.by_event.get(call.result_event) if call.result_event else None
    if call.result_event is None:
        return Item(f"of the last one, {named}, no result is recorded", "records", written(call.started), last.event_id)
    if result is not None and result.subtype in KEPT:
        stopped = next((t for t in reversed(turn_rows(view)) if t.thread_id == last.thread_id), None)
        by = "the person refused it and stopped the agent" if stopped is not None and stopped.ended == INTERRUPTED else "it was refused"
        return Item(f"the last one, {named}, did not run: {by}", "records", written(call.started), result.event_id)
    if result is not None and not call.is_error and call.paths and call.call_event not in runs_by_call(view):
        return Item(f"the last one, {named}, succeeded", "records", written(call.started), result.event_id)
    return None


def called(view: SessionView, call: Any) -> str:
    """Return the command line of a call, or its tool with the file that it was about."""
    run = runs_by_call(view).get(call.call_event)
    if run is not None:
        return f"`{truncate(shown(run.command, view.session.cwd), _SHORT)}`"
    path = next(iter(call.paths or ()), "")
    return truncate(clean(f"{call.tool} of {path.rpartition('/')[2]}" if path else call.tool), _SHORT)

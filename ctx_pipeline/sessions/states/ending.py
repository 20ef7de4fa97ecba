"""How a session ended: its last answer, and what came behind it."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.context.session_state.state import ORDER, Item
from ctx_pipeline.facts.command_runs import runs_by_call
from ctx_pipeline.facts.prompts import in_time, is_request, one_line, went_on
from ctx_pipeline.facts.started_agents import AGENTS
from ctx_pipeline.facts.turns import INTERRUPTED, turn_rows
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import look_for, repeating, repeats
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.host_records import KEPT, RECAP
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.excerpts import excerpt
from ctx_pipeline.sessions.states.times import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

_DIRECTIVE = lazy_pattern(
    r"^[ \t]*::[a-z][\w-]*(?:\{[^{}\n]*\}|\[[^][\n]*\])+[ \t]*$"
    r"|^<(?P<element>heartbeat|oai-mem-citation)>\n[^`]{0,2000}?\n</(?P=element)>[ \t]*$"
    r"|</?ctx[\w-]{0,20}(?:\s[^<>\n]{0,400})?>",
    re.MULTILINE,
)
"""A Markdown directive, elements that speak to the program that shows the answer, and marks like our own: no words of the agent."""

_ROOMS = 240, 360, 500, 720, 1_000
"""Characters of a long answer that are told, the more the more room there is."""

_DELIVERED, _SHORT, _ORDER = 500, 100, 200
_REFUSED, _BY_PERSON = "it was refused", "the person stopped the agent"


class Ending(NamedTuple):
    """The last answer and what came behind it."""

    answer: Item | None = None
    """what it says of how the work stands"""
    longer: tuple[Item, ...] = ()
    """the same with more of it where it is longer, the longest first"""
    of_subagent: bool = False
    """the thread itself has no answer"""
    calls_since: int = 0
    unanswered: bool = False
    """a prompt is behind it, and no call"""
    asked_since: bool = False
    """a prompt that asks for something is behind it"""
    delivered: Item | None = None
    """what the subagent that ended or answered last behind that answer gave; its reason says how many did, and when"""
    last_call: Item | None = None
    """how the last call ended, where it was about a file, was refused, or has no result, and that the person stopped the agent"""


def ending(view: SessionView, main: Sequence[Any], *, whole: bool) -> Ending:
    """Return how the thread of these events ended; of rows that are not ``whole`` the beginning may be missing."""
    answers = _answers(view, main)
    if not answers:
        others = _answers(view, view.events)
        if not others:
            return Ending(delivered=_delivered(view, main, None, None, whole=whole), last_call=_last_call(view, main, main))
        return Ending(*_excerpts(view, others[-1], whole=whole), of_subagent=True)
    last = answers[-1]
    behind = [e for e in main if e.kind in ("tool_call", "prompt") and e is not last and in_time([last, e])[-1] is e and e.seq > last.seq]
    calls = sum(e.kind == "tool_call" for e in behind)
    asked = any(e.kind == "prompt" and is_request(one_line(e.text or "")) for e in behind)
    told = _excerpts(view, last, whole=whole)
    if calls:
        delivered = _delivered(view, main, last, None, whole=whole)
    elif len(last.text) <= _ROOMS[0]:  # "Report received. Done." says nothing of what was received
        asked_by = [e for e in main if e.kind == "prompt" and is_request(one_line(e.text or "")) and e.seq < last.seq][-1:]
        delivered = _delivered(view, main, asked_by[0], last, whole=whole) if asked_by else None
    else:
        delivered = None
    return Ending(*told, False, calls, bool(behind) and not calls, asked, delivered, _last_call(view, behind if calls else (), main))


def recap(view: SessionView, main: Sequence[Any]) -> Item | None:
    """Return what the agent said unasked of how the work stands; None where something was said or done behind it."""
    found = next((e for e in reversed(main) if e.kind in _TURNS or (e.kind == "injected" and (e.subtype == RECAP or went_on(e)))), None)
    text = _HINT.sub("", one_line(found.text or "")) if found is not None and found.subtype == RECAP else ""
    return Item(text, "answer", written(found.ts), found.event_id) if found is not None and text and not repeats(view, text) else None


_TURNS = frozenset({"prompt", "answer", "tool_call", "tool_result", "subagent_end"})
_HINT = lazy_pattern(r"\s{0,9}\(disable [^()]{1,60}\)$")
"""How the person has no more of these, as the program says behind one."""


def _delivered(view: SessionView, main: Sequence[Any], since: Any, until: Any, *, whole: bool) -> Item | None:
    """Return what the subagent that ended last between two events delivered: as the host recorded it, else its own last answer."""
    first, end = since.seq if since is not None else -1, until.seq if until is not None else math.inf
    ended = [e for e in main if e.kind == "subagent_end" and (e.text or "").strip() and first < e.seq < end]
    if not ended and since is not None and since.ts is not None:
        agents = {thread.thread_id for thread in view.threads if thread.kind in AGENTS}
        answers = [e for e in _answers(view, view.events) if e.thread_id in agents and e.ts is not None and e.ts > since.ts]
        answers = [e for e in answers if until is None or (until.ts is not None and e.ts <= until.ts)]
        ended = list({e.thread_id: e for e in answers}.values())  # the last one of each
    if not ended:
        return None
    found = in_time(ended)[-1]
    text = excerpt(_unquoted(found.text), _DELIVERED, lambda texts: repeating(view, texts, whole=whole))
    agents_said = "a subagent" if len(ended) == 1 else f"{len(ended)} subagents"
    did, gave = ("ended", "delivered") if found.kind == "subagent_end" else ("answered", "said")  # it may work on
    words = f"{'After' if until is None else 'Before'} it {agents_said} {did}. {'It' if len(ended) == 1 else 'The last of them'} {gave}"
    return Item(text, "answer", written(found.ts), found.event_id, reason=words) if text else None


def _unquoted(text: str) -> str:
    """Return a result without the quotes of JSON, where it is one text."""
    with suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, str) else text
    return text


def _order(view: SessionView, answer: Any) -> Item | None:
    """Return what the subagent of an answer was started with; None where that is not recorded."""
    started = view.once(_starts).get(answer.thread_id)
    return Item(truncate(one_line(started.text), _ORDER), ORDER, written(started.ts), started.event_id) if started is not None else None


def _starts(view: SessionView) -> dict[str, Any]:
    """Return thread -> the event that began it with words."""
    return {e.thread_id: e for e in reversed(view.of_kinds("subagent_start")) if e.text}


def agent_orders(view: SessionView) -> list[Item | None]:
    """Return what the subagents that answered were started with, the one that answered last first; None where that is not recorded."""
    last = {e.thread_id: e for e in _answers(view, view.events)}
    return [_order(view, answer) for answer in reversed(in_time(list(last.values())))]


def warmed_up(view: SessionView) -> set[str]:
    """Return the threads of subagents that their host only warms up."""
    warm_up = discovery.declared_pattern("records.warm_up")
    return {e.thread_id for e in view.of_kinds("subagent_start") if e.text and warm_up.fullmatch(e.text)}


def _answers(view: SessionView, events: Sequence[Any]) -> list[Any]:
    """Return the answers among events; those of subagents that their host only warms up answer nobody."""
    warmed = view.once(warmed_up)
    return in_time([e for e in events if e.kind == "answer" and e.text and e.text.strip() and e.thread_id not in warmed])


def _excerpts(view: SessionView, answer: Any, *, whole: bool) -> tuple[Item, tuple[Item, ...]]:
    """Return what is told of an answer, and more of it where it is longer; empty where nothing is left beside what repeats an output."""
    said = _DIRECTIVE.sub("", answer.text)
    said = said if said.strip() else answer.text
    look_for(view, said)
    few, *more = dict.fromkeys(excerpt(said, room, lambda texts: repeating(view, texts, whole=whole)) for room in _ROOMS)
    order = _order(view, answer)

    def item(text: str) -> Item:
        return Item(text, "answer", written(answer.ts), answer.event_id, reason=order.text if order else None)

    return item(few), tuple(map(item, reversed(more)))


def _last_call(view: SessionView, behind: Sequence[Any], main: Sequence[Any]) -> Item | None:
    """Return what became of the last call of these events, where its result does not tell, and that the person stopped the agent."""
    became, stopped = _became(view, behind), _stopped(view, main)
    if stopped is None:
        return became
    said = f"{became.text}; {_BY_PERSON}" if became else _BY_PERSON
    said = said.replace(f"{_REFUSED}; {_BY_PERSON}", "the person refused it and stopped the agent")
    return Item(said, "records", written(stopped.ts), stopped.event_id)


def _stopped(view: SessionView, main: Sequence[Any]) -> Any:
    """Return the event by which the person stopped the last turn of a thread; None where nobody did, or the agent went on."""
    last = next((t for t in reversed(turn_rows(view)) if main and t.thread_id == main[0].thread_id), None)
    stop = view.by_event.get(last.interruption_event) if last is not None and last.ended == INTERRUPTED else None
    went_on = stop is not None and any(e.kind in ("answer", "tool_call") and e.seq > stop.seq for e in reversed(main))
    return None if went_on else stop


def _became(view: SessionView, behind: Sequence[Any]) -> Item | None:
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
        return Item(f"the last one, {named}, did not run: {_REFUSED}", "records", written(call.started), result.event_id)
    if result is not None and call.is_error and call.call_event not in runs_by_call(view):
        return Item(f"the last one, {named}, failed", "records", written(call.started), result.event_id)
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

"""Turns of a session: each prompt or command of the person, what was done for it, and how that ended."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.facts import pauses
from ctx_pipeline.facts.copied_times import copied_times
from ctx_pipeline.facts.prompts import command_in, plan_in
from ctx_pipeline.model.tables import TURNS

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

ANSWERED, INTERRUPTED, FAILED, OPEN = "answered", "interrupted", "failed", "open"
ENDS = (ANSWERED, INTERRUPTED, FAILED, OPEN)
"""How a turn ended: with a final answer, stopped by the person, with an error last, or with something else last (it may still run)."""

_FINAL = "/final_answer"
"""End of the subtype of an answer of which the host says that it is the last of its turn."""


@dataclass(slots=True, repr=False)
class Turn:
    """One prompt or command of a thread, what followed it up to the next, and how that ended."""

    prompt: Any
    """event of the prompt or command; None for what stands before a thread's first and was stopped there"""
    thread_id: str
    number: int
    """place in its thread, from 0"""
    ended: str = OPEN
    answer: Any = None
    """event of the final answer; None for a turn without one"""
    interruption: Any = None
    """event by which the person stopped it; None where nobody did"""
    first: Any = None
    last: Any = None
    """first and last event"""
    worked: list[int] = field(default_factory=list)
    """times of what the agent did in it, in microseconds: its answers, calls, their results, errors of the provider, a stop"""
    compactions: list[Any] = field(default_factory=list)
    tool_calls: int = 0
    calls: list[Any] = field(default_factory=list)
    """rows of ``tool_calls``, where the view has them"""
    call_keys: set[str] = field(default_factory=set)
    """model calls (``model_calls.call_key``)"""


_KINDS = frozenset(TURNS.kinds)


def begins_turn(event: Any) -> bool:
    """Tell whether an event begins a turn: a prompt, a command of the person that the model carried out, or a plan that they approved."""
    return event.kind == "prompt" or bool(command_in(event) or plan_in(event))


def turns(view: SessionView) -> list[Turn]:
    """Return the turns of a session, thread by thread in order.

    What stands before a thread's first prompt is a turn only where the person stopped
    it. Reads events of the kinds of the table, and ``tool_calls`` where they are
    there.
    """
    found: list[Turn] = []
    turn = Turn(None, "", 0)
    by_thread: dict[str, list[Turn]] = {}
    for event in view.events:
        if event.kind not in _KINDS:
            continue  # a view that others read too may hold more: a title is no part of a turn
        if event.thread_id != turn.thread_id:
            turn = Turn(None, event.thread_id, 0)
        if begins_turn(event):
            turn = Turn(event, event.thread_id, len(by_thread.get(event.thread_id, ())), first=event)
        _take(turn, event)
        if turn.prompt is event or (turn.prompt is None and turn.interruption is event):
            found.append(turn)
            by_thread.setdefault(turn.thread_id, []).append(turn)
    for turn in found:
        if turn.interruption is not None:
            turn.ended = INTERRUPTED
        elif turn.answer is not None:
            turn.ended = ANSWERED
    _place_calls(view.tool_calls, by_thread)
    return found


def turn_rows(view: SessionView) -> list[Any]:
    """Return the rows of ``turns`` of a session, thread by thread in order; see :func:`turns`."""
    return view.fact(TURNS.name, _rows)


def _rows(view: SessionView) -> list[Any]:
    stretches = view.once(_stretches)
    return [
        TURNS.row(
            host=view.host,
            session_id=view.session_id,
            thread_id=turn.thread_id,
            number=turn.number,
            prompt_event=_id(turn.prompt),
            first_event=turn.first.event_id,
            last_event=turn.last.event_id,
            began=turn.first.ts,
            finished=None if whole is None else whole[1],
            ended=turn.ended,
            answer_event=_id(turn.answer),
            interruption_event=_id(turn.interruption),
            compactions=[e.event_id for e in turn.compactions],
            tool_calls=turn.tool_calls,
            model_calls=len(turn.call_keys),
            worked=None if whole is None else whole[1] - whole[0] - sum(end - begin for begin, end in idle),
            pauses=pauses.written(idle),
        )
        for turn, (whole, idle) in zip(view.once(turns), stretches, strict=True)
    ]


def _stretches(view: SessionView) -> list[tuple[pauses.Stretch | None, list[pauses.Stretch]]]:
    """Return from when to when each turn went on, and the pauses in it; a turn ends with the last thing that the agent did.

    Where all of that carries the time of a copy, nobody knows.
    """
    main = view.session_id
    copied = copied_times(view)
    others = sorted(e.ts for e in view.events if e.thread_id != main and e.ts is not None and e.ts not in copied and _works(e))
    long = [c for c in view.tool_calls if c.started is not None and c.ended is not None and pauses.may_cover(c.started, c.ended)]
    texts = {call.call_event: view.call_text(call) for call in long}
    found: list[tuple[pauses.Stretch | None, list[pauses.Stretch]]] = []
    for turn in view.once(turns):
        begin = turn.first.ts
        worked = [at for at in turn.worked if at not in copied]
        if begin is None or len(worked) < bool(turn.worked):
            found.append((None, []))
            continue
        end = max([begin, *worked])
        inside = others[bisect_right(others, begin) : bisect_left(others, end)] if turn.thread_id == main else []
        moments = [begin, end, *(at for at in worked if at > begin), *inside]
        found.append(((begin, end), pauses.pauses(moments, long, texts)))
    return found


def _id(event: Any) -> str | None:
    return None if event is None else str(event.event_id)


def interruptions(view: SessionView) -> list[str]:
    """Return the ids of the events by which the person stopped the agent, one for each turn that was stopped."""
    return [turn.interruption_event for turn in turn_rows(view) if turn.interruption_event is not None]


def _take(turn: Turn, event: Any) -> None:
    turn.first = turn.first or event
    turn.last = event
    if event.ts is not None and _works(event):
        turn.worked.append(event.ts)
    if event.call_key:
        turn.call_keys.add(event.call_key)
    if event.kind == "answer" and event.text:
        turn.answer, turn.ended = event, OPEN
    elif event.kind == "tool_call":
        turn.tool_calls += 1
        turn.ended = OPEN
        _went_on(turn)
    elif _stops(event):
        turn.interruption, turn.answer = turn.interruption or event, None
    elif event.kind == "compaction":
        turn.compactions.append(event)
    elif event.kind == "error" and event.actor == "system":
        turn.ended = FAILED
        _went_on(turn)


def _stops(event: Any) -> bool:
    """Tell whether the person stopped the agent with it."""
    return event.kind == "injected" and event.actor == "user" and event.subtype in discovery.declared_texts("records.interruptions")


_DONE = frozenset({"answer", "reasoning", "tool_call", "tool_result"})


def _works(event: Any) -> bool:
    """Tell whether the agent worked up to an event; for a command of the host, a note of a resume or a hook's it did not."""
    return event.kind in _DONE or (event.kind == "error" and event.actor == "system") or _stops(event)


def _went_on(turn: Turn) -> None:
    """Forget an answer behind which the turn went on, unless the host says that it is the last."""
    if turn.answer is not None and not (turn.answer.subtype or "").endswith(_FINAL):
        turn.answer = None


def _place_calls(calls: list[Any], by_thread: dict[str, list[Turn]]) -> None:
    at: dict[str, int] = {}
    for call in calls:
        members = by_thread.get(call.thread_id, [])
        place = at.get(call.thread_id, 0)
        while place + 1 < len(members) and members[place + 1].first.seq < call.seq:
            place += 1
        at[call.thread_id] = place
        if members and call.seq > members[place].first.seq:
            members[place].calls.append(call)

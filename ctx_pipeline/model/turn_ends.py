"""How each turn of a session ended: with which answer, or by an interruption, and where its window was compacted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

ANSWERED, INTERRUPTED, FAILED, OPEN = "answered", "interrupted", "failed", "open"
_FINAL = "/final_answer"
"""End of the subtype of an answer of which the host says that it is the last of its turn."""


@dataclass(slots=True)
class TurnEnd:
    """One prompt of a thread and how what followed it ended."""

    prompt: Any
    ended: str = OPEN
    """answered, interrupted (by the person), failed (an error stands last) or open (something else stands last)"""
    answer: Any = None
    """event of the final answer; None for a turn without one"""
    interruption: Any = None
    compactions: list[Any] = field(default_factory=list)
    tool_calls: int = 0


def turn_ends(events: Iterable[Any]) -> list[TurnEnd]:
    """Return the turns of a session's events, thread by thread; what stands before a thread's first prompt belongs to none."""
    found: list[TurnEnd] = []
    turn: TurnEnd | None = None
    thread = None
    for event in events:
        if event.thread_id != thread:
            thread, turn = event.thread_id, None
        if event.kind == "prompt":
            turn = TurnEnd(event)
            found.append(turn)
        elif turn is not None:
            _take(turn, event)
    for turn in found:
        if turn.interruption is not None:
            turn.ended = INTERRUPTED
        elif turn.answer is not None:
            turn.ended = ANSWERED
    return found


def _take(turn: TurnEnd, event: Any) -> None:
    if event.kind == "answer" and event.text:
        turn.answer, turn.ended = event, OPEN
    elif event.kind == "tool_call":
        turn.tool_calls += 1
        turn.ended = OPEN
        _went_on(turn)
    elif event.kind == "injected" and event.subtype == "interrupt":
        turn.interruption, turn.answer = event, None
    elif event.kind == "compaction":
        turn.compactions.append(event)
    elif event.kind == "error" and event.actor == "system":
        turn.ended = FAILED
        _went_on(turn)


def _went_on(turn: TurnEnd) -> None:
    """Forget an answer behind which the turn went on, unless the host says that it is the last."""
    if turn.answer is not None and not (turn.answer.subtype or "").endswith(_FINAL):
        turn.answer = None

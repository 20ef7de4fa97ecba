"""What the session took: time, waiting, turns until the first change."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.copied_times import copied_times
from ctx_pipeline.facts.pauses import PAUSE_MINUTES, pauses, read, seconds, without
from ctx_pipeline.facts.turns import turn_rows
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.tables import TURNS

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_BOTH = ("events", "tool_calls")
_TIMED = (*_BOTH, "turns")
_SAID = ("prompt", "answer")
_COLUMNS = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind"),
    "tool_calls": ("thread_id", "seq", "action", "is_error", "started", "ended", "call_event", "result_event"),
}
_SECOND = 1_000_000
_NO_TIMES = "fewer than two events have a time"
_COPIED = "what the agent did carries the time at which the session was copied"


def _timeline(view: SessionView) -> list[tuple[int, bool, str]]:
    """Return (time, typed by the person, event) of what has a time, in order of time; that of a copy is none."""
    found = [(e.ts, e.kind == "prompt", e.event_id) for e in view.of_kinds(*_SAID)]
    for call in view.tool_calls:
        found.append((call.started, False, call.call_event))
        found.append((call.ended, False, call.result_event or call.call_event))
    copied = copied_times(view)
    return sorted(one for one in found if one[0] is not None and one[0] not in copied)


def _active(view: SessionView) -> float:
    """Return the seconds in which the agent worked: in turns, and in threads without any, each without its pauses."""
    rows = turn_rows(view)
    spent = [one for turn in rows if turn.finished is not None for one in without((turn.began, turn.finished), read(turn.pauses))]
    known = {turn.thread_id for turn in rows}
    moments: dict[str, list[int]] = {}
    for event in view.of_kinds("answer"):
        moments.setdefault(event.thread_id, []).append(event.ts)
    for call in view.tool_calls:
        moments.setdefault(call.thread_id, []).extend((call.started, call.ended))
    for thread, times in moments.items():
        there = [at for at in times if at is not None]
        if there and thread not in known:
            spent += without((min(there), max(there)), pauses(there, view.tool_calls, {}))
    return seconds(spent)


def _lost(view: SessionView) -> bool:
    """Tell whether a turn began at a time of its own, and what was done for it carries that of a copy."""
    copied = copied_times(view)
    return any(t.finished is None and t.began is not None and t.began not in copied for t in turn_rows(view))


def _waits(view: SessionView) -> list[str]:
    """Return the events after the five longest gaps before a prompt or above half an hour."""
    waits: list[tuple[int, str]] = []
    for (before, _, _), (after, typed, event) in pairwise(view.once(_timeline)):
        gap = after - before
        if gap and (typed or gap > PAUSE_MINUTES * 60 * _SECOND):
            waits.append((gap, event))
    waits.sort(key=lambda wait: -wait[0])
    return [event for _, event in waits[:5]]


@signal(version=2, group="cost", unit="seconds", reads=_BOTH, columns=_COLUMNS, kinds=TURNS.kinds)
def session_duration_seconds(view: SessionView) -> Reading:
    """Seconds from the first to the last thing that was said or done.

    The clock on the wall, with every night in between when a session was resumed; for
    work see ``active_seconds``. Unknown with fewer than two times; a clock that ran
    backwards does not make it negative.
    """
    moments = view.once(_timeline)
    if len(moments) < 2:
        return Reading(None, reason=_NO_TIMES)
    return Reading((moments[-1][0] - moments[0][0]) / _SECOND, (moments[0][2], moments[-1][2]))


@signal(version=3, group="cost", unit="seconds", reads=_TIMED, columns=_COLUMNS, kinds=TURNS.kinds)
def active_seconds(view: SessionView) -> Reading:
    """Seconds in which the agent worked: its turns without their pauses, as in ``ctx work --by-day``, subagents included.

    A turn ends with the last thing that the agent did in it. A pause is a stretch above
    30 minutes without a record in which no tool ran. It is what the person waited for:
    minutes for few calls (``tool_call_count``) are slow commands or a slow model. Unknown
    where the records of a turn carry the time at which the session was copied.
    """
    if len(view.once(_timeline)) < 2:
        return Reading(None, reason=_NO_TIMES)
    return Reading(None, reason=_COPIED) if view.once(_lost) else Reading(view.once(_active))


@signal(version=3, group="cost", unit="seconds", reads=_TIMED, columns=_COLUMNS, kinds=TURNS.kinds)
def idle_seconds(view: SessionView) -> Reading:
    """Seconds in which the agent waited for the person: the session's span without ``active_seconds``.

    The time before each prompt after the last thing that the agent did, and pauses above
    30 minutes (a question for a permission that nobody saw). Idle above five minutes
    before a prompt means that the provider's cache was cold again.
    """
    moments = view.once(_timeline)
    if len(moments) < 2:
        return Reading(None, reason=_NO_TIMES)
    if view.once(_lost):
        return Reading(None, reason=_COPIED)
    span = (moments[-1][0] - moments[0][0]) / _SECOND
    return Reading(max(0.0, span - view.once(_active)), tuple(view.once(_waits)))


@signal(version=2, group="cost", unit="seconds", better="lower", reads=_BOTH, columns=_COLUMNS, kinds=TURNS.kinds)
def time_to_first_edit_seconds(view: SessionView) -> Reading:
    """Seconds from the person's first prompt to the first change of a file that succeeded.

    Time to understand. Long ones with many reads ask for a map of the project in its
    instructions. Unknown where the person typed nothing, no file was changed, the clock
    ran backwards between the two, or the change carries the time of a copy.
    """
    first = next((e for e in view.prompts if e.ts is not None), None)
    if first is None:
        return Reading(None, reason="the person typed nothing that has a time")
    edits = [c for c in view.tool_calls if c.action in ("edit", "write") and not c.is_error and (c.ended or c.started) is not None]
    if not edits:
        return Reading(None, reason="no file was changed")
    after = [c for c in edits if (c.ended or c.started) >= first.ts]
    if not after:
        return Reading(None, reason="every change has an earlier time than the first prompt")
    edit = min(after, key=lambda c: (c.ended or c.started, c.seq))
    if (edit.ended or edit.started) in copied_times(view):
        return Reading(None, reason=_COPIED)
    return Reading(((edit.ended or edit.started) - first.ts) / _SECOND, (first.event_id, edit.call_event))


@signal(group="cost", unit="turns", better="lower", reads=_BOTH, columns=_COLUMNS, kinds=("prompt",))
def prompts_to_first_edit(view: SessionView) -> Reading:
    """Prompts that the person typed until the first change of a file, the task itself counted.

    One is a task that was clear. Above three the talk before the work was the work:
    keep its outcome in a plan or in the instructions. Unknown without a prompt or a
    change.
    """
    if not view.prompts:
        return Reading(None, reason="the person typed nothing in this session")
    edits = [c for c in view.tool_calls if c.action in ("edit", "write") and not c.is_error]
    if not edits:
        return Reading(None, reason="no file was changed")
    places = _places(view, edits[0])
    return Reading(float(len(places)), (*places[:7], edits[0].call_event))


def _places(view: SessionView, edit: Any) -> list[str]:
    """Return the prompts before a call: by place in one thread, by time over threads."""
    main = view.prompts[0].thread_id
    if edit.thread_id == main:
        before = [e.event_id for e in view.prompts if e.thread_id == main and e.seq < edit.seq]
    else:
        before = [e.event_id for e in view.prompts if e.ts is None or edit.started is None or e.ts <= edit.started]
    return before or [view.prompts[0].event_id]


@signal(group="cost", unit="seconds", reads=("tool_calls",), columns=_COLUMNS)
def shell_seconds(view: SessionView) -> Reading:
    """Seconds that shell commands took, with the slowest call as evidence.

    From the call's record to its result's, the person's answer to a question for a
    permission included. A test suite that takes most of it is worth a faster subset.
    """
    timed = [(c.ended - c.started, c) for c in view.tool_calls if c.action == "shell" and c.started is not None and c.ended is not None]
    timed = [(took, c) for took, c in timed if took >= 0]
    if not timed:
        return Reading(None, reason="no shell command has both times")
    slowest = sorted(timed, key=lambda pair: (-pair[0], pair[1].call_event))[:3]
    return Reading(
        sum(took for took, _ in timed) / _SECOND,
        tuple(c.call_event for _, c in slowest),
        metadata={"slowest": round(slowest[0][0] / _SECOND, 3)},
    )

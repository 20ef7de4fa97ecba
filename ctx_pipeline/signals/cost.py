"""What the session took: time, waiting, turns until the first change."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.declared import Reading, signal

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_BOTH = ("events", "tool_calls")
_SAID = ("prompt", "answer")
_COLUMNS = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind"),
    "tool_calls": ("thread_id", "seq", "action", "is_error", "started", "ended", "call_event", "result_event"),
}
_SECOND = 1_000_000
_AWAY = 30 * 60 * _SECOND
_NO_TIMES = "fewer than two events have a time"


def _timeline(view: SessionView) -> list[tuple[int, bool, str]]:
    """Return (time, typed by the person, event) of what has a time, in order of time."""
    found = [(e.ts, e.kind == "prompt", e.event_id) for e in view.of_kinds(*_SAID) if e.ts is not None]
    for call in view.tool_calls:
        if call.started is not None:
            found.append((call.started, False, call.call_event))
        if call.ended is not None:
            found.append((call.ended, False, call.result_event or call.call_event))
    return sorted(found)


def _gaps(view: SessionView) -> tuple[int, int, list[str]]:
    """Return (span, idle, events after the five longest idle gaps) in microseconds."""
    moments = view.once(_timeline)
    idle = 0
    waits: list[tuple[int, str]] = []
    for (before, _, _), (after, typed, event) in pairwise(moments):
        gap = after - before
        if gap and (typed or gap > _AWAY):
            idle += gap
            waits.append((gap, event))
    waits.sort(key=lambda wait: -wait[0])
    return (moments[-1][0] - moments[0][0] if moments else 0), idle, [event for _, event in waits[:5]]


@signal(group="cost", unit="seconds", reads=_BOTH, columns=_COLUMNS, kinds=_SAID)
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


@signal(group="cost", unit="seconds", reads=_BOTH, columns=_COLUMNS, kinds=_SAID)
def active_seconds(view: SessionView) -> Reading:
    """Seconds in which the agent worked: the session's span without ``idle_seconds``.

    It is what the person waited for. Compare it with ``tool_call_count``: minutes for
    few calls are slow commands or a slow model.
    """
    if len(view.once(_timeline)) < 2:
        return Reading(None, reason=_NO_TIMES)
    span, idle, _ = view.once(_gaps)
    return Reading((span - idle) / _SECOND)


@signal(group="cost", unit="seconds", reads=_BOTH, columns=_COLUMNS, kinds=_SAID)
def idle_seconds(view: SessionView) -> Reading:
    """Seconds in which the agent waited for the person.

    The time before each prompt after the last thing that the agent did, and every other
    gap above 30 minutes (a question for a permission that nobody saw). Idle above five
    minutes before a prompt means that the provider's cache was cold again.
    """
    if len(view.once(_timeline)) < 2:
        return Reading(None, reason=_NO_TIMES)
    _, idle, events = view.once(_gaps)
    return Reading(idle / _SECOND, tuple(events))


@signal(group="cost", unit="seconds", better="lower", reads=_BOTH, columns=_COLUMNS, kinds=_SAID)
def time_to_first_edit_seconds(view: SessionView) -> Reading:
    """Seconds from the person's first prompt to the first change of a file that succeeded.

    Time to understand. Long ones with many reads ask for a map of the project in its
    instructions. Unknown where the person typed nothing, no file was changed, or the
    clock ran backwards between the two.
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

"""How people name a moment of a session: by an event, a call, a time, a turn or a compaction."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.recorded import Moment, micros
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMS = (
    "an event's number or id, a tool call's id, a time (2026-10-03T14:00), start, end, turn:N, before-compaction:N, after-compaction:N "
    "(clearing and rollback likewise), before-rewind:N, or seen-by:EVENT for what the model was sent when it wrote that event"
)
_NUMBERED = re.compile(r"(turn|(?:before|after)-(?:compaction|clearing|rollback)|before-rewind)(?::(\d{1,6}))?")


class Asked(NamedTuple):
    """A moment before the window was played: after or before an event, or the n-th of a kind of snapshot."""

    word: str
    thread: str | None = None
    """the thread of the event that was named"""
    after: int | None = None
    before: int | None = None
    kind: str | None = None
    number: int | None = None
    """which of its kind, from 1; None is the last"""
    time: int | None = None

    def inside(self, events: Sequence[Any]) -> Asked:
        """Return the moment in a thread: a number or a time becomes the event of that thread it means.

        Raises UsageError when the thread has no such event.
        """
        last = events[-1].seq
        if self.time is not None:
            past = [e.seq for e in events if (at := micros(e.ts)) is not None and at <= self.time]
            return self._replace(after=past[-1]) if past else self._replace(before=events[0].seq)
        if self.word == "start":
            return self._replace(before=events[0].seq)
        seq = self.after if self.after is not None else self.before
        if seq is not None and all(e.seq != seq for e in events):
            raise UsageError(f"the thread has no event {seq}", hint=f"its events are {events[0].seq} to {last}; or {FORMS}")
        return self


def asked(word: str | int, events: Sequence[Any], thread: str | None = None) -> Asked:
    """Return what a word means; see :data:`FORMS`. A number is an event of ``thread``, else of the main one.

    Raises UsageError for what is no moment and for an event that is not there.
    """
    text = str(word).strip()
    if not text:
        raise UsageError("a moment has no name", hint=f"name {FORMS}")
    if text.isdecimal() and len(text) < 10:
        return Asked(text, after=int(text))
    if text in {"start", "end", "now"}:
        return Asked("start") if text == "start" else Asked("end", kind="end")
    numbered = _NUMBERED.fullmatch(text)
    if numbered:
        return Asked(text, kind=numbered[1], number=int(numbered[2]) if numbered[2] else None)
    if text.startswith("seen-by:"):
        return _seen_by(text, _event(text.removeprefix("seen-by:"), events, thread), events)
    time = _time(text)
    if time is not None:
        return Asked(text, time=time)
    event = _event(text, events, thread)
    return Asked(text, event.thread_id, after=event.seq)


def found(one: Asked, moments: Sequence[Moment]) -> Moment:
    """Return the snapshot of a moment. Raises UsageError when there are fewer."""
    if one.after is not None or one.before is not None:
        exact = str(one.after) if one.after is not None else f"seen-by:{one.before}"
        return next((m for m in moments if m.trigger == exact), None) or next(m for m in moments if m.trigger == "start")
    fitting = [m for m in moments if m.trigger.partition(":")[0] == one.kind]
    if one.kind == "turn":
        fitting += [m for m in moments if m.trigger == "end"]
    number = len(fitting) if one.number is None else one.number
    if not 0 < number <= len(fitting):
        kind = one.word.partition(":")[0]
        noun = kind.removeprefix("before-").removeprefix("after-")
        have = f"it has {len(fitting)} {noun}{'s' if len(fitting) > 1 else ''}" if fitting else f"it has no {noun}"
        raise UsageError(f"there is no {one.word} in this thread", hint=f"{have}; or name {FORMS}")
    return fitting[number - 1]


def _seen_by(word: str, event: Any, events: Sequence[Any]) -> Asked:
    """Return the moment before the model call that wrote an event began to answer."""
    if event.call_key is None:
        raise UsageError(
            f"no model wrote event {event.seq}", hint=f"it is {event.kind}; name an answer, reasoning or tool call, or --at {event.seq}"
        )
    first = next(e for e in events if e.thread_id == event.thread_id and e.call_key == event.call_key)
    return Asked(word, first.thread_id, before=first.seq)


def _event(name: str, events: Sequence[Any], thread: str | None) -> Any:
    if name.isdecimal() and len(name) < 10:
        inside = thread or events[0].thread_id
        exact = [e for e in events if e.seq == int(name) and e.thread_id == inside]
    else:
        exact = [e for e in events if e.event_id == name] or [e for e in events if name and e.call_id == name]
        exact = exact or [e for e in events if len(name) > 7 and e.event_id.startswith(name)][:1]
    if not exact:
        raise UsageError(f"there is no event or moment {name!r} in this session", hint=f"name {FORMS}")
    return exact[0]


def _time(text: str) -> int | None:
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time", hint="write it as 2026-10-03T14:00, in UTC unless it says otherwise") from None
    return micros(at.astimezone(UTC) if at.tzinfo else at)

"""What was in the context window of a captured session, and when."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.recorded import Moment, Recording, Sent, replay_window
from ctx_pipeline.errors import AmbiguousName, NothingFound, UnknownName, UsageError
from ctx_pipeline.facts.turns import begins_turn
from ctx_pipeline.facts.windows import NOT_KNOWN, WindowSize, peak
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.sessions.session_details import resolve, view_of
from ctx_pipeline.sessions.windows.window_effects import effects_of
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.tree.context import Context, ContextHistory
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.tokens.tokenizers import Tokenizer


# How people name a moment of a session: by an event, a call, a time, a turn or a compaction.


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
            raise NothingFound(f"the thread has no event {seq}", hint=f"its events are {events[0].seq} to {last}; or {FORMS}")
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
        raise NothingFound(f"there is no {one.word} in this thread", hint=f"{have}; or name {FORMS}")
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
        raise NothingFound(f"there is no event or moment {name!r} in this session", hint=f"name {FORMS}")
    return exact[0]


def _time(text: str) -> int | None:
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint="write it as 2026-10-03T14:00, in UTC unless it says otherwise") from None
    return micros(at.astimezone(UTC) if at.tzinfo else at)


_ENCODING = "o200k_base"
"""What counts the text of models without any calibration."""


@dataclass(frozen=True, slots=True)
class ThreadLine:
    """A context window of a session: the main one, a subagent's, a fork's."""

    thread_id: str
    kind: str
    agent: str | None
    events: int
    model_calls: int


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """The window of one thread over the whole session, and the moments that were asked for."""

    host: str
    session_id: str
    title: str | None
    thread: ThreadLine
    threads: list[ThreadLine]
    model: str | None
    """the one that most calls of the thread went to"""
    approximate: bool
    """the counts are estimates: the model's tokenizer is not public"""
    history: ContextHistory
    moments: list[Moment]
    calls: list[Sent]
    asked: list[Moment]
    """the moments that were named, in the order of their names"""
    largest: int = 0
    """tokens of the largest prompt that a call of the thread was billed for"""
    size: WindowSize = NOT_KNOWN
    """tokens that the window holds, and who says so"""

    def context(self, moment: Moment) -> Context:
        """Return the window at a moment, read-only."""
        return self.history.at_snapshot(moment.episode)


def open_window(
    host: str,
    session_id: str,
    *,
    thread: str | None = None,
    moments: Sequence[str | int] = ("end",),
    settings: Settings | None = None,
) -> SessionWindow:
    """Return the window of a session's thread, rebuilt from its events, with the named moments.

    A moment is an event's ``seq`` or id, a tool call's id, a time, ``start``, ``end``,
    ``turn:N``, ``before-compaction:N``, ``after-compaction:N`` or ``seen-by:EVENT`` (what
    the model was sent when it wrote that event). Without ``thread`` it is the thread of the first
    event that is named, else the main one. Raises UnknownName and UsageError.
    """
    with reading(settings) as (store, _):
        key, full = resolve(store, host, session_id)
        view = view_of(store, key, full, ("events", "tool_calls", "model_calls", "threads"))
        named = None if thread is None else thread_named(view, thread)
        wanted = [asked(word, view.events, named) for word in moments]
        chosen = named or next((one.thread for one in wanted if one.thread), view.events[0].thread_id)
        events = [e for e in view.events if e.thread_id == chosen]
        effects = effects_of(store, key, events)
    calls = [c for c in view.model_calls if c.thread_id == chosen]
    model, tokenizer = counting([c.model for c in calls])
    fullest = peak(view, chosen)
    wanted = [one.inside(events) for one in wanted]
    recording = replay_window(
        events,
        effect=lambda event: effects[event.event_id],
        billed={c.call_key: c.context_tokens for c in calls},
        begins=begins_turn,
        tools={name: t.tool for t in view.tool_calls for name in (t.call_event, t.result_event) if name},
        tokenizer=tokenizer,
        marks={one.after for one in wanted if one.after is not None},
        before={one.before for one in wanted if one.before is not None},
    )
    lines = [ThreadLine(t.thread_id, t.kind, t.agent, t.events, t.model_calls) for t in view.threads]
    return SessionWindow(
        key,
        full,
        view.session.title,
        next((line for line in lines if line.thread_id == chosen), ThreadLine(chosen, "main", None, len(events), len(calls))),
        lines,
        model,
        tokenizer.approximate,
        *_result(recording, wanted),
        fullest.call.context_tokens if fullest else max((c.context_tokens for c in calls), default=0),
        fullest.window if fullest else NOT_KNOWN,
    )


def window_history(
    host: str,
    session_id: str,
    *,
    thread: str | None = None,
    at: str | int | None = None,
    settings: Settings | None = None,
) -> ContextHistory:
    """Return the history of the window of a session's main thread, or of another thread (a subagent's).

    It has a snapshot at every turn and before and after every compaction. With ``at`` (an
    event, or any moment of :func:`open_window`) the snapshots end there: the last one is
    the window at that moment. Raises UnknownName for a session, thread or event that is not there.
    """
    window = open_window(host, session_id, thread=thread, moments=() if at is None else (at,), settings=settings)
    for moment in window.asked:
        for episode in [e for e in window.history.snapshots if e > moment.episode]:
            del window.history.snapshots[episode]
    return window.history


def _result(recording: Recording, wanted: list[Asked]) -> tuple[ContextHistory, list[Moment], list[Sent], list[Moment]]:
    return recording.history, recording.moments, recording.calls, [found(one, recording.moments) for one in wanted]


def thread_named(view: Any, thread: str) -> str:
    """Return the id of a thread by its id, the first characters of it or of its last part, or its agent's name.

    Raises UnknownName, and AmbiguousName where several threads have that name.
    """
    threads = list(dict.fromkeys(e.thread_id for e in view.events))
    if thread in threads:
        return thread
    fitting = [t for t in threads if t.rpartition("/")[2].startswith(thread) or t.startswith(thread)] if thread else []
    fitting = [t for t in fitting if t.rpartition("/")[2] == thread] or fitting
    named = [t.thread_id for t in view.threads if t.agent == thread and t.thread_id in threads]
    close = fitting or named
    if len(close) > 1:
        raise AmbiguousName("thread", thread, (t.rpartition("/")[2] for t in close))
    if not close:
        raise UnknownName("thread", thread, threads)
    return str(close[0])


def counting(models: list[str]) -> tuple[str | None, Tokenizer]:
    """Return the model that most calls went to, and what counts its tokens."""
    from ctx_pipeline.tokens.model_tokens import FACTORS
    from ctx_pipeline.tokens.tokenizers import encoding_of, tokenizer_from_name

    named = Counter(m for m in models if m)
    model = named.most_common(1)[0][0] if named else None
    known = model is not None and (encoding_of(model) or any(family in model.lower() for family in FACTORS))
    return model, tokenizer_from_name(model if known and model else _ENCODING)

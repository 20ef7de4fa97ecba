"""What was in the context window of a captured session, and when."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.recorded import Moment, Recording, Sent, replay_window
from ctx_pipeline.errors import AmbiguousName, UnknownName
from ctx_pipeline.sessions.details import resolve, view_of
from ctx_pipeline.sessions.windows.effects import effects_of
from ctx_pipeline.sessions.windows.snapshot_refs import Asked, asked, found
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.tree.context import Context, ContextHistory
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.tokens.tokenizers import Tokenizer

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
    wanted = [one.inside(events) for one in wanted]
    recording = replay_window(
        events,
        effect=lambda event: effects[event.event_id],
        billed={c.call_key: c.context_tokens for c in calls},
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
    from ctx_pipeline.tokens.calibration import FACTORS
    from ctx_pipeline.tokens.encodings import encoding_of
    from ctx_pipeline.tokens.tokenizers import tokenizer_from_name

    named = Counter(m for m in models if m)
    model = named.most_common(1)[0][0] if named else None
    known = model is not None and (encoding_of(model) or any(family in model.lower() for family in FACTORS))
    return model, tokenizer_from_name(model if known and model else _ENCODING)

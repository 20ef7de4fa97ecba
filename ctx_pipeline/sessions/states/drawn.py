"""What the rows of a session show of it at a moment, worked out once for all that ask of its end."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.context.session_state.state import BUNDLE, SessionState, from_json
from ctx_pipeline.facts.file_accesses import READ, SEARCH, file_accesses
from ctx_pipeline.model.codec import row_micros
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.sessions.session_memo import SessionMemo, rows_of
from ctx_pipeline.sessions.states.state_fold import fold, upto
from ctx_pipeline.sessions.windows.window_history import asked as asked_moment
from ctx_pipeline.sessions.windows.window_history import open_window
from ctx_pipeline.storage.session_notes import made_of

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.sessions.session_choice import Choice
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


_TABLES = ("events", "tool_calls", "model_calls", "threads", "command_runs", "check_runs", "file_accesses")
"""What a state is drawn from: facts as they stand in their tables, where these are made of the session's present rows."""

_COLD = 4
"""Characters a token, for what was read before: an order of magnitude, and said to be one."""


class Drawn(NamedTuple):
    """What the rows of a session show of it, without what people said; nobody may change it."""

    state: SessionState
    until: int | None = None
    """the time of the moment that was asked for"""
    cold_tokens: int = 0
    """about how many tokens its reads brought in: what a start without its state reads again"""


_MOST_DRAWN = 200
_known: SessionMemo[Drawn] = SessionMemo(_MOST_DRAWN)
"""Sessions as they stood at their end: one is asked for its state, then for a block, a snapshot or what it differs by."""


def drawn_states(store: Store, settings: Settings, choice: Choice, *moments: str | None) -> list[Drawn]:
    """Return what the rows of a session show at its end (None) and at moments of it; they are read once."""
    if not choice.captured:
        return [Drawn(_brought(store, choice))] * len(moments)
    key = (choice.host, choice.session_id)
    rows = rows_of(store, *key)
    end = _known.get(store, key, rows)
    if end is not None and not any(moments):
        return [end] * len(moments)
    view = view_of(store, *key, _TABLES)
    if end is None and None in moments:
        cold = sum(int(a.chars) for a in file_accesses(view) if a.did in (READ, SEARCH)) // _COLD
        end = Drawn(fold(view), None, cold)
        _known.put(store, key, rows, end)
    found = []
    for at in moments:
        if at is None and end is not None:
            found.append(end)
            continue
        thread, seq, until = _placed(view, at or "end", settings)
        found.append(Drawn(fold(upto(view, thread, seq, until)), until))
    return found


def _placed(view: SessionView, at: str, settings: Settings) -> tuple[str, int, int | None]:
    """Return thread, ``seq`` and time of a moment; the window is rebuilt only for one that stands in no event, such as ``turn:3``."""
    one = asked_moment(at, view.events)
    thread = one.thread or view.events[0].thread_id
    events = [e for e in view.events if e.thread_id == thread]
    one = one.inside(events)
    if one.before is not None and one.before == events[0].seq:  # its start: nothing had happened yet, in whatever thread
        began = row_micros(events[0].ts)
        return thread, one.before - 1, None if began is None else began - 1
    if one.after is None:
        window = open_window(view.host, view.session_id, moments=(at,), settings=settings)
        return window.thread.thread_id, window.asked[0].seq, window.asked[0].at
    times = [time for e in events if e.seq <= one.after and (time := row_micros(e.ts)) is not None]
    return thread, one.after, times[-1] if times else None


def _brought(store: Store, choice: Choice) -> SessionState:
    """Return the state that the newest imported bundle gives a session that was never captured here; a blank one without."""
    for made in reversed(made_of(store, choice.host, choice.session_id, kind=BUNDLE)):
        with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return from_json(json.loads(made.content))
    return SessionState(choice.host, choice.session_id)

"""What was in the context window of a captured session, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.api.reader import reading
from ctx_pipeline.api.sessions import resolve
from ctx_pipeline.context.recorded import played
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.model.raw import Cell

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.history import ContextHistory
    from ctx_pipeline.settings import Settings


def window_history(
    host: str, session_id: str, *, thread: str | None = None, at: int | None = None, settings: Settings | None = None
) -> ContextHistory:
    """Return the history of the window of a session's main thread, or of another thread (a subagent's).

    It has a snapshot at every turn and before and after every compaction; the last one,
    ``now``, is the window at the event ``at`` (its ``seq``), or at the end. Raises
    UnknownName for a session or thread that is not there.
    """
    with reading(settings) as (store, _):
        key, full = resolve(store, host, session_id)
        month = next(s.month for s in store.ledger.sessions(host=key) if s.session_id == full)
        views = list(store.lake.read_sessions(Cell(key, month), {full}))
    events: list[Any] = views[0].events if views else []
    threads = list(dict.fromkeys(event.thread_id for event in events))
    if thread is not None and thread not in threads:
        raise UnknownName("thread", thread, threads)
    chosen = thread or (threads[0] if threads else "")
    return played((event for event in events if event.thread_id == chosen), upto=at)

"""The tool calls that the sessions recorded which a session was copied from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline.storage.session_figures import present

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.storage import Store

_COLUMNS = {"tool_calls": ("call_id",)}


def with_origin_calls(
    store: Store, views: Iterable[SessionView], known: dict[tuple[str, str], frozenset[str]] | None = None
) -> Iterator[SessionView]:
    """Yield sessions with the ids of the tool calls of each session for which model calls of theirs count.

    Reads ``owner`` and ``copy_of`` of ``model_calls``. A session that is not there recorded none.
    What was read goes into ``known``, where it is not read again.
    """
    known = {} if known is None else known
    for view in views:
        origins = {str(call.copy_of) for call in view.model_calls if not call.owner and call.copy_of}
        wanted = {(view.host, one) for one in origins} - known.keys()
        if wanted:
            known |= dict.fromkeys(wanted, frozenset[str]()) | _calls(store, wanted)
        view.origin_calls = {one: known[view.host, one] for one in origins}
        yield view


def _calls(store: Store, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], frozenset[str]]:
    there = present(store)
    by_cell: dict[Any, set[str]] = defaultdict(set)
    for key in wanted:
        if key in there:
            by_cell[there[key].cell].add(key[1])
    return {
        (view.host, view.session_id): frozenset(call.call_id for call in view.tool_calls)
        for cell, sessions in by_cell.items()
        for view in store.lake.read_sessions(cell, sessions, tuple(_COLUMNS), columns=_COLUMNS)
    }

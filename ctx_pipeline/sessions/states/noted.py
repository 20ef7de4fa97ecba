"""What people and agents noted of a session, as parts of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.context.session_state.state import Item
from ctx_pipeline.model.codec import micros
from ctx_pipeline.storage.session_notes import notes_of

if TYPE_CHECKING:
    from ctx_pipeline.storage import Store


def noted_items(store: Store, host: str, session: str, until: int | None = None) -> list[tuple[str, Item]]:
    """Return what people and agents noted of a session, oldest first; ``until`` is in microseconds since 1970."""
    return [
        (note.what, Item(note.text, note.by, note.at, None, note.path, note.line, note.reason, note.replaces))
        for note in notes_of(store, host, session)
        if note.what in ("task", "finding", "decision") and (until is None or (micros(note.at) or 0) <= until)
    ]

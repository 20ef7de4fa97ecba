"""What each event of a captured thread does to its context window, as its host says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.model.window import Change, usual
from ctx_pipeline.sessions.windows.raw_reader import Captured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.storage import Store


def effects_of(store: Store, host: str, events: Iterable[Any]) -> dict[str, str | Change]:
    """Return event id -> what it does to the window; texts that a record lists are redacted as the events are."""
    window = discovery.host(host).records.window
    captured = Captured(store)
    redactor: Redactor | None = None
    made: dict[str, str | Change] = {}
    for event in events:
        record = partial(captured.line, event)
        does = usual(event.kind, event.text) if window is None else window(event.kind, event.subtype, event.text, record)
        if isinstance(does, Change) and does.kept:
            if redactor is None:
                from ctx_pipeline.redaction import Redactor

                redactor = Redactor()
            does = does._replace(kept=tuple(map(redactor.redact, does.kept)))
        made[event.event_id] = does
    return made

"""What each event of a captured thread does to its context window, as its host says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.window import Change, usual

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.storage import Store


def effects_of(store: Store, host: str, events: Iterable[Any]) -> dict[str, str | Change]:
    """Return event id -> what it does to the window; texts that a record lists are redacted as the events are."""
    window = discovery.host(host).window
    streams: dict[tuple[str, int], bytes] = {}
    redactor: Redactor | None = None
    made: dict[str, str | Change] = {}
    for event in events:
        record = partial(_record, store, event, streams)
        does = usual(event.kind, event.text) if window is None else window(event.kind, event.subtype, event.text, record)
        if isinstance(does, Change) and does.kept:
            if redactor is None:
                from ctx_pipeline.redaction import Redactor

                redactor = Redactor()
            does = does._replace(kept=tuple(map(redactor.redact, does.kept)))
        made[event.event_id] = does
    return made


def _record(store: Store, event: Any, streams: dict[tuple[str, int], bytes]) -> bytes:
    """Return the captured line of an event; empty when it is no longer there."""
    from ctx_pipeline.storage.segments import read_stream, unpack

    key = (event.stream, event.generation)
    if key not in streams:
        segments = [s for s in store.ledger.segments_of([event.stream]).get(event.stream, ()) if s.generation == event.generation]
        try:
            data = read_stream(store.files, segments) if segments else b""
        except StoreError:
            data = b""
        streams[key] = unpack(data) if data[:4] == b"\x28\xb5\x2f\xfd" else data
    return streams[key][event.start : event.end]

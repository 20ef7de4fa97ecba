"""What each event of a captured thread does to its context window, as its host says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.host_records import Change, usual

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.storage import Store


# What was captured of a stream, byte for byte, for questions that only the records themselves answer.


_ZSTD = b"\x28\xb5\x2f\xfd"


class Captured:
    """The bytes of streams in a store; each is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[tuple[str, int], bytes] = {}

    def stream(self, stream: str, generation: int) -> bytes:
        """Return the bytes of a generation, unpacked; empty when they are no longer there."""
        from ctx_pipeline.storage.raw.segments import read_stream, unpack

        key = (stream, generation)
        if key not in self._held:
            segments = [s for s in self._store.ledger.segments_of([stream]).get(stream, ()) if s.generation == generation]
            try:
                data = read_stream(self._store.files, segments) if segments else b""
            except StoreError:
                data = b""
            self._held[key] = unpack(data) if data[:4] == _ZSTD else data
        return self._held[key]

    def line(self, event: Any) -> bytes:
        """Return the captured line of an event; empty when it is no longer there."""
        return self.stream(event.stream, event.generation)[event.start : event.end]


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

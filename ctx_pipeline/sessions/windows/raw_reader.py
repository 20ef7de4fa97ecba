"""What was captured of a stream, byte for byte, for questions that only the records themselves answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from ctx_pipeline.storage import Store

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

"""From an event of a table to the bytes that it was read from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UnknownName
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage.raw.segments import read_segment, unpack
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

EVENT_ID = re.compile(r"[0-9a-f]{16}\.\d{1,6}\.\d{1,9}\.\d{1,6}")
"""stream.generation.line.block: what readings, candidates and memories name as evidence"""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a source, as it stands in raw."""

    event_id: str
    host: str
    session_id: str | None
    file: str
    """where the record was written; the file may be gone"""
    generation: int
    line: int
    """from 0"""
    start: int
    end: int
    raw: str
    """the raw object that holds its first byte"""
    recorded_at: str
    text: str
    """the record, with secrets replaced"""

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def record_of(event_id: str, *, settings: Settings | None = None) -> Record:
    """Return the record that an event was read from; raises UnknownName for an event that the store does not hold.

    Bytes are counted in the source's generation; of a packed source (.zst) in its text.
    """
    stream, generation, line, _ = event_id.split(".") if EVENT_ID.fullmatch(event_id) else ("", "0", "0", "")
    with reading(settings) as (store, chosen):
        source = next((s for s in store.ledger.sources().values() if s.stream == stream), None)
        pieces = [s for s in store.ledger.segments_of([stream]).get(stream, ()) if s.generation == int(generation)] if source else []
        data = b"".join(read_segment(store.files, piece.path)[1] for piece in pieces)
        if source is not None and source.rel.endswith(".zst"):
            data = unpack(data)
        start, number = 0, int(line)
        for _ in range(number):
            start = data.find(b"\n", start) + 1
            if not start:
                break
        if source is None or not data or (number and not start) or start >= len(data):
            raise UnknownName("event", event_id, ())
        end = data.find(b"\n", start) + 1 or len(data)
        held = next((p for p in pieces if p.start <= start < p.end), pieces[-1])
        redact = Redactor(chosen.patterns).redact
        text = redact(data[start:end].decode("utf-8", "replace").rstrip("\r\n"))
    return Record(
        event_id,
        source.host,
        source.session_id,
        redact(source.path),
        int(generation),
        number,
        start,
        end,
        held.path,
        held.recorded_at,
        text,
    )

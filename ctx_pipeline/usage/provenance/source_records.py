"""From an event of a table to the bytes that it was read from."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UnknownName
from ctx_pipeline.memory.safety import strings_of
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.redactor import MARKER
from ctx_pipeline.storage.raw.segments import read_segment, unpack
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger import Source

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
        text = _without_parts(store, source, event_id, text)
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


def _without_parts(store: Store, source: Source, event_id: str, text: str) -> str:
    """Return the text of a record, or what its events say where a secret is cut between it and another record."""
    row = store.ledger.session(source.host, source.session_id) if source.session_id else None
    if row is None:
        return text
    line = f"{event_id.rpartition('.')[0]}."
    events = store.lake.read_rows("events", row.partition, "normalized", sessions=[row.session_id])
    said = [event.text for event in events if event.text and event.event_id.startswith(line) and MARKER.search(event.text)]
    try:
        shown = "\n".join((text, *strings_of(json.loads(text))))
    except ValueError:
        shown = text
    return "\n".join(said) if any(one not in shown for one in said) else text

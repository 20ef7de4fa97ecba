"""The pictures of a session, out of the records that were captured."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError
from ctx_pipeline.storage.raw.segments import read_stream, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.warehouse.transcript_queries import ImageRow

LARGEST, MOST, LONGEST_STREAM = 3_000_000, 60, 64_000_000
"""Bytes of a picture, pictures of a session, bytes of a stream that is read for them; beyond it the page shows words."""

_MADE_OF = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))
"""First bytes of the pictures that are shown; a drawing that can hold script is none of them."""
_ZSTD = b"\x28\xb5\x2f\xfd"


def pictures(store: Store, rows: Sequence[ImageRow]) -> dict[str, tuple[str, bytes]]:
    """Return event id -> (media type, bytes) of the pictures whose records the store still has and whose hash is the noted one."""
    found: dict[str, tuple[str, bytes]] = {}
    streams: dict[tuple[str, int], bytes] = {}
    for row in rows[:MOST]:
        wanted = _hash(row.text)
        place = (row.stream, row.generation)
        if not wanted:
            continue
        if place not in streams:
            streams[place] = _stream(store, *place)
        for data in _blobs(streams[place][row.start : row.end]):
            media = next((media for first, media in _MADE_OF if data.startswith(first)), "")
            if media and len(data) <= LARGEST and hashlib.sha256(data).hexdigest() == wanted:
                found[row.event_id] = (media, data)
                break
    return found


def _hash(text: str) -> str:
    try:
        return str(json.loads(text).get("sha256", ""))
    except (ValueError, AttributeError):
        return ""


def _stream(store: Store, stream: str, generation: int) -> bytes:
    segments = [s for s in store.ledger.segments_of([stream]).get(stream, ()) if s.generation == generation]
    if not segments or max(s.end for s in segments) > LONGEST_STREAM:
        return b""
    try:
        data = read_stream(store.files, segments)
        return unpack(data, LONGEST_STREAM) if data[:4] == _ZSTD else data
    except StoreError:
        return b""


def _blobs(line: bytes) -> Iterator[bytes]:
    """Yield what the long base64 strings of a JSON line hold."""
    try:
        waiting: list[Any] = [json.loads(line)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and len(value) > 64:
            try:
                yield base64.b64decode(value.partition("base64,")[2] or value, validate=True)
            except (binascii.Error, ValueError):
                continue

"""Raw objects: immutable, compressed, each carrying where it came from.

An object is a zstd skippable frame with the origin as JSON, then one zstd frame with
the bytes, so any zstd tool unpacks it. No ledger in here: workers call it.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.raw import Origin
from ctx_pipeline.storage.ledger.rows import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    import zstandard

    from ctx_pipeline.storage.files import Files

_MAGIC = (0x184D2A50).to_bytes(4, "little")
_HEAD = 65_536
_LEVEL = 2
_UNPACKED = 1 << 31
"""An unpacked .zst source is cut here: 2 GiB."""

_KEY = re.compile(r"[a-z][a-z0-9_]{0,31}")
_STREAM = re.compile(r"[0-9a-f]{16}")
_mine = threading.local()


def path_of(host: str, stream: str, generation: int, start: int, end: int) -> str:
    """Return the name of a raw object, made of a host key, a hex stream and integers alone."""
    if not _KEY.fullmatch(host) or not _STREAM.fullmatch(stream) or not 0 <= start <= end or generation < 0:
        raise StoreError(f"no raw object can be named {host!r} {stream!r} {generation} {start} {end}", hint="report this defect")
    return f"raw/{host}/{stream[:2]}/{stream}/{generation:06d}-{start:014d}-{end:014d}.jsonl.zst"


def write_segment(files: Files, origin: Origin, data: bytes) -> Segment:
    """Write one byte range and return its ledger row.

    An existing object with the same hash is kept; one with another hash is never
    overwritten: StoreDamaged. So is one whose bytes are not those of the origin.
    """
    if hashlib.sha256(data).hexdigest() != origin.sha256:
        raise _foreign(origin)
    return write_hashed(files, origin, data)


def write_hashed(files: Files, origin: Origin, data: bytes) -> Segment:
    """Do what :func:`write_segment` does for bytes whose hash the caller has just computed: ``origin.sha256``."""
    path = path_of(origin.host, origin.stream, origin.generation, origin.start, origin.end)
    if len(data) != origin.end - origin.start:
        raise _foreign(origin)
    if files.exists(path):
        kept = read_origin(files, path)
        if kept.sha256 != origin.sha256:
            raise StoreDamaged(f"{path} exists with other bytes", hint="ctx doctor", path=path, origin=kept)
        return segment_of(kept, path, files.size(path))
    header = json.dumps(origin._asdict(), ensure_ascii=True, separators=(",", ":")).encode()
    packed = b"".join((_MAGIC, len(header).to_bytes(4, "little"), header, _compressor().compress(data)))
    files.write(path, packed)
    return segment_of(origin, path, len(packed))


def segment_of(origin: Origin, path: str, stored_bytes: int) -> Segment:
    """Return the ledger row of an object."""
    return Segment(
        origin.stream,
        origin.generation,
        origin.start,
        origin.end,
        origin.sha256,
        stored_bytes,
        path,
        origin.recorded_at,
        origin.mtime_ns,
    )


def read_origin(files: Files, rel: str) -> Origin:
    """Return where an object came from, from its header alone; raises StoreDamaged."""
    return _split(files.head(rel, _HEAD), rel)[0]


def read_segment(files: Files, rel: str) -> tuple[Origin, bytes]:
    """Return origin and bytes of an object; raises StoreDamaged when they contradict its hash."""
    import zstandard

    packed = files.read(rel)
    origin, after = _split(packed, rel)
    try:
        data = zstandard.ZstdDecompressor().decompress(memoryview(packed)[after:], max_output_size=origin.end - origin.start)
    except (zstandard.ZstdError, MemoryError) as error:
        raise _damaged(rel, f"cannot be unpacked ({error})") from error
    if len(data) != origin.end - origin.start or hashlib.sha256(data).hexdigest() != origin.sha256:
        raise _damaged(rel, "contradicts its hash")
    return origin, data


def read_stream(files: Files, segments: Iterable[Segment]) -> bytes:
    """Return the bytes of one generation: its segments joined in order; raises StoreDamaged for a gap."""
    parts = []
    at = 0
    for segment in sorted(segments, key=lambda s: s.start):
        if segment.start != at:
            raise _damaged(segment.path, f"begins at byte {segment.start}, not {at}")
        parts.append(read_segment(files, segment.path)[1])
        at = segment.end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def stream_text(files: Files, segments: Iterable[Segment], rel: str) -> bytes:
    """Return the lines of one generation: like :func:`read_stream`, unpacked where ``rel`` ends in .zst."""
    data = read_stream(files, segments)
    return unpack(data) if rel.endswith(".zst") else data


def unpack(data: bytes, limit: int = _UNPACKED) -> bytes:
    """Return what a .zst file holds, up to ``limit`` bytes; a broken one gives what comes before the break."""
    import zstandard

    parts = []
    size = 0
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    while size < limit:
        try:
            part = reader.read(min(1 << 20, limit - size))
        except zstandard.ZstdError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _compressor() -> zstandard.ZstdCompressor:
    """Return this thread's compressor: its tables are dear to make and it must not be shared."""
    found: zstandard.ZstdCompressor | None = getattr(_mine, "compressor", None)
    if found is None:
        import zstandard

        found = _mine.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    return found


def _foreign(origin: Origin) -> StoreDamaged:
    return StoreDamaged(f"{origin.stream}: the bytes are not those of the origin", hint="report this defect", origin=origin)


def _split(packed: bytes, rel: str) -> tuple[Origin, int]:
    size = int.from_bytes(packed[4:8], "little")
    if packed[:4] != _MAGIC or len(packed) < 8 + size:
        raise _damaged(rel, "has no origin")
    try:
        origin = Origin(**json.loads(packed[8 : 8 + size]))
        named = path_of(origin.host, origin.stream, origin.generation, origin.start, origin.end)
    except (ValueError, TypeError, StoreError) as error:
        raise _damaged(rel, "has an unreadable origin") from error
    if named != rel:
        raise _damaged(rel, f"says that it is {named}")
    return origin, 8 + size


def _damaged(rel: str, what: str) -> StoreDamaged:
    return StoreDamaged(
        f"{rel} {what}", hint="restore the object from a backup, or capture its source again with ctx import --force", path=rel
    )

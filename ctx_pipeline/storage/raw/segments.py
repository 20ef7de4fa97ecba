"""Raw objects: immutable, compressed, each carrying where it came from.

An object is a zstd skippable frame with the origin as JSON, then one zstd frame with
the bytes, so any zstd tool unpacks it; where raw is encrypted, that frame is a file of
age. A pack holds several segments of one generation that follow each other: its origin
is that of the whole and lists those of the pieces, which stay rows of the ledger of
their own. No ledger in here: workers call it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreDamaged, StoreError
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Origin
from ctx_pipeline.storage.ledger.rows import Segment
from ctx_pipeline.storage.raw import encryption

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import zstandard

    from ctx_pipeline.storage.files import Files

_MAGIC = (0x184D2A50).to_bytes(4, "little")
_HEAD = 65_536
_LONGEST_HEAD = 1 << 24
_PIECES = "pieces"
_LEVEL = 1
"""Of zstd, for what was just read: a capture must not wait for its compressor."""

_QUIET_LEVEL = 9
"""For what nobody waits for; above it a tenth of the size costs ten times the work (docs/performance-log.md)."""

_UNPACKED = 1 << 31
"""An unpacked .zst source is cut here: 2 GiB."""

ASIDE = ".damaged"
"""Ending of the name of an object that was found damaged when the ledger was rebuilt."""

_NAME = lazy_pattern(r"raw/([a-z][a-z0-9_]{0,31})/[0-9a-f]{2}/([0-9a-f]{16})/(\d+)-(\d+)-(\d+)\.jsonl\.zst")
_KEY = lazy_pattern(r"[a-z][a-z0-9_]{0,31}")
_STREAM = lazy_pattern(r"[0-9a-f]{16}")
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


def replace_segment(files: Files, origin: Origin, data: bytes) -> Segment:
    """Write one byte range in the place of what its object held, in one rename, and return its ledger row; forgetting alone does this."""
    path = path_of(origin.host, origin.stream, origin.generation, origin.start, origin.end)
    origin = origin._replace(sha256=hashlib.sha256(data).hexdigest())
    return segment_of(origin, path, _write(files, path, origin._asdict(), data))


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
    return segment_of(origin, path, _write(files, path, origin._asdict(), data))


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


def write_pack(files: Files, pieces: Sequence[tuple[Origin, bytes]]) -> list[Segment]:
    """Write segments of one generation that follow each other, in order of bytes, as one object; return their rows.

    Nothing is removed. Raises StoreDamaged for pieces that do not join, and where other bytes have the name.
    """
    origins = [origin for origin, _ in pieces]
    data = b"".join(body for _, body in pieces)
    whole = origins[-1]._replace(start=origins[0].start, sha256=hashlib.sha256(data).hexdigest())
    path = path_of(whole.host, whole.stream, whole.generation, whole.start, whole.end)
    if not _joined(origins, whole) or any(len(body) != origin.end - origin.start for origin, body in pieces):
        raise _foreign(whole)
    if files.exists(path) and read_origin(files, path).sha256 != whole.sha256:
        raise StoreDamaged(f"{path} exists with other bytes", hint="ctx doctor", path=path, origin=whole)
    if not files.exists(path) or read_origins(files, path) != origins:
        _write(files, path, {**whole._asdict(), _PIECES: origins}, data, _QUIET_LEVEL)
    return rows_of(origins, path, files.size(path))


def shrink(files: Files, rel: str) -> list[Segment] | None:
    """Write an object anew, compressed harder, and return its ledger rows; None where that saves nothing.

    Its name, origin and bytes stay. Raises StoreDamaged, RawLocked.
    """
    before = files.read(rel)
    _, origins, after = _split(before, rel)
    _, data = read_segment(files, rel)
    body = encryption.sealed(files, _compressor(_QUIET_LEVEL).compress(data))
    if after + len(body) >= len(before):
        return None
    files.write(rel, before[:after], body)
    return rows_of(origins, rel, after + len(body))


def rows_of(origins: Sequence[Origin], path: str, stored_bytes: int) -> list[Segment]:
    """Return the ledger rows of an object's segments; the first one carries its size."""
    return [segment_of(origin, path, 0 if number else stored_bytes) for number, origin in enumerate(origins)]


def read_checked(files: Files, rel: str) -> list[Origin]:
    """Return the origins of an object's segments after its bytes were found to be those of its hash; raises StoreError, StoreDamaged."""
    read_segment(files, rel)
    return read_origins(files, rel)


def range_of(rel: str) -> tuple[str, str, int, int, int] | None:
    """Return (host, stream, generation, start, end) of an object by its name; None for any other file."""
    found = _NAME.fullmatch(rel)
    return (found[1], found[2], int(found[3]), int(found[4]), int(found[5])) if found else None


def set_aside(files: Files, rel: str) -> None:
    """Give a damaged object a name under which nothing reads it, so that its bytes can be captured again."""
    os.replace(files.local(rel), files.local(rel + ASIDE))  # noqa: PTH105 - atomic, as everywhere in the store


def read_origin(files: Files, rel: str) -> Origin:
    """Return where an object came from, from its header alone; raises StoreDamaged."""
    return _split(_header(files, rel), rel)[0]


def read_origins(files: Files, rel: str) -> list[Origin]:
    """Return the origins of an object's segments, from its header alone; raises StoreDamaged."""
    return _split(_header(files, rel), rel)[1]


def read_segment(files: Files, rel: str) -> tuple[Origin, bytes]:
    """Return origin and bytes of an object; raises StoreDamaged when they contradict its hash, RawLocked without their key."""
    import zstandard

    packed = files.read(rel)
    origin, _, after = _split(packed, rel)
    try:
        body = encryption.unsealed(files, memoryview(packed)[after:], rel)
        data = zstandard.ZstdDecompressor().decompress(body, max_output_size=origin.end - origin.start)
    except (zstandard.ZstdError, MemoryError) as error:
        raise _damaged(rel, f"cannot be unpacked ({error})") from error
    if len(data) != origin.end - origin.start or hashlib.sha256(data).hexdigest() != origin.sha256:
        raise _damaged(rel, "contradicts its hash")
    return origin, data


def lies_encrypted(files: Files, rel: str) -> bool:
    """Tell whether an object is encrypted, by its first bytes."""
    begin = 8 + int.from_bytes(_header(files, rel)[4:8], "little")
    return encryption.is_sealed(files.head(rel, begin + 64)[begin:])


def rewrite(files: Files, rel: str) -> list[Segment] | None:
    """Write an object anew, encrypted or not as the store says now, and return its ledger rows; None where it is so already.

    Its name, origin and bytes stay. Raises StoreDamaged, RawLocked.
    """
    key = encryption.key_of(files)
    if lies_encrypted(files, rel) == bool(key and key.on):
        return None
    read_segment(files, rel)
    before = files.read(rel)
    _, origins, after = _split(before, rel)
    body = encryption.sealed(files, bytes(encryption.unsealed(files, memoryview(before)[after:], rel)))
    files.write(rel, before[:after], body)
    return rows_of(origins, rel, after + len(body))


def read_pieces(files: Files, segments: Iterable[Segment]) -> Iterator[bytes]:
    """Yield the bytes of segments; an object that holds several of them, one after the other, is read once. Raises StoreDamaged."""
    held, whole, data = "", None, b""
    for segment in segments:
        if whole is None or segment.path != held:
            whole, data = read_segment(files, segment.path)
            held = segment.path
        if not whole.start <= segment.start <= segment.end <= whole.end:
            raise _damaged(segment.path, f"does not hold bytes {segment.start} to {segment.end}")
        yield data if segment.end - segment.start == len(data) else data[segment.start - whole.start : segment.end - whole.start]


def read_stream(files: Files, segments: Iterable[Segment]) -> bytes:
    """Return the bytes of one generation: its segments joined in order; raises StoreDamaged for a gap."""
    ordered = sorted(segments, key=lambda s: s.start)
    at = 0
    for segment in ordered:
        if segment.start != at:
            raise _damaged(segment.path, f"begins at byte {segment.start}, not {at}")
        at = segment.end
    parts = list(read_pieces(files, ordered))
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


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """Return this thread's compressor of a level: its tables are dear to make and it must not be shared."""
    made: dict[int, zstandard.ZstdCompressor] = _mine.__dict__.setdefault("compressors", {})
    if level not in made:
        import zstandard

        made[level] = zstandard.ZstdCompressor(level=level)
    return made[level]


def _foreign(origin: Origin) -> StoreDamaged:
    return StoreDamaged(f"{origin.stream}: the bytes are not those of the origin", hint="report this defect", origin=origin)


def _write(files: Files, path: str, header: dict[str, Any], data: bytes, level: int = _LEVEL) -> int:
    """Write an object and return its size on disk."""
    text = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    head = b"".join((_MAGIC, len(text).to_bytes(4, "little"), text))
    body = encryption.sealed(files, _compressor(level).compress(data))
    files.write(path, head, body)
    return len(head) + len(body)


def _header(files: Files, rel: str) -> bytes:
    head = files.head(rel, _HEAD)
    size = 8 + int.from_bytes(head[4:8], "little")
    return head if size <= len(head) or head[:4] != _MAGIC else files.head(rel, min(size, _LONGEST_HEAD))


def _split(packed: bytes, rel: str) -> tuple[Origin, list[Origin], int]:
    """Return the origin of an object, those of its segments, and where its bytes begin."""
    size = int.from_bytes(packed[4:8], "little")
    if packed[:4] != _MAGIC or len(packed) < 8 + size:
        raise _damaged(rel, "has no origin")
    try:
        fields = json.loads(packed[8 : 8 + size])
        pieces = [Origin(*piece) for piece in fields.pop(_PIECES, ())]
        origin = Origin(**fields)
        named = path_of(origin.host, origin.stream, origin.generation, origin.start, origin.end)
        whole = not pieces or _joined(pieces, origin)
    except (AttributeError, ValueError, TypeError, StoreError) as error:
        raise _damaged(rel, "has an unreadable origin") from error
    if named != rel or not whole:
        raise _damaged(rel, f"says that it is {named}" if named != rel else "lists pieces that do not join")
    return origin, pieces or [origin], 8 + size


def _joined(pieces: Sequence[Origin], whole: Origin) -> bool:
    """Tell whether segments follow each other and make up the whole."""
    at = whole.start
    for piece in pieces:
        if (piece.host, piece.stream, piece.generation, piece.start) != (whole.host, whole.stream, whole.generation, at):
            return False
        at = piece.end
    return at == whole.end


def _damaged(rel: str, what: str) -> StoreDamaged:
    return StoreDamaged(
        f"{rel} {what}", hint="restore the object from a backup, or capture its source again with ctx import --force", path=rel
    )

"""Exact transcripts on their way to the team's workers: files of homes in one archive, packed, and encrypted to the team's key."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreDamaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_BYTES = 64 << 20
"""Bytes of transcripts after which the next bundle begins; a larger transcript has a bundle of its own."""

MOST_UNPACKED = 1 << 30
"""Bytes that a worker unpacks of one bundle; one with more is refused."""

_MOST_NAME = 1_000
_LEVEL = 9
_DAYS = 36_500


class BundleFile(NamedTuple):
    """A file as it lay in a home: host, path below the home, time of change in nanoseconds, bytes."""

    host: str
    rel: str
    modified_ns: int
    data: bytes


def sealed(files: Iterable[BundleFile], recipients: Sequence[str]) -> bytes:
    """Return files as one object that only an identity of the recipients can read."""
    import pyrage
    import zstandard

    from ctx_pipeline.storage.sealed_copies import recipient

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(f"{file.host}/{file.rel}")
            entry.size, entry.mode = len(file.data), 0o600
            entry.pax_headers = {"mtime": f"{file.modified_ns / 1e9:.9f}"}
            archive.addfile(entry, io.BytesIO(file.data))
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(packed.getbuffer())
    return bytes(pyrage.encrypt(body, [recipient(one) for one in recipients]))


def opened(body: bytes, identities: Sequence[Any], name: str) -> Iterator[BundleFile]:
    """Yield the files of a bundle.

    Raises StoreDamaged for one that no identity opens, that was changed, is too large or names a file outside of a home.
    """
    import pyrage
    import zstandard

    hint = "its machine sends it again: ctx publish --all there"
    try:
        packed = pyrage.decrypt(body, list(identities))
    except pyrage.DecryptError as error:
        raise StoreDamaged(f"{name} cannot be opened with this key, or was changed", hint="join with the team's key: --key") from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            plain = reader.read(MOST_UNPACKED + 1)
        if len(plain) > MOST_UNPACKED:
            raise StoreDamaged(f"{name} holds more than {MOST_UNPACKED >> 30} GB", hint=hint)
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for entry in archive:
                host, _, rel = entry.name.partition("/")
                # a sparse file says a size that nothing in the bundle has
                if not entry.isreg() or entry.size > len(plain) or host not in discovery.hosts() or not is_inside(rel):
                    raise StoreDamaged(f"{name} names something that is no file of a home", hint=hint)
                held = archive.extractfile(entry)
                yield BundleFile(host, rel, _nanoseconds(entry.mtime), held.read() if held is not None else b"")
    except (zstandard.ZstdError, tarfile.TarError, ValueError, ArithmeticError, LookupError, EOFError, OSError, MemoryError) as error:
        raise StoreDamaged(f"{name} cannot be unpacked", hint=hint) from error


def is_inside(rel: str) -> bool:
    """Tell whether a path stays below the folder that it is joined to, on any system."""
    parts = rel.split("/")
    plain = all(part not in {"", ".", ".."} and len(os.fsencode(part)) < 256 for part in parts)
    return plain and len(rel) <= _MOST_NAME and not any(c in "\\:" or ord(c) < 32 for c in rel)


def _nanoseconds(seconds: float) -> int:
    return min(max(int(seconds * 1e9), 0), _DAYS * 86_400 * 10**9)

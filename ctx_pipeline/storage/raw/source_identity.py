"""How a source is recognized: hashes of its first and last captured bytes, and the head that names its session."""

from __future__ import annotations

import hashlib
import json

EDGE = 4_096
"""Bytes hashed at the beginning of a source and before the end of what was captured."""

HEAD = 65_536
"""Bytes that a host may read to tell whose a stream is."""


def is_lines(rel: str) -> bool:
    """Tell whether a source grows by lines; all other files are captured whole."""
    return rel.endswith(".jsonl")


def whole_lines(data: bytes) -> int:
    """Return how many of the bytes are whole lines.

    A last line without a newline is whole when it is a complete JSON object: nothing
    but white space can follow it. Published and restored transcripts often end so.
    """
    end = data.rfind(b"\n") + 1
    rest = data[end:].strip()
    if rest[:1] != b"{" or rest[-1:] != b"}":
        return end
    try:
        json.loads(rest.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return end
    return len(data)


def edge_hash(data: bytes) -> str:
    """Return the hash of an edge; empty for no bytes."""
    return hashlib.sha256(data).hexdigest()[:32] if data else ""


def readable_head(rel: str, data: bytes) -> bytes:
    """Return the first bytes that a host can read: of a .zst file its unpacked ones."""
    if not rel.endswith(".zst"):
        return data[:HEAD]
    from ctx_pipeline.storage.raw.segments import unpack

    return unpack(data, HEAD)

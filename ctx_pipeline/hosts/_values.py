"""Values in records of a host: ids that it reads from names, and large base64 strings, kept by hash and never as text."""

from __future__ import annotations

import base64
import binascii
import hashlib
from functools import lru_cache

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.declared import WITHHELD
from ctx_pipeline.model.lazy_pattern import lazy_pattern

# Pictures and other large base64 strings in records: kept by hash, never as text.


LEAST = 2_048
"""Characters from which a string of base64 alone is a blob and no word."""

_BASE64 = lazy_pattern(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,)?([A-Za-z0-9+/_-]+={0,2})")
_MEDIA = lazy_pattern(r"data:([\w.+-]+/[\w.+-]+)[;,]")


def without_blobs(text: str) -> str:
    """Return JSON text with the SHA-256 and size of each large base64 string in its place."""
    if len(text) < LEAST:
        return text
    pieces = text.split('"')
    if max(map(len, pieces)) < LEAST:
        return text
    return '"'.join(_shown(p) if len(p) >= LEAST else p for p in pieces)


def _shown(piece: str) -> str:
    match = _BASE64.fullmatch(piece)
    if match is None:
        return piece
    digest, size = hashed(match[2])
    return f"{match[1] or ''}sha256:{digest} {size} bytes"


def hashed(text: str) -> tuple[str, int]:
    """Return the SHA-256 and the size in bytes of what a base64 text holds, of the text itself where it is none."""
    try:
        data = base64.b64decode(text.rstrip("=").translate({45: "+", 95: "/"}) + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        data = text.encode("utf-8", "replace")
    return hashlib.sha256(data).hexdigest(), len(data)


def picture(url: str) -> dict[str, str | int]:
    """Return what is kept of an image address: type, hash and size of one inside the record, else the address."""
    head, comma, body = url.partition("base64,")
    if not comma or not head.startswith("data:"):
        return {"url": url[:LEAST]}
    media = _MEDIA.match(url)
    digest, size = hashed(body)
    return {"media_type": media[1] if media else "", "sha256": digest, "bytes": size}


# Ids that a host reads from file names and records.


_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_UUID = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SHORT = 16
"""No secret that is known by its own shape has fewer letters."""


@lru_cache(maxsize=4096)
def secretless(text: str) -> bool:
    """Tell whether an id holds no secret; one in a file name would be a key of every table."""
    if len(text) < _SHORT:
        return True
    from ctx_pipeline.redaction import harmless

    return harmless(text)


def safe_id(text: str | None) -> str | None:
    """Return an id that is fit for names and keys: the text itself, or a digest of a hostile one or one with a secret in it."""
    if not text:
        return None
    if not _ID.fullmatch(text):
        return "x" + digest(text)
    return text if _UUID.fullmatch(text) or secretless(text) else WITHHELD + digest(text, size=24)

"""What a host says of a stream, fit to be stored; a host file that raises stops nothing but itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.storage.ledger.rows import Hint
from ctx_pipeline.storage.raw.source_identity import readable_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Identity


def identify(host: Host, kind: str, rel: str, head: bytes) -> tuple[Identity | None, str]:
    """Return whose a stream is by its first captured bytes, and what went wrong in finding out."""
    readable = readable_head(rel, head)
    if head and not readable:
        return _storable(host.files.identify(kind, rel, b"")), "cannot be unpacked"
    try:
        return _storable(host.files.identify(kind, rel, readable)), ""
    except Exception as error:  # noqa: BLE001 - the other streams are not to be stopped
        return None, f"its head cannot be read: {type(error).__name__}"


def read_hints(host: Host, kind: str, data: bytes, stream: str, redact: Callable[[str], str]) -> tuple[list[Hint], str]:
    """Return what a stream of the home says of threads, its values redacted, and what went wrong in reading it."""
    if host.files.hints is None or not data:
        return [], ""
    try:
        return [Hint(host.key, _text(t), _text(f), redact(_text(v)), stream) for t, f, v in host.files.hints(kind, data)], ""
    except Exception as error:  # noqa: BLE001 - the other streams are not to be stopped
        return [], f"gives no hints: {type(error).__name__}"


def _storable(identity: Identity | None) -> Identity | None:
    if identity is None:
        return None
    return type(identity)._make(_text(value) if isinstance(value, str) else value for value in identity)


def _text(value: object) -> str:
    """Return text that SQLite takes: a lone surrogate becomes a question mark."""
    return str(value).encode("utf-8", "replace").decode()

"""Whose a source is, told before it is captured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.raw import Identity
from ctx_pipeline.pipeline.capture.change_detection import opened
from ctx_pipeline.storage.ledger.host_answers import identify
from ctx_pipeline.storage.raw.source_identity import HEAD, is_lines

if TYPE_CHECKING:
    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture.types import Pending


def identity_of(source: Pending, host: Host) -> Identity | None:
    """Return whose a pending source is: as the ledger knows, else by its first bytes; None when they do not say or cannot be read."""
    known = source.known
    if known is not None and known.thread_id and known.generation == source.generation and source.start >= HEAD:
        return Identity(known.thread_id, known.parent_thread_id, known.relation or "main", known.root_session_id, known.first_ts)
    try:
        head = _head(source, host)
    except (CtxError, OSError):
        return None
    return identify(host, source.kind, source.rel, head)[0]


def _head(source: Pending, host: Host) -> bytes:
    if source.marker:
        from ctx_pipeline.storage.raw import databases

        return databases.read(source.path, host.files.databases[source.kind], source.rel.rpartition("#")[2])[:HEAD]
    with opened(source.path) as handle:
        head = os.pread(handle, source.size if source.rel.endswith(".zst") else HEAD, 0)
    return head[: source.size] if is_lines(source.rel) else head

"""Gives the sessions of a home folder to its host's parser, without capture in between."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ctx_pipeline.model.raw import SessionInput, StreamBytes

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Parsed


def sessions_of(host: Host, root: Path) -> dict[str, SessionInput]:
    """Return session id -> input, from every file of the home that the host captures."""
    streams: dict[str, list[StreamBytes]] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        rel = path.relative_to(root).as_posix()
        kind = host.files.classify(rel)
        if kind is None or kind not in host.files.session_kinds or kind in host.files.databases:
            continue
        data = path.read_bytes()
        identity = host.files.identify(kind, rel, data[:65_536])
        if identity is None:
            continue
        owner = identity.root_session_id or identity.parent_thread_id or identity.thread_id
        stream = hashlib.sha256(rel.encode()).hexdigest()[:16]
        streams.setdefault(owner, []).append(StreamBytes(stream, kind, rel, 0, data, identity.thread_id, identity.parent_thread_id))
    return {owner: SessionInput(host.key, owner, tuple(found)) for owner, found in streams.items()}


def parse_home(host: Host, root: Path) -> dict[str, Parsed]:
    """Return session id -> parsed rows of a home."""
    return {owner: host.records.parse(session) for owner, session in sessions_of(host, root).items()}

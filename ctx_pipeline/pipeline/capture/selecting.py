"""Which pending sources belong to some cells or sessions, told before they are captured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.raw import Cell, Identity
from ctx_pipeline.pipeline.capture.read_source import opened
from ctx_pipeline.pipeline.capture.scanning import Pending
from ctx_pipeline.storage.ledger import links
from ctx_pipeline.storage.ledger.links import identify
from ctx_pipeline.storage.raw.home_files import HEAD, is_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture.scanning import Scan
    from ctx_pipeline.storage import Store


# Whose a source is, told before it is captured.


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


def select(
    store: Store,
    scan: Scan,
    hosts: Mapping[str, Host],
    *,
    cells: Collection[Cell] | None,
    sessions: Collection[str | tuple[str, str]] | None,
) -> list[Pending]:
    """Return the pending sources of these cells and sessions, and those that belong to no session.

    A session is an id or (host, id); the id of one of its threads will do.
    """
    if cells is None and sessions is None:
        return list(scan.pending)
    by_host: dict[str, dict[str, links.Link]] = {}
    for source in store.ledger.sources().values():
        if source.thread_id and (source.captured or source.generation):
            by_host.setdefault(source.host, {})[source.stream] = _link(source.stream, source, source.mtime_ns)
    for pending in scan.pending:
        host = hosts[pending.host]
        if pending.kind in host.files.session_kinds and (said := identity_of(pending, host)) is not None:
            by_host.setdefault(pending.host, {})[pending.stream] = _link(pending.stream, said, pending.mtime_ns)
    places = {
        host: links.resolve(
            found.values(), first_month=store.ledger.first_month, now=links.now_micros(), parents=store.ledger.parents(host)
        )
        for host, found in by_host.items()
    }
    chosen = []
    for pending in scan.pending:
        place = places.get(pending.host, {}).get(pending.stream)
        if place is None:
            if pending.kind not in hosts[pending.host].files.session_kinds:
                chosen.append(pending)
            continue
        thread = by_host[pending.host][pending.stream].thread_id
        names = {place.session_id, (pending.host, place.session_id), thread, (pending.host, thread)}
        if (cells is None or Cell(pending.host, place.month) in cells) and (sessions is None or not names.isdisjoint(sessions)):
            chosen.append(pending)
    return chosen


def as_new_generations(
    store: Store, cells: Collection[Cell] | None, sessions: Collection[str | tuple[str, str]] | None, but: set[str]
) -> list[Pending]:
    """Return the live sources of these sessions as if they were rewritten: each becomes a new generation."""
    found = []
    for source in store.ledger.sources().values():
        if source.state != "live" or source.stream in but or (source.session_id is None and (cells is not None or sessions is not None)):
            continue
        names = {source.session_id, (source.host, source.session_id), source.thread_id, (source.host, source.thread_id)}
        if (cells is None or source.partition in cells) and (sessions is None or not names.isdisjoint(sessions)):
            found.append(
                Pending(
                    host=source.host,
                    stream=source.stream,
                    path=source.path,
                    root=source.root,
                    rel=source.rel,
                    kind=source.kind,
                    size=source.size,
                    mtime_ns=source.mtime_ns,
                    inode=source.inode,
                    ctime_ns=source.ctime_ns,
                    generation=source.generation + 1,
                    start=0,
                    change="rewritten",
                    marker=source.marker,
                    known=source,
                    forced=True,
                )
            )
    return found


def _link(stream: str, said: object, mtime_ns: int) -> links.Link:
    fields = ("thread_id", "parent_thread_id", "relation", "root_session_id", "first_ts")
    return links.Link._make((stream, *(getattr(said, name) for name in fields), mtime_ns))

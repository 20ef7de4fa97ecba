"""The cells that pending sources belong to, told before anything is captured."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.model.codec import digest, month_of
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage.ledger import links

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.pipeline.capture.scanning import Pending, Scan
    from ctx_pipeline.settings import Settings

_FIELDS = ("thread_id", "parent_thread_id", "relation", "root_session_id", "first_ts")


@dataclass(slots=True)
class Placement:
    """Which cells would change if the pending sources were captured."""

    cells: dict[Cell, str] = field(default_factory=dict)
    """cell -> fingerprint of its pending sources (stream, generation, size)"""
    settling: int = 0
    """sources written to less than the asked seconds ago, left for a later look"""
    live: list[str] = field(default_factory=list)
    """the same and the ``due`` ones, each named by stream and first byte to capture"""
    unplaced: int = 0
    """sources of no session (settings, history), or whose head says nothing yet"""
    later: int = 0
    """new sources beyond the limit, left for a later look"""


def place(
    store: Any,
    settings: Settings,
    scan: Scan,
    *,
    settle_seconds: float = 0.0,
    due: Collection[str] = (),
    limit: int = 2_000,
    now: float | None = None,
) -> Placement:
    """Return the cells of the pending sources of a scan; reads the heads of at most ``limit`` new ones, the oldest first.

    Sources written to less than ``settle_seconds`` ago are left out, but for those whose names of an earlier look are ``due``.

    A source the ledger knows keeps its cell. A new one is asked who it is and linked to
    the others by the ledger's own rule, so that it lands where capturing will put it.
    """
    clock = time.time() if now is None else now
    result = Placement()
    members: dict[Cell, list[tuple[str, int, int]]] = {}
    fresh = []
    for source in scan.pending:
        live = bool(settle_seconds) and 0 <= clock - source.mtime_ns / 1e9 < settle_seconds
        name = digest(source.host, source.stream, source.generation, source.start, size=12) if live else ""
        if live:
            result.live.append(name)
        if live and name not in due:
            result.settling += 1
        elif source.known is not None and source.known.month:
            members.setdefault(Cell(source.host, source.known.month), []).append((source.stream, source.generation, source.size))
        else:
            fresh.append(source)
    fresh.sort(key=lambda s: (s.mtime_ns, s.rel))
    result.later = max(0, len(fresh) - limit)
    months = _months(store, settings, fresh[:limit])
    for source in fresh[:limit]:
        month = months.get((source.host, source.stream))
        if month is None:
            result.unplaced += 1
        else:
            members.setdefault(Cell(source.host, month), []).append((source.stream, source.generation, source.size))
    result.cells = {cell: digest(sorted(rows)) for cell, rows in sorted(members.items())}
    return result


def _months(store: Any, settings: Settings, fresh: Iterable[Pending]) -> dict[tuple[str, str], str]:
    """Return (host, stream) -> month of new sources, linked with each other and with what the ledger knows."""
    hosts = discovery.hosts()
    found: dict[str, dict[str, links.Link]] = {}
    months: dict[tuple[str, str], str] = {}
    for source in fresh:
        host = hosts.get(source.host)
        if host is None or source.kind not in host.files.session_kinds:
            continue
        if source.kind in host.files.databases:
            # the rows say more than a file's head; until they are read the last write is as good a guess
            months[source.host, source.stream] = max(settings.first_month, month_of(source.mtime_ns // 1_000))
        elif (link := _ask(source, host)) is not None:
            found.setdefault(source.host, {})[source.stream] = link
    if not found:
        return months
    asked = {(host, stream) for host, by_stream in found.items() for stream in by_stream}
    for row in store.ledger.sources().values():
        if row.host in found and row.thread_id and row.captured:
            found[row.host].setdefault(row.stream, links.Link._make((row.stream, *(getattr(row, name) for name in _FIELDS), row.mtime_ns)))
    for key, by_stream in found.items():
        places = links.resolve(
            by_stream.values(), first_month=settings.first_month, now=links.now_micros(), parents=store.ledger.parents(key)
        )
        for stream, spot in places.items():
            if (key, stream) in asked:
                months[key, stream] = spot.month
    return months


def _ask(source: Pending, host: Host) -> links.Link | None:
    from ctx_pipeline.pipeline.capture import identity_of

    identity = identity_of(source, host)
    if identity is None:
        return None
    return links.Link._make((source.stream, *(getattr(identity, name) for name in _FIELDS), source.mtime_ns))

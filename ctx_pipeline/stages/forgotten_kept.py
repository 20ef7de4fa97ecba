"""Forgetting sessions whose raw is lost: the ledger has no source of what is gone, and rows that it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.storage import marker
from ctx_pipeline.storage.ledger.forgetting import thread_hash
from ctx_pipeline.storage.ledger.rows import RAW_LOST, Tombstone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.storage import Store


def forget_kept(store: Store, chosen: Iterable[tuple[str, str]]) -> None:
    """Remove what raw and the ledger still hold of chosen sessions whose raw is lost, damaged objects too, and leave tombstones."""
    rows = [row for session in chosen if (row := store.ledger.session(*session)) is not None and row.raw_lost]
    if not rows:
        return
    stones = {(row.host, "thread", thread_hash(row.host, row.session_id)) for row in rows}
    streams = {(row.host, str(stream)) for row in rows for stream, _, _ in row.rows[RAW_LOST]}
    stones |= {(host, "stream", stream) for host, stream in streams}
    store.journal.append("tombstone", {"sessions": len(rows), "stones": [list(stone) for stone in sorted(stones)]})
    store.ledger.remember_forgotten(Tombstone(*stone, marker.now()) for stone in sorted(stones))
    for host, stream in sorted(streams):
        for rel in list(store.files.walk(f"raw/{host}/{stream[:2]}/{stream}")):
            store.files.remove(rel)
    store.ledger.forget_rows((row.host, row.session_id) for row in rows)
    store.ledger.compact()

"""Sync: what a hook calls when a session ended. One scan, and an ingest of what is new."""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from ctx_pipeline.errors import DeclarationError, StoreLocked
from ctx_pipeline.storage.ledger.connection import WAIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.pipeline.reports import StageReport
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


FEW_BYTES = 8 * 1024 * 1024
"""Bytes of changed sources up to which a sync is over before a large library has paid for its import."""

MANY_BYTES = 30 * 1024 * 1024
"""Bytes of changed sources from which on the versions of what a sync does not need are asked for while it ends."""


def sync(store: Store, settings: Settings, *, when_few: Callable[[], None] | None = None, wait: float = WAIT) -> list[StageReport]:
    """Ingest what changed since the last look and return the reports; an empty list when nothing did.

    The stages after the normalized tables are left to the next run, and so is what a
    signal's or a method's file has wrong with it. Another writer is waited for, at most
    ``wait`` seconds: then StoreLocked is raised. Raises StoreFull where something is new
    and the disk is nearly full: hooks call this.
    ``when_few`` is called before an ingest of few bytes.
    """
    # most of the time goes into imports: the collector walks their objects, and numpy's linear algebra starts threads
    collecting = gc.isenabled()
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        return _synced(store, settings, when_few, wait)
    finally:
        if collecting:
            gc.enable()


def sync_at_once(store: Store, settings: Settings) -> list[StageReport] | None:
    """Sync as :func:`sync` does; None, and nothing is captured, where another process writes what it would."""
    if busy := store.ledger.live_leases().keys():
        from ctx_pipeline.pipeline import capture, index, ingest
        from ctx_pipeline.pipeline.forget import sessions as forgetting

        if not busy.isdisjoint({capture.LEASE, ingest.LEASE, index.SEARCH, forgetting.LEASE}):
            return None
    with suppress(StoreLocked):
        return sync(store, settings, wait=0.0)
    return None


NEXT = "sync/next"
"""Lease of the one sync that waits for another writer."""


def take_turn(store: Store) -> bool:
    """Wait until nobody captures or ingests; False at once where another sync waits for that, which will see all that is there now."""
    busy = store.ledger.live_leases().keys()
    if not busy:
        return True
    # imported where somebody writes alone: a sync with nothing to do needs no ingest
    from ctx_pipeline.pipeline import capture, ingest

    writers = (capture.LEASE, ingest.LEASE)
    if busy.isdisjoint(writers):
        return True
    with ExitStack() as held:
        try:
            held.enter_context(store.ledger.lease(NEXT, wait=0.0))
        except StoreLocked:
            return False
        for name in writers:
            held.enter_context(store.ledger.lease(name))
    return True


def _synced(store: Store, settings: Settings, when_few: Callable[[], None] | None, wait: float) -> list[StageReport]:
    from ctx_pipeline.pipeline import capture, code_versions
    from ctx_pipeline.pipeline.repair.missing_outputs import reconcile_missing_outputs

    reconcile_missing_outputs(store)
    scan = capture.scan(store, settings)
    large = sum(p.size for p in scan.pending) > MANY_BYTES
    unfinished = store.ledger.unfinished_cells(versions=code_versions.decoders(store.files, settings, later=large))
    if scan.nothing_new and not unfinished:
        capture.note_times(store, scan)
        return []
    from ctx_pipeline.pipeline.capture.retention import require_disk_space

    require_disk_space(settings)
    if when_few and not unfinished and sum(p.size for p in scan.pending) <= FEW_BYTES:
        when_few()
    from ctx_pipeline.pipeline.forget.sessions import keep_forgotten_out
    from ctx_pipeline.pipeline.ingest import ingest

    with keep_forgotten_out(store, settings):
        reports = ingest(store, settings, scan=scan, wait=wait)
    if large:
        with suppress(DeclarationError):
            code_versions.versions(store.files, settings)  # a worker with nothing left to do has asked already
    return reports

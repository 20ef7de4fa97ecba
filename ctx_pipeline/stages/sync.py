"""Sync: what a hook calls when a session ended. One scan, and an ingest of what is new."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.stages.reports import StageReport
    from ctx_pipeline.storage import Store


def sync(store: Store, settings: Settings) -> list[StageReport]:
    """Ingest what changed since the last look and return the reports; an empty list when nothing did.

    The stages after the normalized tables are left to the next run. Another writer is waited for.
    """
    # most of the time goes into imports: the collector walks their objects, and numpy's linear algebra starts threads
    collecting = gc.isenabled()
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        return _synced(store, settings)
    finally:
        if collecting:
            gc.enable()


def _synced(store: Store, settings: Settings) -> list[StageReport]:
    from ctx_pipeline.stages import capture, code_versions
    from ctx_pipeline.stages.lost import settle_lost

    settle_lost(store)
    scan = capture.scan(store, settings)
    if scan.nothing_new and not store.ledger.unfinished_cells(versions=code_versions.versions(store.files, settings).decoders):
        return []
    from ctx_pipeline.stages.forget import kept_forgotten
    from ctx_pipeline.stages.ingest import ingest

    with kept_forgotten(store, settings):
        return ingest(store, settings, scan=scan)

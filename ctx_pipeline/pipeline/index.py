"""The two full-text indexes: made anew where they are missing or made of something older."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.pipeline import reports
from ctx_pipeline.pipeline.reports import DONE, UNCHANGED, CellReport, StageReport
from ctx_pipeline.storage import memory_index
from ctx_pipeline.storage.files import Made

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.memory_index import Embedder

CODE_VERSION = "5"
MEMORY = "memory/index"
SEARCH = "search/index"
WHOLE = Cell("", "")
_SOURCE = "memory/consolidated"


def code_version() -> str:
    """Return the version of making the index of memories: of the stage, and of the file that it writes."""
    return f"{CODE_VERSION}.{memory_index.VERSION}"


def memory_version(version: str, settings: Settings) -> str:
    """Return the version of the index of memories: with another embedding function its vectors are others."""
    return f"{version}.{digest(settings.embedder, size=8)}" if settings.embedder else version


def _embedder(settings: Settings) -> Embedder | None:
    if not settings.embedder:
        return None
    from ctx_pipeline.context.retrieval.embedding import load_embedding
    from ctx_pipeline.storage.memory_index import Embedder

    return Embedder(settings.embedder, load_embedding(settings.embedder))


def index_memory(store: Store, settings: Settings, *, force: bool = False) -> StageReport:
    """Rebuild ``memory.db`` from the memories and swap it in, unless it was made of exactly these.

    Raises SettingsError where the embedding function that the settings name cannot be loaded.
    """
    began = time.perf_counter()
    with store.ledger.lease(MEMORY):
        made_of = reports.of_now(store.ledger, (_SOURCE,))
        row = store.ledger.asset_cell(MEMORY, WHOLE)
        counts: dict[str, int] = {}
        version = memory_version(code_version(), settings)
        made = store.memories.made()
        status = UNCHANGED
        if force or made is None or made[:2] != (made_of, version):
            memories = [Memory._make(r) for r in store.lake.read_rows("memories", WHOLE, _SOURCE)]
            above = store.lake.manifest(_SOURCE, WHOLE)
            made = Made(made_of, version, above.content_hash if above else "", len(memories))
            counts = {"memories": store.memories.rebuild(memories, embedder=_embedder(settings), afresh=force, made=made)}
            status = DONE
        content = made.content_hash
        if row is None or (row.input_fp, row.code_version, row.content_hash) != made[:3]:
            store.ledger.record_asset(MEMORY, WHOLE, *made)
    seconds = time.perf_counter() - began
    return StageReport("index_memory", {"": CellReport(status, counts, content, seconds)}, counts, seconds)


def index_search(store: Store, settings: Settings, *, force: bool = False) -> StageReport:  # noqa: ARG001 - every stage takes the same
    """Rebuild ``search.db`` from the lake when it is missing, of another version, mostly dead or forced; an ingest keeps it up to date.

    A file that does not say that it holds these tables is compared with them, and brought to them where it differs.
    """
    began = time.perf_counter()
    with store.ledger.lease(SEARCH):
        made_of = reports.of_now(store.ledger, tuple(f"normalized/{t}" for t in NORMALIZED))
        row = store.ledger.asset_cell(SEARCH, WHOLE)
        exists = (store.home / "search.db").exists()
        counts: dict[str, int] = {}
        status = UNCHANGED
        other = row is not None and row.code_version != CODE_VERSION
        if force or not exists or other or store.search.mostly_dead:
            store.search.rebuild(store.lake)
            status = DONE
        elif store.search.made_of() != made_of and not store.search.agrees(store.lake):
            store.search.reconcile(store.lake)
            status = DONE
        if store.search.made_of() != made_of:
            store.search.note_made_of(made_of)
        if row is None or row.input_fp != made_of or row.code_version != CODE_VERSION or status == DONE:
            rows = sum(found.rows for found in store.ledger.asset_cells("normalized/events").values())
            store.ledger.record_asset(SEARCH, WHOLE, input_fp=made_of, code_version=CODE_VERSION, content_hash=made_of, rows=rows)
            counts = {"events": rows}
    seconds = time.perf_counter() - began
    return StageReport("index_search", {"": CellReport(status, counts, made_of, seconds)}, counts, seconds)

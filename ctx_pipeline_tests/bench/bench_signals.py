"""What all signals over a home cost beside the mining that reads the same cells, and a backfill of one family."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.settings import load
from ctx_pipeline.stages import measure, mine
from ctx_pipeline.stages.derived_cells import run_cells
from ctx_pipeline.stages.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.bench.rows import Row, floor

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_FAMILY = "context_window"
_PROCESSES = 2
"""A run shares the cells between two processes: four seconds of it are eight of a processor."""


def signal_rows(home: Path) -> list[Row]:
    """Return the processor seconds of mining, of mining and measuring in one read, of what the signals add, and of one family."""
    share = floor(home).megabytes / 500
    with tempfile.TemporaryDirectory() as folder:
        environ = {"CTX_HOME": folder, "CLAUDE_CONFIG_DIR": str(home / ".claude"), "CODEX_HOME": str(home / ".codex"), "HOME": folder}
        settings = load(environ)
        with open_store(settings) as store:
            ingest(store, settings)
            alone = _taken(store, settings, measured=False)
            both = _taken(store, settings, measured=True)
            began = time.process_time()
            measure.measure(store, settings, families=[_FAMILY], force=True)
            family = time.process_time() - began
    return [
        Row("mining alone, processor", alone),
        Row("mining and all signals in one read, processor", both),
        Row("what all signals add to a run, processor", both - alone, "s", 4.0 * _PROCESSES * share),
        Row(f"backfill of one family ({_FAMILY}), processor", family),
    ]


def _taken(store: Store, settings: Settings, *, measured: bool) -> float:
    """Return the processor seconds of the stages over all cells, everything anew."""
    methods = [name for name, method in discovery.methods().items() if method.deterministic and not method.families]
    stages = {"mine": mine.plan(store, methods)} | ({"measure": measure.plan(store, settings)} if measured else {})
    began = time.process_time()
    run_cells(store, stages, None, force=True)
    return time.process_time() - began

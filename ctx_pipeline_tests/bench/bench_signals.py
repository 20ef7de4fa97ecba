"""What all signals over a home cost beside the mining that reads the same cells, and what filling one of them takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.pipeline import measure, mine
from ctx_pipeline.pipeline.derived_partitions import run_cells
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import load
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.bench.rows import Row, floor

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_FAMILY = "context_window"
_PART = 50_000_000
"""Bytes of a home over which a new signal is filled."""

_NEW = '''
from ctx_pipeline.model.declared import Reading, signal


@signal(group="activity", unit="answers", better="neither", reads=("events",))
def long_answers(session):
    """How many answers are long."""
    found = [e for e in session.events if e.kind == "answer" and len(e.text or "") > 40]
    return Reading(float(len(found)), tuple(e.event_id for e in found[:8]))
'''


def signal_rows(home: Path) -> list[Row]:
    """Return the processor seconds of mining, of mining and measuring in one read, of what the signals add, and of one family."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load(_environ(home, Path(folder)))
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
        # a run shares the cells between two processes: four seconds of it are eight of a processor
        Row("what all signals add to a run, processor", both - alone, megabytes=floor(home).megabytes),
        Row(f"backfill of one family ({_FAMILY}), processor", family),
    ]


def new_signal_rows(home: Path) -> list[Row]:
    """Return what ``ctx backfill --signal`` takes as a process, over a part of the home, for a file that was just added."""
    with tempfile.TemporaryDirectory() as folder:
        part, store = Path(folder) / "home", Path(folder) / "store"
        _copy_part(home, part)
        environ = os.environ | _environ(part, store)
        ctx = (sys.executable, "-m", "ctx_pipeline")
        subprocess.run((*ctx, "sync"), env=environ, check=True, capture_output=True)
        added = store / "config" / "signals" / "long_answers.py"
        added.parent.mkdir(parents=True)
        added.write_text(_NEW, "utf-8")
        began = time.perf_counter()
        subprocess.run((*ctx, "backfill", "--signal", "long_answers"), env=environ, check=True, capture_output=True)
        taken = time.perf_counter() - began
        return [Row("signal: a new one filled over 50 MB, whole process", taken, megabytes=floor(part).megabytes)]


def _copy_part(home: Path, part: Path) -> None:
    """Copy transcripts of every host in turn until they are large enough."""
    hosts = (".claude", ".codex")
    left = dict.fromkeys(hosts, _PART / len(hosts))
    for host in hosts:
        for path in sorted((home / host).rglob("*.jsonl")):
            if left[host] <= 0:
                break
            left[host] -= path.stat().st_size
            copy = part / path.relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _environ(home: Path, store: Path) -> dict[str, str]:
    return {"CTX_HOME": str(store), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "CODEX_HOME": str(home / ".codex"), "HOME": str(store)}


def _taken(store: Store, settings: Settings, *, measured: bool) -> float:
    """Return the processor seconds of the stages over all cells, everything anew."""
    methods = [name for name, method in discovery.methods().items() if method.deterministic and not method.families]
    stages = {"mine": mine.plan(store, methods)} | ({"measure": measure.plan(store, settings)} if measured else {})
    began = time.process_time()
    run_cells(store, stages, None, force=True)
    return time.process_time() - began

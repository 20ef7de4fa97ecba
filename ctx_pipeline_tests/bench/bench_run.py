"""How long whole commands take: `ctx run` the first time, again and after a new session, a search, help."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline_tests.bench.bench_ingest import QUERIES, _Memory, add_session
from ctx_pipeline_tests.bench.rows import Row, copied, floor, many

if TYPE_CHECKING:
    from collections.abc import Mapping

CTX = (sys.executable, "-m", "ctx_pipeline")


def help_rows() -> list[Row]:
    """Return what help takes as a process, the median of five."""
    seconds = [_timed((*CTX, "--help"), os.environ) for _ in range(many(5) + 1)][1:]
    return [Row("ctx --help, whole process", statistics.median(seconds))]


def run_rows(home: Path) -> list[Row]:
    """Return what `ctx run` takes on a copy of a home: all of it, nothing new, one new session of each host; and a search after it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(home, Path(folder) / "home")
        megabytes = floor(copy).megabytes
        environ = {
            **os.environ,
            "CTX_HOME": str(Path(folder) / "store"),
            "CLAUDE_CONFIG_DIR": str(copy / ".claude"),
            "CODEX_HOME": str(copy / ".codex"),
            "TZ": "UTC",
        }
        before = _processor()
        watcher = _Memory()
        began = time.perf_counter()
        process = subprocess.Popen((*CTX, "run", "--json"), env=environ, stdout=subprocess.DEVNULL)
        watcher.watch(process.pid)
        if status := process.wait():
            raise RuntimeError(f"ctx run ended with {status}")
        first = time.perf_counter() - began
        rows = [
            Row("ctx run: everything, first time", first, megabytes=megabytes),
            Row("ctx run: processor seconds of all its processes", _processor() - before, "s"),
            Row("ctx run: memory of its processes", watcher.peak / 1e6, "MB"),
        ]
        nothing = [_timed((*CTX, "run", "--json"), environ) for _ in range(many(3) + 1)][1:]
        rows.append(Row("ctx run: nothing new, whole process", statistics.median(nothing)))
        searches = [_timed((*CTX, "search", text), environ) for text in QUERIES[: many(len(QUERIES))]]
        rows.append(Row("ctx search, whole process, median", statistics.median(searches)))
        add_session(copy / ".claude" / "projects")
        add_session(copy / ".codex" / "sessions")
        rows.append(Row("ctx run: one new session of each host, through Dagster", _timed((*CTX, "run", "--json"), environ)))
    return rows


def _timed(command: tuple[str, ...], environ: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _processor() -> float:
    """Return user and system seconds of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

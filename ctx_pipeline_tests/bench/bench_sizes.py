"""What everyday commands cost over a history: processor, wall time and memory of whole processes.

``--size 500m --size 5g --sessions 400 --sessions 4000`` makes homes of these sizes, runs
these rows over each and prints the cost against the size as a table; ``--plot FILE``
draws it. Where ``ccusage`` is installed, it counts the same home in the same run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline_tests.bench.bench_ingest import _Memory
from ctx_pipeline_tests.bench.bench_run import CTX
from ctx_pipeline_tests.bench.homes import add_sessions
from ctx_pipeline_tests.bench.rows import Row, copied, floor, many

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPORTS = {
    "ctx": (),
    "usage daily": ("usage", "daily"),
    "usage session": ("usage", "session"),
    "work": ("work",),
    "list": ("list",),
    "search": ("search", "why does the export fail"),
    "blocks": ("usage", "blocks"),
    "wrapped": ("wrapped",),
    "explain, a month": ("explain", "2026-10"),
    "doctor": ("doctor",),
}
"""Row -> what a person types."""

PEER = ("ccusage", "daily", "--offline", "--json")
"""does what ``usage daily`` does without a store"""

ADDED_KB = 1000
"""of the one more session of each host, together"""


class Spent(NamedTuple):
    """What one process and its children took."""

    seconds: float
    processor: float
    megabytes: float
    """most memory of all of them together, 0 off Linux"""


def size_rows(home: Path) -> list[Row]:
    """Return the cost of a first run, of one more session, of nothing new, and of each report, over a copy of a home."""
    with tempfile.TemporaryDirectory() as folder:
        copy, store = copied(home, Path(folder) / "home"), Path(folder) / "store"
        environ = {
            **os.environ,
            "HOME": str(copy),
            "CTX_HOME": str(store),
            "CLAUDE_CONFIG_DIR": str(copy / ".claude"),
            "CODEX_HOME": str(copy / ".codex"),
            "TZ": "UTC",
        }
        unread = {**environ, "CTX_HOME": str(Path(folder) / "none")}
        took = {"usage daily, no store": spent((*CTX, "usage", "daily"), unread), "run, first": spent((*CTX, "run"), environ)}
        if shutil.which(PEER[0]):
            took[" ".join(PEER[:2])] = spent(PEER, environ)
        took["run, nothing new"] = _least([spent((*CTX, "run"), environ) for _ in range(many(3))])
        raw = floor(copy).megabytes
        kept = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e6
        added = iter(range(100))
        for words, command in (("run, one more session", "run"), ("sync, one more session", "sync")):
            found = []
            for _ in range(many(3)):
                add_sessions(copy, next(added), megabytes=many(ADDED_KB) / 1000)
                found.append(spent((*CTX, command), environ))
            took[words] = _least(found)
        spent((*CTX, "run"), environ)
        took |= {words: _least([spent((*CTX, *typed), environ) for _ in range(many(3))]) for words, typed in REPORTS.items()}
        rows = [row for words, one in took.items() for row in _told(words, one)]
        return [*rows, Row("size: store / raw", kept / raw, "")]


def spent(command: Sequence[str], environ: Mapping[str, str]) -> Spent:
    """Run a command to its end and return what it took; raises RuntimeError where it fails."""
    watcher, began = _Memory(), time.perf_counter()
    process = subprocess.Popen(command, env=dict(environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watcher.watch(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(time.perf_counter() - began, used.ru_utime + used.ru_stime, watcher.peak / 1e6)


def _least(found: Sequence[Spent]) -> Spent:
    return Spent(min(one.seconds for one in found), min(one.processor for one in found), max(one.megabytes for one in found))


def _told(words: str, took: Spent) -> list[Row]:
    return [
        Row(f"size: {words}, wall", took.seconds),
        Row(f"size: {words}, processor", took.processor),
        Row(f"size: {words}, memory", took.megabytes, "MB"),
    ]

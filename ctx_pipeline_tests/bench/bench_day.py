"""A day of work beside ``ctx run --watch``: agents write to sessions of a history, and it keeps up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline_tests.bench.bench_ingest import _CALL, _ID, _Memory
from ctx_pipeline_tests.bench.bench_run import CTX
from ctx_pipeline_tests.bench.rows import Row, copied, floor, many

if TYPE_CHECKING:
    from collections.abc import Mapping

APPENDS, SESSIONS, SECONDS = 200, 12, 1.5
"""How often something is written, to how many sessions in turn, and how long nothing follows."""

_RECORD = re.compile(_ID.pattern.encode())

_LONGEST_REST = 150.0
"""seconds after which a run that looks for what was written has begun"""

_LINES = 12
"""of a session that are written again, as calls of their own"""


def day_rows(home: Path) -> list[Row]:
    """Return what a day costs that 200 times something is written on: processor, the longest that a page was behind, and memory."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(home, Path(folder) / "home")
        environ = {
            **os.environ,
            "HOME": str(copy),
            "CTX_HOME": str(Path(folder) / "store"),
            "CLAUDE_CONFIG_DIR": str(copy / ".claude"),
            "CODEX_HOME": str(copy / ".codex"),
            "TZ": "UTC",
        }
        subprocess.run((*CTX, "run"), env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        megabytes = floor(copy).megabytes
        spent, behind, memory, runs = _watched(copy, environ, many(APPENDS, least=2))
    return [
        Row("day: 200 appends beside ctx run --watch, processor seconds", spent, megabytes=megabytes),
        Row("day: runs", runs, "runs", megabytes=megabytes),
        Row("day: longest that the page was behind", behind, megabytes=megabytes),
        Row("day: memory of its processes", memory / 1e6, "MB", megabytes=megabytes),
    ]


def _watched(home: Path, environ: Mapping[str, str], appends: int) -> tuple[float, float, int, int]:
    """Return processor seconds, the longest that something written was not on the page, the most memory, and how often it was made."""
    process = subprocess.Popen(
        (*CTX, "run", "--watch", "--json"), env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    runs: list[tuple[float, float]] = []

    def read() -> None:
        for line in process.stdout or ():
            ended = time.monotonic()
            runs.append((ended - json.loads(line)["seconds"], ended))

    threading.Thread(target=read, daemon=True).start()
    memory = _Memory()
    memory.watch(process.pid)
    time.sleep(many(10))
    paths = sorted((p for p in home.rglob("*.jsonl") if _ID.search(p.name)), key=lambda p: (p.stat().st_size, p))
    middle = len(paths) // 2
    chosen = paths[max(0, middle - SESSIONS // 2) :][:SESSIONS]
    written = []
    for turn in range(appends):
        _append(chosen[turn % len(chosen)])
        written.append(time.monotonic())
        time.sleep(SECONDS)
    while not any(began > written[-1] for began, _ in runs):
        if process.poll() is not None:
            raise RuntimeError(f"ctx run --watch ended with {process.returncode}")
        if time.monotonic() - written[-1] > _LONGEST_REST:  # a run that was at work saw the last one as well
            _append(chosen[0])
            written.append(time.monotonic())
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, _, used = os.wait4(process.pid, 0)
    behind = max(min(ended for began, ended in runs if began > at) - at for at in written)
    return used.ru_utime + used.ru_stime, behind, memory.peak, len(runs)


def _append(path: Path) -> None:
    """Write the last lines of a session once more, as records and calls that no other has."""
    new = uuid.uuid4().hex[:8].encode()
    found = _ID.search(path.name)
    session = found.group().encode() if found else b""
    tail = b"".join(path.read_bytes().splitlines(keepends=True)[-_LINES:])
    tail = _RECORD.sub(lambda match: match.group() if match.group() == session else new + match.group()[8:], tail)
    with path.open("ab") as file:
        file.write(_CALL.sub(lambda match: match.group()[:20] + new, tail))

"""How long ``ctx usage daily`` takes as a process: from the homes, and from a store; ccusage beside it where it is installed."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ctx_pipeline_tests.bench.rows import Row, many

ROUNDS = 5


def usage_rows(home: Path) -> list[Row]:
    """Return the median seconds of whole processes over a folder with ``.claude`` and ``.codex``."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            **os.environ,
            "CTX_HOME": str(Path(folder) / "store"),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "CODEX_HOME": str(home / ".codex"),
            "TZ": "UTC",
        }
        ctx = [sys.executable, "-m", "ctx_pipeline"]
        peer = shutil.which("ccusage")
        told = _median([peer, "daily", "--offline", "--json"], environ) if peer else None
        rows = [
            Row("ctx usage daily, no state", _median([*ctx, "usage", "daily", "--json"], environ), peer=told),
            Row("ctx (last week and findings), no state", _median(ctx, environ)),
            Row("ctx usage statusline, no state", _median([*ctx, "usage", "statusline"], environ)),
        ]
        if told is not None:
            rows.append(Row("ccusage daily --offline --json", told))
        subprocess.run([*ctx, "sync"], env=environ, check=True, capture_output=True)
        rows += [
            Row("ctx usage daily, after a run", _median([*ctx, "usage", "daily", "--json"], environ)),
            Row("ctx (last week and findings), after a run", _median(ctx, environ)),
        ]
    return rows


def _median(command: list[str], environ: dict[str, str]) -> float:
    seconds = []
    for _ in range(many(ROUNDS)):
        began = time.perf_counter()
        subprocess.run(command, env=environ, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)

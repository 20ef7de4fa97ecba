"""What Dagster costs: loading the graph, recording eight cells, and not being needed at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ctx_pipeline import settings as settings_file
from ctx_pipeline_tests.bench.rows import Row, many
from ctx_pipeline_tests.factories.months import write_month

CELLS = 8

_NO_CHANGE = """
from ctx_pipeline import settings
from ctx_pipeline.pipeline import capture; from ctx_pipeline.pipeline import plan
from ctx_pipeline.pipeline.run import summary
from ctx_pipeline.storage import open_store
s = settings.load()
with open_store(s) as store:
    assert plan.plan(store, s, capture.scan(store, s)).nothing_to_do
    summary(store, s, None, seconds=0.0)
"""


def dagster_rows() -> list[Row]:
    """Measure on a home of eight small months, so that what is left is bookkeeping."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = {
            **os.environ,
            "CTX_HOME": str(root / "store"),
            "CLAUDE_CONFIG_DIR": str(root / "claude"),
            "CODEX_HOME": str(root / "none"),
        }
        for number in range(many(CELLS, 2)):
            write_month(root / "claude", f"2026-{number + 1:02d}", number)
        loading = _process("import ctx_pipeline.definitions", environment)

        from ctx_pipeline.defs import launch

        settings = settings_file.load(environment)
        first = _run(launch, settings)
        again = _process(_NO_CHANGE, environment)
        write_month(root / "claude", "2026-02", 1, prompts=2)
        one = _run(launch, settings)
    return [
        Row("definitions: process that imports them", loading),
        Row("Dagster run of eight small cells and the tail", first),
        Row("Dagster run after one append (in a warm process)", one),
        Row("nothing new: scan, plan and summary, whole process", again),
    ]


def _run(launch: object, settings: object) -> float:
    began = time.perf_counter()
    launch.run(settings)
    return time.perf_counter() - began


def _process(script: str, environment: dict[str, str]) -> float:
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    return time.perf_counter() - began

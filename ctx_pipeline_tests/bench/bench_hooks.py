"""How long the hook at a prompt and at a session's start takes as a process, over 100,000 memories."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.bench.bench_memory import queries, synthetic
from ctx_pipeline_tests.bench.rows import Row

RUNS = 15
BUDGET = 0.150


def hook_rows() -> list[Row]:
    """Return wall and CPU seconds of a whole process, the median of some; the floor is a Python that does nothing."""
    memories = synthetic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "store"
        MemoryIndex(home / "memory.db").rebuild(memories)
        project = Path(folder) / "project"
        (project / ".git").mkdir(parents=True)
        (project / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/project-7.git\n', "utf-8")
        env = {"PATH": os.environ["PATH"], "HOME": folder, "CTX_HOME": str(home)}
        hook = [sys.executable, "-P", "-m", "ctx_pipeline", "hook", "weave", "any"]
        prompt = [{"hook_event_name": "UserPromptSubmit", "prompt": q} for q in queries(memories, RUNS)]
        kinds = {
            "hook: at a prompt": (hook, prompt),
            "hook: at a session's start": (hook, [{"hook_event_name": "SessionStart", "source": "startup"}] * RUNS),
            "hook: floor, python that does nothing": ([sys.executable, "-c", ""], [{}] * RUNS),
        }
        rows = []
        for name, (command, payloads) in kinds.items():
            walls, cpus = [], []
            for number, payload in enumerate(payloads):
                data = json.dumps({"session_id": f"{name} {number}", "cwd": str(project), **payload}).encode()
                wall, cpu = _timed(command, data, env)
                walls.append(wall)
                cpus.append(cpu)
            budget = None if "floor" in name else BUDGET
            rows += [
                Row(f"{name}, wall, median", statistics.median(walls), "s", budget),
                Row(f"{name}, CPU, median", statistics.median(cpus), "s", budget),
            ]
    return rows


def _timed(command: list[str], data: bytes, env: dict[str, str]) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, input=data, env=env, capture_output=True, check=True, timeout=60)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    for row in hook_rows():
        print(f"{row.name:60} {row.value:10.3f} {row.unit}")

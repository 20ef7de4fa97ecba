"""A model server on loopback and a callback into a store of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def program(tmp_path):
    """Run Python text in an interpreter of its own, with DSPy and a store below the test's folder."""

    started = []

    def run(code: str, *, wait: bool = True, **more):
        command = [sys.executable, "-W", "ignore", "-c", code]
        settings = {"cwd": tmp_path, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen(command, env=_environment(tmp_path), **settings)
        started.append(process)
        if not wait:
            return process
        said, errors = process.communicate(timeout=110)
        assert process.returncode == 0, errors
        return said, errors

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTX_")}
    return {**kept, "PYTHONPATH": str(ROOT), "CTX_HOME": str(tmp_path / "store"), "DSPY_CACHEDIR": str(tmp_path / "cache")}

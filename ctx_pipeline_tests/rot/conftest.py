"""A model server on loopback and a callback into a store of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctx_pipeline_tests import processes

# LiteLLM asks the network for prices when it is loaded, and waits for it
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 250
"""How long a program of a test may take, less than a test may."""


@pytest.fixture
def program(tmp_path):
    """Run Python text in an interpreter of its own, with DSPy and a store below the test's folder."""

    def run(code: str, *, wait: bool = True, **more):
        command = [sys.executable, "-W", "ignore", "-c", code]
        settings = {"cwd": tmp_path, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = processes.start(command, env=_environment(tmp_path), **settings)
        if not wait:
            return process
        said, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors
        return said, errors

    return run


def _environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTX_")}
    return {**kept, "PYTHONPATH": str(ROOT), "CTX_HOME": str(tmp_path / "store"), "DSPY_CACHEDIR": str(tmp_path / "cache")}

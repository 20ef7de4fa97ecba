"""What a newcomer waits for: a fresh environment with the package and everything it needs, from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PathDistribution
from pathlib import Path

from ctx_pipeline_tests.bench.rows import TRIAL, Row
from ctx_pipeline_tests.factories.environments import required, size

CHECKOUT = Path(__file__).resolve().parents[2]


def install_rows() -> list[Row]:
    """Return seconds and size of an environment with the package; a trial installs it without what it needs, and asks no index."""
    alone = bool(os.environ.get(TRIAL))
    with tempfile.TemporaryDirectory() as folder:
        made, environment = Path(folder) / "dist", Path(folder) / "environment"
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
        _run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(made), str(CHECKOUT))
        (wheel,) = made.glob("*.whl")
        began = time.perf_counter()
        _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
        _run(*pip, f"--python={environment / 'bin' / 'python'}", "install", *(("--no-deps", "--no-index") if alone else ()), str(wheel))
        taken = time.perf_counter() - began
        (own,) = environment.glob("lib/python*/site-packages/ctx_pipeline-*.dist-info")
        slim, whole = (size(required(PathDistribution(own), extras)) / 1e6 for extras in (frozenset[str](), frozenset({"all"})))
        octets = sum(p.lstat().st_size for p in environment.rglob("*") if p.is_file() and not p.is_symlink())
    rows = [Row("install: its libraries", slim, "MB"), Row("install: its libraries with all extras", whole, "MB")]
    return [Row("install: a fresh environment with the package", taken), Row("install: its size", octets / 1e6, "MB"), *rows]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

"""What a newcomer waits for: a fresh environment with the package and everything it needs, from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ctx_pipeline_tests.bench.rows import TRIAL, Row

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
        size = sum(p.lstat().st_size for p in environment.rglob("*") if p.is_file() and not p.is_symlink())
    return [Row("install: a fresh environment with the package", taken), Row("install: its size", size / 1e6, "MB")]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

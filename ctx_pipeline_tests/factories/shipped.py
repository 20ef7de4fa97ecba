"""The shipped sample homes in a folder of a test's own, and the environment of a process that has nothing but them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose store and homes lie in a folder; it imports the package that the tests do."""
    return {
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "nobody"),
        "CTX_HOME": str(folder / "store"),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CODEX_HOME": str(folder / "codex"),
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        # the tree under test, wherever another one is installed
        "PYTHONPATH": str(SAMPLES.parents[1]),
    }


def copied(folder: Path) -> dict[str, str]:
    """Copy the sample homes into a folder and return the environment of a process that has nothing but them."""
    (folder / "nobody").mkdir(parents=True, exist_ok=True)
    for host in ("claude", "codex"):
        # as if written now: a checkout may be older than a host keeps its transcripts
        shutil.copytree(SAMPLES / host, folder / host, copy_function=shutil.copy)
    return environment(folder)

"""What runs without a person: each run leaves when it ran and how it ended in ``schedule.json``."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import CtxError
from ctx_pipeline.integrations.agent_config import program
from ctx_pipeline.pipeline.capture.disk_space import require_disk_space
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings

KEPT = "schedule.json"
JOBS: Mapping[str, tuple[str, ...]] = {"sync": ("sync",), "run": ("run",)}
"""job -> words of the command that it starts"""
_SAID = 300


def run_job(settings: Settings, name: str) -> dict[str, Any]:
    """Start a job's command, wait for it and return what was noted of it: began, seconds, ok, said (its last line).

    Nothing starts when the disk has less room than ``least_free_bytes``; that is noted
    too. The command's own leases keep two of them apart.
    """
    began = datetime.now(UTC)
    try:
        require_disk_space(settings)
        done = subprocess.run(  # noqa: S603 - this package itself
            [*program(), *JOBS[name]],
            env={**os.environ, **settings.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except (CtxError, OSError) as error:
        ok, said = False, str(error)
    else:
        ok, said = not done.returncode, (done.stderr if done.returncode else done.stdout)
    lines = [line for line in said.splitlines() if line.strip()]
    note = {
        "began": f"{began:%Y-%m-%dT%H:%M:%S}Z",
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
        "ok": ok,
        "said": (lines[0 if not ok else -1] if lines else "")[:_SAID],
    }
    Files(settings.home).write(KEPT, json.dumps({**last_runs(settings), name: note}).encode())
    return note


def last_runs(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return job -> what was noted of its last run; nothing where none ran or the note cannot be read."""
    try:
        found = json.loads(Files(settings.home).read(KEPT))
    except (OSError, ValueError, CtxError):
        return {}
    return {name: note for name, note in found.items() if isinstance(note, dict)} if isinstance(found, dict) else {}

"""Programs that tests start: each leads a group of its own, and no test leaves one behind or waits for one without a bound."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline_tests import preloaded

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 60.0
"""How long a killed program may take to be gone."""

_started: list[subprocess.Popen[Any]] = []


def start(command: Sequence[str], **more: Any) -> subprocess.Popen[Any]:
    """Return a running program with everything it starts in one group; it is ended after the test."""
    process = subprocess.Popen(command, start_new_session=True, **more)
    _started.append(process)
    return process


def run(command: Sequence[str], *, seconds: float = 280.0, **more: Any) -> subprocess.CompletedProcess[str]:
    """Return what a program printed and how it ended; with everything that it started it is killed when it hangs."""
    if list(command[:3]) == preloaded.CTX and more.keys() <= {"env", "cwd"} and more.get("env"):
        return preloaded.run(command[3:], env=more["env"], cwd=more.get("cwd") or Path.cwd(), stdin=None, seconds=seconds)
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a program with its group, and close its pipes without reading them: a grandchild may still hold the other ends."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait(SECONDS)


def gone(pid: int, seconds: float = SECONDS) -> bool:
    """Tell whether a process that was killed ends; a killed orphan may wait as a zombie for a parent that never asks."""
    deadline = time.monotonic() + seconds
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not running(pid)


def running(pid: int) -> bool:
    """Tell whether a process does anything still."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end_all() -> None:
    """End every program and every child of ``multiprocessing`` that is left."""
    while _started:
        end(_started.pop())
    for child in multiprocessing.active_children():
        child.kill()
        child.join(SECONDS)

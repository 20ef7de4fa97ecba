"""``dagster dev`` over the person's instance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.settings import Settings

PATIENCE_SECONDS = 180

WATCH = "CTX_WATCH"
"""Set for the child alone: its sensors, automation and schedule are declared running, not switched on for ever."""


def environment(settings: Settings, home: Path, *, watch: bool = False) -> dict[str, str]:
    """Return the environment of ``dagster dev``: the same store, homes and instance as this process has."""
    named = {discovery.host(key).roots_env: ",".join(str(root) for root in roots) for key, roots in settings.demo_roots.items()}
    return {
        **os.environ,
        **named,
        "CTX_HOME": str(settings.home),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        WATCH: "1" if watch else "",
        "PYTHONWARNINGS": "ignore:Function `dev_command` is superseded",
        # sensors and steps run in the interpreter that has this package
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}",  # noqa: PTH120
    }


def serve(settings: Settings, home: Path, workspace: Path, *, port: int, watch: bool = False) -> None:
    """Run ``dagster dev`` until it ends or is interrupted; tells when it answers. Raises StoreError when it does not start."""
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", "127.0.0.1", "-p", str(port), "--log-level", "warning"]
    address = f"http://127.0.0.1:{port}"
    # the working folder must not hold a dagster.yaml or a package of another project
    process = subprocess.Popen(command, env=environment(settings, home, watch=watch), cwd=home, preexec_fn=_heed)  # noqa: S603, PLW1509
    former = signal.signal(signal.SIGTERM, _end)
    try:
        _wait(process, address)
        process.wait()
    except KeyboardInterrupt:
        # the terminal told the child as well
        process.wait(timeout=30)
    finally:
        signal.signal(signal.SIGTERM, former)
        if process.poll() is None:
            # dagster dev takes its children with it on an interrupt only
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)


def _heed() -> None:
    """Let the child be interrupted although a shell that runs it in the background ignores the signal for it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end(*_: object) -> None:
    """Leave through ``finally``, so that a supervisor's SIGTERM ends the child too."""
    raise SystemExit(0)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    began = time.monotonic()
    shown = -1
    tell = sys.stderr.write
    while time.monotonic() - began < PATIENCE_SECONDS:
        if process.poll() is not None:
            raise StoreError(f"dagster dev ended with status {process.returncode}", hint="see its lines above; is the port taken?")
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=1):  # noqa: S310 - our own loopback address
                tell(f"\rthe asset graph is at {address}/asset-groups, end it with Ctrl-C\n")
                return
        except (urllib.error.URLError, OSError):
            pass
        seconds = int(time.monotonic() - began)
        if seconds != shown and sys.stderr.isatty():
            shown = seconds
            tell(f"\rstarting Dagster, {seconds} s of about 20 …")
            sys.stderr.flush()
        time.sleep(0.2)
    raise StoreError(f"dagster dev did not answer within {PATIENCE_SECONDS} s", hint="try again; a first start compiles many files")

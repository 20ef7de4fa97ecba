"""Dagster's web server behind our gate, with its daemon and its code server beside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline import discovery, loopback
from ctx_pipeline.defs.instance_settings import RUNS_ENVIRONMENT
from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    import dagster as dg

    from ctx_pipeline.settings import Settings

GRAPHQL = "/graphql"
"""Dagster runs mutations that come here by GET as well."""

WATCH = "CTX_WATCH"
"""Set for this one start: its sensors, automation and schedule are declared running, not switched on for ever."""

_LOG_LEVEL = "warning"
_POLL_MILLISECONDS = 2000
_END_SECONDS = 60


def environment(settings: Settings, home: Path, *, watch: bool = False) -> dict[str, str]:
    """Return what the processes of the UI have in their environment: the same store, homes and instance as this process."""
    named = {discovery.host(key).files.roots_env: ",".join(str(root) for root in roots) for key, roots in settings.demo_roots.items()}
    return {
        **os.environ,
        **named,
        "CTX_HOME": str(settings.home),
        "DAGSTER_HOME": str(home),
        **RUNS_ENVIRONMENT,
        # its code server tells a broken definition itself, once
        "DAGSTER_IS_DEV_CLI": "1",
        WATCH: "1" if watch else "",
        # sensors and steps run in the interpreter that has this package
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}",  # noqa: PTH120
    }


@contextlib.contextmanager
def surroundings(settings: Settings, home: Path, *, watch: bool = False) -> Iterator[None]:
    """Give this process, and so its children, the environment and the working folder of the UI for a while."""
    before = dict(os.environ)
    os.environ.update(environment(settings, home, watch=watch))
    try:
        # the working folder must not hold a dagster.yaml or a package of another project
        with contextlib.chdir(home):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def serve(instance: dg.DagsterInstance, workspace: Path, listener: socket.socket) -> None:
    """Serve Dagster's UI on a socket until it is interrupted; tells the first address when it answers.

    The web server is this process, so that nothing of it can be reached but through the
    gate. Raises StoreError when the daemon ends by itself.
    """
    import dagster
    from dagster._cli.proxy_server_manager import ProxyServerManager
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_shared.serdes import serialize_value
    from dagster_webserver.app import create_app_from_workspace_process_context

    instance.optimize_for_webserver(statement_timeout=15_000, pool_recycle=3600, max_overflow=20)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ended_by_sigterm())
        code = stack.enter_context(ProxyServerManager(instance, WorkspaceFileTarget([str(workspace)]), _LOG_LEVEL))
        shared = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "workspace.yaml"
        # JSON is YAML
        shared.write_text(json.dumps({"load_from": list(code.get_code_server_specs())}), "utf-8")
        daemon = stack.enter_context(_daemon(shared, serialize_value(instance.get_ref())))
        loaded = stack.enter_context(
            WorkspaceProcessContext(instance, WorkspaceFileTarget([str(shared)]), dagster.__version__, code_server_log_level=_LOG_LEVEL)
        )
        token = loopback.new_token()
        app = create_app_from_workspace_process_context(loaded, live_data_poll_rate=_POLL_MILLISECONDS)
        server = loopback.server(app, listener, token, post_only=(GRAPHQL,))

        def follow() -> None:
            daemon.wait()
            server.should_exit = True

        threading.Thread(target=follow, daemon=True).start()
        sys.stderr.write(f"\rthe asset graph is at {loopback.address(listener, '/asset-groups', token)}\nend it with Ctrl-C\n")
        sys.stderr.flush()
        server.run(sockets=[listener])
        if daemon.poll() is not None:
            raise StoreError(f"Dagster's daemon ended with status {daemon.returncode}", hint="see its lines above, and start again: ctx ui")


@contextlib.contextmanager
def _daemon(workspace: Path, ref: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster's daemon over the code server and the instance that the web server has, as ``dagster dev`` does."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(workspace), "--log-level", _LOG_LEVEL, "--instance-ref", ref]
    process = subprocess.Popen(command)  # noqa: S603 - our own interpreter
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Leave through ``finally`` when a supervisor ends this process, so that its children end too."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    former = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)

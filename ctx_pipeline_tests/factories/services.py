"""Servers of a test's own: PostgreSQL behind a socket, Redis on loopback; skipped where the machine has none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

INITDB = shutil.which("initdb")
DATABASE = "postgres"


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of a PostgreSQL of its own behind a socket."""
    if INITDB is None or importlib.util.find_spec("dagster_postgres") is None:
        pytest.skip("needs initdb of PostgreSQL and dagster-postgres")
    folder = Path(tempfile.mkdtemp(prefix="ctx-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)

    def run(*words: str) -> None:
        subprocess.run(words, cwd=folder, user=user, check=True, capture_output=True)

    control = [str(Path(INITDB).resolve().with_name("pg_ctl")), "-w", "-D", str(folder / "data")]
    run(INITDB, "-D", str(folder / "data"), "-A", "trust", "-U", "postgres", "--no-sync")
    run(*control, "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "start")
    try:
        yield f"postgresql+psycopg2://postgres@/{DATABASE}?host={folder}"
    finally:
        run(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@contextmanager
def redis() -> Iterator[str]:
    """Yield the address of a Redis of its own."""
    command = shutil.which("redis-server")
    if command is None or importlib.util.find_spec("dagster_celery") is None:
        pytest.skip("needs redis-server of Debian and dagster-celery")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        words = [command, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                assert eventually(lambda: _answers(port), seconds=20)
                yield f"redis://127.0.0.1:{port}/0"
            finally:
                process.terminate()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as line:
        line.sendall(b"PING\r\n")
        return line.recv(16).startswith(b"+PONG")
    return False

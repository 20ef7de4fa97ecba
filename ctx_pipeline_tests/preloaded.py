"""``ctx`` in processes that fork from one which has imported what the commands do: each is a real process, without seconds of imports.

Where the environment chooses how Python starts, a process of its own is started instead,
as every test does that is about the start of a process.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CTX = [sys.executable, "-m", "ctx_pipeline"]

LIBRARIES = (
    *("dagster", "dagster._core.instance.factory", "dagster._core.storage.event_log.sqlite", "dagster._core.storage.legacy_storage"),
    *("alembic.command", "alembic.runtime.migration", "click", "duckdb", "lark", "msgspec", "pydantic", "sqlalchemy.dialects.sqlite"),
    *("tiktoken", "zstandard"),
)
"""What the commands import of others."""

_ROOMS = (
    *("cli", "dashboard", "defs", "facts", "findings", "hosts", "mcp_server", "mining", "pipeline", "sessions", "signals", "storage"),
    *("team", "usage"),
)
"""What they import of the package: modules that are imported do nothing yet and read no environment."""

_CHOOSES = ("PYTHON", "LANG", "LC_", "LD_")
_VERSIONS = "ctx_pipeline.pipeline.code_versions"
"""Notes when the process began that imports it."""
_LARGEST = 1 << 18
_ROOT = Path(__file__).resolve().parents[1]
_server: list[tuple[str, subprocess.Popen[bytes]]] = []


def run(words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: str | None, seconds: float) -> subprocess.CompletedProcess[str]:
    """Return what ``ctx``, or behind ``-c`` a program, printed and how it ended; with all that it started it is killed when it hangs."""
    command = [sys.executable, *words] if "-c" in words[:1] else [*CTX, *words]
    asked = json.dumps([list(words), dict(env), str(cwd)]).encode()
    if _of_python(env) != _of_python(_environment()) or len(asked) > _LARGEST:
        return subprocess.run(command, env=dict(env), cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=seconds)
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((stdin or "").encode())
        given.seek(0)
        status = _ended(asked, [given, out, err], seconds, command)
        return subprocess.CompletedProcess(command, status, _text(out), _text(err))


def begin(*words: str, env: Mapping[str, str], cwd: Path, seconds: float = 250.0) -> Future[subprocess.CompletedProcess[str]]:
    """Start what :func:`run` does, beside others; the result is waited for."""
    done: Future[subprocess.CompletedProcess[str]] = Future()

    def ran() -> None:
        try:
            done.set_result(run(words, env=env, cwd=cwd, stdin=None, seconds=seconds))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            done.set_exception(error)

    _forking()
    threading.Thread(target=ran, daemon=True).start()
    return done


_RELAY = """
import os, signal, socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
socket.send_fds(connection, [sys.argv[2].encode()], [0, 1, 2])
group = int(connection.recv(32))
signal.signal(signal.SIGTERM, lambda *_: os.killpg(group, signal.SIGTERM))
sys.exit(os.waitstatus_to_exitcode(int(connection.recv(32))) & 255)
"""


def command(*words: str, env: Mapping[str, str], cwd: Path) -> list[str]:
    """Return what starts ``ctx`` with an environment, for whoever starts programs; it ends with the one that is started."""
    if _of_python(env) != _of_python(_environment()):
        return [*CTX, *words]
    return [sys.executable, "-I", "-S", "-c", _RELAY, _forking(), json.dumps([words, dict(env), str(cwd)])]


def killed_after(seconds: float, words: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> int:
    """Return how ``ctx`` ended, which is killed with all that it started where it takes longer."""
    try:
        return run(words, env=env, cwd=cwd, stdin=None, seconds=seconds).returncode
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def _ended(asked: bytes, files: Sequence[IO[bytes]], seconds: float, command: Sequence[str]) -> int:
    """Return the exit status of a fork that was asked for, negative for a signal as :mod:`subprocess` has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(seconds)
        connection.connect(_forking())
        socket.send_fds(connection, [asked], [file.fileno() for file in files])
        connection.settimeout(None)  # whoever is asked to fork is only slow
        group = int(connection.recv(32))
        connection.settimeout(seconds)
        try:
            return os.waitstatus_to_exitcode(int(connection.recv(32)))
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, seconds) from None


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(_ROOT)}


def _of_python(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_CHOOSES)}


def _forking() -> str:
    """Return the address of the process that forks, started at the first call."""
    if not _server or _server[0][1].poll() is not None:
        place = tempfile.mkdtemp(prefix="ctx-fork-")
        path = f"{place}/socket"
        command = [sys.executable, "-m", __name__, path]
        ready = subprocess.Popen(command, env=_environment(), cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert ready.stdout is not None
        assert ready.stdout.readline() == b"ready\n"
        _server[:] = [(path, ready)]
    return _server[0][0]


def _modules() -> list[str]:
    found = (_ROOT / "ctx_pipeline" / room for room in _ROOMS)
    files = [file.relative_to(_ROOT).with_suffix("") for room in found for file in sorted(room.rglob("*.py"))]
    return [".".join(file.parts).removesuffix(".__init__") for file in files if not file.name.startswith("hub_")]


def serve(path: str) -> tuple[list[str], str] | None:
    """Import the libraries, then fork at each request; return in the fork alone, with its words and its folder.

    It ends when the test run that started it does, which holds its standard input.
    """
    for name in (*LIBRARIES, *_modules()):
        importlib.import_module(name)
    # the versions of all code, which a command over a new store works out for itself
    sys.modules[_VERSIONS].collect(sys.modules["ctx_pipeline.settings"].Settings(home=Path(os.devnull)))
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a request is not waited for
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(64)
    os.write(1, b"ready\n")
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        asked, files, _, _ = socket.recv_fds(connection, _LARGEST + 1, 3)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            child = os.fork()
            if child == 0:
                connection.close()
                return _become(asked, files)
            with suppress(OSError):
                connection.send(str(child).encode())
            for fd in files:
                os.close(fd)
            alive = [child]
            threading.Thread(target=_kill_when_left, args=(connection, alive), daemon=True).start()
            status = os.waitpid(child, 0)[1]
            alive.clear()
            with suppress(OSError):
                connection.send(str(status).encode())
            os._exit(0)
        for fd in files:
            os.close(fd)
        connection.close()
    shutil.rmtree(Path(path).parent, ignore_errors=True)
    return None


def _kill_when_left(connection: socket.socket, alive: Sequence[int]) -> None:
    """Kill the groups that are still alive when whoever asked for them is gone."""
    with suppress(OSError):
        connection.recv(1)
    for group in alive:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _become(asked: bytes, files: Sequence[int]) -> tuple[list[str], str]:
    words, env, folder = json.loads(asked)
    os.setsid()
    for fd, to in zip(files, (0, 1, 2), strict=True):
        os.dup2(fd, to)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(folder)
    sys.modules[_VERSIONS]._STARTED = time.time_ns()
    return words, folder


def _run_command(words: list[str], folder: str) -> int:
    """Return the exit status of the command, run as a module in this process."""
    program = words.pop(1) if "-c" in words[:1] else ""
    sys.argv[program == "" :], sys.path[0] = words, folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "ctx_pipeline_tests"]:
        del sys.modules[name]
    try:
        if program:
            exec(program, {"__name__": "__main__"})
            return 0
        runpy.run_module("ctx_pipeline", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    if (told := serve(sys.argv[1])) is not None:
        status = _run_command(*told)
        # to take apart what was imported before the fork would copy all of it
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(status)

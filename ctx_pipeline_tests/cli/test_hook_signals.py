"""A hook that is told to end while it works: no word on standard error, and no process that goes on."""

from __future__ import annotations

import array
import fcntl
import os
import resource
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ctx_pipeline
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories import patient_hook
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [
    pytest.mark.feature("hooks.ended"),
    pytest.mark.skipif(sys.platform != "linux", reason="other systems do not end a child with its parent"),
]

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CHECKOUT = str(Path(ctx_pipeline.__file__).parents[1])


def asked(environ: Mapping[str, str], megabytes: int | None, ignored: signal.Signals | None = None) -> subprocess.Popen[bytes]:
    """Return a hook that waits for the rest of what an agent says."""
    most = (megabytes or 0) << 20

    def begin() -> None:
        if most:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for number in ENDING:  # whoever runs the tests in the background has them ignored
            signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)

    hook = processes.start(
        patient_hook.command("weave", "claude"),
        env={"PYTHONPATH": _CHECKOUT, **environ, "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=begin if most or ignored else None,
    )
    hook.stdin.write(b"{")
    hook.stdin.flush()
    return hook


def reads(hook: subprocess.Popen[bytes]) -> bool:
    """Tell whether a hook has begun to read what the agent says: it took the first bytes out of the pipe."""
    left = array.array("i", [0])
    fcntl.ioctl(hook.stdin.fileno(), termios.FIONREAD, left)
    return left[0] == 0


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.fixture
def store(environ: Mapping[str, str]) -> Path:
    folder = Path(environ["CTX_HOME"])
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("limited", [None, 900])
@pytest.mark.parametrize("number", ENDING)
def test_a_hook_that_is_ended_says_so_in_its_log_alone(
    environ: Mapping[str, str], store: Path, number: signal.Signals, limited: int | None
):
    with asked(environ, limited) as hook:
        assert eventually(lambda: reads(hook))
        worker = children(hook.pid)[0] if limited else hook.pid

        hook.send_signal(number)

        assert hook.wait(100) == 0
        assert processes.gone(worker)
        assert hook.stderr.read() == b""
        assert hook.stdout.read() == b""
    assert f"weave claude: ended by {number.name}\n" in (store / "hooks.log").read_text()
    assert [path.name for path in store.iterdir()] == ["hooks.log"]


@pytest.mark.parametrize("limited", [None, 900])
def test_a_hook_goes_on_at_a_signal_that_it_was_started_to_ignore(environ: Mapping[str, str], store: Path, limited: int | None):
    with asked(environ, limited, ignored=signal.SIGHUP) as hook:
        assert eventually(lambda: reads(hook))
        worker = children(hook.pid)[0] if limited else hook.pid

        hook.send_signal(signal.SIGHUP)
        os.kill(worker, signal.SIGHUP)
        hook.stdin.write(b"}")
        hook.stdin.close()

        assert hook.wait(100) == 0
    log = store / "hooks.log"
    assert not log.exists() or "ended by" not in log.read_text()


def test_the_child_of_a_hook_that_was_killed_ends(environ: Mapping[str, str], store: Path):
    with asked(environ, 900) as hook:
        assert eventually(lambda: reads(hook))
        (worker,) = children(hook.pid)

        hook.kill()

        assert processes.gone(worker)
    assert "ended by SIGTERM" in (store / "hooks.log").read_text()

"""What a person is promised: no command opens a socket of a network unasked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"

DEFAULT = [
    "run",
    "sync",
    "",
    "list",
    "usage daily",
    "search export",
    f"show claude {SESSION}",
    "status",
    "doctor",
    "hints",
    "verify --deep",
    "memory list",
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.feature("privacy.no-socket")
def test_no_default_command_opens_a_socket_of_a_network(ctx: Ctx):
    log = ctx.folder / "calls"
    for line in DEFAULT:
        command = [sys.executable, "-m", "ctx_pipeline", *line.split()]
        traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=socket,execve", "-o", str(log), *command]
        done = subprocess.run(traced, env=ctx.environ, cwd=ctx.folder, capture_output=True, text=True, check=False, timeout=280)
        assert done.returncode == 0, done.stderr
        calls = log.read_text()
        assert "execve(" in calls
        assert re.findall(r"socket\((?!AF_UNIX).*", calls) == [], line

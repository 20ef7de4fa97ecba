"""Bounded questions to a repository of the person's that nothing in it can turn against them.

A repository is somebody's data: its configuration may name programs for hooks, pagers,
diffs, filters, a file-system monitor or another protocol. Every call switches these off,
takes no lock, asks no network and no terminal, ends after seconds and reads a bounded
answer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 8.0
"""A call to git that takes longer is ended with all it started."""

MOST_BYTES = 16 << 20
"""An answer that is longer is cut at a line."""

_OFF = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    f"core.hooksPath={os.devnull}",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.alternateRefsCommand=true",
    "core.attributesFile=" + os.devnull,
    "diff.external=",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "credential.helper=",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
)
_ENVIRON = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ASKPASS": "false",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
}


class Failed(NamedTuple):
    """Why git gave no answer: ``timeout`` or ``error``."""

    reason: str


def run(folder: Path | str, *arguments: str, seconds: float = SECONDS, personal: bool = False) -> str | Failed:
    """Return what git prints in a folder, or why it does not; never raises.

    With ``personal`` the person's own configuration is read beside the repository's.
    """
    options = [part for value in _OFF for part in ("-c", value)]
    names = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", *(("HOME", "XDG_CONFIG_HOME") if personal else ()))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    alone = {} if personal else {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": os.devnull}
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed words; a transcript gives the folder only
            ["git", "--no-pager", "--literal-pathspecs", *options, *arguments],  # noqa: S607 - the person's git, wherever it is
            cwd=folder,
            env=kept | _ENVIRON | alone,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return Failed("error")
    late = threading.Event()

    def stop() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        output = process.stdout.read(MOST_BYTES + 1) if process.stdout else b""
        cut = len(output) > MOST_BYTES
        if cut:
            _end(process)
        code = process.wait()
    finally:
        timer.cancel()
        if process.stdout:
            process.stdout.close()
    if late.is_set():
        return Failed("timeout")
    if cut:
        output = output[: output.rfind(b"\n", 0, MOST_BYTES) + 1]
    elif code:
        return Failed("error")
    return output.decode("utf-8", "replace")


def first_commit(git: Path, *, seconds: float) -> str:
    """Return the oldest commit without a parent of the person's repository; empty where git does not tell it in time or has half of it."""
    try:
        mine = not hasattr(os, "geteuid") or git.stat().st_uid == os.geteuid()
        if not mine or (git / "shallow").exists():
            return ""
    except OSError:
        return ""
    told = run(git, "rev-list", "--max-parents=0", "HEAD", seconds=seconds)
    return told.split()[-1] if isinstance(told, str) and told.split() else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and all it started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError:
        process.kill()

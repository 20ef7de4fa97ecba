"""Bounded questions to a repository of the person's that nothing in it can turn against them.

A repository is somebody's data: its configuration may name programs for hooks, pagers,
diffs, filters, a file-system monitor or another protocol. Every call switches these off,
takes no lock, asks no network and no terminal, ends after seconds and reads a bounded
answer.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.recorded_paths import ABSENT, FOLDER, look_at

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 8.0
"""A call to git that takes longer is ended with all it started."""

MOST_BYTES = 16 << 20
"""An answer that is longer is cut at a line."""

_GRACE = 1.0
_left_behind: list[subprocess.Popen[bytes]] = []
"""Calls of git that no signal ends."""

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
    "grep.column=false",
    "grep.fullName=false",
    "grep.threads=0",
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
    """Why git gave no answer: ``timeout``, ``too long`` or ``error``, then with the status that it ended with."""

    reason: str
    status: int = 0


def run(folder: Path | str, *arguments: str, seconds: float = SECONDS, personal: bool = False, whole: bool = False) -> str | Failed:
    """Return what git prints in a folder, or why it does not; never raises, and waits no longer than ``seconds`` whatever git does.

    With ``personal`` the person's own configuration is read beside the repository's; an answer is ``whole`` or none.
    """
    top = os.path.abspath(folder)  # noqa: PTH100 - links stay
    if look_at(top).kind != FOLDER:
        return Failed("error")
    options = [part for value in _OFF for part in ("-c", value)]
    names = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", *(("HOME", "XDG_CONFIG_HOME") if personal else ()))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    alone = {} if personal else {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": os.devnull}
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed words; a transcript gives the folder only
            ["git", "--no-pager", "--literal-pathspecs", "-C", top, *options, *arguments],  # noqa: S607 - the person's git, wherever it is
            cwd=os.sep,  # a folder on a mount that hangs would hold up this process, before git is git
            env=kept | _ENVIRON | alone,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return Failed("error")
    try:
        output = _output(process, seconds)
    except BaseException:  # nobody waits for it any more
        _end(process)
        raise
    if output is None:
        return Failed("timeout")
    if len(output) > MOST_BYTES:
        if whole:
            return Failed("too long")
        output = output[: output.rfind(b"\n", 0, MOST_BYTES) + 1]
    elif process.returncode:
        return Failed("error", process.returncode)
    return output.decode("utf-8", "replace")


def _output(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """Return what git prints up to a byte more than is read, None when the time is over; git has ended, or is left behind."""
    answer: list[bytes] = []

    def read() -> None:
        with process.stdout or io.BytesIO() as output:
            answer.append(output.read(MOST_BYTES + 1))

    # a process inside a mount that hangs ends by no signal and keeps its pipe open: only this thread would wait for it
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(seconds)
    late = reader.is_alive()
    printed = answer[0] if answer else b""
    if late or len(printed) > MOST_BYTES:
        _end(process)
    try:
        process.wait(_GRACE if late else seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        _left_behind.append(process)
        return None
    return None if late else printed


def first_commit(git: Path, *, seconds: float) -> str:
    """Return the oldest commit without a parent of the person's repository; empty where git does not tell it in time or has half of it."""
    found = look_at(git)
    mine = found.there and (not hasattr(os, "geteuid") or found.uid == os.geteuid())
    if not mine or look_at(git / "shallow").kind != ABSENT:
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

"""Who holds or wrote something: a process that no later one with the same pid is taken for."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ctx_pipeline.model.codec import digest


class Owner(NamedTuple):
    """A process, so named that another one with the same pid is not taken for it."""

    machine: str
    boot: str
    pid: int
    born: str
    token: str

    @classmethod
    def here(cls) -> Owner:
        """Return this process with a new token."""
        pid = os.getpid()
        return cls(_machine(), _booted(), pid, _born(pid), os.urandom(8).hex())

    @classmethod
    def of(cls, text: str) -> Owner | None:
        """Return the owner that a row names, None for a text that names none."""
        parts = text.split("\t")
        return cls(parts[0], parts[1], int(parts[2]), parts[3], parts[4]) if len(parts) == 5 and parts[2].isdecimal() else None

    def __str__(self) -> str:
        """Return the text of the row."""
        return "\t".join((self.machine.replace("\t", " "), self.boot, str(self.pid), self.born, self.token))

    @property
    def local(self) -> bool:
        """Whether it runs, or ran, where its pid means the same as here: this machine since its start, and this container."""
        return self.machine == _machine() and self.boot in {_booted(), _boot()}

    @property
    def stopped(self) -> bool:
        """Whether it is here and was stopped (by a signal, a debugger) and does nothing until it is told to go on."""
        return (_status(self.pid) or [""])[0] in {"T", "t"} if self.local else False

    @property
    def dead(self) -> bool:
        """Whether it ran on this machine and has ended, though its parent may not have looked yet (a zombie)."""
        if not self.local:
            # after a restart of this machine nobody of before is left, wherever it ran
            boot, _, space = self.boot.partition(" ")
            return self.machine == _machine() and boot != _boot() and space in {"", _space()}
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return (bool(self.born) and self.born != _born(self.pid)) or _zombie(self.pid)


@lru_cache(maxsize=1)
def label(pid: int) -> str:
    """Return the name of a process of this machine for a file name: digests and numbers, joined by dots."""
    return ".".join((_place(), digest(_boot(), size=8), str(pid), digest(_born(pid), size=8)))


def ended(text: str) -> bool | None:
    """Tell whether the process of a :func:`label` has ended; None for one of another machine or container."""
    place, boot, pid, born = text.split(".")
    if place != _place():
        return None
    if boot != digest(_boot(), size=8) or _zombie(int(pid)):
        return True
    with suppress(PermissionError):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return born != digest(_born(int(pid)), size=8)


def _booted() -> str:
    """Return which start of the machine this is, and the space in which its pids mean processes."""
    return f"{_boot()} {_space()}"


@lru_cache(maxsize=1)
def _space() -> str:
    """Return the name of the space of pids, empty where there is one alone."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path
    return ""


def _machine() -> str:
    """Return the name of this machine in its network."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


@lru_cache(maxsize=1)
def _place() -> str:
    """Return a digest of the machine and, where there is one, the container: a pid means a process only there."""
    return digest(_machine(), _space(), size=8)


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return _output("sysctl", "-n", "kern.boottime")


def _born(pid: int) -> str:
    """Return when a process started, in the words of the system; empty when it cannot be known."""
    fields = _status(pid)
    if fields is None:
        return _output("ps", "-o", "lstart=", "-p", str(pid))
    return fields[19] if len(fields) > 19 else ""


def _zombie(pid: int) -> bool:
    """Tell whether a process has ended and waits for its parent to ask how."""
    fields = _status(pid)
    return _output("ps", "-o", "stat=", "-p", str(pid)).startswith("Z") if fields is None else fields[:1] in (["Z"], ["X"])


def _status(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` from the state on, none for a process that is gone; None where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return [] if Path("/proc/self/stat").exists() else None


def _output(*command: str) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - fixed words and a number
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(result.stdout.split())

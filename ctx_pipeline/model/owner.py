"""Who holds or wrote something: a process that no later one with the same pid is taken for."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple


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
        return cls(platform.node(), _boot(), pid, _born(pid), token_hex(8))

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
        """Whether it runs, or ran, on this machine."""
        return self.machine == platform.node()

    @property
    def dead(self) -> bool:
        """Whether it ran on this machine and has ended."""
        if not self.local:
            return False
        if self.boot != _boot():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return bool(self.born) and self.born != _born(self.pid)


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return _said("sysctl", "-n", "kern.boottime")


def _born(pid: int) -> str:
    """Return when a process started, in the words of the system; empty when it cannot be known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return _said("ps", "-o", "lstart=", "-p", str(pid)) if not Path("/proc/self/stat").exists() else ""
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _said(*command: str) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - fixed words and a number
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(result.stdout.split())

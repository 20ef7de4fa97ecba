"""Runs a command on a terminal of so many columns, as a person does."""

from __future__ import annotations

import os
import pty
import struct
import termios
from fcntl import ioctl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def on_terminal(command: Sequence[str], environ: Mapping[str, str], columns: int, *, status: int = 0) -> str:
    """Return what a command prints on a terminal; it must end by itself and with this status."""
    process, screen = pty.fork()
    if process == 0:
        ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execve(command[0], list(command), dict(environ))
    printed = b""
    while True:
        try:
            piece = os.read(screen, 65_536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        printed += piece
    os.close(screen)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == status, printed.decode()
    return printed.decode().replace("\r\n", "\n")

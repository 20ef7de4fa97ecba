"""A pipe for megabytes: wide where the system lets it be, read into one buffer."""

from __future__ import annotations

import contextlib
import os

_WIDTH = 1 << 20


def pipe() -> tuple[int, int]:
    """Return the reading and the writing end."""
    reader, writer = os.pipe()
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _WIDTH)
    return reader, writer


def send(writer: int, body: bytes) -> None:
    """Write all of it; raises BrokenPipeError when nobody reads."""
    view = memoryview(body)
    while view:
        view = view[os.write(writer, view) :]


def receive(reader: int, size: int) -> bytearray:
    """Return exactly so many bytes; raises EOFError when the writer ended before."""
    body = bytearray(size)
    view = memoryview(body)
    while view:
        count = os.readv(reader, [view])
        if not count:
            raise EOFError
        view = view[count:]
    return body

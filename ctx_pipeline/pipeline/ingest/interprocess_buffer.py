"""A file without a name through which one process hands megabytes to another, which reads when it has time."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreFull
from ctx_pipeline.storage import temporary

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def spool(folder: Path) -> int:
    """Return the handle of a new file that ends with the last process that holds it."""
    with tempfile.TemporaryFile(dir=folder, prefix=f"{temporary.name()}-", buffering=0) as file:
        return os.dup(file.fileno())


def write(handle: int, at: int, pieces: Iterable[bytes]) -> None:
    """Write pieces one after the other from an offset on; raises StoreFull."""
    for piece in pieces:
        view = memoryview(piece)
        while view:
            try:
                count = os.pwrite(handle, view, at)
            except OSError as error:
                if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                    raise
                raise StoreFull("no room left for what a process hands over", hint="free some disk space and run again") from error
            view, at = view[count:], at + count


def read(handle: int, at: int, size: int) -> bytes:
    """Return exactly so many bytes; raises EOFError when there are fewer."""
    parts = []
    while size:
        part = os.pread(handle, size, at)
        if not part:
            raise EOFError
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)

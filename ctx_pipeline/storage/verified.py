"""Files that were read whole and found right: those that nothing wrote to since need not be read again."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.storage.files import Files

FILE = "verified.bin"
_SETTLED = 2_000_000_000
"""Nanoseconds after which another change of a file has another time on every file system."""

_Known = tuple[int, int, int, int, str]
"""size, inode and times of a file, and what it was held against"""


class VerifiedFiles:
    """What thorough looks found right, by size, inode and times of the files; with ``again`` all is looked at anew."""

    def __init__(self, files: Files, *, again: bool = False) -> None:
        self._files = files
        self._again = again
        self._before: dict[str, _Known] = {}
        self._now: dict[str, _Known] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._before = msgspec.msgpack.decode(files.local(FILE).read_bytes(), type=dict[str, _Known])

    def wrong_with(self, rel: str, look: Callable[[], str], against: str = "") -> str:
        """Return what ``look`` finds wrong with a file; empty, without a look, where an earlier one found it right and it is the same file.

        ``against`` names what the file is held against: with another it is looked at again.
        So are files that were just written, and databases with a log beside them.
        """
        known = self._known(rel, against)
        if not self._again and known is not None and self._before.get(rel) == known:
            self._now[rel] = known
            return ""
        wrong = look()
        if not wrong and known is not None and time.time_ns() - max(known[2:4]) > _SETTLED:
            self._now[rel] = known
        return wrong

    def leave(self, folder: str) -> None:
        """Keep what is known of the files below a folder that is not looked at this time."""
        self._now.update((rel, known) for rel, known in self._before.items() if rel.startswith(f"{folder}/"))

    def save(self) -> None:
        """Keep what was looked at; a store that cannot be written to is read whole again."""
        if self._now != self._before:
            with suppress(OSError, CtxError):
                self._files.write(FILE, msgspec.msgpack.encode(self._now))

    def _known(self, rel: str, against: str) -> _Known | None:
        path = self._files.place(rel)
        try:
            if rel.endswith(".db") and os.path.exists(f"{path}-wal") and os.stat(f"{path}-wal").st_size:  # noqa: PTH110, PTH116
                return None
            status = os.stat(path)  # noqa: PTH116 - thousands of them
        except OSError:
            return None
        return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, against

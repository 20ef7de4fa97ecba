"""Raw objects that were unpacked and found whole: those that nothing wrote to since need not be unpacked again."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    import os

    from ctx_pipeline.storage.files import Files

FILE = "verified.bin"
_SETTLED = 2_000_000_000
"""Nanoseconds after which another change of a file has another time on every file system."""

_Stat = tuple[int, int, int, int]


class VerifiedObjects:
    """What the last thorough looks found whole, by size, inode and times of the files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._before: dict[str, _Stat] = {}
        self._now: dict[str, _Stat] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._before = msgspec.msgpack.decode(files.local(FILE).read_bytes(), type=dict[str, _Stat])

    def known(self, path: str, status: os.stat_result) -> bool:
        """Tell whether this object was found whole and its file has not changed since."""
        return self._before.get(path) == _stat(status)

    def found(self, path: str, status: os.stat_result) -> None:
        """Note an object that was read whole after this was its status; one that was just written is read again."""
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED:
            self._now[path] = _stat(status)

    def save(self) -> None:
        """Keep what was looked at; a store that cannot be written to is read whole again."""
        if self._now != self._before:
            with suppress(OSError, CtxError):
                self._files.write(FILE, msgspec.msgpack.encode(self._now))


def _stat(status: os.stat_result) -> _Stat:
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns

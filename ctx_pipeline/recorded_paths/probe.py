"""Looks at paths for another process that must not wait for ever: one JSON request a line in, one answer a line out.

Run by its file name with nothing of the package imported; it ends when its input does. A
look that never returns takes this process with it and no other.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys

_LINKS = 40
"""Links in one path, as in Linux."""


def answer(asked: str, path: str, most: int) -> None:
    """Write the answer to one question: stat, lstat, real, read (the first ``most`` bytes of a file) or walk."""
    data = b""
    told: dict[str, object]
    try:
        if asked == "read":
            data = _read(path, most)
            told = {"bytes": len(data)}
        elif asked == "real":
            told = {"path": os.path.realpath(path)}
        elif asked == "walk":
            _walk(path)
            told = {}
        else:
            told = _status(os.stat(path) if asked == "stat" else os.lstat(path))  # noqa: PTH116 - a plain text path
    except OSError as error:
        told = {"errno": errno.errorcode.get(error.errno or 0, ""), "said": error.strerror or ""}
    _write(json.dumps(told).encode() + b"\n" + data)


def _status(found: os.stat_result) -> dict[str, object]:
    kind = "folder" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return {"kind": kind, "size": found.st_size, "mtime_ns": found.st_mtime_ns, "uid": found.st_uid}


def _read(path: str, most: int) -> bytes:
    """Return the beginning of a regular file; what else has the name is opened without waiting and not read."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    with open(handle, "rb") as file:  # noqa: PTH123 - it is open already
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return file.read(most)


def _walk(path: str) -> None:
    """Say each folder on the way before it is looked at: the name that was asked for so far, and the same without links."""
    waiting = [(name, True) for name in reversed(path.split("/")) if name]
    named = real = ""
    links = 0
    while waiting:
        name, own = waiting.pop()
        if name == ".":
            continue
        named = f"{named}/{name}" if own else named
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        here = f"{real}/{name}"
        _write(json.dumps({"named": named or "/", "real": here}).encode() + b"\n")
        if not stat.S_ISLNK(os.lstat(here).st_mode):
            real = here
            continue
        links += 1
        if links > _LINKS:
            return
        target = os.readlink(here)  # noqa: PTH115 - a plain text path
        real = "" if target.startswith("/") else real
        waiting += [(part, False) for part in reversed(target.split("/")) if part]


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def main() -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin.buffer:
        asked, path, most = json.loads(line)
        answer(asked, path, most)


if __name__ == "__main__":
    main()

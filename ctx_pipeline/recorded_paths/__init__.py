"""Looks at paths that transcripts and stored rows name; no path raises, and none is waited for longer than a second.

Such a path may be of another machine, on a mount that never answers, of another person, or
made up. What cannot be seen is unknown, with the reason, and is not the same as absent. A
helper process does the looking: a call into a dead mount cannot be ended, not even by a
signal, so whoever made it would be held up with it. The mount of a path that did not answer
is not asked again by this process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctx_pipeline.recorded_paths.looker import Looker

FOLDER, FILE, OTHER, ABSENT, UNKNOWN = "folder", "file", "other", "absent", "unknown"
"""What a path is; other is a device, a pipe or a socket."""

LONGEST = 4_096
"""Bytes of a path."""

_MACHINE = ("/proc", "/sys", "/dev")
"""What lies here is of the process that looks, or is a device."""

_ABSENT = frozenset({"ENOENT", "ENOTDIR"})
_REASONS = {
    "EACCES": "no permission",
    "EPERM": "no permission",
    "ELOOP": "a loop of links",
    "ENAMETOOLONG": "the path is too long",
    "ENOTCONN": "its mount is not connected",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What is at a path: one of the kinds above, with size in bytes, time in nanoseconds and owner where it is there."""

    kind: str
    reason: str = ""
    """why it is unknown"""
    size: int = 0
    mtime_ns: int = 0
    uid: int = -1

    @property
    def there(self) -> bool:
        """Whether something was seen at the path."""
        return self.kind not in {ABSENT, UNKNOWN}


def look_at(path: str | os.PathLike[str], *, links: bool = True) -> Look:
    """Return what is at an absolute path, or that it is unknown and why; a link itself without ``links``. Never raises."""
    told = _ask("stat" if links else "lstat", os.fspath(path))
    return told if isinstance(told, Look) else Look(told["kind"], "", told["size"], told["mtime_ns"], told["uid"])


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder was seen at an absolute path."""
    return look_at(path).kind == FOLDER


def read(path: str | os.PathLike[str], most: int) -> bytes | None:
    """Return the first bytes of a regular file; None for everything else and for what cannot be read. Never raises."""
    told = _ask("read", os.fspath(path), most)
    return None if isinstance(told, Look) else told["data"]


def real(path: str | os.PathLike[str]) -> Path | None:
    """Return an absolute path with its links followed; None where that cannot be known. Never raises."""
    told = _ask("real", os.fspath(path))
    return None if isinstance(told, Look) else Path(told["path"])


def expanded(path: str | os.PathLike[str]) -> str:
    """Return a path with the person's own home for a leading ``~``; another person's home would have to be asked for."""
    text = os.fspath(path)
    return os.path.expanduser(text) if text == "~" or text.startswith("~/") else text  # noqa: PTH111 - any text


def fault(path: str) -> str:
    """Return why a path cannot be looked at whatever the file system holds; empty where it can."""
    if not path.startswith("/"):
        return "it is no absolute path"
    if "\0" in path:
        return "a zero byte is in the path"
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        return "the path is no valid text"
    if size > LONGEST:
        return "the path is too long"
    plain = os.path.normpath(path)
    if any(plain == top or plain.startswith(f"{top}/") for top in _MACHINE):
        return f"{plain.split('/')[1]} holds no project"
    return ""


@lru_cache(maxsize=1)
def _looker() -> Looker:
    from ctx_pipeline.recorded_paths.looker import Looker

    return Looker()


def _ask(asked: str, path: str, most: int = 0) -> dict[str, Any] | Look:
    """Return what the helper says of a path, or the look that says why it says nothing."""
    if reason := fault(path):
        return Look(UNKNOWN, reason)
    told = _looker().ask(asked, path, most)
    if isinstance(told, str):
        return Look(UNKNOWN, told)
    name = told.get("errno")
    if name is None:
        return told
    return Look(ABSENT) if name in _ABSENT else Look(UNKNOWN, _REASONS.get(name) or str(told["said"]).lower() or "it cannot be read")

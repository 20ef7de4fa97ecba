"""Looks at paths that transcripts and stored rows name; no path raises, and none is waited for longer than a second.

Such a path may be of another machine, on a mount that never answers, of another person, or
made up. What cannot be seen is unknown, with the reason, and is not the same as absent. A
helper process does the looking: a call into a dead mount cannot be ended, not even by a
signal, so whoever made it would be held up with it. The mount of a path that did not answer
is not asked again by this process.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def begin() -> None:
    """Start the helper process, so that it is there when the first path is looked at. Never raises."""
    _looker().begin()


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

    return Looker()


def _ask(asked: str, path: str, most: int = 0) -> dict[str, Any] | Look:
    """Return what the helper says of a path, or the look that says why it says nothing."""
    looked = _looked.get()
    if looked is None:
        return _answer(asked, path, most)
    if (asked, path, most) not in looked:
        looked[asked, path, most] = _answer(asked, path, most)
    return looked[asked, path, most]


_looked: ContextVar[dict[tuple[str, str, int], dict[str, Any] | Look] | None] = ContextVar("looked", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Look at each path once inside, for several questions about one state of the disk."""
    if _looked.get() is not None:
        yield
        return
    token = _looked.set({})
    try:
        yield
    finally:
        _looked.reset(token)


def _answer(asked: str, path: str, most: int) -> dict[str, Any] | Look:
    if reason := fault(path):
        return Look(UNKNOWN, reason)
    told = _looker().ask(asked, path, most)
    if isinstance(told, str):
        return Look(UNKNOWN, told)
    name = told.get("errno")
    if name is None:
        return told
    return Look(ABSENT) if name in _ABSENT else Look(UNKNOWN, _REASONS.get(name) or str(told["said"]).lower() or "it cannot be read")


# The helper process that looks at paths: started when first asked, left behind when it does not answer.


SECONDS = 1.0
"""A look that takes longer is given up."""

MOST_SILENT = 8
"""Looks that are given up before this process looks at nothing more."""

PROBE = Path(__file__).with_name("probe.py")

_MOUNTS = Path("/proc/self/mountinfo")
_LATE, _SILENT = "it does not answer", "its mount does not answer"
_ENDED = "too many folders do not answer"
_GRACE = 0.05


class Looker:
    """Asks a helper process, never longer than ``seconds``; knows what did not answer. Safe to use from many threads."""

    def __init__(self, *, seconds: float = SECONDS, probe: Path = PROBE) -> None:
        self._seconds = seconds
        self._probe = probe
        self._lock = threading.Lock()
        self._helper: _Helper | None = None
        self._left: list[_Helper] = []
        self._silent: dict[str, str] = {}
        self._late = 0

    def ask(self, asked: str, path: str, most: int = 0) -> dict[str, Any] | str:
        """Return the helper's answer, or why there is none."""
        with self._lock:
            if reason := self._known(path):
                return reason
            for _ in range(2):  # a helper that somebody ended is started once more
                try:
                    helper = self._started()
                    return helper.ask(asked, path, most, self._seconds)
                except TimeoutError:
                    self._abandon()
                    self._blocked(path)
                    return _LATE
                except (OSError, ValueError):
                    self._abandon()
            return "nothing can be looked at"

    def begin(self) -> None:
        """Start the helper without asking it anything."""
        with self._lock, suppress(OSError, ValueError):
            self._started()

    def close(self) -> None:
        """End the helper and wait a moment for each that was left before; the next question starts another."""
        with self._lock:
            self._abandon()
            self._left = [helper for helper in self._left if not helper.ended(self._seconds)]

    def _known(self, path: str) -> str:
        if any(path == top or path.startswith(f"{top}/") for top in self._silent):
            return _SILENT
        return _ENDED if self._late >= MOST_SILENT else ""

    def _started(self) -> _Helper:
        if self._helper is None or self._helper.owner != os.getpid():
            if self._helper is not None:
                self._left.append(self._helper)  # of the process that this one was forked from
            self._helper = _Helper(self._probe)
        return self._helper

    def _abandon(self) -> None:
        if self._helper is not None:
            self._helper.leave()
            self._left.append(self._helper)
            self._helper = None

    def _blocked(self, path: str) -> None:
        """Note what does not answer: the mount that holds the folder at which the way to a path ends, else the path alone."""
        self._late += 1
        way: list[tuple[str, str]] = []
        try:
            for step in self._started().walk(path, self._seconds):
                way.append(step)  # noqa: PERF402 - what came before the time was over counts
        except TimeoutError:
            self._abandon()
        except (OSError, ValueError):
            self._abandon()
            way = []
        else:
            way = []
        if not way:
            self._silent[path] = _SILENT
            return
        named, real = way[-1]
        top = _mount_of(real)
        first = next((n for n, r in way if r == top or r.startswith(f"{top}/")), named)
        self._silent |= dict.fromkeys((top, first), _SILENT)


def _mount_of(path: str) -> str:
    """Return the mount that holds a path without links; the path itself on the root's, and where mounts are not known."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return path
    tops = {_unescaped(line.split(" ")[4]) for line in lines if " autofs " not in line}
    holding = [top for top in tops if top != "/" and (path == top or path.startswith(f"{top}/"))]
    return max(holding, key=len, default=path)


def _unescaped(name: str) -> str:
    for written, meant in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(written, meant)
    return name


class _Helper:
    """One helper process and the pipes to it."""

    def __init__(self, probe: Path) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of the package
            [sys.executable, "-I", "-S", str(probe)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._in, self._out = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._read = b""

    def ask(self, asked: str, path: str, most: int, seconds: float) -> dict[str, Any]:
        """Return the answer; raises TimeoutError, and OSError or ValueError for a helper that has ended."""
        deadline = time.monotonic() + seconds
        self._send(asked, path, most)
        told: dict[str, Any] = self._line(deadline)
        if "bytes" in told:
            told["data"] = self._exactly(told["bytes"], deadline)
        return told

    def walk(self, path: str, seconds: float) -> Any:
        """Yield each folder on the way to a path (as it is named, without links) before it is looked at; raises as ask does."""
        self._send("walk", path, 0)
        while "named" in (told := self._line(time.monotonic() + seconds)):
            yield told["named"], told["real"]

    def leave(self) -> None:
        """End the helper without waiting for it: one inside a dead mount ends when the mount does."""
        with suppress(OSError):
            self._process.kill()
        self.ended(_GRACE)
        self._selector.close()
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()

    def ended(self, seconds: float) -> bool:
        """Tell whether the helper ends in this time."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def _send(self, asked: str, path: str, most: int) -> None:
        self._in.write(json.dumps([asked, path, most]).encode() + b"\n")

    def _line(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._read:
            self._more(deadline)
        line, _, self._read = self._read.partition(b"\n")
        told = json.loads(line)
        if not isinstance(told, dict):
            raise ValueError("no answer")  # noqa: TRY004 - whatever is no answer ends the helper
        return told

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._read) < size:
            self._more(deadline)
        data, self._read = self._read[:size], self._read[size:]
        return data

    def _more(self, deadline: float) -> None:
        if not self._selector.select(max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        data = os.read(self._out.fileno(), 1 << 16)
        if not data:
            raise OSError("the helper has ended")
        self._read += data

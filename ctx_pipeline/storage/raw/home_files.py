"""One walk over a home: the files that a host wants, with their stat, and what is odd there."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings


_TYPE, _REGULAR = 0o170000, 0o100000


class Problem(NamedTuple):
    """A path that cannot be captured, and why."""

    path: str
    reason: str


class Seen(NamedTuple):
    """A file of a home."""

    rel: str
    kind: str
    path: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int | None = None


def walk(
    host: Host, root: Path, settings: Settings, problems: list[Problem], linked: list[tuple[str, str]] | None = None
) -> Iterator[tuple[str, str, str, int, int, int, int]]:
    """Yield the fields of :class:`Seen` for the files of a home that the host captures; everything else that has such a name is a problem.

    A link to a folder outside the home is followed once; one into the home, or above
    it, is not, and neither is a link below the top to a file outside. Ignored paths are passed over in silence.
    ``linked`` gets each folder that a link led to: the link, and where it led.
    """
    classify, enter = (host.files.layout(root) if host.files.layout is not None else None) or (host.files.classify, host.files.enter)
    if not root.is_dir():
        yield from _single(classify, root, settings, problems)
        return
    ignored = settings.ignored if settings.ignore else None
    top = str(root)
    followed: set[str] = set()
    folders = [(top, "")]
    while folders:
        folder, prefix = folders.pop()
        try:
            entries = os.scandir(folder)
        except OSError as error:
            problems.append(Problem(folder, f"folder cannot be read: {error.strerror}"))
            continue
        with entries:
            for entry in entries:
                rel = prefix + entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if not enter(rel) or (ignored is not None and _is_ignored(settings, entry.path, entry.name)):
                            continue
                        if rel.endswith(".jsonl") and classify(rel) is not None:
                            problems.append(Problem(entry.path, "a folder where a file is expected"))
                            continue
                        folders.append((entry.path, rel + "/"))
                        continue
                    link = entry.is_symlink()
                    if link and entry.is_dir():
                        if ignored is not None and _is_ignored(settings, entry.path, entry.name):
                            continue
                        if enter(rel) and (outside := _leads_out(entry.path, top, followed, problems)):
                            folders.append((entry.path, rel + "/"))
                            if linked is not None:
                                linked.append((_printable(entry.path), _printable(outside)))
                        continue
                    kind = classify(rel)
                    if kind is None or (ignored is not None and ignored(entry.path)):
                        continue
                    status = entry.stat()
                    # a file of settings at the top may be kept elsewhere; whoever can write a folder below could name any file
                    if link and prefix and not _inside(entry.path, top, followed):
                        problems.append(Problem(_printable(entry.path), "a link to a file outside the home"))
                        continue
                except OSError as error:
                    if classify(rel) is not None:
                        problems.append(Problem(_printable(entry.path), f"cannot be looked at: {error.strerror}"))
                    continue
                if (status.st_mode & _TYPE != _REGULAR or not rel.isascii()) and (reason := _odd(status, rel)):
                    problems.append(Problem(_printable(entry.path), reason))
                    continue
                yield rel, kind, entry.path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def is_ignored(settings: Settings, root: str, rel: str) -> bool:
    """Tell whether a source, or a folder above it in the home, is one that is never captured."""
    if not settings.ignore:
        return False
    path = root
    for part in rel.split("/"):
        path = f"{path}/{part}"
        if _is_ignored(settings, path, part):
            return True
    return False


def _is_ignored(settings: Settings, path: str, name: str) -> bool:
    return settings.ignored(path) or settings.ignored(name)


def _single(
    classify: Callable[[str], str | None], path: Path, settings: Settings, problems: list[Problem]
) -> Iterator[tuple[str, str, str, int, int, int, int]]:
    """A home that is one file, such as a callback store."""
    kind = classify(path.name)
    if kind is None or settings.ignored(str(path)):
        return
    try:
        status = path.stat()
    except OSError as error:
        problems.append(Problem(_printable(str(path)), f"cannot be looked at: {error.strerror}"))
        return
    reason = _odd(status, path.name)
    if reason:
        problems.append(Problem(_printable(str(path)), reason))
        return
    yield path.name, kind, str(path), status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def _odd(status: os.stat_result, rel: str) -> str:
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        for test, name in ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device")):
            if test(mode):
                return f"{name} where a file is expected"
        return "not a file"
    if not rel.isascii():
        try:
            rel.encode()
        except UnicodeEncodeError:
            return "the name is not UTF-8"
    return ""


def _leads_out(path: str, top: str, followed: set[str], problems: list[Problem]) -> str:
    """Return the folder outside the home that a link leads to; nothing where there is none or it was followed before."""
    real, home = os.path.realpath(path), os.path.realpath(top)
    here = os.path.realpath(path.rpartition("/")[0])
    if any((below + os.sep).startswith(real.rstrip(os.sep) + os.sep) for below in (home, here)):
        problems.append(Problem(_printable(path), "a link to a folder above it"))
        return ""
    if (real + os.sep).startswith(home + os.sep) or real in followed:
        return ""
    followed.add(real)
    return real


def _inside(path: str, top: str, followed: set[str]) -> bool:
    """Tell whether a linked file lies in the home, or in a folder that a link of it leads to."""
    real = os.path.realpath(path)
    return any(real.startswith(folder.rstrip(os.sep) + os.sep) for folder in (os.path.realpath(top), *followed))


def _printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


# How a source is recognized: hashes of its first and last captured bytes, and the head that names its session.


EDGE = 4_096
"""Bytes hashed at the beginning of a source and before the end of what was captured."""

HEAD = 65_536
"""Bytes that a host may read to tell whose a stream is."""


def is_lines(rel: str) -> bool:
    """Tell whether a source grows by lines; all other files are captured whole."""
    return rel.endswith(".jsonl")


def whole_lines(data: bytes) -> int:
    """Return how many of the bytes are whole lines.

    A last line without a newline is whole when it is a complete JSON object: nothing
    but white space can follow it. Published and restored transcripts often end so.
    """
    end = data.rfind(b"\n") + 1
    rest = data[end:].strip()
    if rest[:1] != b"{" or rest[-1:] != b"}":
        return end
    try:
        json.loads(rest.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return end
    return len(data)


def edge_hash(data: bytes) -> str:
    """Return the hash of an edge; empty for no bytes."""
    return hashlib.sha256(data).hexdigest()[:32] if data else ""


def readable_head(rel: str, data: bytes) -> bytes:
    """Return the first bytes that a host can read: of a .zst file its unpacked ones."""
    if not rel.endswith(".zst"):
        return data[:HEAD]
    from ctx_pipeline.storage.raw.segments import unpack

    return unpack(data, HEAD)

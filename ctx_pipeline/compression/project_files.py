"""Files of a project as sources: one by its path, or all that a person's version control would keep."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ctx_pipeline.compression.source import Source
from ctx_pipeline.errors import UsageError

LARGEST = 1_000_000
"""Bytes of a file above which it is not read."""

MOST_FILES = 10_000
"""Files of a project that are looked at."""

BEYOND = "beyond the first files"
"""Why the files behind them are left out."""

MOST_BYTES = 20_000_000
"""Bytes of a project that are read in all."""

_DEEPEST = 24
_SUBMODULE = "160000 "
REPOSITORIES, MOST_REPOSITORIES = 3, 50
"""Levels of repositories inside of repositories that are looked at, and how many of each."""

_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffd]")
"""What a name has that is no line of text, or no UTF-8."""

_LEFT_OUT = frozenset({"node_modules", "target", "dist", "build", "__pycache__", "coverage", "vendor", "venv"})
"""Folders that a walk without git does not enter, beside those that begin with a dot."""


class Project(NamedTuple):
    """The files of a folder, sorted, relative to it, and why others are not among them."""

    root: Path
    files: list[str]
    left_out: dict[str, int]
    """reason -> files"""
    by_git: bool
    """what git ignores is left out"""


def source_at(path: Path | str, *, root: Path | None = None, name: str | None = None) -> Source:
    """Return one text file. A byte order mark goes, line ends become plain, bytes that are neither UTF-8 nor UTF-16 are replaced.

    Raises UsageError for what is no file, a file outside ``root`` (links followed), one
    above :data:`LARGEST` bytes, and a binary one.
    """
    place = Path(path) if root is None else root / path
    data = bytes_at(place, root)
    if isinstance(data, str):
        hints = {"binary": "name a text file", "too large": f"files of up to {LARGEST:,} bytes are read", "folder": "name a file in it"}
        hint = hints.get(data, "name a file")
        raise UsageError(f"{name or path}: {_SAID.get(data, data)}", hint=hint)
    return _source(name or str(path), data)


def _source(name: str, data: bytes) -> Source:
    try:
        if data.startswith(UTF_16):
            return Source(name, f"\ufeff{data.decode('utf-16')}", encoding=" (UTF-16)")
        return Source(name, data.decode())
    except UnicodeDecodeError:
        return Source(name, data.decode("utf-8", "replace"), encoding=" (not UTF-8: \ufffd stands for what could not be read)")


UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""What text in UTF-16 begins with; without it the NULs in it make a file binary."""


_LOOKED_AT = 8_192
"""Bytes at the beginning of a file in which a NUL makes it binary."""

_SAID = {
    "binary": "a binary file has no text to read",
    "too large": "the file is too large",
    "outside": "the path leads out of the project",
    "missing": "there is no such file",
    "folder": "it is a folder, not a file",
    "special": "it is a device, a pipe or a socket, not a file",
}


def bytes_at(place: Path, root: Path | None) -> bytes | str:
    """Return the bytes of a file, or why they are not read."""
    try:
        real = place.resolve(strict=True)
        if root is not None and not real.is_relative_to(root.resolve()):
            return "outside"
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            return "folder" if stat.S_ISDIR(status.st_mode) else "special"
        if status.st_size > LARGEST:
            return "too large"
        data = real.read_bytes()
    except (OSError, ValueError, RuntimeError):
        return "missing"
    return "binary" if b"\0" in data[:_LOOKED_AT] and not _is_utf_16(data) else data


def _is_utf_16(data: bytes) -> bool:
    if not data.startswith(UTF_16):
        return False
    try:
        return "\0" not in data.decode("utf-16")
    except UnicodeDecodeError:
        return False


def is_plain_text(root: Path, name: str) -> bool:
    """Tell whether a name below a folder is a line of text and that of a file with text, at most :data:`LARGEST` bytes, through no link."""
    if _ODD.search(name):
        return False
    place = root / name
    try:
        status = place.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST or place.resolve() != place:
            return False
        with place.open("rb") as file:
            return b"\0" not in file.read(_LOOKED_AT)
    except (OSError, RuntimeError):
        return False


def project_at(folder: Path | str) -> Project:
    """Return the files of a folder: with git those that are tracked or new and not ignored, else a walk of it.

    Submodules and other repositories inside of it are looked into; a folder that git ignores is walked.
    Links that lead out of the folder are left out, and so are names that are no line of text
    and what stands behind the first :data:`MOST_FILES`. Raises UsageError for what is no folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a folder, or use a file's own path")
    root = root.resolve()
    listed = _listed(root)
    every = set(_walked(root) if listed is None else listed)
    names = sorted(name for name in every if not _ODD.search(name))
    left_out: Counter[str] = Counter()
    if odd := len(every) - len(names):
        left_out["of an odd name"] = odd
    if len(names) > MOST_FILES:
        left_out[BEYOND] = len(names) - MOST_FILES
    return Project(root, names[:MOST_FILES], dict(left_out), listed is not None)


def sources_of(project: Project) -> tuple[dict[str, Source], dict[str, int]]:
    """Return path -> source of every file of a project that has text, and reason -> count of those that have none.

    What stands behind the first :data:`MOST_BYTES` is left out and counted.
    """
    left_out = Counter(project.left_out)
    found: dict[str, Source] = {}
    room = MOST_BYTES
    for name in project.files:
        data = bytes_at(project.root / name, project.root) if room > 0 else "beyond the first bytes"
        if isinstance(data, str):
            left_out[data] += 1
        else:
            room -= len(data)
            found[name] = _source(name, data)
    return found, dict(sorted(left_out.items()))


def sizes_of(project: Project) -> dict[str, int]:
    """Return path -> bytes of the files of a project that may be read: regular ones inside it, of one byte to :data:`LARGEST`."""
    found = {}
    for name in project.files:
        try:
            real = (project.root / name).resolve(strict=True)
            status = real.stat()
        except (OSError, RuntimeError):
            continue
        if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= LARGEST and real.is_relative_to(project.root):
            found[name] = status.st_size
    return found


class GitFiles(NamedTuple):
    """What git tells of a folder."""

    files: list[str]
    inside: list[str]
    """submodules and other repositories, of which it tells no file"""
    is_ignored: bool
    """git keeps nothing of it, and it is no repository of its own: who names it means what is in it all the same"""


def files_by_git(folder: Path) -> GitFiles | None:
    """Return the files of a folder that git tracks, and the new ones that it does not ignore; None where it gives no answer."""
    from ctx_pipeline.recorded_paths.git import Failed, run

    said = run(folder, "ls-files", "-t", "--stage", "--cached", "--others", "--exclude-standard", "-z", whole=True)
    if isinstance(said, Failed):
        return None
    files: list[str] = []
    inside: list[str] = []
    for entry in said.split("\0"):
        tag, _, name = entry.partition(" ")
        if tag == "?":
            (inside if name.endswith("/") else files).append(name.removesuffix("/"))
        elif name:
            about, _, name = name.partition("\t")
            (inside if about.startswith(_SUBMODULE) else files).append(name)
    real = os.path.realpath(folder)
    # a link on the way leads out, and os.path raises for no name
    inside = [
        name
        for name in dict.fromkeys(inside)
        if os.path.realpath(f"{real}/{name}") == f"{real}/{name}" and os.path.exists(f"{real}/{name}/.git")  # noqa: PTH110
    ]
    return GitFiles(files, inside, not files and not inside and not (folder / ".git").exists())


def _listed(root: Path, levels: int = REPOSITORIES) -> list[str] | None:
    found = files_by_git(root)
    if found is None or found.is_ignored:
        return None
    looked = found.inside[:MOST_REPOSITORIES] if levels else []
    for name in looked:
        found.files.extend(f"{name}/{file}" for file in _listed(root / name, levels - 1) or ())
    found.files.extend(found.inside[len(looked) :])  # told by its name: it is not looked into
    return found.files


def _walked(root: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _LEFT_OUT) if depth < _DEEPEST else []
        found += [os.path.relpath(f"{folder}/{name}", root) for name in sorted(names) if not name.startswith(".")]
        if len(found) > 2 * MOST_FILES:
            break
    return found

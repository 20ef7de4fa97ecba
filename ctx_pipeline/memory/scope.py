"""Who may see a memory: the repository and the folder it was learnt in, and the ones that are asked for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_URL = re.compile(r"^(?:[a-z+]+://)?(?:[^@/\s]+@)?([^:/\s]+)[:/](?:\d+/)?(.+?)(?:\.git)?/?$")
_DEPTH = 64


class Place(NamedTuple):
    """Where a person works: the folder, the roots of its repository and worktree, and the repository's identities."""

    cwd: str
    roots: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()


def place_of(cwd: str | os.PathLike[str]) -> Place:
    """Return the place of a folder, from the files of its git repository alone (no git is run).

    A worktree has the roots of its own folder and of the main checkout. A folder outside
    a repository has no root. Never raises for files that cannot be read.
    """
    here = Path(os.path.abspath(os.path.expanduser(cwd)))  # noqa: PTH100, PTH111 - links are kept as the agent recorded them
    for folder in (here, *list(here.parents)[:_DEPTH]):
        marker = folder / ".git"
        if marker.is_dir():
            return Place(str(here), (str(folder),), _remotes(marker))
        if marker.is_file():
            common = _common_dir(marker)
            if common is None:
                return Place(str(here), (str(folder),), ())
            main = str(common.parent) if common.name == ".git" else str(common)
            return Place(str(here), (str(folder), main), _remotes(common))
    return Place(str(here))


def _common_dir(marker: Path) -> Path | None:
    """Return the git folder that a worktree shares with its main checkout."""
    try:
        match = re.match(r"gitdir:\s*(.+)", marker.read_text("utf-8", "replace"))
        if not match:
            return None
        gitdir = (marker.parent / match.group(1).strip()).resolve()
        shared = gitdir / "commondir"
        return (gitdir / shared.read_text("utf-8", "replace").strip()).resolve() if shared.is_file() else gitdir
    except OSError:
        return None


def _remotes(git: Path) -> tuple[str, ...]:
    try:
        text = (git / "config").read_text("utf-8", "replace")
    except OSError:
        return ()
    urls = re.findall(r"(?m)^\s*url\s*=\s*(\S+)\s*$", text)
    return tuple(dict.fromkeys(identity(u) for u in urls))


def identity(repository: str) -> str:
    """Return one form of a repository's name: ``host/owner/name`` of a URL in any notation, a path as it is."""
    text = repository.strip()
    if text.startswith(("/", "~", "./")) or re.match(r"[A-Za-z]:[\\/]", text):
        return text.rstrip("/\\") or text
    match = _URL.match(text)
    return f"{match.group(1).lower()}/{match.group(2).strip('/').lower()}" if match else text.lower()


def visible(scope: str, repository: str | None, cwd: str | None, place: Place | None) -> bool:
    """Tell whether a memory may be shown at a place; without a place only what holds for the person everywhere."""
    if scope in ("user", "global"):
        return True
    if place is None:
        return False
    if repository and not _is_path(repository):
        return identity(repository) in place.identities
    homes = [p for p in (repository, cwd) if p and _is_path(p)]
    return any(below(place.cwd, home) or any(below(home, root) for root in place.roots) for home in homes)


def nearness(scope: str, cwd: str | None, place: Place | None) -> float:
    """Return how near a visible memory is: 1 in the same folder or above it, 0.8 elsewhere in the repository, 0.6 for general ones."""
    if scope in ("user", "global") or place is None:
        return 0.6
    return 1.0 if cwd and below(place.cwd, cwd) else 0.8


def below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it; the root of the file system contains nothing."""
    parent = folder.rstrip("/")
    return bool(parent) and (path.rstrip("/") == parent or path.startswith(f"{parent}/"))


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~")) or bool(re.match(r"[A-Za-z]:[\\/]", text))

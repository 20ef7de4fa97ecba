"""Who may see a memory: the repository and the folder it was learned in, and the ones that are asked for."""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.recorded_paths import ABSENT, FILE, FOLDER, UNKNOWN, expanded, look_at, read, real

_URL = lazy_pattern(r"^(?:[a-z+]+://)?(?:[^@/\s]+@)?([^:/\s]+)[:/](?:\d+/)?(.+?)(?:\.git)?/?$")
_DEPTH = 64


class Place(NamedTuple):
    """Where a person works: the folder, the roots of its repository and worktree, and the repository's identities."""

    cwd: str
    roots: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()


def place_of(cwd: str | os.PathLike[str]) -> Place:
    """Return the place of a folder, from the files of its git repository alone (no git is run).

    A worktree has the roots of its own folder and of the main checkout, a clone of a
    repository on this machine that one's too. A folder outside a repository has no root.
    Never raises, and waits for no path longer than :mod:`ctx_pipeline.recorded_paths` does:
    what cannot be looked at is in no repository that is known.
    """
    here = _here(cwd)
    found = _checkout(here)
    if found is None:
        return Place(str(here))
    folder, git = found
    if git is None:
        return Place(str(here), (str(folder),))
    main = str(git.parent) if git.name == ".git" else str(git)
    remotes = _remotes(git)
    sources = [os.path.normpath(os.path.join(main, _plain(r))) for r in remotes if _is_local(r)]  # noqa: PTH118 - text, as git reads it
    sources = [s.removesuffix("/.git") for s in sources if _may_be_cloned(Path(s))]
    named = [r for r in remotes if not _is_local(r)]
    for source in sources:
        beyond = _checkout(Path(source), up=0)
        named += [r for r in _remotes(beyond[1] if beyond and beyond[1] else Path(source)) if not _is_local(r)]
    roots = (str(folder), *(r for r in (main, *sources) if r != str(folder)))
    return Place(str(here), tuple(dict.fromkeys(roots)), tuple(dict.fromkeys(map(identity, named))))


def git_folder(cwd: str | os.PathLike[str]) -> Path | None:
    """Return the git folder of the checkout that a folder lies in, for a worktree the shared one; None outside of one."""
    found = _checkout(_here(cwd))
    return found[1] if found else None


def current_branch(cwd: str | os.PathLike[str]) -> str:
    """Return the branch that is checked out where a folder lies; empty outside of a checkout, and where none is."""
    found = _checkout(_here(cwd))
    if found is None:
        return ""
    marker = found[0] / ".git"
    own = _gitdir(marker) if look_at(marker).kind == FILE else marker
    head = _HEAD.match(_text(own / "HEAD")) if own else None
    return head[1] if head else ""


_HEAD = lazy_pattern(r"ref: refs/heads/(\S+)")


def _here(cwd: str | os.PathLike[str]) -> Path:
    try:
        return Path(os.path.abspath(expanded(cwd)))  # noqa: PTH100 - links are kept as the agent recorded them
    except FileNotFoundError:  # a relative name, and the working folder is gone
        return Path(cwd)


def first_commit(git: Path) -> str:
    """Return the commit that a repository began with, where its own log still has it; empty in a clone, and in one of half a history."""
    if look_at(git / "shallow").kind != ABSENT:
        return ""
    first, *rest = _text(git / "logs" / "HEAD").split("\n", _AMENDMENTS)
    match = _BEGAN.match(first)
    begun = match[1] if match else ""
    for line in rest if begun else ():
        again = _AMENDED.match(line)
        if again is None or again[1] != begun:
            break
        begun = again[2]
    return begun


_BEGAN = lazy_pattern(r"0{40,64} ([0-9a-f]{40,64}) [^\n]*\tcommit \(initial\)")
_AMENDED = lazy_pattern(r"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [^\n]*\tcommit \(amend\)")
_MOST_BYTES, _AMENDMENTS = 1 << 20, 50


def _checkout(here: Path, up: int = _DEPTH) -> tuple[Path, Path | None] | None:
    """Return the top folder of a checkout and its git folder, None in its place where that cannot be read; None outside of one."""
    for folder in (here, *list(here.parents)[:up]):
        marker = folder / ".git"
        kind = look_at(marker).kind
        if kind == FOLDER:
            return folder, marker
        if kind == FILE:
            return folder, _common_dir(marker)
        if kind == UNKNOWN:  # whether it is a checkout of its own nobody can say
            return None
    return None


def _text(path: Path) -> str:
    """Return the beginning of a small file; empty for what is none or cannot be read."""
    return (read(path, _MOST_BYTES) or b"").decode("utf-8", "replace")


def _gitdir(marker: Path) -> Path | None:
    """Return the git folder of a worktree itself."""
    match = re.match(r"gitdir:\s*(.+)", _text(marker))
    return real(marker.parent / match.group(1).strip()) if match else None


def _common_dir(marker: Path) -> Path | None:
    """Return the git folder that a worktree shares with its main checkout."""
    gitdir = _gitdir(marker)
    shared = _text(gitdir / "commondir").strip() if gitdir else ""
    return real(gitdir / shared) if gitdir and shared else gitdir


def _remotes(git: Path) -> list[str]:
    """Return the addresses of a repository's remotes as they are written."""
    return re.findall(r"(?m)^\s*url\s*=\s*(\S+)\s*$", _text(git / "config"))


def _may_be_cloned(source: Path) -> bool:
    """Tell whether a folder is a repository or gone: any other, and one that nobody can look at, is nobody's root."""
    kind = look_at(source).kind
    return kind not in {FOLDER, UNKNOWN} or look_at(source / ".git").there or look_at(source / "HEAD").kind == FILE


def _is_local(url: str) -> bool:
    return url.startswith(("/", "~", "./", "../", "file://")) or url in (".", "..")


def _plain(url: str) -> str:
    return expanded(url.removeprefix("file://"))


@lru_cache(maxsize=1_024)
def identity(repository: str) -> str:
    """Return one form of a repository's name: ``host/owner/name`` of a URL in any notation, a path as it is."""
    text = repository.strip()
    if text.startswith(("/", "~", "./")) or re.match(r"[A-Za-z]:[\\/]", text):
        return text.rstrip("/\\") or text
    match = _URL.match(text)
    return f"{match.group(1).lower()}/{match.group(2).strip('/').lower()}" if match else text.lower()


def seen_key(folder: str) -> str:
    """Return the key of the observation which repository a folder lies in; the journal holds no path."""
    return f"{SEEN}{_hash(folder.rstrip('/'))}"


def token_of(repository: str) -> str:
    """Return what stands for a repository's name in the journal."""
    return _hash(identity(repository))


SEEN = "repository:"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def visible(scope: str, repository: str | None, cwd: str | None, place: Place | None) -> bool:
    """Tell whether a memory may be shown at a place; without a place only what holds for the person everywhere."""
    if scope in ("user", "global"):
        return True
    if place is None:
        return False
    if repository and not _is_path(repository):
        # whatever its remote is called today, a checkout is the repository that it was
        return identity(repository) in place.identities or (cwd or "").rstrip("/") in place.roots
    homes = [p for p in (repository, cwd) if p and _is_path(p)]
    return any(below(place.cwd, home) or any(below(home, root) for root in place.roots) for home in homes)


def same_repository(folder: str, place: Place) -> bool:
    """Tell whether a session of a folder may speak for a place: a parent folder's session never does for a repository below it.

    A folder that is not absolute here (relative, or of another system) is nobody's place;
    the home folder and that of temporary files speak for themselves alone.
    """
    if not Path(expanded(folder)).is_absolute():
        return False
    there = place_of(folder)
    if place.roots:
        return bool({*there.roots} & {*place.roots} or {*there.identities} & {*place.identities})
    import tempfile  # a hook seldom comes as far

    general = {expanded("~").rstrip("/"), tempfile.gettempdir()}
    return not there.roots and below(place.cwd, folder) and (folder == place.cwd or folder.rstrip("/") not in general)


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

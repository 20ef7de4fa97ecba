"""Which checkout a recorded path lies in: as the disk says, else as sessions recorded that ran there."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ctx_pipeline import discovery
from ctx_pipeline.memory.scope import identity, place_of
from ctx_pipeline.model.repository_names import project_of
from ctx_pipeline.recorded_paths import FILE, FOLDER, look_at
from ctx_pipeline.usage.repositories import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.sessions.session_choice import Line


class Checkouts:
    """The checkouts that sessions ran in, and those on disk.

    A session that recorded a branch or a remote ran in a checkout, though its folder may be
    gone. Where nothing tells of a checkout, what lies below a session's folder belongs to that folder.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._seen: set[str] = set()
        """roots of sessions' checkouts on disk"""
        self._told: dict[str, str] = {}
        """folder that is gone and was in a checkout -> identity of its remote, empty where none was recorded"""
        self._on_disk: dict[str, str] = {}
        self._own: dict[str | None, str] = {}
        self._projects: dict[str, str] = {}
        self._of_folder: dict[tuple[str, str], str] = {}
        """folder, and the root that a session ran in -> root of the checkout that files of the folder belong to"""
        rows = [line for line in lines if line.cwd and line.cwd.startswith("/")]
        there: dict[str, bool] = {}
        for line in rows:
            cwd = (line.cwd or "").rstrip("/")
            remote = identity(line.repository or "") if is_remote(line.repository) else ""
            if cwd not in there:  # one look for a folder that many sessions ran in
                there[cwd] = root_of(line.cwd) != cwd or look_at(f"{cwd}/.git").there
            if there[cwd]:
                self._seen.add(root_of(line.cwd))
            elif remote or line.branch:
                self._told[cwd] = self._told.get(cwd) or remote
        for line in sorted(rows, key=lambda line: (not is_remote(line.repository), line.project)):
            root = self.own(line.cwd)
            if root == (line.cwd or "").rstrip("/"):
                self._projects.setdefault(root, line.project)

    def own(self, cwd: str | None) -> str:
        """Return the root of the checkout that a session's folder lies in, else the folder."""
        if cwd not in self._own:
            self._own[cwd] = self._own_root(cwd)
        return self._own[cwd]

    def _own_root(self, cwd: str | None) -> str:
        root = root_of(cwd)
        remote = self._told.get(root)
        same = [folder for folder in _around(root) if remote and self._told.get(folder) == remote]
        return root if not same or _is_worktree(root) else same[-1]

    def is_known(self, root: str) -> bool:
        """Tell whether a root is that of a checkout, and not only a folder."""
        return root in self._seen or root in self._told

    def of(self, path: str, own: str) -> str:
        """Return the root of the innermost checkout that a path is known to lie in; ``own`` where none is but what a session ran in."""
        if not path.startswith("/"):
            return own
        place = path.rpartition("/")[0], own
        root = self._of_folder.get(place)
        if root is None:
            root = self._of_folder[place] = self._around_folder(*place)
        return root

    def _around_folder(self, lowest: str, own: str) -> str:
        inside = bool(own) and f"{lowest}/".startswith(f"{own}/")
        known = inside and self.is_known(own)
        for folder in _around(f"{lowest}/"):
            if inside and len(folder) <= len(own):
                break
            if folder in self._seen or (folder in self._told and (not known or self._apart(folder, own))):
                return self.own(folder)
        return own if known else self._looked_up(lowest, own if inside else "") or own

    def project(self, root: str) -> str:
        """Return the name of a checkout's project: as its sessions have it, else of its remote or its folder."""
        if root not in self._projects:
            self._projects[root] = project_of(next(iter(place_of(root).identities), None) or discovery.checkout_of(root))
        return self._projects[root]

    def _apart(self, folder: str, own: str) -> bool:
        """Tell whether a folder below a checkout is one of its own: a worktree, or of another remote."""
        remotes = {self._told[folder], self._told.get(own, "")}
        return _is_worktree(folder) or (len(remotes) > 1 and "" not in remotes)

    def _looked_up(self, folder: str, end: str) -> str:
        """Return the root of the checkout around a folder on disk, looked for up to ``end``; empty where none is."""
        if len(folder) <= len(end):
            return ""
        if folder not in self._on_disk:
            here = look_at(f"{folder}/.git").kind in {FILE, FOLDER}
            self._on_disk[folder] = folder if here else self._looked_up(folder.rpartition("/")[0], end)
        return self._on_disk[folder]


@lru_cache(maxsize=512)
def root_of(cwd: str | None) -> str:
    """Return the root of the repository around a folder, where it is still there, else the folder."""
    if not cwd or not cwd.startswith("/"):
        return (cwd or "").rstrip("/")
    roots = place_of(cwd).roots
    return roots[0] if roots else cwd.rstrip("/")


def _around(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in, the innermost first."""
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _is_worktree(folder: str) -> bool:
    return discovery.checkout_of(folder) != folder

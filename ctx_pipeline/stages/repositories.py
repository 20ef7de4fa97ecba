"""Which repository a lesson belongs to, beyond what its own session recorded: what another agent saw in that folder, and worktrees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.storage import Store

_WORKTREE = re.compile(r"^(?P<main>.+?)[/\\]\.(?:worktrees|claude[/\\]worktrees)[/\\][^/\\]+(?:[/\\].*)?$")
"""Where people and agents keep worktrees inside of the checkout."""


def settled(store: Store, candidates: Iterable[StoredCandidate]) -> list[StoredCandidate]:
    """Return candidates of which those that know only a folder have the repository that is known of it.

    Claude Code records no remote, Codex does: where both worked in one folder it is one
    repository. A worktree below the checkout belongs to the checkout.
    """
    rows = list(candidates)
    if not any(_only_folder(c.repository, c.cwd) for c in rows):
        return rows
    known = recorded(store)
    return [c._replace(repository=repository_of(c.repository, c.cwd, known)) for c in rows]


def repository_of(repository: str | None, cwd: str | None, known: Mapping[str, str]) -> str | None:
    """Return the repository of what knows only its folder, by what :func:`recorded` says; any other as it is."""
    if not cwd or not _only_folder(repository, cwd):
        return repository
    if cwd in known:
        return known[cwd]
    inside = _WORKTREE.match(cwd)
    return known.get(inside["main"], inside["main"]) if inside else repository


def _only_folder(repository: str | None, cwd: str | None) -> bool:
    return bool(cwd) and (repository is None or repository == cwd)


def recorded(store: Store) -> dict[str, str]:
    """Return folder -> repository of the sessions that recorded one; a folder in which several were recorded is left out."""
    found: dict[str, set[str]] = {}
    for part in store.lake.parts("sessions", sorted(store.lake.manifests("normalized"))):
        for cwd, repository in store.lake.scan(part.path, "sessions", ("cwd", "repository")):
            if cwd and repository and repository != cwd:
                found.setdefault(cwd, set()).add(repository)
    return {cwd: next(iter(names)) for cwd, names in found.items() if len(names) == 1}

"""The repository that a session's folder belongs to, by one name for all its clones and worktrees."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_REMOTE = re.compile(r"[\w.-]+\.\w[\w.-]*(?::\d+)?/.+")
"""host.tld/owner/name, as capture writes the address of a remote"""
_WORKTREE = re.compile(r"(.+?)[/\\]\.(?:[\w-]+[/\\])?worktrees[/\\].+")
"""a worktree below its repository: REPOSITORY/.worktrees/NAME, REPOSITORY/.AGENT/worktrees/NAME"""


@lru_cache(maxsize=4096)
def project_names(project: str, repository: str | None) -> frozenset[str]:
    """Return every name by which a project is found: folder, recorded repository, and the repository's short and long name."""
    return frozenset({project, repository or project, repository_name(project, repository), *_long(repository)})


def repository_name(project: str, repository: str | None) -> str:
    """Return the short name of the repository: of a worktree that of the repository it is of."""
    found = _WORKTREE.fullmatch(repository or "")
    return re.split(r"[/\\]", found[1])[-1] if found else project


def _long(repository: str | None) -> list[str]:
    return ["/".join(repository.split("/")[-2:])] if repository and _REMOTE.fullmatch(repository) else []


def by_repository(rows: Iterable[dict[str, Any]], sums: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of usage by project (``project``, ``repository``, ``hosts``, ``models`` and sums) with one row a repository.

    Folders without a recorded remote that share a name are one row, with the remote of that
    name where there is one. Where several remotes share it each stands alone as OWNER/NAME,
    and folders by their path. ``places`` counts what was joined.
    """
    rows = list(rows)
    named: dict[str, set[str]] = {}
    for row in rows:
        named.setdefault(repository_name(row["project"], row["repository"]), set()).update(_long(row["repository"]))
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = repository_name(row["project"], row["repository"])
        if len(named[name]) > 1:
            name = next(iter(_long(row["repository"])), row["repository"] or name)
        one = found.setdefault(name, {"project": name, "repository": row["repository"], "hosts": [], "models": [], "places": 0})
        one["places"] += 1
        for field in ("hosts", "models"):
            one[field] = list(dict.fromkeys([*one[field], *row[field]]))
        for field in sums:
            if field in row:
                one[field] = one.get(field, 0) + row[field]
    return list(found.values())

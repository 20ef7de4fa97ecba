"""The name of a repository, one for all its clones and worktrees."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_REMOTE = re.compile(r"[\w.-]+\.\w[\w.-]*(?::\d+)?/.+")
"""host.tld/owner/name, as capture writes the address of a remote"""


@lru_cache(maxsize=4096)
def project_names(project: str, repository: str | None) -> frozenset[str]:
    """Return every name by which a project is found: folder, recorded repository, and the repository's short and long name."""
    return frozenset({project, repository or project, *_long(repository)})


def is_remote(repository: str | None) -> bool:
    """Tell whether a recorded repository is the address of a remote, and not a folder alone."""
    return bool(repository) and _REMOTE.fullmatch(repository or "") is not None


def _long(repository: str | None) -> list[str]:
    return ["/".join(repository.split("/")[-2:])] if repository and is_remote(repository) else []


def repository_names(places: Iterable[tuple[str, str | None]]) -> dict[tuple[str, str | None], str]:
    """Return (project, repository) -> the name of the row it belongs to.

    Folders without a recorded remote that share a name are one row, with the remote of that
    name where there is one. Where several remotes share it each stands alone as OWNER/NAME,
    and folders by their path.
    """
    known = dict.fromkeys(places)
    remotes: dict[str, set[str]] = {}
    for project, repository in known:
        remotes.setdefault(project, set()).update(_long(repository))
    return {
        (project, repository): project if len(remotes[project]) < 2 else next(iter(_long(repository)), repository or project)
        for project, repository in known
    }


def by_repository(rows: Iterable[dict[str, Any]], sums: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of usage by project (``project``, ``repository``, ``hosts``, ``models`` and sums) with one row a repository.

    ``models`` are each model's cost and calls, and are added up as well.
    """
    rows = list(rows)
    names = repository_names((row["project"], row["repository"]) for row in rows)
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: -row.get("cost_nano", 0)):  # hosts that cost most come first
        name = names[row["project"], row["repository"]]
        one = found.setdefault(name, {"project": name, "repository": None, "hosts": [], "models": {}})
        if one["repository"] is None or (is_remote(row["repository"]) and not is_remote(one["repository"])):
            one["repository"] = row["repository"]
        one["hosts"] = list(dict.fromkeys([*one["hosts"], *row["hosts"]]))
        for model, (cost, calls) in row["models"].items():
            known = one["models"].get(model, (0, 0))
            one["models"][model] = known[0] + cost, known[1] + calls
        for field in sums:
            if field in row:
                one[field] = one.get(field, 0) + row[field]
    return list(found.values())

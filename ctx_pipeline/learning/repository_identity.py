"""Where a person works, with the other folders of the same repository: clones that name no other, and copies."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.memory.scope import first_commit, git_folder, identity, place_of, seen_key, token_of
from ctx_pipeline.recorded_paths import look_at
from ctx_pipeline.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.storage.memory_index import MemoryIndex

_SECONDS = 1.0
_PATIENCE = 0.05


def place_among(cwd: str, index: MemoryIndex, home: Path, *, ask: bool = False) -> Place:
    """Return the place of a folder, its roots with every folder of the index that was seen to be the same repository.

    The same are folders with a remote in common and, where there is no remote, with the
    same first commit. That is known from the files of git or from what was observed in
    this folder; with ``ask`` git is asked for the first commit of a clone that nobody has
    worked in yet, for a second at most.
    """
    place = place_of(cwd)
    folders = index.folders() if place.roots else []
    if not folders:
        return place
    try:
        with closing(Journal(home / "journal.db", read_only=True, patience=_PATIENCE)) as journal:
            own = [] if place.identities else [seen_key(f) for f in (place.cwd, *place.roots)]
            seen = journal.observed([*map(seen_key, folders), *own]) if journal.is_there() else {}
    except CtxError:
        return place
    if not seen:
        return place
    tokens = {token_of(i) for i in place.identities} or _begun(place, [seen[k] for k in own if k in seen], ask=ask)
    same = [f for f in folders if set(seen.get(seen_key(f), {}).values()) & tokens]
    return place._replace(roots=tuple(dict.fromkeys((*place.roots, *same)))) if same else place


def known_place(cwd: str, index: MemoryIndex, home: Path) -> Place:
    """Return the place that a person asks about; a folder that is not seen here has the repository that sessions in it recorded."""
    place = place_among(cwd, index, home, ask=True)
    if place.roots or look_at(place.cwd).there:
        return place
    recorded = index.repositories_at(place.cwd)
    return place._replace(identities=tuple(map(identity, recorded))) if len(recorded) == 1 else place


def _begun(place: Place, seen: Sequence[Mapping[str, str]], *, ask: bool) -> set[str]:
    """Return the first commit of a repository without a remote, in a set; an empty one where it is not known."""
    known = {commit for answer in seen if (commit := answer.get("first_commit"))}
    git = git_folder(place.cwd) if not known else None
    found = first_commit(git) if git else ""
    if git and not found and ask:
        from ctx_pipeline.recorded_paths import git as _git

        found = _git.first_commit(git, seconds=_SECONDS)
    return known or ({found} if found else set())

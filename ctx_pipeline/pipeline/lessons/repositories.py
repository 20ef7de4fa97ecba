"""Which repository a lesson belongs to, beyond what its own session recorded.

What another agent saw in that folder, worktrees inside the checkout, and what the
folder's own git repository says: two folders with the same remote, or with the same
first commit where there is none, are one repository; of clones that are gone the name alone
can say so. What was seen is an observation of
the journal, which holds no path and no name: the hash of the remote, or the commit.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.memory.scope import first_commit, git_folder, identity, place_of, seen_key, token_of
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.recorded_paths import ABSENT, FOLDER, UNKNOWN, look_at
from ctx_pipeline.recorded_paths import git as _git

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.pipeline.session_errors import SessionErrors
    from ctx_pipeline.storage import Store

_LOOKS, _ASKED, _SECONDS = 2_000, 20, 2.0
"""Folders looked at in one pass, repositories that git is asked about, and how long each time."""


class Repositories(NamedTuple):
    """What is known of repositories beyond what a session recorded of its own."""

    folders: Mapping[str, str]
    """folder -> repository, as :func:`recorded` says"""
    newest: Mapping[str, str]
    """former name -> newest name of repositories whose remote was renamed"""

    @property
    def former(self) -> dict[str, list[str]]:
        """Repository -> the names that it had before."""
        found: dict[str, list[str]] = {}
        for former, name in sorted(self.newest.items()):
            found.setdefault(name, []).append(former)
        return found


def repositories(store: Store) -> Repositories:
    """Return what all sessions recorded of folders and repositories."""
    folders = _timed_folders(store)
    return Repositories(recorded(store, folders), renamed(folders))


def with_repositories(store: Store, candidates: Iterable[StoredCandidate], known: Repositories | None = None) -> list[StoredCandidate]:
    """Return candidates of which those that know only a folder have the repository that is known of it.

    Claude Code records no remote, Codex does: where both worked in one folder it is one
    repository. A worktree below the checkout belongs to the checkout, and clones of one
    repository belong together, see :func:`look`. ``known`` is what :func:`repositories` says, where it was asked already.
    """
    rows = list(candidates)
    if not rows:
        return rows
    known = repositories(store) if known is None else known
    found = [(c, repository_of(c.repository, c.cwd, known.folders)) for c in rows]
    return [c._replace(repository=known.newest.get(name or "", name)) for c, name in found]


def look(store: Store, errors: SessionErrors | None = None) -> int:
    """Observe once which repository each folder lies in whose sessions recorded none, and return how many were seen now.

    A folder that is gone, in no repository or without an answer is looked for again another
    time. The files of git answer; git itself is asked, within bounds, for the first commit
    of a clone without a remote. A session whose folder cannot be looked at is noted in
    ``errors`` with the reason, and its folder stays its repository.
    """
    sessions: dict[str, list[Folder]] = {}
    for row in _folders(store):
        if _only_folder(row.repository, row.cwd) and _absolute(row.cwd):
            sessions.setdefault(row.cwd, []).append(row)
    folders = {seen_key(cwd): cwd for cwd in sessions}
    if not folders:
        return 0
    known = store.journal.observed(folders) if store.journal.is_there() else {}
    found: dict[str, dict[str, str]] = {}
    asked = 0
    for key, cwd in sorted(folders.items(), key=lambda f: f[1])[:_LOOKS]:
        if key in known:
            continue
        here = look_at(cwd)
        if here.kind == UNKNOWN and errors is not None:
            for row in sessions[cwd]:
                errors.note(row.host, row.session_id, f"the recorded folder cannot be looked at: {here.reason}")
        if here.kind != FOLDER:
            continue
        answer, git = tokens_of(cwd), git_folder(cwd)
        if not answer and git is not None and asked < _ASKED:
            asked += 1
            begun = _git.first_commit(git, seconds=_SECONDS)
            answer = {"first_commit": begun} if begun else {}
        if answer:
            found[key] = answer
    store.journal.observe_all({key: key for key in found}, lambda keys: [found[k] for k in keys])
    return len(found)


def tokens_of(cwd: str) -> dict[str, str]:
    """Return what tells the repository of a folder from others: ``remote`` or ``first_commit``; nothing where its files do not say."""
    git = git_folder(cwd) if look_at(cwd).kind == FOLDER else None
    if git is None:
        return {}
    place = place_of(cwd)
    if place.identities:
        return {"remote": token_of(place.identities[0])}
    begun = first_commit(git)
    return {"first_commit": begun} if begun else {}


def repository_of(repository: str | None, cwd: str | None, known: Mapping[str, str]) -> str | None:
    """Return the repository of what knows only its folder, by what :func:`recorded` says; any other as it is."""
    if not cwd or not _only_folder(repository, cwd):
        return repository
    if cwd in known:
        return known[cwd]
    checkout = discovery.checkout_of(cwd)
    return repository if checkout == cwd else known.get(checkout, checkout)


def _only_folder(repository: str | None, cwd: str | None) -> bool:
    return cwd is not None and bool(cwd) and (repository is None or repository in {cwd, discovery.checkout_of(cwd)})


def renamed(sessions: Iterable[tuple[Folder, int]]) -> dict[str, str]:
    """Return former name -> newest name of repositories whose remote was renamed.

    That is so where one folder recorded both, and no session anywhere recorded the former
    one once the newer had appeared: a folder in which work goes to and fro holds two.
    """
    spans: dict[str, tuple[int, int]] = {}
    folders: dict[str, dict[str, None]] = {}
    for row, first in sessions:
        if row.repository and not _only_folder(row.repository, row.cwd):
            begin, end = spans.get(row.repository, (first, first))
            spans[row.repository] = min(begin, first), max(end, first)
            folders.setdefault(row.cwd, {}).setdefault(row.repository)
    found = {
        one: other
        for cwd, names in folders.items()
        if cwd.rstrip("/") not in _GENERAL
        for one, other in pairwise(sorted(names, key=lambda name: spans[name]))
        if spans[one][1] < spans[other][0] and identity(one) != identity(other)
    }
    return {one: _last(one, found) for one in found}


_GENERAL = frozenset({"/tmp", "/private/tmp", "/workspace", "/workspaces", "/repo", "/app", "/src", "/code"})  # noqa: S108 - compared
"""Folders of containers and of one moment, into which any repository may be put."""


def _last(name: str, newer: Mapping[str, str]) -> str:
    met = {name}
    while name in newer and newer[name] not in met:
        name = newer[name]
        met.add(name)
    return name


def recorded(store: Store, sessions: Sequence[tuple[Folder, int]] | None = None) -> dict[str, str]:
    """Return folder -> repository of the folders in which one was recorded or seen; one in which several were recorded is left out.

    Folders of which only the same thing was seen, and clones that are gone, belong to the
    repository that a session recorded by that name, else to the folder with the oldest session.
    """
    found: dict[str, set[str]] = {}
    alone: dict[str, None] = {}
    folders = _timed_folders(store) if sessions is None else sessions
    for (_, _, cwd, repository), _ in folders:
        if repository and not _only_folder(repository, cwd):
            found.setdefault(cwd, set()).add(repository)
        else:
            alone.setdefault(cwd)
    newest = renamed(folders)
    found = {cwd: {newest.get(name, name) for name in names} for cwd, names in found.items()}
    known = {cwd: next(iter(names)) for cwd, names in found.items() if len(names) == 1}
    alone = {cwd: None for cwd in alone if cwd not in found and _absolute(cwd)}
    seen = store.journal.observed(map(seen_key, alone)) if alone and store.journal.is_there() else {}
    named = {token_of(name): name for name in sorted(known.values(), reverse=True)}
    for cwd in alone:
        answer = seen.get(seen_key(cwd), {})
        token = answer.get("remote") or answer.get("first_commit")
        if token:
            known[cwd] = named.setdefault(str(token), cwd)
    return known | _of_one_name([cwd for cwd in alone if cwd not in known], set(known.values()))


def _of_one_name(folders: Iterable[str], remotes: Iterable[str]) -> dict[str, str]:
    """Return folder -> repository of checkouts that are gone, or of other machines, and have one name below several people's homes.

    Nothing but their name can say that they are clones of one repository, as in the
    figures of usage; a name that says nothing, or that remotes have too, does not.
    """
    taken = {PurePosixPath(name).name.lower() for name in remotes}
    named: dict[str, list[str]] = {}
    for folder in dict.fromkeys(map(discovery.checkout_of, folders)):
        home, name = _HOME.match(folder), PurePosixPath(folder).name
        if home and name.lower() not in taken | _SAYS_NOTHING and folder != home[0]:
            named.setdefault(name, []).append(folder)
    several = [clones for clones in named.values() if len({match[0] for c in clones if (match := _HOME.match(c))}) > 1]
    gone = [[c for c in clones if look_at(c).kind == ABSENT] for clones in several]
    return {clone: clones[0] for clones in gone for clone in clones}


_HOME = lazy_pattern(r"/(?:Users|home)/[^/]+")
_SAYS_NOTHING_TEXT = """
    api app apps backend bin client cmd code core demo dev docs example examples frontend lib main mobile monorepo packages playground
    project projects repo repos scripts server site src test tests tmp tools ui web website work workspace worktrees www
"""
_SAYS_NOTHING = frozenset(_SAYS_NOTHING_TEXT.split())
"""Names that many repositories, and parts of them, have."""


class Folder(NamedTuple):
    """Where a session ran, and the repository that it recorded."""

    host: str
    session_id: str
    cwd: str
    repository: str | None


def _folders(store: Store) -> list[Folder]:
    """Return every session with a folder, the oldest session first."""
    return [row for row, _ in _timed_folders(store)]


def _timed_folders(store: Store) -> list[tuple[Folder, int]]:
    columns = ("session_id", "host", "cwd", "repository", "first_ts")
    rows = [
        (first or 0, Folder(host, session_id, cwd, repository))
        for part in store.lake.parts("sessions", sorted(store.lake.manifests("normalized")))
        for session_id, host, cwd, repository, first in store.lake.scan(part.path, "sessions", columns)
        if cwd
    ]
    return [(row, first) for first, row in sorted(rows, key=lambda r: (r[0], r[1].cwd, r[1].repository or "", r[1][:2]))]


def _absolute(cwd: str | None) -> bool:
    return bool(cwd) and str(cwd).startswith("/")

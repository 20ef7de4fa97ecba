"""Where the files that a session touched lie: in which project, and at which path below its checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.file_accesses import CHANGES, READ, SEARCH, SHELL, file_accesses
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.sessions.session_memo import SessionMemo
from ctx_pipeline.sessions.states.times import micros
from ctx_pipeline.storage.session_figures import present

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ctx_pipeline.sessions.checkouts import Checkouts
    from ctx_pipeline.storage import Store


class Access(NamedTuple):
    """One touch of one file."""

    path: str
    """below the root of the checkout that it lies in, where that is known"""
    kind: str
    ts: int
    """microseconds since 1970; that of the session's begin where the host wrote none"""
    host: str
    session_id: str
    project: str
    """that of the checkout"""
    chars: int
    """characters that it brought into the window; of several files one call read, each the same part"""
    recorded: str = ""
    """the path as the records have it"""


class Move(NamedTuple):
    """One file that got another name, in one project."""

    old: str
    new: str
    ts: int
    project: str


class _Placed(NamedTuple):
    """The touches of one session under the paths that they have below their checkouts, the renames, and the patched files."""

    places: list[tuple[str, str] | None]
    """project and root of each folder"""
    accesses: list[Access]
    moves: list[Move]
    patched: list[Any]


class _SessionAccesses:
    """What one session touched; where its folders lie as they did when it was asked for last, nothing is placed again."""

    def __init__(self, view: SessionView) -> None:
        self.view = view
        """the session with the rows of its touches alone"""
        self.rows = file_accesses(view)
        folders: dict[str | None, int] = {}
        self.folders = [folders.setdefault(_folder_of(row.path), len(folders)) for row in self.rows]
        """of each row, where its folder stands among the places"""
        folders.update(dict.fromkeys((_folder_of(row.old_path) for row in self.rows if row.old_path), 0))
        self._folders = list(folders)
        self._last: _Placed | None = None

    def placed(self, keys: Keys) -> _Placed:
        """Return the touches as the keys place them; nobody may change it."""
        places = list(map(keys.place, self._folders))
        last = self._last
        if last is None or last.places != places:
            last = self._last = _of_session(self, keys, places)
        return last


_READ = ("call_event", "place", "ts", "path", "did", "through", "chars", "old_path")
"""Columns of a touch that anything is made of here."""
_MOST_KEPT = 200_000
_kept: SessionMemo[_SessionAccesses] = SessionMemo(_MOST_KEPT)
"""Touches of the sessions that were asked for last, as many in all: after a sync those of the session that changed are read alone."""


def session_accesses(store: Store, cell: Any, wanted: Collection[str]) -> Iterator[_SessionAccesses]:
    """Yield what these sessions of a cell touched."""
    if not wanted:
        return
    there = present(store)
    rows = {name: there[cell.host, name].made_of if (cell.host, name) in there else "" for name in wanted}
    kept = {name: one for name in wanted if (one := _kept.get(store, (cell.host, name), rows[name])) is not None}
    yield from kept.values()
    missing = set(wanted) - kept.keys()
    for view in store.lake.read_sessions(cell, missing, ("file_accesses",), {"file_accesses": _READ}) if missing else ():
        one = _SessionAccesses(SessionView(view.session, facts={"file_accesses": file_accesses(view)}))
        _kept.put(store, (cell.host, view.session_id), rows[view.session_id], one, 2 * len(one.rows) + 1)
        yield one


class Keys:
    """The project and the path below its checkout of the files of one session."""

    def __init__(self, view: Any, checkouts: Checkouts, within: set[str] | None, only: set[tuple[str, str]] | None) -> None:
        self._checkouts = checkouts
        self._within = within
        self._meant = only is None or (view.host, view.session_id) in only
        self._project = view.session.project
        self._own = checkouts.own(view.session.cwd)
        self._known: dict[str | None, tuple[str, str] | None] = {}

    def of(self, path: str) -> tuple[str, str] | None:
        """Return project and path; None for a file that is not meant."""
        place = self.place(_folder_of(path))
        return None if place is None else (place[0], _below_root(path, place[1]))

    def place(self, folder: str | None) -> tuple[str, str] | None:
        """Return project and root of the files of a folder, None for those whose path is relative; None where they are not meant."""
        if folder not in self._known:
            self._known[folder] = self._placed(folder)
        return self._known[folder]

    def _placed(self, folder: str | None) -> tuple[str, str] | None:
        root = self._own if folder is None else self._checkouts.of(f"{folder}/", self._own)
        if root.startswith("/") and (self._within is None or root in self._within):
            return self._checkouts.project(root), root
        return (self._project, self._own) if self._meant else None


def _folder_of(path: str) -> str | None:
    return path.rpartition("/")[0] if path.startswith("/") else None


def _of_session(made: _SessionAccesses, keys: Keys, places: list[tuple[str, str] | None]) -> _Placed:
    session = made.view.session
    begin = micros(session.first_ts)
    placed = _Placed(places, [], [], [])
    for access, folder in zip(made.rows, made.folders, strict=True):
        place = places[folder]
        if place is None:
            continue
        project, path = place[0], _below_root(access.path, place[1])
        ts = micros(access.ts) or begin
        # a search names a folder as often as a file, and a record does not say which
        if access.did != SEARCH or "." in path.rpartition("/")[2]:
            chars = access.chars if access.did == READ else 0
            placed.accesses.append(Access(path, access.did, ts, session.host, session.session_id, project, chars, access.path))
        if access.old_path and (before := keys.of(access.old_path)):
            placed.moves.append(Move(before[1], path, ts, project))
        if access.place == 1 and access.through != SHELL and access.did in CHANGES:
            placed.patched.append(access)
    return placed


def _below_root(path: str, root: str) -> str:
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path

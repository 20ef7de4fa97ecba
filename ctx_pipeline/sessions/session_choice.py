"""Which session is meant: the one that is named, the one that asks, or the last of the repository that did something."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.context.session_state.state import BUNDLE
from ctx_pipeline.errors import NothingYet, UnknownName, UsageError
from ctx_pipeline.memory.scope import git_folder, identity, place_of, same_repository
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.hook_kinds import asked_here
from ctx_pipeline.recorded_paths import git
from ctx_pipeline.sessions.last_worked import last_worked
from ctx_pipeline.sessions.naming import find_session, newest_first, split_host
from ctx_pipeline.settings import SERVER_STARTED
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.session_notes import made_of
from ctx_pipeline.storage.store_marker import begun
from ctx_pipeline.usage.repositories import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

NAMED, ASKING, HERE, PREVIOUS, NEWEST = "named", "asking", "here", "previous", "newest"
"""Why a session was chosen."""


class Choice(NamedTuple):
    """A session, and why it is the one; ``captured`` tells whether the store has it."""

    host: str
    session_id: str
    why: str
    captured: bool


class Line(NamedTuple):
    """A captured session with what places it."""

    host: str
    session_id: str
    cwd: str | None
    repository: str | None
    last: int
    """time of its last event, microseconds since 1970; 0 where no event has one"""
    first: int = 0
    """likewise of its first one"""
    branch: str | None = None
    """the first branch that it recorded"""
    project: str = ""
    captured: bool = True
    """False for one of which an imported bundle alone tells"""


_SESSION_NAMES = ("_SESSION_ID", "_THREAD_ID")
_BEFORE, _AFTER = 60_000_000, 10_000_000
"""A session begins so long before its agent starts servers, or after, at most; microseconds."""


def current_session(settings: Settings) -> tuple[str, str] | None:
    """Return host and id of the session whose agent started this process, as it says in the environment; None for a person's shell."""
    # hosts are imported only where such a name is set: it takes 30 ms
    if not any(name.endswith(_SESSION_NAMES) and value for name, value in settings.environ.items()):
        return None
    from ctx_pipeline import discovery

    for host in discovery.hosts().values():
        for name in host.agent.session_env:
            if settings.environ.get(name):
                return host.key, settings.environ[name][:200]
    return None


def without_session(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that names no session: the agent that starts a server for several is one among them."""
    from ctx_pipeline import discovery

    names = {name for host in discovery.hosts().values() for name in host.agent.session_env}
    return {name: value for name, value in environ.items() if name not in names}


def started_at(settings: Settings) -> int:
    """Return when an agent started this server, microseconds since 1970; 0 for any other program."""
    said = settings.environ.get(SERVER_STARTED, "")
    return int(said) if said.isdecimal() else 0


def select_session(store: Store, settings: Settings, name: str | None = None, *, cwd: str | None = None) -> Choice:
    """Return the session that is meant.

    ``name`` is read as :func:`.naming.find_session` does. Without it the session whose agent
    runs this program is meant (also one that names none, by when it started this program),
    else the last of the repository around ``cwd`` that did something, as a new chat goes on from it, whichever
    clone, worktree or subfolder of it the session ran in; where none was captured, the newest one that was imported. Raises
    UnknownName, and NothingYet where no session of it is here.
    """
    if name:
        return _named(store, name)
    asking = current_session(settings)
    if asking is not None:
        captured = any(s.session_id == asking[1] for s in store.ledger.sessions(host=asking[0]))
        return Choice(*asking, ASKING, captured)
    found = _here_for(store, settings, cwd or here()) or imported_in_place(store, cwd or here())
    if not found:
        raise NothingYet(
            "no session of this folder's repository was captured", hint="ctx sync, or name one: a title, an id (ctx list), or latest"
        )
    return Choice(found[0].host, found[0].session_id, HERE, found[0].captured)


def _here_for(store: Store, settings: Settings, cwd: str) -> list[Line]:
    """Return the captured sessions around a folder: the asking one, if when it began tells it, those that did something, any others."""
    there, started = in_place(store, cwd), started_at(settings)
    own = [line for line in there if started and _began_with(line, started)]
    return list(dict.fromkeys([*own, *_worked(store, there), *there]))


def select_for_person(store: Store, settings: Settings, name: str | None = None, *, asking: bool = True, called: bool = False) -> Choice:
    """Return what :func:`select_session` does for this folder, else the last session of all that did something.

    With ``called`` one with model calls goes before all without. Without ``asking`` the
    session whose agent runs this program is one like any other. An
    agent is never given a session of another repository so: it uses :func:`select_session`.
    Raises UnknownName, and UsageError where nothing was captured.
    """
    if name or (asking and current_session(settings) is not None):
        return select_session(store, settings, name)
    calling = {(row.host, row.session_id) for row in store.ledger.sessions() if not called or row.rows.get("model_calls")}
    found = _here_for(store, settings, here())
    for line in [*(line for line in found if (line.host, line.session_id) in calling), *found][:1]:
        return Choice(line.host, line.session_id, HERE, captured=True)
    worked = [(line.host, line.session_id) for line in _worked(store, lines(store))]
    every = newest_first(store)
    for place in [*(place for place in (*worked, *every) if place in calling), *every][:1]:
        return Choice(*place, NEWEST, captured=True)
    raise UsageError("no session was captured", hint="ctx run")


def select_captured(store: Store, settings: Settings, cwd: str) -> Choice:
    """Return what :func:`select_session` does, but never a session of which no transcript was captured. Raises NothingYet."""
    asking = current_session(settings)
    if asking is not None and store.ledger.session(*asking) is not None:
        return Choice(*asking, ASKING, captured=True)
    found = _here_for(store, settings, cwd)
    if not found:
        raise NothingYet(f"no captured session ran in {cwd} or its repository", hint="name files, a folder or a SESSION")
    return Choice(found[0].host, found[0].session_id, HERE, captured=True)


def meant(settings: Settings, name: str | None = None, *, cwd: str | None = None) -> Choice:
    """Return the session that is meant, as :func:`chosen` does; one that asks is known before anything was captured."""
    asking = current_session(settings) if name is None else None
    if asking is not None and not begun(settings.home):
        return Choice(*asking, ASKING, captured=False)
    with reading(settings) as (store, _):
        return select_session(store, settings, name, cwd=cwd)


def select_previous(store: Store, settings: Settings, name: str | None = None, *, cwd: str | None = None) -> Choice:
    """Return the session that a new chat goes on from: a named one, else the last other one of the repository that did something.

    One that was imported counts as one that was captured. The session whose agent runs this
    program is left out; where nothing names it, those that began when the program was started are. Where no other session did
    something, the last other one that was asked something counts, then the asking session
    itself if it was captured. Raises UnknownName, and NothingYet where no session was captured here.
    """
    if name:
        return _named(store, name)
    asking = current_session(settings)
    found = others_in_place(store, cwd or here(), asking, started_at(settings))
    if found:
        return Choice(found[0].host, found[0].session_id, PREVIOUS, found[0].captured)
    if asking is not None and store.ledger.session(*asking) is not None:
        return Choice(*asking, ASKING, captured=True)
    raise NothingYet(
        "no other session of this folder's repository was captured", hint="ctx sync, or name one: a title, an id (ctx list), or latest"
    )


def others_in_place(store: Store, cwd: str, asking: tuple[str, str] | None, started: int = 0) -> list[Line]:
    """Return the other sessions of the repository around a folder: those that did something first, the last active first.

    ``started`` is when an agent that does not name its session started this program,
    microseconds since 1970: what began then is its own session.
    """
    there = [line for line in in_place(store, cwd) if (line.host, line.session_id) != asking]
    if asking is None and started:
        there = [line for line in there if not _began_with(line, started)]
    brought = [line for line in imported_in_place(store, cwd) if (line.host, line.session_id) != asking]
    return sorted([*_worked(store, there), *brought], key=lambda line: (-line.last, line.host, line.session_id))


def _began_with(line: Line, started: int) -> bool:
    """Tell whether a session began when an agent started this program."""
    return -_BEFORE <= line.first - started <= _AFTER


def _worked(store: Store, there: Sequence[Line]) -> list[Line]:
    """Return the sessions that did something, else those that were asked something, the last active first, with that time.

    It is the time of its file where no event has one.
    """
    known = {(row.host, row.session_id): row.rows for row in store.ledger.sessions()}
    dated = [line if line.last else line._replace(last=_written(store, line)) for line in there if not asked_here(line.cwd)]
    return last_worked(
        dated, lambda line: known.get((line.host, line.session_id)) or {}, lambda line: (line.last, line.host, line.session_id)
    )


def _written(store: Store, line: Line) -> int:
    """Return when the transcript of a session was written last, in microseconds since 1970."""
    streams = store.ledger.session_streams(line.host, line.session_id)
    return max((s.mtime_ns // 1_000 for s in streams if s.thread_id == line.session_id), default=0)


def in_place(store: Store, cwd: str) -> list[Line]:
    """Return the captured sessions of the repository around a folder, the last active first.

    A session belongs to the repository whose remote it recorded, or in whose checkout its
    folder lies now; the innermost checkout counts. Outside of a repository it is one of
    the same folder or of a folder above it other than the home folder.
    """
    place = place_of(cwd)
    known: dict[str, bool] = {}

    def here_too(line: Line) -> bool:
        if line.repository and identity(line.repository) in place.identities:
            return True
        if line.cwd and line.cwd not in known:
            known[line.cwd] = same_repository(line.cwd, place)
        return bool(line.cwd) and known[line.cwd or ""]

    return sorted(filter(here_too, lines(store)), key=lambda line: (-line.last, line.host, line.session_id))


BEGAN = "commit:"
"""Stands before the commit that a repository without a remote began with, where a bundle names its repository."""

_SECONDS = 2.0
"""For which git may look for that commit."""


def names_of(repository: str | None, cwd: str | None) -> list[str]:
    """Return the names by which the repository of a session is known on any machine: of its remotes, else of its first commit."""
    place = place_of(cwd) if cwd and cwd.startswith("/") else None
    recorded = [identity(repository)] if repository and is_remote(repository) else []
    return list(dict.fromkeys([*recorded, *(place.identities if place else ())])) or (_began(cwd) if place and cwd else [])


def _began(cwd: str) -> list[str]:
    folder = git_folder(cwd)
    begun = git.first_commit(folder, seconds=_SECONDS) if folder else ""
    return [f"{BEGAN}{begun}"] if begun else []


def imported_in_place(store: Store, cwd: str) -> list[Line]:
    """Return the sessions of the repository around a folder of which an imported bundle alone tells, the last active first."""
    names: list[str] | None = None
    found: list[Line] = []
    for line, told, _ in imported(store):
        names = names_of(None, cwd) if names is None else names
        found += [line] if not {*told}.isdisjoint(names) else []
    return sorted(found, key=lambda line: (-line.last, line.host, line.session_id))


def imported(store: Store) -> Iterator[tuple[Line, Sequence[str], dict[str, Any]]]:
    """Yield the sessions of which an imported bundle alone tells, each with the names of its repository and its newest state."""
    found: set[tuple[str, str]] = set()
    for made in reversed(made_of(store, kind=BUNDLE)):
        key = (made.host, made.session_id)
        if key in found or store.ledger.session(*key) is not None:
            continue
        with suppress(ValueError, AttributeError):
            state = json.loads(made.content)
            told = made.about.get("repository") or names_of(state.get("repository"), None)
            last = from_iso(state.get("as_of") or "") or 0
            found.add(key)
            yield Line(*key, None, None, last, project=str(state.get("project") or ""), captured=False), told, state


def lines(store: Store, host: str | None = None) -> list[Line]:
    """Return every captured session with its place and its last time."""
    from ctx_pipeline.model.codec import row_micros as micros

    found: list[Line] = []
    parts: dict[str, dict[str, Line]] = {}
    for cell, manifest in store.lake.manifests("normalized").items():
        for part in manifest.of_table("sessions"):
            place = str(store.lake.local(part.path))
            held = _lines.get(place)
            if held is None and host in {None, cell.host}:
                rows = store.lake.scan(part.path, "sessions", _LINE)
                held = {
                    session: Line(key, session, cwd, repository, micros(last) or 0, micros(first) or 0, branch, project)
                    for session, key, cwd, repository, project, branch, first, last in rows
                }
            if held is not None:
                parts[place] = held
                found += [held[session] for session in part.live] if host in {None, cell.host} else []
    # a part never changes: what another answer of this process read of it is not read again
    _lines.clear()
    _lines.update(parts)
    return found


_LINE = ("session_id", "host", "cwd", "repository", "project", "branch", "first_ts", "last_ts")
_lines: dict[str, dict[str, Line]] = {}
"""part of the table of sessions -> its sessions"""


def _named(store: Store, name: str) -> Choice:
    try:
        return Choice(*find_session(store, name), NAMED, captured=True)
    except UnknownName:
        host, rest = split_host(name)
        brought = sorted({(m.host, m.session_id) for m in made_of(store) if m.session_id.startswith(rest) and host in {None, m.host}})
        if len(brought) != 1:
            raise
        return Choice(*brought[0], NAMED, captured=False)


def here() -> str:
    """Return the working folder; raises UsageError where it is gone."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise UsageError("the working folder is gone", hint="name a session: --session ID") from None

"""One reading of a session's name: any prefix, ``latest``, words of its title, a transcript file, ``host/id``."""

from __future__ import annotations

import difflib
import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import AmbiguousName, UnknownName, nearest
from ctx_pipeline.memory.safety import untold
from ctx_pipeline.model.display import session_title, truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger.rows import SessionRow

_LATEST = re.compile(r"latest(?:~(\d{1,6}))?")
_ID = re.compile(r"[\w.@-]{4,}")
"""What can be the beginning of an id; a shorter word is a word of a title."""
_NEAREST, _FITTING = 4, 10
_PROJECT_LIKE = 0.7
"""How like the name of a project a word is at least that may have been meant for it."""


class SessionName(NamedTuple):
    """A session's name as written, apart from the host that was written with it."""

    host: str | None
    """key of the host; None where none was written"""
    name: str


class Named(NamedTuple):
    """Sessions among which a name is looked up."""

    rows: Sequence[SessionRow]
    newest: Callable[[], list[tuple[str, str]]]
    """returns (host, id), the last active first"""
    files: Callable[[], Iterable[tuple[str, str, str, str]]]
    """returns host, session id, thread id and path of each transcript"""


def split_host(name: str) -> SessionName:
    """Return the parts of ``HOST/ID`` or ``HOST:ID``; a name that begins with no known host is all name."""
    for mark in ("/", ":"):
        before, found, behind = name.partition(mark)
        if found and behind:
            try:
                return SessionName(discovery.host(before.lower()).key, behind)
            except UnknownName:
                continue
    return SessionName(None, name)


def find_session(store: Store, name: str, host: str | None = None, *, projects: bool = True) -> tuple[str, str]:
    """Return host key and full id of the one captured session that a name fits.

    ``name`` is an id, its beginning (and its end behind ``…``, as tables shorten it), a
    thread's id, the name of a subagent's file, ``latest``, ``latest~2`` (the third newest), a day
    (``yesterday``, ``2026-10-03``: the newest that was last active then), a transcript file, a project
    (its newest session), or words of a title; ``host/id`` and ``host`` narrow it.
    Without ``projects`` a project is no name of a session. Raises UnknownName with the nearest sessions, AmbiguousName with those that fit.
    """
    written = SessionName(discovery.host(host).key, name) if host else split_host(name)
    if written.host and store.ledger.session(written.host, written.name) is not None:
        return written.host, written.name

    def files() -> Iterable[tuple[str, str, str, str]]:
        return ((s.host, s.session_id, s.thread_id or "", s.path) for s in store.ledger.sources().values() if s.session_id)

    return find_among(Named(store.ledger.sessions(), lambda: newest_first(store), files), written, said_host=bool(host), projects=projects)


def find_among(known: Named, written: SessionName, *, said_host: bool = False, projects: bool = True) -> tuple[str, str]:
    """Return host key and full id of the one of these sessions that a name fits, as :func:`find_session` does."""
    every, known = known.rows, known._replace(rows=[row for row in known.rows if written.host in {None, row.host}])
    fitting = _fitting(known, written.name.strip(), projects=projects)
    if not fitting and said_host:  # a title may begin with the name of a host
        fitting = _titled(every, f"{written.host} {written.name}")
    noun = f"{written.host} session" if written.host else "session"
    if len(fitting) == 1:
        return fitting[0].host, fitting[0].session_id
    if fitting:
        newest = sorted(fitting, key=lambda row: (-(row.first_own_ts or 0), row.session_id))[:_FITTING]
        more = f"\n  and {len(fitting) - _FITTING} more" if len(fitting) > _FITTING else ""
        hint = f"name one of{described(newest)}{more}"
        raise AmbiguousName(noun, written.name, [f"{row.host}/{row.session_id}" for row in fitting], hint=hint)
    raise _unknown(every, noun, written, known.rows, projects=projects)


def described(rows: Iterable[SessionRow]) -> str:
    """Return a line for each session: ``host/id``, day, title. A title that reads like an order to an agent is left out."""
    lines = []
    for row in rows:
        title = str(row.rows.get("title") or "")
        day = f"{datetime.fromtimestamp(row.first_own_ts / 1e6, UTC).astimezone():%Y-%m-%d}" if row.first_own_ts else "no date   "
        told = "" if untold(title) else truncate(session_title(title), 60)
        lines.append(f"\n  {row.host}/{row.session_id}  {day}  {told}".rstrip())
    return "".join(lines)


def newest_first(store: Store, host: str | None = None) -> list[tuple[str, str]]:
    """Return (host, id) of every captured session, the last active first."""
    found = []
    for cell in store.lake.manifests("normalized"):
        if host in {None, cell.host}:
            found += [(str(row.last_ts or ""), row.host, row.session_id) for row in store.lake.read_rows("sessions", cell, "normalized")]
    found.sort(key=lambda one: one[1:])
    found.sort(key=lambda one: one[0], reverse=True)
    return [(key, session_id) for _, key, session_id in found]


def _fitting(known: Named, name: str, *, projects: bool) -> list[SessionRow]:
    """Return the sessions that a name fits by the first way that finds any."""
    rows = known.rows
    if not name:
        return []
    by_place = {(row.host, row.session_id): row for row in rows}
    if latest := _LATEST.fullmatch(name.lower()):
        order = [by_place[place] for place in known.newest() if place in by_place]
        back = int(latest[1] or 0)
        return order[back : back + 1]
    if (meant := _day_of(name)) is not None:
        return [row for place in known.newest() if (row := by_place.get(place)) and _active_on(row, meant)][:1]
    begin, _, end = name.partition("…")
    exact = [row for row in rows if row.session_id == name]
    exact = exact or [row for row in rows if begin and row.session_id.startswith(begin) and row.session_id.endswith(end)]
    if exact:
        return exact
    if _ID.fullmatch(name) or os.sep in name or Path(name).is_file():
        path = os.path.realpath(Path(name).expanduser())
        places = {
            (host, session)
            for host, session, thread, file in known.files()
            if thread.startswith(name)
            or os.path.basename(file).partition(".")[0] == name  # noqa: PTH119 - a path is text here
            or (os.path.basename(file) == os.path.basename(path) and os.path.realpath(file) == path)  # noqa: PTH119
        }
        if found := [by_place[place] for place in sorted(places) if place in by_place]:
            return found
    return _titled(rows, name, exactly=True) or (_newest_of_project(known, name) if projects else []) or _titled(rows, name)


def _day_of(name: str) -> date | None:
    """Return the day that today, yesterday or a day as 2026-10-03 mean on the clock of this machine; None for other names."""
    if name.lower() in _DAYS:
        return datetime.now(UTC).astimezone().date() - timedelta(days=_DAYS.index(name.lower()))
    try:
        return date.fromisoformat(name) if _DATE.fullmatch(name) else None
    except ValueError:
        return None


_DAYS = ("today", "yesterday")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _active_on(row: SessionRow, meant: date) -> bool:
    """Tell whether a session was last active on a day; it began then where its last time is not known."""
    at: int | None = row.rows.get("last_ts") or row.first_own_ts
    return at is not None and datetime.fromtimestamp(at / 1e6, UTC).astimezone().date() == meant


def _newest_of_project(known: Named, name: str) -> list[SessionRow]:
    """Return the newest session of the project of this very name in which a tool was called, else the newest."""
    there = [row for row in known.rows if str(row.rows.get("project") or "").casefold() == name.casefold()]
    by_place = {(row.host, row.session_id): row for row in there}
    newest = [by_place[place] for place in known.newest() if place in by_place] if by_place else []
    return sorted(newest, key=lambda row: not row.rows.get("tool_calls"))[:1]


def _titled(rows: Sequence[SessionRow], name: str, *, exactly: bool = False) -> list[SessionRow]:
    """Return the sessions of this very title, else those whose title has all of these words."""
    wanted = name.casefold().split()
    titles = [(row, str(row.rows.get("title") or "").casefold()) for row in rows]
    said = [row for row, title in titles if title and title == name.casefold()]
    return said if said or exactly else [row for row, title in titles if title and all(word in title for word in wanted)]


def _unknown(every: Sequence[SessionRow], noun: str, written: SessionName, rows: Sequence[SessionRow], *, projects: bool) -> UnknownName:
    """Return the error for a name that fits no session: that it is of another host, or which come nearest."""
    name = written.name
    if not rows and not Path(name).is_file():
        return UnknownName(noun, name, (), hint="none is captured yet: ctx run")
    if written.host is not None and _ID.fullmatch(name):
        elsewhere = [row for row in every if row.host != written.host and row.session_id.startswith(name)]
        if elsewhere:
            return UnknownName(noun, name, (), hint=f"another agent has it:{described(elsewhere[:_NEAREST])}")
    if (meant := _day_of(name)) is not None:
        newest = sorted(rows, key=lambda row: -(row.first_own_ts or 0))[:_NEAREST]
        hint = f"none was last active on {meant}; the newest are{described(newest)}\n  of some days: ctx list --since DAY --until DAY"
        return UnknownName(noun, name, (), hint=hint)
    if _LATEST.fullmatch(name.lower()):
        return UnknownName(noun, name, (), hint=f"{len(rows):,} are captured; the oldest is latest~{len(rows) - 1}")
    near = _near(rows, name)
    newest = sorted(rows, key=lambda row: -(row.first_own_ts or 0))[:_NEAREST]
    hint = f"did you mean{described(near)}" if near else f"the newest are{described(newest)}\n  all of them: ctx list" if newest else ""
    if projects and (alike := nearest(name, filter(None, (str(row.rows.get("project") or "") for row in rows)), cutoff=_PROJECT_LIKE)):
        near_ones = f"\n  or one of{described(near)}" if near else ""
        hint = f"did you mean the newest session of {' or '.join(alike)}?{near_ones}"
    if Path(name).is_file():
        hint = f"the file is not captured yet: ctx sync{chr(10) + hint if hint else ''}"
    return UnknownName(noun, name, [row.session_id for row in rows], hint=hint)


def _near(rows: Sequence[SessionRow], name: str) -> list[SessionRow]:
    """Return the sessions whose id or title is most like a name."""
    scored = []
    words = [word for word in name.casefold().split() if len(word) > 2]
    for row in rows:
        like = difflib.SequenceMatcher(None, row.session_id[: len(name)], name).ratio()
        title = str(row.rows.get("title") or "").casefold()
        shared = sum(word in title for word in words) / len(words) if words else 0.0
        best = max(like if like >= 0.7 else 0.0, shared if shared >= 0.5 else 0.0)
        if best:
            scored.append((-best, -(row.first_own_ts or 0), row.session_id, row))
    return [row for *_, row in sorted(scored, key=lambda one: one[:3])[:_NEAREST]]

"""Sessions that lie in the homes and that no run has captured yet: which one a name means, and a store of one of them alone."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.scope import place_of, same_repository
from ctx_pipeline.sessions.naming import Named, SessionName, find_among, split_host
from ctx_pipeline.sessions.session_choice import here
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.ledger.forgotten import Forgotten
from ctx_pipeline.storage.ledger.rows import SessionRow
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.store_marker import begun
from ctx_pipeline.usage.homes import live_usage as live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.own_sessions import Shown


class Uncaptured(NamedTuple):
    """A session of a home, with what is shown of it."""

    host: str
    session_id: str
    shown: Shown
    last: int
    """time of its last record, else of its file, microseconds since 1970"""


def find_uncaptured(settings: Settings, name: str | None, host: str | None = None) -> Uncaptured:
    """Return the session of the homes that a name means, of those that the store does not hold.

    Names are read as :func:`.naming.find_session` reads them. Without one the last active
    session of the repository around the working folder is meant, else the last active of
    all. Raises UnknownName, AmbiguousName, and UsageError where the homes hold no other session.
    """
    written = SessionName(discovery.host(host).key, name or "") if host else split_host(name or "")
    found, files = _uncaptured(settings, written.name)
    newest = sorted(found, key=lambda place: (not found[place].shown.title, -found[place].last, place))
    if not name:
        place = place_of(here())
        folders = {key: one.shown.cwd for key, one in found.items() if one.shown.cwd}
        ours = [key for key in newest if key in folders and same_repository(folders[key], place)]
        if not newest:
            raise UsageError("no session was captured", hint="ctx run")
        return found[(ours or newest)[0]]
    rows = [
        SessionRow(*key, "", "", first_own_ts=one.shown.began, rows={"title": one.shown.title, "project": one.shown.project})
        for key, one in found.items()
    ]
    return found[find_among(Named(rows, lambda: newest, lambda: files), written, said_host=bool(host))]


@contextmanager
def store_of(settings: Settings, session: Uncaptured) -> Iterator[Settings]:
    """Give settings whose store, a temporary one, holds this session alone; the own store is left as it is."""
    from ctx_pipeline.integrations.import_sessions import import_selected

    with tempfile.TemporaryDirectory(prefix="ctx-session-") as folder:
        apart = replace(settings, home=Path(folder, "store"))
        with open_store(apart) as store:
            import_selected(store, apart, host=session.host, session_ids=(session.session_id,), render_page=False)
        yield apart


def _uncaptured(settings: Settings, begin: str) -> tuple[dict[tuple[str, str], Uncaptured], list[tuple[str, str, str, str]]]:
    """Return the sessions of the homes that the store does not hold, and host, id, thread and path of each of their files.

    Where ids begin with the text that is looked for, of these sessions alone.
    """
    sources = live.sources(settings)
    captured: set[tuple[str, str]] = set()
    forgotten = Forgotten(())
    if begun(settings.home):
        with reading(settings) as (store, _):
            held = store.ledger.sources()
            captured = {(row.host, row.session_id) for row in store.ledger.sessions()}
            forgotten = Forgotten(store.ledger.tombstones())
        sources = [source for source in sources if (source.root, source.rel) not in held]
    sessions = [one for one in live.sessions(sources, settings) if (one.host, one.session_id) not in captured]
    if forgotten:
        sessions = [one for one in sessions if not any(_was_forgotten(forgotten, *file) for file in one.sources)]
    sessions = [one for one in sessions if begin and one.session_id.startswith(begin)] or sessions
    wanted = {source.path for one in sessions for source, _ in one.sources}
    shown = live.shown(settings, {(one.host, one.session_id) for one in sessions}, [s for s in sources if s.path in wanted])
    found = {}
    for one in sessions:
        told = shown[one.host, one.session_id]
        last = told.last or max(source.mtime_ns for source, _ in one.sources) // 1000
        found[one.host, one.session_id] = Uncaptured(one.host, one.session_id, told, last)
    return found, [(one.host, one.session_id, identity.thread_id, source.path) for one in sessions for source, identity in one.sources]


def _was_forgotten(forgotten: Forgotten, source: live.LiveSource, identity: Any) -> bool:
    return forgotten.thread(source.host, identity.thread_id) or forgotten.file(source.host, source.path, source.size)

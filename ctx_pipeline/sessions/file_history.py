"""Which sessions changed a file: each with its edits, the lines they added and removed, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.file_accesses import CHANGES, READ
from ctx_pipeline.model.codec import iso
from ctx_pipeline.sessions.copy_order import origins_first, own
from ctx_pipeline.sessions.files import accesses, fits, renamed, session_files
from ctx_pipeline.storage.own_sessions import UNNAMED
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.sessions.copy_order import Key
    from ctx_pipeline.sessions.files import Touch
    from ctx_pipeline.settings import Settings


@dataclass(slots=True)
class Changed:
    """What one session changed of the files that were asked for."""

    host: str
    session_id: str
    title: str
    project: str
    last: int = 0
    """time of the last change, microseconds since 1970"""
    changes: int = 0
    files: set[str] = field(default_factory=set)
    """their names now, below the root of their checkout"""
    recorded: set[str] = field(default_factory=set)
    """their names as the session recorded them"""
    touches: list[Touch] = field(default_factory=list)
    """its changes in order, with their differences where these are recorded"""
    copies: list[str] = field(default_factory=list)
    """sessions that repeat changes of it and made none of their own"""

    @property
    def lines(self) -> tuple[int, int] | None:
        """Lines added and removed; None where no difference is known."""
        known = [t for t in self.touches if t.added is not None]
        return (sum(t.added or 0 for t in known), sum(t.removed or 0 for t in known)) if known else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        added, removed = self.lines or (None, None)
        named = {"host": self.host, "session_id": self.session_id, "title": self.title, "project": self.project}
        done = {"changes": self.changes, "added": added, "removed": removed, "files": sorted(self.files), "copies": self.copies}
        return {**named, "last": iso(self.last) if self.last else None, **done}


@dataclass(slots=True)
class FileHistory:
    """The sessions that changed a file, newest change first, and how many only read it."""

    sessions: list[Changed]
    only_read: int


class _Change(NamedTuple):
    """One change or reading, with what makes it the same in a copy of its session first."""

    host: str
    cwd: str | None
    """the folder in which its session began"""
    kind: str
    recorded: str
    """the path as the session recorded it"""
    ts: int
    file: str
    """the file's name now"""
    project: str


_SAME = 5
"""Fields at the beginning of a change that a copy of it shares."""


def file_history(path: str, *, limit: int | None = None, settings: Settings | None = None) -> FileHistory:
    """Return the sessions that changed a file, folder or glob, also under a name that it had before.

    ``path`` is what :func:`ctx_pipeline.sessions.files.fits` takes. Differences are looked up
    for the newest ``limit`` sessions alone. A change that a copy repeats is that of the session
    which was copied.
    """
    made: dict[Key, list[_Change]] = {}
    read: dict[Key, list[_Change]] = {}
    last: dict[Key, int] = {}
    with reading(settings) as (store, chosen):
        touched, moves = accesses(store)
        shown, copied = store.shown(), store.ledger.copied_sessions()
        for then, now in zip(touched, renamed(touched, moves, apart=True), strict=True):
            key = (now.host, now.session_id)
            last[key] = max(last.get(key, 0), now.ts)
            if not any(fits(name, path) for name in (now.path, then.path, then.recorded)):
                continue
            if now.kind == READ or now.kind in CHANGES:
                cwd = shown.get(key, UNNAMED).cwd
                access = _Change(now.host, cwd, then.kind, then.recorded, then.ts, now.path, now.project or "")
                (read if now.kind == READ else made).setdefault(key, []).append(access)
        known = {key: shown.get(key, UNNAMED) for key in made}
        order = origins_first(last, copied, store.ledger.origins())
    found = {}
    for key, mine, copies in own([key for key in order if key in made], made, copied, _same):
        found[key] = Changed(*key, known[key].title or "", mine[0].project, max(c.ts for c in mine), len(mine), copies=copies)
        found[key].files = {c.file for c in mine}
        found[key].recorded = {c.recorded for c in mine}
        made[key] = mine
    sessions = sorted(found.values(), key=lambda one: (-one.last, one.host, one.session_id))
    for one in sessions[:limit]:
        kept = {(c.recorded, iso(c.ts)) for c in made[one.host, one.session_id]}
        touches = session_files(one.host, one.session_id, settings=chosen).touches
        one.touches = [t for t in touches if t.did in CHANGES and t.path in one.recorded and (t.ts is None or (t.path, t.ts) in kept)]
    only_read = {key for key, *_ in own([key for key in order if key in read], read, copied, _same)} - made.keys()
    return FileHistory(sessions, len(only_read))


def _same(one: _Change) -> tuple[Any, ...]:
    """Return what a change or reading and the copy of it share."""
    return one[:_SAME]

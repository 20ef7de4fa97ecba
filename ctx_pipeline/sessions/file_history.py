"""Which sessions changed a file: each with its edits, the lines they added and removed, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.file_accesses import CHANGES, READ
from ctx_pipeline.model.codec import iso
from ctx_pipeline.sessions.files import accesses, fits, renamed, session_files
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
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

    @property
    def lines(self) -> tuple[int, int] | None:
        """Lines added and removed; None where no difference is known."""
        known = [t for t in self.touches if t.added is not None]
        return (sum(t.added or 0 for t in known), sum(t.removed or 0 for t in known)) if known else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        added, removed = self.lines or (None, None)
        named = {"host": self.host, "session_id": self.session_id, "title": self.title, "project": self.project}
        done = {"changes": self.changes, "added": added, "removed": removed, "files": sorted(self.files)}
        return {**named, "last": iso(self.last) if self.last else None, **done}


@dataclass(slots=True)
class FileHistory:
    """The sessions that changed a file, newest change first, and how many only read it."""

    sessions: list[Changed]
    only_read: int


def file_history(path: str, *, limit: int | None = None, settings: Settings | None = None) -> FileHistory:
    """Return the sessions that changed a file, folder or glob, also under a name that it had before.

    ``path`` is what :func:`ctx_pipeline.sessions.files.fits` takes. Differences are looked up
    for the newest ``limit`` sessions alone.
    """
    found: dict[tuple[str, str], Changed] = {}
    read: set[tuple[str, str]] = set()
    with reading(settings) as (store, chosen):
        touched, moves = accesses(store)
        shown = store.shown()
        for then, now in zip(touched, renamed(touched, moves, apart=True), strict=True):
            if not any(fits(name, path) for name in (now.path, then.path, then.recorded)):
                continue
            key = (now.host, now.session_id)
            if now.kind == READ:
                read.add(key)
            if now.kind not in CHANGES:
                continue
            of = shown.get(key)
            one = found.setdefault(key, Changed(*key, (of.title if of else None) or "", now.project or ""))
            one.last = max(one.last, now.ts)
            one.changes += 1
            one.files.add(now.path)
            one.recorded.add(then.recorded)
    sessions = sorted(found.values(), key=lambda one: (-one.last, one.host, one.session_id))
    for one in sessions[:limit]:
        touches = session_files(one.host, one.session_id, settings=chosen).touches
        one.touches = [t for t in touches if t.did in CHANGES and t.path in one.recorded]
    return FileHistory(sessions, len(read - found.keys()))

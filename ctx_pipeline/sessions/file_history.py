"""Which sessions changed a file: each with its edits, the lines they added and removed, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.file_accesses import CHANGES, READ
from ctx_pipeline.model.codec import iso
from ctx_pipeline.sessions.files import accesses, fits, renamed, session_files
from ctx_pipeline.storage.own_sessions import UNNAMED
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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


_Key = tuple[str, str]


class _Change(NamedTuple):
    """One change, with what makes it the same in a copy of its session first."""

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
    made: dict[_Key, list[_Change]] = {}
    read: set[_Key] = set()
    last: dict[_Key, int] = {}
    with reading(settings) as (store, chosen):
        touched, moves = accesses(store)
        shown, copied = store.shown(), store.ledger.copied_sessions()
        for then, now in zip(touched, renamed(touched, moves, apart=True), strict=True):
            key = (now.host, now.session_id)
            last[key] = max(last.get(key, 0), now.ts)
            if not any(fits(name, path) for name in (now.path, then.path, then.recorded)):
                continue
            if now.kind == READ:
                read.add(key)
            if now.kind in CHANGES:
                cwd = shown.get(key, UNNAMED).cwd
                made.setdefault(key, []).append(_Change(now.host, cwd, then.kind, then.recorded, then.ts, now.path, now.project or ""))
        known = {key: shown.get(key, UNNAMED) for key in made}
        # what was copied ended before a copy that went on
        order = sorted(made, key=lambda key: (key in copied, last[key], key))
    found = {}
    for key, own, copies in _own(order, made, copied):
        found[key] = Changed(*key, known[key].title or "", own[0].project, max(c.ts for c in own), len(own), copies=copies)
        found[key].files = {c.file for c in own}
        found[key].recorded = {c.recorded for c in own}
        made[key] = own
    sessions = sorted(found.values(), key=lambda one: (-one.last, one.host, one.session_id))
    for one in sessions[:limit]:
        kept = {(c.recorded, iso(c.ts)) for c in made[one.host, one.session_id]}
        touches = session_files(one.host, one.session_id, settings=chosen).touches
        one.touches = [t for t in touches if t.did in CHANGES and t.path in one.recorded and (t.ts is None or (t.path, t.ts) in kept)]
    only_read = {key for key in read if key not in made and key not in copied}
    return FileHistory(sessions, len(only_read))


def _own(
    order: Iterable[_Key], made: Mapping[_Key, list[_Change]], copied: Mapping[_Key, str]
) -> Iterator[tuple[_Key, list[_Change], list[str]]]:
    """Yield each session with the changes that no session before it in order made, and those that repeat its own alone."""
    first: dict[tuple[Any, ...], _Key] = {}
    own: dict[_Key, list[_Change]] = {}
    copies: dict[_Key, list[str]] = {}
    for key in order:
        origin = (key[0], copied.get(key, ""))
        mine = [c for c in made[key] if first.setdefault(c[:_SAME], key) == key] if origin not in own else []
        if mine:
            own[key] = mine
        else:
            copies.setdefault(origin if origin in own else first[made[key][0][:_SAME]], []).append(key[1])
    for key, mine in own.items():
        yield key, mine, copies.get(key, [])

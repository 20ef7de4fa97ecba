"""Files of a session: what was read of them and through what, what was changed in them, and in which folders it went on."""

from __future__ import annotations

from bisect import bisect_right
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.file_accesses import CHANGES, MENTION, SEARCH, accesses_in
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.file_changes import counted
from ctx_pipeline.sessions.details import resolve, view_of
from ctx_pipeline.sessions.windows.raw_reader import Captured
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.file_changes import FileChange
    from ctx_pipeline.settings import Settings

CHANGED = CHANGES
"""What touches of a file change it."""


class Stay(NamedTuple):
    """A stretch of a thread's events in one working directory."""

    thread_id: str
    directory: str
    first_event: str
    first_ts: str | None
    events: int


class Touch(NamedTuple):
    """One tool call that read or changed one file."""

    path: str
    """absolute where the call or its directory says so"""
    did: str
    """read, edit, write, delete or move"""
    through: str
    """tool, shell, or nested (inside another call)"""
    lines: str
    """lines read or changed, as ``first-last``, several joined by commas; empty: all, or not told"""
    ts: str | None
    thread_id: str
    event_id: str
    """event of the call"""
    before_sha: str | None = None
    """SHA-256 of the text before; None where it was not recorded"""
    after_sha: str | None = None
    added: int | None = None
    """lines; None where the difference is not known"""
    removed: int | None = None
    diff: str = ""
    """unified difference, redacted"""


class SessionFiles(NamedTuple):
    """Everything that a session's tool calls did to files, in order, and the directories it worked in."""

    host: str
    session_id: str
    stays: list[Stay]
    touches: list[Touch]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "host": self.host,
            "session_id": self.session_id,
            "directories": [s._asdict() for s in self.stays],
            "files": [t._asdict() for t in self.touches],
        }


def session_files(host: str, session_id: str, *, path: str | None = None, settings: Settings | None = None) -> SessionFiles:
    """Return what a session read and changed; ``path`` is a glob over whole paths, or the end of one.

    Reads and changes through the shell are those whose files the command's words name.
    Failed calls touched nothing. Raises UnknownName.
    """
    with reading(settings) as (store, chosen):
        key, full = resolve(store, host, session_id)
        view = view_of(store, key, full, ("events", "tool_calls"))
        captured = Captured(store)
        places = _Places(key, captured, view.events)
        made = _changes(key, captured, view.events)
    from ctx_pipeline.redaction import Redactor

    clean = Redactor(chosen.patterns).redact
    calls = {c.call_event: c for c in view.tool_calls}
    accesses = accesses_in(view, lambda call: places.of(view.by_event.get(call.call_event)))
    touches = [_touch(a, calls[a.call_event], made) for a in accesses if a.did not in (SEARCH, MENTION)]
    chosen_ones = [t for t in touches if path is None or fnmatch(t.path, path) or f"/{t.path}".endswith(f"/{path.lstrip('/')}")]
    return SessionFiles(
        key,
        full,
        [stay._replace(directory=clean(stay.directory)) for stay in places.stays()],
        [t._replace(path=clean(t.path), diff=clean(t.diff)) for t in chosen_ones],
    )


class _Places:
    """In which directory each event of a session happened."""

    def __init__(self, host: str, captured: Captured, events: list[Any]) -> None:
        self._events = events
        self._told: dict[tuple[str, int], tuple[list[int], list[str]]] = {}
        directories = discovery.host(host).directories
        for stream in dict.fromkeys((e.stream, e.generation) for e in events):
            pairs = list(directories(captured.stream(*stream))) if directories else []
            self._told[stream] = [start for start, _ in pairs], [name for _, name in pairs]

    def of(self, event: Any) -> str | None:
        """Return the directory of an event; of one before the first that is told, that one."""
        if event is None:
            return None
        starts, names = self._told[event.stream, event.generation]
        return names[max(0, bisect_right(starts, event.start) - 1)] if names else None

    def stays(self) -> list[Stay]:
        """Return the stretches, thread by thread."""
        found: list[Stay] = []
        for event in self._events:
            directory = self.of(event)
            if directory is None:
                continue
            if found and (found[-1].thread_id, found[-1].directory) == (event.thread_id, directory):
                found[-1] = found[-1]._replace(events=found[-1].events + 1)
            else:
                found.append(Stay(event.thread_id, directory, event.event_id, iso(event.ts), 1))
        return found


def _changes(host: str, captured: Captured, events: list[Any]) -> dict[tuple[str, str], FileChange]:
    """Return (call, path) -> what the call made of the file, as the records of the session tell."""
    changes = discovery.host(host).changes
    found: dict[tuple[str, str], FileChange] = {}
    for stream in dict.fromkeys((e.stream, e.generation) for e in events) if changes else ():
        for change in changes(captured.stream(*stream)) if changes else ():
            found.setdefault((change.call_id, change.path), change)
    return found


def _touch(access: Any, call: Any, made: dict[tuple[str, str], FileChange]) -> Touch:
    touch = Touch(access.path, access.did, access.through, access.lines, iso(access.ts), access.thread_id, access.call_event)
    named = next((n for n in call.paths if access.path == n or access.path.endswith(f"/{n.removeprefix('./')}")), None)
    return _with(touch, call, made.get((call.call_id, named))) if access.did in CHANGES and named is not None else touch


def _with(touch: Touch, call: Any, change: FileChange | None) -> Touch:
    """Return a touch with what the records, or else the table, say of the texts before and after."""
    if change is None:
        return touch._replace(before_sha=call.before_sha, after_sha=call.after_sha)
    added, removed = counted(change.diff) if change.diff else (None, None)
    return touch._replace(
        before_sha=change.before_sha or call.before_sha,
        after_sha=change.after_sha or call.after_sha,
        added=added,
        removed=removed,
        diff=change.diff,
    )


def summed(touches: Iterable[Touch]) -> list[dict[str, Any]]:
    """Return one line a file: reads, changes, lines added and removed, and the lines read last; most touched first."""
    found: dict[str, dict[str, Any]] = {}
    for t in touches:
        one = found.setdefault(t.path, {"path": t.path, "reads": 0, "changes": 0, "added": 0, "removed": 0, "lines": ""})
        one["changes" if t.did in CHANGED else "reads"] += 1
        one["added"] += t.added or 0
        one["removed"] += t.removed or 0
        if t.did == "read":
            one["lines"] = t.lines or "all"
    return sorted(found.values(), key=lambda one: (-(one["reads"] + one["changes"]), one["path"]))

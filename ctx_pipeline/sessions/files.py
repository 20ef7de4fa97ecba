"""Files of a session: what was read of them and through what, what was changed in them, and in which folders it went on."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache, cached_property
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.file_accesses import CHANGES, KINDS, MENTION, READ, SEARCH, accesses_in, patch_moves
from ctx_pipeline.memory.scope import place_of
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.host_records import counted
from ctx_pipeline.recorded_paths import one_look
from ctx_pipeline.sessions.checkouts import Checkouts
from ctx_pipeline.sessions.copy_order import own_accesses
from ctx_pipeline.sessions.file_placement import Access, Keys, Move, session_accesses
from ctx_pipeline.sessions.session_choice import here as working_folder
from ctx_pipeline.sessions.session_choice import in_place, lines
from ctx_pipeline.sessions.session_details import resolve, view_of
from ctx_pipeline.sessions.states.times import micros
from ctx_pipeline.sessions.windows.window_effects import Captured
from ctx_pipeline.shell.files import below
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.groupings import QUARTER_HOUR, Days
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.model.host_records import FileChange
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


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
    """Return what a session read and changed; ``path`` is a glob over whole paths, the end of one, or a folder.

    Reads and changes through the shell are those whose files the command's words name.
    Failed calls touched nothing. Raises UnknownName.
    """
    with reading(settings) as (store, chosen):
        key, full = resolve(store, host, session_id)
        view = view_of(store, key, full, ("events", "tool_calls"))
        captured = Captured(store)
        places = _Places(key, captured, view.events)
        clean = _cleaner(chosen)
        stays = [stay._replace(directory=clean(stay.directory)) for stay in places.stays()]
        return SessionFiles(key, full, stays, _touches(view, captured, places, clean, path))


def touches_of(store: Store, view: SessionView, *, settings: Settings) -> list[Touch]:
    """Return the touches of :func:`session_files`, of a session whose events and tool calls were read."""
    captured = Captured(store)
    return _touches(view, captured, _Places(view.host, captured, view.events), _cleaner(settings))


def _cleaner(settings: Settings) -> Callable[[str], str]:
    from ctx_pipeline.redaction import Redactor

    return cache(Redactor(settings.patterns).redact)


def _touches(view: SessionView, captured: Captured, places: _Places, clean: Callable[[str], str], path: str | None = None) -> list[Touch]:
    made = _changes(view.host, captured, view.events)
    calls = {c.call_event: c for c in view.tool_calls}
    accesses = accesses_in(view, lambda call: places.of(view.by_event.get(call.call_event)))
    touches = [_touch(a, calls[a.call_event], made) for a in accesses if a.did not in (SEARCH, MENTION)]
    named = {path, path.lstrip("/")} if path is not None else set()
    chosen = [t for t in touches if path is None or any(fits(t.path, n) for n in named) or f"/{path.strip('/')}/" in f"/{t.path}"]
    return [t._replace(path=clean(t.path), diff=clean(t.diff)) for t in chosen]


class _Places:
    """In which directory each event of a session happened."""

    def __init__(self, host: str, captured: Captured, events: list[Any]) -> None:
        self._events = events
        self._told: dict[tuple[str, int], tuple[list[int], list[str]]] = {}
        directories = discovery.host(host).records.directories
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
    changes = discovery.host(host).records.changes
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


# Which files are worked on: every read, change, search and mention of every agent, by path, day, hour, agent and
# session.


SCHEMA = 1
"""Version of the JSON shape."""

HALF_LIFE_DAYS = 14
"""Days after which a touch counts half, from the newest one on."""

MOST_TOGETHER = 40
"""Files of a session that are paired; sessions that touch more pair their first ones."""

_DAY = 86_400_000_000
_NONE = dict.fromkeys(KINDS, 0)


@dataclass(slots=True)
class FileHeat:
    """One file with all its touches."""

    path: str
    project: str = ""
    """its project, where several are told of at once"""
    counts: dict[str, int] = field(default_factory=_NONE.copy)
    sessions: set[tuple[str, str]] = field(default_factory=set)
    hosts: dict[str, int] = field(default_factory=dict)
    chars: int = 0
    heat: float = 0.0
    last: int = 0
    renamed_from: list[str] = field(default_factory=list)

    @property
    def accesses(self) -> int:
        """All touches."""
        return sum(self.counts.values())

    @property
    def name(self) -> str:
        """The path, behind its project where several are told of."""
        return f"{self.project}: {self.path}" if self.project else self.path

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        from ctx_pipeline.model.codec import iso

        return {
            "path": self.path,
            "project": self.project or None,
            "accesses": self.accesses,
            **{kind: self.counts[kind] for kind in KINDS},
            "sessions": len(self.sessions),
            "hosts": dict(sorted(self.hosts.items())),
            "chars": self.chars,
            "heat": round(self.heat, 4),
            "last": iso(self.last) if self.last else None,
            "renamed_from": self.renamed_from,
        }


@dataclass
class Heat:
    """Files by heat, and the same touches by day, hour, agent and project: every sum is the same total."""

    files: list[FileHeat]
    """most touched first"""
    days: dict[str, int]
    hours: dict[int, int]
    hosts: dict[str, int]
    projects: dict[str, int]
    together: list[list[str]]
    """files that each session touched, at most :data:`MOST_TOGETHER`, in order"""
    sessions: int
    timezone: str

    @cached_property
    def total(self) -> int:
        """All touches."""
        return sum(f.accesses for f in self.files)

    @property
    def kinds(self) -> dict[str, int]:
        """Touches by kind."""
        found = Counter[str]()
        for f in self.files:
            for kind, times in f.counts.items():
                found[kind] += times
        return {kind: found[kind] for kind in KINDS}

    @cached_property
    def pairs(self) -> list[tuple[str, str, int]]:
        """Files that sessions touched together, and in how many of them; the most first."""
        found = Counter[tuple[str, str]]()
        for names in self.together:
            found.update(combinations(names, 2))
        return sorted(((a, b, n) for (a, b), n in found.items() if n > 1), key=lambda p: (-p[2], p))[:100]

    @property
    def never_changed(self) -> list[FileHeat]:
        """Files that were read and never changed."""
        return [f for f in self.files if f.counts[READ] and not any(f.counts[kind] for kind in CHANGES)]


def heat(
    *,
    path: str | None = None,
    host: str | None = None,
    project: str | None = None,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    everywhere: bool = False,
    cwd: str | None = None,
    settings: Settings,
) -> Heat:
    """Return the heat of the repository around ``cwd``, or of all with ``everywhere`` or a ``project``.

    It counts what sessions of the repository touched, and what sessions of a folder that is no
    checkout touched in it; what a session of another repository touched here is told with ``everywhere``.

    ``path`` is a glob over paths below the root, or a folder or file of it; ``since`` and
    ``until`` are days of the zone, both included. All filters hold for every figure,
    and what a copy of a session repeats counts once. Raises UsageError and UnknownName.
    """
    key = discovery.host(host).key if host else None
    asked = parse_filters(settings, since=since, until=until, timezone=timezone)
    first, last = moment(asked.since, asked.timezone), moment(asked.until, asked.timezone, after=True)
    with reading(settings) as (store, _), one_look():
        only: set[tuple[str, str]] | None = None
        roots: tuple[str, ...] = ()
        if not everywhere and not project:
            folder = cwd or working_folder()
            only, roots = {(line.host, line.session_id) for line in in_place(store, folder)}, place_of(folder).roots
        elif project:
            only = {(line.host, line.session_id) for line in lines(store, key) if project in project_names(line.project, line.repository)}
        found, moves = accesses(store, host=key, only=only, roots=roots)
        found = own_accesses(store, found)
    found = renamed(found, moves, apart=everywhere)
    chosen = [
        a for a in found if (path is None or fits(a.path, path)) and (first is None or a.ts >= first) and (last is None or a.ts < last)
    ]
    old: dict[tuple[str, str], list[str]] = defaultdict(list)
    for m in moves:
        old[m.project if everywhere else "", m.new].append(m.old)
    return _summed(chosen, old, asked.timezone, apart=everywhere)


def sessions_with_file(store: Store, path: str) -> dict[tuple[str, str], str]:
    """Return (host, session id) -> how often a file was changed and read, as ``2 changes, 3 reads``, of the sessions that did.

    ``path`` is what :func:`fits` takes; what a copy of a session repeats is no touch of its own.
    """
    counts: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for access in own_accesses(store, accesses(store)[0]):
        if (access.kind == READ or access.kind in CHANGES) and (fits(access.path, path) or fits(access.recorded, path)):
            counts[access.host, access.session_id][access.kind in CHANGES] += 1
    told = ((True, "change"), (False, "read"))
    return {
        key: ", ".join(f"{found[change]} {name}{'s' * (found[change] > 1)}" for change, name in told if found[change])
        for key, found in counts.items()
    }


def fits(path: str, wanted: str) -> bool:
    """Tell whether a path is meant by a glob, or is a file or lies in a folder that is named."""
    name = wanted.removeprefix("./").rstrip("/")
    return not name or path == name or path.startswith(f"{name}/") or fnmatch(path, name) or f"/{path}".endswith(f"/{name}")


def accesses(
    store: Store, *, host: str | None = None, only: set[tuple[str, str]] | None = None, roots: Iterable[str] = ()
) -> tuple[list[Access], list[Move]]:
    """Return every touch in order of time, and the renames among them.

    With ``only`` these are what the named sessions touched, and what sessions of no checkout,
    such as of a folder above, touched in the checkouts that these ran in or in those at ``roots``.
    """
    ran = lines(store)
    checkouts = Checkouts(ran)
    owns = {(line.host, line.session_id): checkouts.own(line.cwd) for line in ran}
    within = None if only is None else {own for key, own in owns.items() if key in only}.union(roots)
    # looking into the sessions of every other checkout takes as long as the whole history is
    looked_at = {key for key, own in owns.items() if only is None or key in only or not checkouts.is_known(own)}
    found: list[Access] = []
    moves: list[Move] = []
    patched: list[tuple[Any, Any, Any]] = []
    for cell, manifest in store.lake.manifests("normalized").items():
        if host not in {None, cell.host}:
            continue
        ids = {s for part in manifest.of_table("sessions") for s in part.live}
        wanted = {s for s in ids if (cell.host, s) in looked_at} if within != set() else ()
        for one in session_accesses(store, cell, wanted):
            keys = Keys(one.view, checkouts, within, only)
            placed = one.placed(keys)
            found += placed.accesses
            moves += placed.moves
            patched += [(cell, access, (one.view.session, keys)) for access in placed.patched]
    moves += _patch_moves(store, patched)
    found.sort(key=attrgetter("ts", "host", "session_id"))
    moves.sort(key=lambda m: (m.ts, m))
    return found, moves


def _patch_moves(store: Store, patched: Iterable[tuple[Any, Any, Any]]) -> list[Move]:
    """Return the renames of patches that name several files; only their sessions' calls are read."""
    by_cell: dict[Any, list[tuple[Any, Any]]] = defaultdict(list)
    for cell, call, session in patched:
        by_cell[cell].append((call, session))
    found = []
    for cell, members in by_cell.items():
        columns = {"events": ("event_id", "text")}
        texts: dict[str, str] = {}
        for view in store.lake.read_sessions(cell, {c.session_id for c, _ in members}, ("events",), columns, {"tool_call"}):
            texts |= {e.event_id: e.text or "" for e in view.events}
        for call, (session, keys) in members:
            for names in patch_moves(texts.get(call.call_event, "").replace("\\n", "\n")):
                old, new = (keys.of(below(session.cwd or "", name)) for name in names)
                if old and new:
                    found.append(Move(old[1], new[1], micros(call.ts), new[0]))
    return found


def renamed(found: list[Access], moves: list[Move], *, apart: bool) -> list[Access]:
    """Return the touches under the names that their files have now: a touch before a rename belongs to the new name.

    With ``apart`` a rename counts in its own project alone.
    """
    if not moves:
        return found
    by_old: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for m in moves:
        if m.old != m.new:
            by_old[m.project if apart else "", m.old].append((m.ts, m.new))

    def now(place: str, path: str, ts: int) -> str:
        for _ in range(100):
            step = next(((at, new) for at, new in by_old.get((place, path), ()) if at >= ts), None)
            if step is None:
                return path
            ts, path = step[0], step[1]
        return path

    return [a._replace(path=now(a.project if apart else "", a.path, a.ts)) for a in found]


def _summed(found: list[Access], old: dict[tuple[str, str], list[str]], zone: str | None, *, apart: bool) -> Heat:
    newest = max((a.ts for a in found), default=0)
    by_file: dict[tuple[str, str], FileHeat] = {}
    together: dict[tuple[str, str], dict[str, None]] = {}
    for path, kind, ts, host, session_id, project, chars, _ in found:
        place, session = (project if apart else "", path), (host, session_id)
        one = by_file.get(place)
        if one is None:
            one = by_file[place] = FileHeat(path, place[0], renamed_from=old.get(place, []))
        one.counts[kind] = one.counts.get(kind, 0) + 1
        one.hosts[host] = one.hosts.get(host, 0) + 1
        one.sessions.add(session)
        one.chars += chars
        one.heat += 0.5 ** ((newest - ts) / (_DAY * HALF_LIFE_DAYS))
        one.last = max(one.last, ts)
        members = together.setdefault(session, {})
        if len(members) < MOST_TOGETHER:
            members[one.name] = None
    days, hours = Counter[str](), Counter[int]()
    hosts, projects = Counter(a.host for a in found), Counter(a.project for a in found)
    quarters = Counter(a.ts // QUARTER_HOUR for a in found)
    calendar = Days(zone)
    for quarter, times in quarters.items():
        clock = calendar.clock(quarter * QUARTER_HOUR)
        days[clock.date().isoformat()] += times
        hours[clock.hour] += times
    ordered = sorted(by_file.values(), key=lambda f: (-f.accesses, -f.heat, f.name))
    return Heat(
        ordered,
        dict(sorted(days.items())),
        dict(sorted(hours.items())),
        dict(sorted(hosts.items())),
        dict(projects.most_common()),
        [sorted(members) for members in together.values()],
        len(together),
        zone or "local time",
    )


def roll_up(files: Iterable[FileHeat], depth: int) -> list[dict[str, Any]]:
    """Return touches by folder of so many levels, the most first; files above that level stand in their own folder."""
    found: dict[str, Counter[str]] = {}
    members: Counter[str] = Counter()
    for f in files:
        parts = f.path.split("/")[:-1]
        folder = "/".join(parts[:depth] if not f.path.startswith("/") else parts[: depth + 1]) or "."
        folder = f"{f.project}: {folder}" if f.project else folder
        found.setdefault(folder, Counter()).update(f.counts)
        members[folder] += 1
    rows = [{"directory": d, "files": members[d], "accesses": sum(c.values()), **{k: c[k] for k in KINDS}} for d, c in found.items()]
    return sorted(rows, key=lambda r: (-int(r["accesses"]), str(r["directory"])))


def cold(found: Heat, *, path: str | None = None, cwd: str | None = None) -> list[str] | None:
    """Return the tracked files of the repository around a folder that nobody touched; None where git does not answer."""
    from ctx_pipeline.recorded_paths.git import Failed, run

    roots = place_of(cwd or working_folder()).roots
    said = run(roots[0], "ls-files", "--cached", "-z") if roots else None
    if said is None or isinstance(said, Failed):
        return None
    known = {f.path for f in found.files}
    tracked = sorted(name for name in said.split("\0") if name and "\ufffd" not in name)
    return [name for name in tracked if name not in known and (path is None or fits(name, path))]

"""Reads the homes as they are now: which sessions lie there, and the model calls of each, without writing anything."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.bounded_cache import drop_older_half
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.process.gc_pause import without_collector
from ctx_pipeline.model.raw import Identity, Parsed, SessionFacts, SessionInput, StreamBytes
from ctx_pipeline.model.repository_names import project_of, repository_of
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS
from ctx_pipeline.model.titles import title_line
from ctx_pipeline.model.usage_rules import SAME_CALLS, ancestors, decide, is_running_total, replays, same_calls, with_replays
from ctx_pipeline.storage.raw.home_files import HEAD, Problem, Seen, is_lines, readable_head, walk, whole_lines
from ctx_pipeline.usage.homes.two_processes import in_two

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.usage_rules import Owner
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.own_sessions import Shown


T = TypeVar("T")

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_MODEL = _C["model"]
OWNER, KEY, TS = _C["owner"], _C["call_key"], _C["ts"]
_EVENT_TS = EVENTS.names.index("ts")
_own, _key_and_time, _first = itemgetter(OWNER), itemgetter(KEY, TS), itemgetter(0)


class LiveSource(NamedTuple):
    """A file of a home, or a named stream of a database there (``rel`` is ``<path>#<name>``)."""

    host: str
    root: str
    path: str
    rel: str
    kind: str
    size: int
    mtime_ns: int
    stream: str
    """the id that the store gives to a source of this place"""
    name: str = ""
    """of a stream in a database"""


_MAY_HIDE = re.compile(r"[\w+=-]{16}|[^\w./~ -]")
"""What a name has that holds a secret: the detectors take longer to load than a small home to count."""
_MAY_HIDE_PIECE = re.compile(r"[^\W_]{16}|[^\w./:@-]")
"""The same of a model or a branch, whose names are long and made of short pieces."""


@dataclass(slots=True)
class LiveSession:
    """A session and where its streams lie; ``linked_parent`` is the session it was forked from."""

    host: str
    session_id: str
    linked_parent: str | None
    sources: list[tuple[LiveSource, Identity]] = field(default_factory=list)
    hints: dict[str, dict[str, str]] = field(default_factory=dict)
    """thread -> what databases of the home say of it, as far as usage depends on it"""


@dataclass(slots=True)
class Counted:
    """The model calls of one session, rows as in ``model_calls``, and the facts that usage is grouped by."""

    host: str
    session_id: str
    project: str
    parent: str | None
    calls: list[tuple]
    parsed: Parsed | None = None
    """all rows, where they were asked for"""
    repository: str = ""
    """what the project's short name stands for"""
    unread: int = 0
    """sources of it that could not be read or parsed: their calls are missing"""
    branch: str = ""
    """git branch on which it began, where that was read"""
    home: str = ""
    """root of the home that it lies in, where that was asked for"""


def sources(settings: Settings, *, host: str | None = None, problems: list[Problem] | None = None) -> list[LiveSource]:
    """Return the files and database streams of all homes that can hold model calls."""
    if problems is not None:
        return _sources(settings, host, problems)
    return list(once(("sources", host), lambda: _sources(settings, host, None)))


_looked: ContextVar[dict[tuple[Any, ...], Any] | None] = ContextVar("looked", default=None)


def in_one_look() -> bool:
    """Tell whether several questions are asked about one state of the homes."""
    return _looked.get() is not None


def once(key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """Return what ``make`` gives; inside of :func:`one_look` it is made once for a key."""
    looked = _looked.get()
    if looked is None:
        return make()
    if key not in looked:
        looked[key] = make()
    return cast("T", looked[key])


@contextmanager
def one_look() -> Iterator[None]:
    """List the files of the homes, and add up their calls, once inside, for several questions about one state of them."""
    if in_one_look():
        yield
        return
    token = _looked.set({})
    try:
        yield
    finally:
        _looked.reset(token)


def _sources(settings: Settings, host: str | None, problems: list[Problem] | None) -> list[LiveSource]:
    odd = problems if problems is not None else []
    found: list[LiveSource] = []
    for declared in discovery.hosts().values():
        if host not in {None, declared.key}:
            continue
        wanted = declared.usage.kinds or declared.files.session_kinds
        for root in settings.roots_of(declared):
            top = str(root if root.is_dir() else root.parent)
            for rel, kind, path, size, mtime_ns, *_ in walk(declared, root, settings, odd):
                if kind not in wanted:
                    continue
                if kind in declared.files.databases:
                    found += _streams(declared, top, Seen(rel, kind, path, size, mtime_ns, 0), odd)
                else:
                    found.append(LiveSource(declared.key, top, path, rel, kind, size, mtime_ns, digest(declared.key, top, rel, size=16)))
    return found


def _streams(declared: Host, top: str, seen: Seen, odd: list[Problem]) -> Iterator[LiveSource]:
    from ctx_pipeline.storage.raw import databases

    rel, kind, path, size, mtime_ns, *_ = seen

    try:
        names = databases.streams(path, declared.files.databases[kind])
    except (CtxError, OSError, ValueError) as error:
        odd.append(Problem(path, f"database cannot be read: {str(error).splitlines()[0]}"))
        return
    for name in sorted(names):
        whole = f"{rel}#{name}"
        yield LiveSource(declared.key, top, path, whole, kind, size, mtime_ns, digest(declared.key, top, whole, size=16), name)


def sessions(found: Iterable[LiveSource], settings: Settings) -> list[LiveSession]:
    """Return the sessions that these sources belong to, by the same rules as the ledger's."""
    from ctx_pipeline.storage.ledger import links

    by_host: dict[str, list[tuple[LiveSource, Identity]]] = {}
    for source in found:
        identity = identify(source)
        if identity is not None:
            by_host.setdefault(source.host, []).append((source, identity))
    gathered: dict[tuple[str, str], LiveSession] = {}
    for host, members in by_host.items():
        said = database_hints(host, {source.root for source, _ in members})
        rows = [
            links.Link(s.stream, i.thread_id, i.parent_thread_id, i.relation, i.root_session_id, i.first_ts, s.mtime_ns) for s, i in members
        ]
        places = links.resolve(rows, first_month=settings.first_month, now=links.now_micros(), parents=parents(said))
        for source, identity in members:
            place = places.get(source.stream)
            if place is not None:
                session = gathered.setdefault((host, place.session_id), LiveSession(host, place.session_id, place.parent_session))
                session.sources.append((source, identity))
                if identity.thread_id in said:
                    session.hints[identity.thread_id] = said[identity.thread_id]
    return list(gathered.values())


def database_hints(host: str, roots: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return thread -> field -> value: what databases in these homes say that usage depends on; a broken or locked one says nothing."""
    declared = discovery.hosts()[host]
    found: dict[str, dict[str, str]] = {}
    if not declared.usage.hint_streams or declared.files.hints is None:
        return found
    for root in sorted(roots):
        try:
            names = sorted(os.listdir(root))  # noqa: PTH208 - names are all that is needed
        except OSError:
            continue
        for name in names:
            kind = declared.files.classify(name) or ""
            for stream in declared.usage.hint_streams.get(kind, ()) if kind in declared.files.databases else ():
                for thread, about, value in _read_hints(declared, kind, f"{root}/{name}", stream):
                    found.setdefault(thread, {})[about] = value
    return found


def parents(said: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return thread -> the thread that started it, of what databases of the home say."""
    from ctx_pipeline.storage.ledger.links import PARENT

    return {thread: fields[PARENT] for thread, fields in said.items() if PARENT in fields}


def _read_hints(declared: Host, kind: str, path: str, stream: str) -> list[tuple[str, str, str]]:
    from ctx_pipeline.storage.raw import databases

    try:
        rows = databases.read(path, declared.files.databases[kind], stream)
        return list(declared.files.hints(kind, rows)) if declared.files.hints is not None else []
    except Exception:  # noqa: BLE001 - a broken file or host must not stop the count
        return []


def identify(source: LiveSource) -> Identity | None:
    """Return whose a source is by its first bytes, or by its name where they cannot be read; None when neither says."""
    known = _identified.get(source, _UNKNOWN)
    if known is not _UNKNOWN:
        return cast("Identity | None", known)
    declared = discovery.hosts()[source.host]
    unread = bool(source.name)  # what a database holds changes behind its file's size and time
    try:
        try:
            head = readable_head(source.rel, _first_bytes(source))
        except (CtxError, OSError):
            head, unread = b"", True  # it is missed with its session
        found = declared.files.identify(source.kind, source.rel, head)
    except Exception:  # noqa: BLE001 - a broken file or host must not stop the count of the others
        return None
    if not unread:
        if len(_identified) >= _MOST_IDENTIFIED:
            drop_older_half(_identified)
        _identified[source] = found
    return found


_UNKNOWN = object()
_MOST_IDENTIFIED = 4_096
_identified: dict[LiveSource, Identity | None] = {}
"""File with its size and time -> whose it is; a file is identified again when it has changed."""


def _first_bytes(source: LiveSource) -> bytes:
    if source.name:
        return content(source)[:HEAD]
    with open(source.path, "rb", buffering=0) as file:  # noqa: PTH123 - a million small reads
        return file.read(source.size if source.rel.endswith(".zst") else HEAD)


def content(source: LiveSource) -> bytes:
    """Return what the store would capture of a source: whole lines of a JSONL file, else all of it; raises OSError, CtxError."""
    if source.name:
        from ctx_pipeline.storage.raw import databases

        return databases.read(source.path, discovery.hosts()[source.host].files.databases[source.kind], source.name)
    with open(source.path, "rb", buffering=0) as file:  # noqa: PTH123
        data = file.read(source.size) if source.size < 1 << 30 else _pieces(file, source.size)
    return data[: whole_lines(data)] if is_lines(source.rel) and data[-1:] != b"\n" else data


def text(source: LiveSource) -> bytes:
    """Return the content of a source, unpacked where it is packed; raises OSError, CtxError."""
    data = content(source)
    if not source.rel.endswith(".zst"):
        return data
    from ctx_pipeline.storage.raw.segments import unpack

    return unpack(data)


def _pieces(file: Any, size: int) -> bytes:
    parts = []
    while size > 0 and (part := file.read(min(size, 1 << 26))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


_BEGIN, _END = 1 << 19, 1 << 18
"""Bytes at the beginning and the end of a long transcript in which its title, its folder and its last record stand."""


def both_ends(source: LiveSource) -> bytes:
    """Return the whole lines at the beginning and the end of a long source, all of any other; raises OSError, CtxError."""
    if source.name or not is_lines(source.rel) or source.size <= _BEGIN + _END:
        return text(source)
    with open(source.path, "rb", buffering=0) as file:  # noqa: PTH123
        begin = file.read(_BEGIN)
        file.seek(source.size - _END)
        end = file.read(_END)
    end = end[end.find(b"\n") + 1 :]
    return begin[: begin.rfind(b"\n") + 1] + end[: whole_lines(end)]


def streams(session: LiveSession, content_of: Callable[[LiveSource], bytes] = text) -> tuple[StreamBytes, ...]:
    """Return the streams of a session; one that cannot be read is left out."""
    found = []
    for source, identity in session.sources:
        try:
            data = content_of(source)
        except (CtxError, OSError):
            continue
        found.append(StreamBytes(source.stream, source.kind, source.rel, 0, data, identity.thread_id, identity.parent_thread_id))
    return tuple(found)


def count(given: SessionInput, parent: str | None = None, *, whole: bool = False) -> Counted:
    """Return the model calls of a session; ``whole`` parses it and keeps all rows."""
    declared = discovery.hosts()[given.host]
    parsed = None
    try:
        parsed = declared.usage.read(given) if declared.usage.read is not None and not whole else None
        if parsed is None:
            parsed = declared.records.parse(given)
        failed = 0
    except Exception:  # noqa: BLE001 - a session that cannot be read must not hide the others
        parsed, failed = Parsed(), len(given.streams)
    facts = parsed.facts
    repository = _shown(repository_of(facts.repository) or discovery.checkout_of(facts.cwd or ""))
    kept = parsed if whole else None
    return Counted(
        given.host,
        given.session_id,
        project_of(repository),
        facts.parent_session or parent,
        _shown_calls(parsed.model_calls),
        kept,
        repository,
        failed,
        _shown(facts.branch or "", _MAY_HIDE_PIECE),
    )


def _shown_calls(calls: list[tuple]) -> list[tuple]:
    """Return the calls with the names of their models as the tables have them: a session may name a model as it likes."""
    names = {model: _shown(model, _MAY_HIDE_PIECE) for model in {call[_MODEL] for call in calls} if model}
    if all(model == name for model, name in names.items()):
        return calls
    return [(*call[:_MODEL], names.get(call[_MODEL], call[_MODEL]), *call[_MODEL + 1 :]) for call in calls]


@lru_cache(maxsize=4096)
def _shown(name: str, may_hide: re.Pattern[str] = _MAY_HIDE) -> str:
    """Return a name of a project, a branch or a model as the tables have it."""
    if not may_hide.search(name):
        return name
    from ctx_pipeline.redaction import built_in

    return name if built_in().clears(name) else built_in().redact(name)


def read(
    found: Iterable[LiveSession],
    *,
    whole: bool = False,
    finish: Callable[[list[tuple]], list[tuple]] | None = None,
    seen: Callable[[Counted], None] | None = None,
) -> list[Counted]:
    """Return the model calls of these sessions, read one session at a time, each list as ``finish`` makes it.

    ``whole`` keeps all rows of all sessions; ``seen`` is given each session with all its
    rows, which are then let go. A large home is read by two processes, whole sessions by one.
    """
    todo = list(found)
    if whole or seen is not None:
        with without_collector():
            return list(each(todo, whole=whole, finish=finish, seen=seen))

    def plain(some: list[LiveSession]) -> list[tuple]:
        return [
            (c.host, c.session_id, c.project, c.parent, c.calls, None, c.repository, c.unread, c.branch) for c in each(some, finish=finish)
        ]

    return [Counted(*fields) for fields in in_two(todo, sizes(todo), plain)]


def sizes(todo: Iterable[LiveSession]) -> list[int]:
    """Return the bytes of the sources of each session."""
    return [sum(source.size for source, _ in session.sources) for session in todo]


def each(
    found: Iterable[LiveSession],
    *,
    finish: Callable[[list[tuple]], list[tuple]] | None,
    whole: bool = False,
    seen: Callable[[Counted], None] | None = None,
) -> Iterator[Counted]:
    """Yield the model calls of these sessions as :func:`read` does, by this process alone."""
    for session in found:
        given = SessionInput(session.host, session.session_id, streams(session), session.hints)
        one = count(given, session.linked_parent, whole=whole or seen is not None)
        one.unread += len(session.sources) - len(given.streams)
        if seen is not None:
            seen(one)
            one.parsed = None
        if finish is not None:
            one.calls = finish(one.calls)
        yield one


def shown(
    settings: Settings, wanted: Collection[tuple[str, str]] | None = None, among: Iterable[LiveSource] | None = None
) -> dict[tuple[str, str], Shown]:
    """Return what is shown of these (host, session), or of all, as they lie in the homes, redacted; it began with its first model call.

    Of a long transcript both ends are read, and all of it where these hold no title.
    """
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.storage.own_sessions import Shown
    from ctx_pipeline.storage.written_sessions import ARCHIVED

    redact = Redactor(settings.patterns).redact
    found = {}
    for session in sessions(sources(settings) if among is None else among, settings):
        place = session.host, session.session_id
        if wanted is not None and place not in wanted:
            continue
        one = _shown_of(session, both_ends)
        if one.parsed is None or not one.parsed.facts.title:
            one = _shown_of(session, text)
        facts = one.parsed.facts if one.parsed is not None else SessionFacts()
        found[place] = Shown(
            title_line(redact(facts.title), 300) if facts.title else None,
            redact(one.project) if one.project else None,
            redact(facts.cwd) if facts.cwd else None,
            min((row[TS] for row in one.calls if row[TS] is not None), default=None),
            max((event[_EVENT_TS] for event in (one.parsed.events if one.parsed else ()) if event[_EVENT_TS] is not None), default=None),
            facts.status == ARCHIVED,
        )
    return found


def _shown_of(session: LiveSession, content_of: Callable[[LiveSource], bytes]) -> Counted:
    given = SessionInput(session.host, session.session_id, streams(session, content_of), session.hints)
    return count(given, session.linked_parent, whole=True)


def owners(candidates: Mapping[str, Sequence[Candidates]]) -> dict[str, dict[str, Owner]]:
    """Return host -> call key -> owner, for the keys that more than one session of a host holds."""
    found: dict[str, dict[str, Owner]] = {}
    for host, members in candidates.items():
        seen: set[str] = set()
        twice: set[str] = set()
        held = [set(map(_first, member.calls)) for member in members]
        for keys in held:
            if not seen.isdisjoint(keys):
                twice |= seen & keys
            seen |= keys
        shared: dict[str, list[str]] = {}
        for member, keys in zip(members, held, strict=True) if twice else ():
            for key in keys & twice:
                shared.setdefault(key, []).append(member.session_id)
        parents = {m.session_id: m.parent for m in members}
        repeated = _replays(members, parents)
        copied = _same_calls(members)
        if not shared and not repeated and not copied:
            continue
        mine = {session for group in shared.values() for session in group}
        own = {
            m.session_id: min((ts for key, ts in m.calls if ts is not None and key not in shared and key not in repeated), default=None)
            for m in members
            if m.session_id in mine
        }
        after = with_replays(decide(shared, own, parents), repeated)
        found[host] = with_replays(after, {key: origin for key, origin in copied.items() if key not in after}, SAME_CALLS)
    return found


def _same_calls(members: Sequence[Candidates]) -> dict[str, tuple[str, str]]:
    """Return the calls of sessions that were copied under another id; only those that begin or end with running totals are looked at."""
    counting = [m for m in members if m.calls and any(is_running_total(m.calls[n][0], m.session_id) for n in (0, -1))]
    return same_calls({m.session_id: dict(m.calls) for m in counting})


def _replays(members: Sequence[Candidates], parents: Mapping[str, str | None]) -> dict[str, tuple[str, str]]:
    forks = [m for m in members if m.parent is not None and any(is_running_total(key, m.session_id) for key, _ in m.calls)]
    if not forks:
        return {}
    needed = {session for fork in forks for session in (fork.session_id, *ancestors(fork.session_id, parents))}
    return replays({m.session_id: dict(m.calls) for m in members if m.session_id in needed}, parents)


class Candidates(NamedTuple):
    """The calls of a session that may be owned: (call key, time)."""

    session_id: str
    parent: str | None
    calls: Sequence[tuple[str, int | None]]


def candidates(counted: Iterable[Counted]) -> dict[str, list[Candidates]]:
    """Return host -> what each session may own; rows that a parser marked as copies are not in it."""
    found: dict[str, list[Candidates]] = {}
    for one in counted:
        calls = list(map(_key_and_time, filter(_own, one.calls)))
        found.setdefault(one.host, []).append(Candidates(one.session_id, one.parent, calls))
    return found


def owned(counted: Iterable[Counted], decided: Mapping[str, Mapping[str, Owner]]) -> Iterator[tuple[Counted, list[tuple]]]:
    """Yield each session with the calls that are counted for it."""
    for one in counted:
        shared = decided.get(one.host)
        if shared is None:
            yield one, list(filter(_own, one.calls))
        else:
            mine = one.session_id
            yield one, [row for row in one.calls if row[OWNER] and ((owner := shared.get(row[KEY])) is None or owner.session_id == mine)]


# Which hosts are used on a flat plan: their calls are priced at the list, and nobody pays that.


_TAIL = 1 << 18
_LOOKED_AT = 5
"""How many of the newest sessions are looked at, and how many bytes at the end of each."""


def plans(hosts: Iterable[str], *, recorded: bool = True, settings: Settings | None = None) -> dict[str, str]:
    """Return host -> plan, for those of these hosts that are used on one.

    ``[plans]`` of the configuration goes first (``claude = "max"``; an empty text says
    that calls are paid for each); else the last lines of the newest sessions, where the
    host writes down its plan; without ``recorded`` no home is looked at.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    known = discovery.hosts()
    keys = {name: key for key, host in known.items() for name in (key, *host.aliases)}
    own = {keys.get(name, name): plan for name, plan in chosen.plans.items()}
    found: dict[str, str] = {}
    for key in sorted(set(hosts) & set(known)):
        notes = known[key].usage.limit_notes
        named = own.get(key)
        if named is None and recorded and notes is not None and notes.plan is not None:
            named = _recorded(chosen, key, notes.plan)
        if named:
            found[key] = named
    return found


def _recorded(settings: Settings, host: str, plan: Callable[[bytes], str | None]) -> str | None:
    """Return the plan that the newest session which names one ends with."""
    return next((named for text in newest_ends(settings, host) if (named := plan(text))), None)


def newest_ends(settings: Settings, host: str) -> Iterator[bytes]:
    """Yield the last bytes of a host's newest files, the newest first."""
    files = [s for s in sources(settings, host=host) if not s.name]
    for source in sorted(files, key=lambda s: (-s.mtime_ns, s.path))[:_LOOKED_AT]:
        yield _last_bytes(source.path)


def _last_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the scan is text
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""

"""Which session and month a stream belongs to: a pure function of what streams say of themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.codec import month_of
from ctx_pipeline.storage.ledger.rows import Hint
from ctx_pipeline.storage.raw.home_files import readable_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Identity


_TWO_DAYS = 2 * 86_400 * 1_000_000

JOINING = ("part", "beside")
"""Relations of streams that join the session of their parent thread; only "part" makes one when there is none."""


class Link(NamedTuple):
    """A stream and what its head says; all of one host."""

    stream: str
    thread_id: str
    parent_thread_id: str | None
    relation: str | None
    root_session_id: str | None
    first_ts: int | None
    mtime_ns: int


class Place(NamedTuple):
    """Session, month of its cell, and the session it was forked from."""

    session_id: str
    month: str
    parent_session: str | None


PARENT = "parent_thread_id"
"""Field of a hint: the thread that started this one, where its own file does not say."""


def resolve(links: Iterable[Link], *, first_month: str, now: int, parents: Mapping[str, str] = {}) -> dict[str, Place]:
    """Return the place of each stream that has one; ``now`` in microseconds since 1970.

    ``parents`` are the threads that indexes of the host name as having started others:
    they count for threads whose own files say nothing of where they come from.

    Streams that only lie beside a session (to-do lists, file history) make none: without
    a transcript or another part of it they have no place.

    A part joins the session of its root: the declared root, else the chain of parents as
    far as it is known, else the topmost declared id. A circle of parents is the session
    of its smallest id. The month is that of the root thread's first time, else of the
    earliest part's.
    """
    ordered = sorted((_with_parent(link, parents) for link in links), key=lambda link: (link.thread_id, link.stream))
    threads: dict[str, Link] = {}
    for link in ordered:
        known = threads.get(link.thread_id)
        if known is None or (not _points(known) and _points(link)):
            threads[link.thread_id] = link
    sessions: dict[str, str] = {}
    for thread in threads:
        _session_of(thread, threads, sessions)
    members: dict[str, list[Link]] = {}
    for link in ordered:
        members.setdefault(sessions[link.thread_id], []).append(link)
    places: dict[str, Place] = {}
    for session_id, streams in members.items():
        if all(link.relation == "beside" for link in streams):
            continue
        month = _month(session_id, streams, first_month, now)
        root = threads.get(session_id)
        parent = root.parent_thread_id if root is not None and root.relation == "fork" else None
        if parent is not None:
            parent = sessions.get(parent, parent)
        place = Place(session_id, month, parent if parent != session_id else None)
        for link in streams:
            places[link.stream] = place
    return places


def _with_parent(link: Link, parents: Mapping[str, str]) -> Link:
    parent = parents.get(link.thread_id)
    if parent is None or parent == link.thread_id or link.relation not in {None, "main"} or _points(link):
        return link
    return link._replace(parent_thread_id=parent, relation="part")


def _points(link: Link) -> bool:
    return bool(link.parent_thread_id or (link.root_session_id and link.root_session_id != link.thread_id))


def _up(link: Link) -> str | None:
    """Return the id of the thread whose session this one joins; None when it is a root."""
    if link.relation == "fork":
        return None
    above = link.root_session_id or (link.parent_thread_id if link.relation in JOINING else None)
    return above if above != link.thread_id else (link.parent_thread_id if link.relation in JOINING else None)


def _session_of(thread: str, threads: dict[str, Link], sessions: dict[str, str]) -> str:
    path: list[str] = []
    at = thread
    while at not in sessions:
        if at in path:
            found = min(path[path.index(at) :])
            break
        path.append(at)
        link = threads.get(at)
        above = _up(link) if link is not None else None
        if above is None or above == at:
            found = at
            break
        at = above
    else:
        found = sessions[at]
    for step in path:
        if step in threads:
            sessions[step] = found
    return found


def _month(session_id: str, streams: list[Link], first_month: str, now: int) -> str:
    timed = [link for link in streams if link.first_ts is not None]
    roots = [link for link in timed if link.thread_id == session_id]
    first = min(roots or timed, key=lambda link: (link.first_ts or 0, link.stream), default=None)
    if first is None or first.first_ts is None:
        return first_month
    ts = first.first_ts
    if ts > now + _TWO_DAYS:
        ts = min(first.mtime_ns // 1000, now + _TWO_DAYS)
    return max(month_of(ts), first_month)


def now_micros() -> int:
    """Return the clock in microseconds since 1970."""
    return int(datetime.now(UTC).timestamp() * 1_000_000)


# What a host says of a stream, fit to be stored; a host file that raises stops nothing but itself.


def identify(host: Host, kind: str, rel: str, head: bytes) -> tuple[Identity | None, str]:
    """Return whose a stream is by its first captured bytes, and what went wrong in finding out."""
    readable = readable_head(rel, head)
    if head and not readable:
        return _storable(host.files.identify(kind, rel, b"")), "cannot be unpacked"
    try:
        return _storable(host.files.identify(kind, rel, readable)), ""
    except Exception as error:  # noqa: BLE001 - the other streams are not to be stopped
        return None, f"its head cannot be read: {type(error).__name__}"


def read_hints(host: Host, kind: str, rel: str, data: bytes, *, stream: str, redact: Callable[[str], str]) -> tuple[list[Hint], str]:
    """Return what a stream of the home says of threads, its values redacted, and what went wrong in reading it."""
    if host.files.hints is None or not data:
        return [], ""
    try:
        shared = (host.files.shared_folder(rel) if host.files.shared_folder else None) or ""
        return [Hint(host.key, _text(t or shared), _text(f), redact(_text(v)), stream) for t, f, v in host.files.hints(kind, data)], ""
    except Exception as error:  # noqa: BLE001 - the other streams are not to be stopped
        return [], f"gives no hints: {type(error).__name__}"


def _storable(identity: Identity | None) -> Identity | None:
    if identity is None:
        return None
    return type(identity)._make(_text(value) if isinstance(value, str) else value for value in identity)


def _text(value: object) -> str:
    """Return text that SQLite takes: a lone surrogate becomes a question mark."""
    return str(value).encode("utf-8", "replace").decode()

"""How often and when limits were reached, as the hosts' own records say."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.model.codec import iso
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters

if TYPE_CHECKING:
    from ctx_pipeline.model.limit_notes import LimitNote
    from ctx_pipeline.settings import Settings

_MINUTE = 60_000_000
_APART = 30 * _MINUTE
"""Records of a limit further apart than this, and behind its reset, tell of it being reached again."""


@dataclass(slots=True)
class Reached:
    """A limit of a host that was reached, from the first record that says so to the last."""

    host: str
    kind: str
    """plan (the use that it includes) or requests (how many are answered in a while)"""
    name: str
    first: int
    """microseconds since 1970, as are all times here"""
    last: int
    resets_at: int | None = None
    records: int = 0
    waited: int | None = None
    """microseconds that the host stood still: the longest time without a model call, from the first record to the
    first call behind the last one; None where no call came after"""
    sessions: list[str] = field(default_factory=list)
    projects: list[str] = field(default_factory=list)

    def met(self, session: str, project: str) -> None:
        """Note in which session of which project it was met."""
        for names, value in ((self.sessions, session), (self.projects, project)):
            if value and value not in names:
                names.append(value)

    def to_json(self) -> dict[str, Any]:
        """Return it with times as ISO 8601 text and the wait in minutes."""
        return {
            "host": self.host,
            "kind": self.kind,
            "name": self.name,
            "first": iso(self.first),
            "last": iso(self.last),
            "resets_at": iso(self.resets_at),
            "records": self.records,
            "waited_minutes": None if self.waited is None else round(self.waited / _MINUTE, 1),
            "sessions": self.sessions,
            "projects": self.projects,
        }


def reached(
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> list[Reached]:
    """Return every time that a limit was reached, oldest first.

    Records of one limit belong together until it resets, or while they are at most half
    an hour apart. Copies of a session's history in a fork say nothing anew. Raises
    StoreError when nothing was captured yet.
    """
    from ctx_pipeline.storage.warehouse.usage_sql import CALL_TIMES_SQL, LIMITS_SQL, marked

    hosts = {key: h.usage.limit_notes for key, h in discovery.hosts().items() if h.usage.limit_notes and host in {None, key}}
    with reading(settings) as (store, chosen), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        wanted = marked({(key, subtype) for key, notes in hosts.items() for subtype in notes.subtypes})
        rows = connection.execute(LIMITS_SQL, [wanted]).fetchall()
        times: dict[str, list[int]] = {}
        for key, ts in connection.execute(CALL_TIMES_SQL).fetchall():
            times.setdefault(key, []).append(ts)
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, project=project)
    first, last = filters.bounds()
    found: list[Reached] = []
    for key, session, ts, subtype, text, name, repository in rows:
        if (first is not None and ts < first) or (last is not None and ts >= last) or project not in {None, name, repository}:
            continue
        for note in hosts[key].reached(subtype, text, ts):
            _add(found, key, note, ts).met(session, name)
    for one in found:
        known = times.get(one.host, [])
        begin, place = bisect_right(known, one.first), bisect_right(known, one.last)
        if place < len(known):
            one.waited = max(b - a for a, b in pairwise([one.first, *known[begin : place + 1]]))
    return found


def _add(found: list[Reached], host: str, note: LimitNote, ts: int) -> Reached:
    """Add a record to the limit that it still tells of, or as one that was reached now."""
    one = next((r for r in reversed(found) if (r.host, r.kind) == (host, note.kind) and _same(r, note, ts)), None)
    if one is None:
        one = Reached(host, note.kind, note.name, ts, ts, note.resets_at)
        found.append(one)
    one.name = one.name or note.name
    one.last = max(one.last, ts)
    one.resets_at = one.resets_at or note.resets_at
    one.records += 1
    return one


def _same(one: Reached, note: LimitNote, ts: int) -> bool:
    if one.name and note.name and one.name != note.name:
        return False
    return ts - one.last <= _APART or (one.resets_at is not None and ts < one.resets_at)


def by_limit(found: list[Reached]) -> list[dict[str, Any]]:
    """Return one line for each limit of a host: how often it was reached, when last, and how long work stood still."""
    times = Counter((r.host, r.kind, r.name) for r in found)
    lines = []
    for (host, kind, name), count in sorted(times.items()):
        own = [r for r in found if (r.host, r.kind, r.name) == (host, kind, name)]
        waits = [r.waited for r in own if r.waited is not None]
        minutes = round(sum(waits) / _MINUTE, 1) if waits else None
        lines.append({"host": host, "kind": kind, "name": name, "times": count, "last": iso(own[-1].first), "waited_minutes": minutes})
    return lines

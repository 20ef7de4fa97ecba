"""How often and when limits were reached, as the hosts' own records say."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.process.gc_pause import without_collector
from ctx_pipeline.model.usage_rules import UNNAMED
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import COUNTS, calls_for, kept_usages, parse_filters, usage
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.repeated_calls import Repeated, commits_made, repeated_calls
from ctx_pipeline.usage.repositories import project_names, repository_names
from ctx_pipeline.usage.rollup import SUMS, moment

if TYPE_CHECKING:
    from ctx_pipeline.model.host_records import LimitNote
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.engine import Usage


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
    """microseconds of the longest time without a model call of the host, from the first record until the limit reset, or
    until the first call behind the last record where no reset is told; None where no call came after"""
    calls: int = 0
    """model calls of the host behind the first record, until the limit reset: it still answered"""
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
            "calls": self.calls,
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
        if (first is not None and ts < first) or (last is not None and ts >= last):
            continue
        if project is not None and project not in project_names(name, repository):
            continue
        for note in hosts[key].reached(subtype, text, ts):
            _add(found, key, note, ts).met(session, name)
    for one in found:
        known = times.get(one.host, [])
        begin, place = bisect_right(known, one.first), bisect_right(known, one.last)
        one.calls = bisect_right(known, one.resets_at or one.last) - begin
        if place < len(known):
            reset = one.resets_at or known[place]
            one.waited = max(b - a for a, b in pairwise([one.first, *(ts for ts in known[begin:] if ts < reset), reset]))
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
        told = {"times": count, "last": iso(own[-1].first), "calls": sum(r.calls for r in own), "waited_minutes": minutes}
        lines.append({"host": host, "kind": kind, "name": name, **told})
    return lines


# Whether every way of adding usage up comes to the same: the identity that all reports stand on.


_BY = ("thread", "session", "daily")
SUMMED = tuple(name for name in COUNTS if name != "calls")


def sums(*, recount: bool = False, settings: Settings | None = None) -> dict[str, dict[str, int]]:
    """Return tokens and nano-dollars of the stored calls: as ``billed`` (row by row), and by tool, server, thread, session and day.

    The latter are added up as reports do, from what is kept of each session. With ``recount`` every call is shared out anew.
    """
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.usage_sql import billed

    chosen = settings or settings_module.load()
    with reading(chosen) as (store, _):
        row = billed(store.lake, chosen.cost_mode, anew=recount)
        kept = kept_usages(store, chosen, _BY, parse_filters(chosen))
    found = {"billed": _totals(dict(zip(SUMS, row, strict=False)))}
    with without_collector():
        read = calls_for(GROUPINGS["tool"], chosen, stored=True) if recount else None
        for by in ("tool", "server"):
            found[by] = _totals(usage(by, stored=True, settings=chosen, read=read).totals)
    for by in _BY:
        found[by] = _totals((kept[by] if kept else usage(by, stored=True, settings=chosen)).totals)
    return found


def _totals(totals: dict[str, int]) -> dict[str, int]:
    return {name: int(totals[name] or 0) for name in (*SUMMED, "cost_nano")}


# What work came to for its money: tokens and cost per commit, per correction and per tool call.


GROUPS = ("project", "host", "month", "session", "model")
UNITS = ("commits", "corrections", "tool_calls")


@dataclass(slots=True)
class Outcomes:
    """Sums over sessions; a figure per unit divides what the sessions cost of which the unit is known."""

    key: str
    sessions: int = 0
    calls: int = 0
    tokens: int = 0
    cost_nano: int = 0
    unpriced_calls: int = 0
    units: dict[str, int] = field(default_factory=lambda: dict.fromkeys(UNITS, 0))
    known: dict[str, list[int]] = field(default_factory=lambda: {unit: [0, 0, 0] for unit in UNITS})
    """unit -> sessions of which it is known, their tokens and their nano-dollars"""
    priced: set[str] = field(default_factory=set)
    """units that are known of a session of which a call has a price"""
    left_out: tuple[int, int] = (0, 0)
    """of the total: sessions without a model call that counts, and their tool calls; they are in no other figure"""
    host: str | None = None
    """of a model: its own, since models of one name cost and count differently in each"""

    @property
    def cost(self) -> int | None:
        """Nano-dollars; None where no call has a price."""
        return None if self.unpriced_calls == self.calls else self.cost_nano

    @property
    def per_session(self) -> int | None:
        """Nano-dollars for each session; None where no call has a price."""
        return None if self.cost is None or not self.sessions else round(self.cost / self.sessions)

    def per(self, unit: str) -> tuple[float, float | None] | None:
        """Return tokens and nano-dollars, None where no call has a price, for each one of a unit; None where there was none."""
        count = self.units[unit]
        _, tokens, nano = self.known[unit]
        return (tokens / count, nano / count if unit in self.priced else None) if count else None

    def to_json(self, by: str) -> dict[str, Any]:
        """Return sums, units and figures per unit, in dollars."""
        told: dict[str, Any] = {
            by: self.key,
            **({"host": self.host} if self.host else {}),
            "sessions": self.sessions,
            "calls": self.calls,
            "total_tokens": self.tokens,
            "cost_usd": None if self.cost is None else round(self.cost / 1e9, 9),
            "usd_per_session": None if self.per_session is None else round(self.per_session / 1e9, 6),
            "unpriced_calls": self.unpriced_calls,
        }
        for unit in UNITS:
            each = self.per(unit)
            told |= {
                unit: self.units[unit],
                f"{unit}_known_sessions": self.known[unit][0],
                f"tokens_per_{unit.removesuffix('s')}": None if each is None else round(each[0], 1),
                f"usd_per_{unit.removesuffix('s')}": None if each is None or each[1] is None else round(each[1] / 1e9, 6),
            }
        return told

    def add(self, counted: dict[str, Any], units: dict[str, int | None]) -> None:
        """Add one session with its usage and what it came to."""
        tokens = counted["tokens"]
        self.sessions += 1
        self.calls += counted["calls"]
        self.tokens += tokens
        self.cost_nano += counted["cost_nano"]
        self.unpriced_calls += counted["unpriced_calls"]
        for unit, count in units.items():
            if count is not None:
                self.units[unit] += count
                if counted["unpriced_calls"] < counted["calls"]:
                    self.priced.add(unit)
                for place, amount in enumerate((1, tokens, counted["cost_nano"])):
                    self.known[unit][place] += amount


def outcomes(
    by: str = "project",
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    cost_mode: str | None = None,
    settings: Settings | None = None,
) -> tuple[list[Outcomes], Outcomes]:
    """Return what each project, host, month, session or model came to for its money, most expensive first, and all together.

    ``since`` and ``until`` are days on which sessions began: a session counts whole. Its
    usage is that of ``ctx usage session --stored``, since the rest is known of the tables
    alone. Commits are those that git showed in the
    session's time, and where nobody could look, the ``git commit`` commands that
    succeeded; a tool call, and its commit, that a copy of a session repeats counts for its origin; corrections
    are those of the signal ``user_correction_count``. By ``model`` a session counts whole for
    the model that most of its cost is of, and each host has a row of its own. Raises UsageError.
    """
    if by not in GROUPS:
        raise UsageError(f"outcomes by {by!r} are not known", hint=f"use one of {', '.join(GROUPS)}")
    from ctx_pipeline.storage.warehouse.usage_sql import OUTCOMES_SQL

    with reading(settings) as (store, chosen), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        rows = connection.execute(OUTCOMES_SQL).fetchall()
        commanded, repeated = _commits(connection), repeated_calls(store, chosen)
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone)
    first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)
    report = usage("session", settings=chosen, host=host, project=project, cost_mode=cost_mode, stored=True)
    spent, models = report.by_session(), _models(report)
    found: dict[tuple[str, str | None], Outcomes] = {}
    everything = Outcomes("total")
    names = repository_names((project, repository) for _, _, project, repository, *_ in rows)
    for key, session, name, repository, month, began, recorded, observed, corrected, shown in rows:
        if (host is not None and host != key) or (project is not None and project not in project_names(name, repository)):
            continue
        counted = spent.get((key, session))
        elsewhere = repeated.get((key, session), Repeated())
        tool_calls = int(recorded) - elsewhere.calls
        bounded = first is not None or last is not None
        outside = bounded and (began is None or (first is not None and began < first) or (last is not None and began >= last))
        if outside:
            continue
        if counted is None:
            everything.left_out = (everything.left_out[0] + 1, everything.left_out[1] + tool_calls)
            continue
        units: dict[str, int | None] = {
            "commits": commanded.get((key, session), 0) - elsewhere.commits if observed is None else int(observed),
            "corrections": None if corrected is None else int(corrected) - len(set(elsewhere.said).intersection(shown or ())),
            "tool_calls": tool_calls,
        }
        model = models[key, session]
        group = {"project": names[name, repository], "host": key, "month": month, "session": session, "model": model}[by]
        own = key if by == "model" else None
        for one in (found.setdefault((group, own), Outcomes(group, host=own)), everything):
            one.add(counted, units)
    return sorted(found.values(), key=lambda one: (-one.cost_nano, one.key)), everything


def _models(report: Usage) -> dict[tuple[str, str], str]:
    """Return (host, session) -> the model that most of its cost is of, then most of its calls."""
    rows = sorted(report.rows, key=lambda row: (row["cost_nano"], row["calls"], row["model"]))
    return {(row["host"], row["session_id"]): row["model"] or UNNAMED for row in rows}


def _commits(connection: Any) -> dict[tuple[str, str], int]:
    """Return (host, session) -> how many commands that went well made a commit."""
    from ctx_pipeline.storage.warehouse.usage_sql import COMMITS_SQL

    found: dict[tuple[str, str], int] = {}
    for host, session, argv in connection.execute(COMMITS_SQL).fetchall():
        found[host, session] = found.get((host, session), 0) + commits_made(argv)
    return found

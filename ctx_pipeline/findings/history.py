"""What the rules of findings read: one history, from a store or, without one, from the homes."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreDamaged, unreadable
from ctx_pipeline.findings.quick_scan import QuickScan, quick_scan
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.storage.marker import begun
from ctx_pipeline.usage import live_usage
from ctx_pipeline.usage.engine import calls, total, usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.usage.rollup import Filters

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
SOON = 5
"""Days before its deletion from which a transcript is about to go."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in the tables

Key = tuple[str, str]
"""host, session id"""


class SessionFacts(NamedTuple):
    """One session as findings name it."""

    host: str
    session_id: str
    title: str
    project: str
    unknown: int = 0
    quarantined: int = 0


class Measured(NamedTuple):
    """What a signal reads in one session, and the dollars that its details name."""

    value: float
    usd: float | None


class Leaving(NamedTuple):
    """Transcripts of a home that its host deletes within ``SOON`` days."""

    title: str
    root: str
    days: int
    files: int
    uncaptured: int


@dataclass(frozen=True)
class History:
    """Everything that rules look at; costs in nano-dollars by the cost mode in force."""

    sessions: Mapping[Key, SessionFacts] = field(default_factory=dict)
    spent: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    """the sums of each session's calls"""
    models: tuple[Mapping[str, Any], ...] = ()
    """rows of usage by model"""
    subagents_nano: int = 0
    resent_nano: int = 0
    """what reading from the cache cost"""
    readings: Mapping[str, Mapping[Key, Measured]] = field(default_factory=dict)
    """signal -> what it reads in each session where it has a value"""
    replaced: Mapping[str, int] = field(default_factory=dict)
    """detector -> secrets that ingest replaced"""
    lessons: Mapping[str, int] = field(default_factory=dict)
    """status -> lessons"""
    damaged: str = ""
    """what is wrong with the readings, where they cannot be read; the rules that read them find nothing"""
    leaving: tuple[Leaving, ...] = ()
    newest: QuickScan = field(default_factory=QuickScan)

    @property
    def totals(self) -> dict[str, Any]:
        """The sums of all models."""
        return total(self.models)


def history(settings: Settings, filters: Filters, signals: Iterable[str], *, now: int | None = None) -> History:
    """Return the history that the filters select; ``now`` in microseconds since 1970.

    With a store its tables are read, without one the homes. Transcripts that are about to
    go, secrets, lessons and the newest files are of no day or project: they are left out
    where the filters name one.
    """
    stored = begun(settings.home)
    asked = filters._asdict()
    asked |= {name: str(asked[name]) for name in ("since", "until") if asked[name] is not None}
    by = {name: usage(name, settings=settings, stored=stored, **asked) for name in ("session", "model", "thread")}
    spent = by["session"].by_session()
    narrow = (filters.since, filters.until, filters.host, filters.project, filters.model) != (None,) * 5
    found: dict[str, Any] = {
        "spent": spent,
        "models": tuple(by["model"].rows),
        "subagents_nano": sum(row["cost_nano"] for row in by["thread"].rows if row["thread"] != "main"),
        "resent_nano": _resent(by["model"].rows, settings),
    }
    if stored:
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            found |= _stored(store, filters, signals, narrow=narrow)
            captured = {place for place, source in store.ledger.sources().items() if source.captured}
    else:
        owned = calls(settings, host=filters.host).owned
        found["sessions"] = {
            (c.host, c.session_id): SessionFacts(c.host, c.session_id, c.session_id, c.project)
            for c, _ in owned
            if (c.host, c.session_id) in spent
        }
        captured = set()
    if not narrow:
        sources = live_usage.sources(settings)
        found["leaving"] = tuple(_leaving(settings, sources, captured, int(time.time() * 1e6) if now is None else now))
        found["newest"] = quick_scan(settings, sources, secrets=not stored)
    return History(**found)


def history_of_all(settings: Settings, *, now: int) -> History:
    """Return what belongs to no period: records that could not be read or are unknown, secrets, transcripts about to go."""
    stored = begun(settings.home)
    sources = live_usage.sources(settings)
    found: dict[str, Any] = {}
    captured: set[tuple[str, str]] = set()
    if stored:
        from ctx_pipeline.storage.finding_rows import counted
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            captured = {place for place, source in store.ledger.sources().items() if source.captured}
            unread = Counter((row.host, row.session_id) for row in store.ledger.quarantined())
            unknown: Counter[Key] = Counter()
            for one in store.ledger.unknown_rows():
                unknown[one.host, one.session_id] += one.times
            found["sessions"] = {place: SessionFacts(*place, "", "", unknown[place], unread[place]) for place in {*unread, *unknown}}
            found["replaced"], _ = counted(store.warehouse_path)
    else:
        found["newest"] = quick_scan(settings, sources)
    return History(leaving=tuple(_leaving(settings, sources, captured, now)), **found)


def _stored(store: Store, filters: Filters, signals: Iterable[str], *, narrow: bool) -> dict[str, Any]:
    from ctx_pipeline.storage.finding_rows import SESSIONS_SQL, counted
    from ctx_pipeline.storage.warehouse.reading_sql import READINGS_SQL

    bounds = [None if bound is None else _EPOCH + timedelta(microseconds=bound) for bound in filters.bounds()]
    asked = [value for value in (filters.host, filters.project, *bounds) for _ in range(2)]
    with closing(store.lake.connect()) as connection:
        store.lake.views(connection, ("sessions", "readings"))
        sessions = [SessionFacts(*row) for row in connection.execute(SESSIONS_SQL, asked).fetchall()]
        readings: dict[str, dict[Key, Measured]] = {}
        damaged = ""
        try:
            measured = connection.execute(READINGS_SQL, [sorted(signals), *asked]).fetchall()
        except Exception as error:
            damage = error if isinstance(error, StoreDamaged) else unreadable(error)
            if damage is None:
                raise
            measured, damaged = [], damage.message
        for host, session, signal, value, metadata, *_ in measured:
            readings.setdefault(signal, {})[host, session] = Measured(value, _dollars(metadata))
    replaced, lessons = ({}, {}) if narrow else counted(store.warehouse_path)
    facts = {(one.host, one.session_id): one for one in sessions}
    return {"sessions": facts, "readings": readings, "replaced": replaced, "lessons": lessons, "damaged": damaged}


def _dollars(metadata: str | None) -> float | None:
    try:
        value = json.loads(metadata or "{}").get("dollars")
    except (ValueError, AttributeError):
        return None
    return float(value) if isinstance(value, int | float) else None


def _resent(rows: Iterable[Mapping[str, Any]], settings: Settings) -> int:
    """Return what the tokens that were read from the cache cost, at today's price of their models."""
    from ctx_pipeline.pricing import PriceBook

    book = PriceBook.of(settings)
    now = int(datetime.now(UTC).timestamp() * 1e6)
    return sum(book.cost_nano(row["model"] or "", now, cache_read=row["cache_read_tokens"])[0] or 0 for row in rows)


def _leaving(settings: Settings, sources: list[live_usage.LiveSource], captured: set[tuple[str, str]], now: int) -> Iterable[Leaving]:
    for declared in discovery.hosts().values():
        if declared.retention_days is None:
            continue
        for root in settings.roots_of(declared):
            days = declared.retention_days(root)
            if days is None:
                continue
            limit = now * 1000 - (days - SOON) * 86_400 * 10**9
            old = [s for s in sources if s.host == declared.key and s.mtime_ns < limit and s.root == str(root)]
            if old:
                missing = sum((s.root, s.rel) not in captured for s in old)
                yield Leaving(declared.title, str(root), days, len(old), missing)

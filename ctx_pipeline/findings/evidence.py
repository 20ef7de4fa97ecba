"""What the rules of findings read: one history, from a store or, without one, from the homes."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import __version__
from ctx_pipeline.errors import StoreDamaged, unreadable
from ctx_pipeline.facts.expiring import HomeFile, HomeRetention, retention_of_homes
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.storage.lake.queries import LakeConnection
from ctx_pipeline.storage.own_sessions import holds_sessions
from ctx_pipeline.usage.cache_efficiency import stored_cache_read_cost
from ctx_pipeline.usage.engine import kept_usages, pricer, stored_usages, total, usage
from ctx_pipeline.usage.folded_homes import home_sums
from ctx_pipeline.usage.homes import live_usage
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.usage_figures import cache_read_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger.rows import SessionRow
    from ctx_pipeline.usage.engine import Usage
    from ctx_pipeline.usage.rollup import Filters


# A quick look into the newest sessions of the homes: what re-sent tool output cost there, and which secrets stand in
# them.


_E = {name: place for place, name in enumerate(EVENTS.names)}

NEWEST = 8 << 20
"""Bytes of the newest files that are looked into."""
_A_TOKEN = 4
"""Characters of a token, about."""


@dataclass(slots=True)
class QuickScan:
    """What the newest sessions show."""

    sessions: int = 0
    cost_nano: int = 0
    tool_output_nano: int = 0
    """of the cost: tool output that was sent again with a later call, read from the cache; an estimate"""
    secrets: Counter[str] = field(default_factory=Counter)
    """detector -> findings"""


def quick_scan(
    settings: Settings, sources: Iterable[live.LiveSource] | None = None, *, bytes_at_most: int = NEWEST, secrets: bool = True
) -> QuickScan:
    """Return what the newest files of the homes show, as many as fit; nothing is written.

    ``sources`` are the files where they were listed already. ``secrets`` looks for these as well, with the patterns of ingest.
    """
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.redaction.liveness import is_live, named

    result, book = QuickScan(), PriceBook.of(settings)
    usable: set[str] = set()
    redactor = Redactor(settings.patterns) if secrets else None
    known = {} if redactor else _kept_newest(settings, book)
    for session in _newest(settings, live.sources(settings) if sources is None else sources, bytes_at_most):
        if redactor is None:
            seen = known[place] if (place := _files_of(session)) in known else _measured(session, book)
            if seen is not None:
                result.sessions += 1
                result.cost_nano += seen[0]
                result.tool_output_nano += seen[1]
            continue
        (counted,) = live.read([session], whole=True)
        if counted.parsed is None:
            continue
        result.sessions += 1
        cost, resent = _spent_on(counted, book)
        result.cost_nano += cost
        result.tool_output_nano += resent
        texts = [text for event in counted.parsed.events if (text := event[_E["text"]])]
        for text in map(texts.__getitem__, redactor.suspects(texts)):
            found = [(name, start, end) for name, start, end in redactor.find(text) if is_live(name, text, start, end)]
            usable |= {named(name, text[start:end]) for name, start, end in found}
    result.secrets.update(name.partition(":")[0] for name in usable)
    return result


def _spent_on(counted: live.Counted, book: PriceBook) -> tuple[int, int]:
    """Return what the calls of a session that was read whole cost, and what of it was tool output sent again."""
    rows = [row for row in counted.calls if row[_C["owner"]]]
    priced = zip(rows, book.cost_rows(rows), strict=True)
    costs = {row[_C["call_key"]]: (row, cost) for row, (cost, _) in priced if cost is not None}
    events = counted.parsed.events if counted.parsed else ()
    return sum(cost for _, cost in costs.values()), _quick_scan_resent(events, {key: row for key, (row, _) in costs.items()}, book)


def _measured(session: live.LiveSession, book: PriceBook) -> tuple[int, int] | None:
    (counted,) = live.read([session], whole=True)
    return None if counted.parsed is None else _spent_on(counted, book)


NEWEST_KEPT = "serving/newest.json"
"""What the newest sessions of the homes showed, each with the size and time of its files."""


def keep_newest(settings: Settings) -> None:
    """Keep what the newest sessions of the homes show, so that findings read those alone that changed since."""
    from ctx_pipeline.storage.files import Files

    book = PriceBook.of(settings)
    known = _kept_newest(settings, book)
    found = {}
    for session in _newest(settings, live.sources(settings), NEWEST):
        place = _files_of(session)
        found[place] = known[place] if place in known else _measured(session, book)
    if found != known:
        made_of = [__version__, book.version, digest(sorted(found.items()))]
        Files(settings.home).write(NEWEST_KEPT, json.dumps({"made_of": made_of, "sessions": found}).encode())


def _kept_newest(settings: Settings, book: PriceBook) -> dict[str, tuple[int, int] | None]:
    try:
        kept = json.loads((settings.home / NEWEST_KEPT).read_bytes())
        found = {place: None if seen is None else (seen[0], seen[1]) for place, seen in kept["sessions"].items()}
        if kept["made_of"] == [__version__, book.version, digest(sorted(found.items()))]:
            return found
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        pass
    return {}


def _files_of(session: live.LiveSession) -> str:
    """Return what names a session and its files as they lie there now; no path is in it."""
    files = sorted((s.stream, s.size, s.mtime_ns) for s, _ in session.sources)
    return digest(session.host, session.session_id, files, sorted(session.hints.items()))


def _newest(settings: Settings, sources: Iterable[live.LiveSource], bytes_at_most: int) -> list[live.LiveSession]:
    """Return the sessions of the newest files that together are not larger, the newest session first."""
    newest, held = [], 0
    for source in sorted(sources, key=lambda s: -s.mtime_ns):
        held += source.size
        if held > bytes_at_most:
            break
        newest.append(source)
    sessions = live.sessions(newest, settings)
    sessions.sort(key=lambda s: -max(source.mtime_ns for source, _ in s.sources))
    return sessions


def _quick_scan_resent(events: Iterable[tuple], calls: Mapping[str, tuple], book: PriceBook) -> int:
    """Return nano-dollars of cache reads that were tool output of earlier calls.

    In each thread the characters that stand before a call's first event are its window,
    emptied by a compaction; what of the call's prompt they do not make (instructions,
    tool definitions) counts as no tool output.
    """
    output: Counter[str] = Counter()
    nano = 0
    seen: set[str] = set()
    for event in events:
        thread, kind, key, text = (event[_E[name]] for name in ("thread_id", "kind", "call_key", "text"))
        row = calls.get(key) if key and key not in seen else None
        if row is not None:
            seen.add(key)
            share = min(1.0, output[thread] / _A_TOKEN / max(1, row[_C["context_tokens"]]))
            told = {name: row[_C[name]] for name in ("context_tokens", "tier", "speed")}
            cost, _ = book.cost_nano(row[_C["model"]], row[_C["ts"]], cache_read=row[_C["cache_read"]], **told)
            nano += int((cost or 0) * share)
        if kind == "compaction":
            output[thread] = 0
        elif kind == "tool_result":
            output[thread] += len(text or "")
    return nano


_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
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


@dataclass(frozen=True)
class History:
    """Everything that rules look at; costs in nano-dollars by the cost mode in force."""

    sessions: Mapping[Key, SessionFacts] = field(default_factory=dict)
    spent: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    """the sums of each session's calls"""
    models: tuple[Mapping[str, Any], ...] = ()
    """rows of usage by model"""
    subagents_nano: int = 0
    cache_read_nano: int = 0
    """what reading from the cache cost"""
    readings: Mapping[str, Mapping[Key, Measured]] = field(default_factory=dict)
    """signal -> what it reads in each session where it has a value"""
    replaced: Mapping[str, int] = field(default_factory=dict)
    """detector -> different secrets that ingest replaced and that may open something"""
    lessons: Mapping[str, int] = field(default_factory=dict)
    """status -> lessons"""
    damaged: str = ""
    """what is wrong with the readings, where they cannot be read; the rules that read them find nothing"""
    homes: tuple[HomeRetention, ...] = ()
    newest: QuickScan = field(default_factory=QuickScan)

    @property
    def totals(self) -> dict[str, Any]:
        """The sums of all models."""
        return total(self.models)


def history(
    settings: Settings, filters: Filters, signals: Iterable[str], *, now: int | None = None, warehouse: DuckDBPyConnection | None = None
) -> History:
    """Return the history that the filters select; ``now`` in microseconds since 1970.

    With a store its tables are read, without one the homes, and with a connection to a
    ``warehouse`` what that holds. Transcripts that are about to go, secrets, lessons and the
    newest files are of no day or project: they are left out where the filters name one.
    """
    stored = holds_sessions(settings.home)
    narrow = (filters.since, filters.until, filters.host, filters.project, filters.model) != (None,) * 5
    captured: set[tuple[str, str]] = set()
    if stored:
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            found = _stored(store, filters, signals, settings, narrow=narrow, warehouse=warehouse)
            if not narrow:
                captured = {place for place, source in store.ledger.sources().items() if source.captured}
    else:
        found = _of_homes(filters, settings)
    if not narrow:
        sources = live_usage.sources(settings)
        files = [HomeFile(s.host, s.root, s.kind, s.mtime_ns, (s.root, s.rel) in captured) for s in sources]
        found["homes"] = tuple(retention_of_homes(settings, files, now_ns=None if now is None else now * 1000))
        found["newest"] = quick_scan(settings, sources, secrets=not stored)
    return History(**found)


def _of_homes(filters: Filters, settings: Settings) -> dict[str, Any]:
    asked = filters._asdict()
    asked |= {name: str(asked[name]) for name in ("since", "until") if asked[name] is not None}
    with live.one_look():
        found = _spent({name: usage(name, settings=settings, **asked) for name in _BY})
        read, _ = home_sums(settings, filters, pricer(settings))
    keep = filters.keeps()
    found["cache_read_nano"] = sum(one.sums[-1] for one in read if keep is None or keep(one.session, one.model, one.ts))
    spent = found["spent"]
    titles = live.shown(settings, sorted(spent, key=lambda place: -spent[place]["cost_nano"])[:NAMED]) if spent else {}
    found["sessions"] = {
        place: SessionFacts(*place, (titles[place].title if place in titles else None) or place[1], one.session.project)
        for one in read
        if (place := (one.session.host, one.session.session_id)) in spent
    }
    return found


NAMED = 3
"""Sessions that a finding names at most."""


_BY = ("session", "model", "thread")


def _spent(by: Mapping[str, Usage]) -> dict[str, Any]:
    return {
        "spent": by["session"].by_session(),
        "models": tuple(by["model"].rows),
        "subagents_nano": sum(row["cost_nano"] for row in by["thread"].rows if row["thread"] != "main"),
    }


def history_of_all(settings: Settings, *, now: int) -> History:
    """Return what belongs to no period: records that could not be read or are unknown, secrets, transcripts about to go."""
    stored = holds_sessions(settings.home)
    sources = live_usage.sources(settings)
    found: dict[str, Any] = {}
    captured: set[tuple[str, str]] = set()
    if stored:
        from ctx_pipeline.storage.ledger.rows import live_secrets
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            captured = {place for place, source in store.ledger.sources().items() if source.captured}
            unread = Counter((row.host, row.session_id) for row in store.ledger.quarantined())
            unknown: Counter[Key] = Counter()
            for one in store.ledger.unknown_rows():
                unknown[one.host, one.session_id] += one.times
            found["sessions"] = {place: SessionFacts(*place, "", "", unknown[place], unread[place]) for place in {*unread, *unknown}}
            found["replaced"] = live_secrets(store.ledger.sessions())
    else:
        found["newest"] = quick_scan(settings, sources)
    files = [HomeFile(s.host, s.root, s.kind, s.mtime_ns, (s.root, s.rel) in captured) for s in sources]
    found["homes"] = tuple(retention_of_homes(settings, files, now_ns=now * 1000))
    return History(**found)


def _facts_of_all(store: Store, sessions: Iterable[SessionRow]) -> dict[Key, SessionFacts]:
    """Return the facts of every session in the tables, from what the ledger repeats of their rows."""
    unread = Counter((row.host, row.session_id) for row in store.ledger.quarantined())
    return {
        (row.host, row.session_id): SessionFacts(
            row.host,
            row.session_id,
            row.rows.get("title") or row.session_id,
            row.rows.get("project") or "",
            row.rows.get("unknown") or 0,
            unread[row.host, row.session_id],
        )
        for row in sessions
        if row.normalized_fp is not None
    }


def _stored(
    store: Store,
    filters: Filters,
    signals: Iterable[str],
    settings: Settings,
    *,
    narrow: bool,
    warehouse: DuckDBPyConnection | None,
) -> dict[str, Any]:
    from ctx_pipeline.storage.ledger.rows import live_secrets
    from ctx_pipeline.storage.warehouse.session_queries import SESSIONS_SQL, counted, measured

    bounds = [None if bound is None else _EPOCH + timedelta(microseconds=bound) for bound in filters.bounds()]
    asked = [value for value in (filters.host, filters.project, *bounds) for _ in range(2)]
    sessions = store.ledger.sessions()
    kept = kept_usages(store, settings, _BY, filters) if warehouse is None else None
    if kept and not any(asked):
        spent, cache_read, facts = _spent(kept), cache_read_of(store, settings, filters), _facts_of_all(store, sessions)
    else:
        with closing(store.lake.connect() if warehouse is None else LakeConnection(warehouse.cursor())) as connection:
            if warehouse is None:
                store.lake.views(connection, ("sessions", "model_calls"))
            spent = _spent(kept or stored_usages(connection, _BY, filters, warehouse=warehouse is not None))
            cache_read = cache_read_of(store, settings, filters) if kept else stored_cache_read_cost(connection, filters, settings)
            facts = {
                (host, session): SessionFacts(host, session, *told)
                for host, session, *told in connection.execute(SESSIONS_SQL, asked).fetchall()
            }
    damaged = ""
    try:
        found = measured(store.lake, store.warehouse_path if warehouse is None else warehouse, signals)
    except Exception as error:
        damage = error if isinstance(error, StoreDamaged) else unreadable(error)
        if damage is None:
            raise
        found, damaged = [], damage.message
    copied = store.ledger.copied_sessions()
    readings: dict[str, dict[Key, Measured]] = {}
    for signal, every in _by_signal(found).items():
        if own := {key: one for key, one in every.items() if key in facts and key not in copied}:
            readings[signal] = own
    lessons = {} if narrow else counted(store.warehouse_path)
    replaced: Counter[str] = Counter() if narrow else live_secrets(sessions)
    return spent | {
        "sessions": facts,
        "readings": readings,
        "replaced": replaced,
        "lessons": lessons,
        "damaged": damaged,
        "cache_read_nano": cache_read,
    }


_grouped: list[tuple[Sequence[Any], dict[str, dict[Key, Measured]]]] = []
"""The readings that were grouped last, and by signal."""


def _by_signal(found: Sequence[tuple[str, str, str, float, str | None]]) -> dict[str, dict[Key, Measured]]:
    """Return signal -> session -> reading; nobody may change it. What was grouped last is not grouped again."""
    from ctx_pipeline.storage.warehouse.session_queries import MOST_KEPT

    for last, known in _grouped:
        if last is found:
            return known
    readings: dict[str, dict[Key, Measured]] = {}
    for host, session, signal, value, metadata in found:
        readings.setdefault(signal, {})[host, session] = Measured(value, _dollars(metadata))
    if len(found) <= MOST_KEPT:
        _grouped[:] = [(found, readings)]
    return readings


def _dollars(metadata: str | None) -> float | None:
    if not metadata or '"dollars"' not in metadata:
        return None
    try:
        value = json.loads(metadata).get("dollars")
    except (ValueError, AttributeError):
        return None
    return float(value) if isinstance(value, int | float) else None

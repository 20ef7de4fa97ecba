"""Turns warehouse rows, the ledger's sources and what extensions declare into the page's records."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline import discovery
from ctx_pipeline.dashboard import data as page
from ctx_pipeline.dashboard.signal_records import AGGREGATES, MEASURED, kept_records, summaries
from ctx_pipeline.findings.rules import find
from ctx_pipeline.findings.week import week
from ctx_pipeline.memory.consolidation import dangling
from ctx_pipeline.pipeline.capture import retention
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import dashboard_queries, database, signal_sql
from ctx_pipeline.storage.warehouse.days import offset_seconds
from ctx_pipeline.usage.blocks import limits_now
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.groupings import GROUPINGS, Days
from ctx_pipeline.usage.homes.live_usage import plans
from ctx_pipeline.usage.other_units import other_units
from ctx_pipeline.usage.repeated_calls import Repeated, repeated_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


MOST_JUDGEMENTS = 20
"""Judgements of memories that the page lists."""


def current(settings: Settings) -> page.PageData:
    """Return what a page made now would show; the warehouse is brought up to date first."""
    with open_store(settings) as store:
        build_warehouse(store, settings)
        with database.connect(store.warehouse_path, read_only=True) as connection:
            return collect(connection, store, settings)


def collect(connection: DuckDBPyConnection, store: Store, settings: Settings) -> page.PageData:
    """Return what the page shows of the whole history; ``connection`` reads the warehouse."""
    return replace(recorded(connection, store, settings), **judged(connection, settings))


def judged(connection: DuckDBPyConnection, settings: Settings) -> dict[str, Any]:
    """Return the last week, its findings and those of the whole history, as fields of the page's data; opens the store itself."""
    shown = week(settings, Days(settings.timezone).day(time.time_ns() // 1000), warehouse=connection)
    made: dict[str, Any] = {"week": shown, "findings": tuple(find(settings=settings, warehouse=connection))}
    if shown is not None:
        made["plans"] = plans(set(shown.hosts), settings=settings)
        told = limits_now(set(shown.hosts), time.time_ns() // 1000, settings=settings)
        made["limits"] = tuple(
            page.LimitLine(
                host, percent, minutes, *(_local(datetime.fromtimestamp(ts / 1e6, UTC), settings.timezone) for ts in (at, resets))
            )
            for host, (at, _, percent, minutes, resets) in told
            if resets is not None
        )
        since, until = shown.since.isoformat(), shown.until.isoformat()
        made["period_findings"] = tuple(find(since=since, until=until, settings=settings, warehouse=connection))
    return made


def recorded(connection: DuckDBPyConnection, store: Store, settings: Settings) -> page.PageData:
    """Return what :func:`collect` does without the fields of :func:`judged`."""
    found = {name: dashboard_queries.rows(connection, name) for name in dashboard_queries.QUERIES}
    links = {r["memory_id"]: tuple(r["links"] or ()) for r in found["memory_links"]}
    days = tuple(page.DayLine(r["day"], r["host"], _usage(r)) for r in found["days"])
    return page.PageData(
        generated=datetime.now(UTC).replace(microsecond=0),
        timezone=settings.timezone,
        cost_mode=settings.cost_mode,
        hosts=tuple(page.HostLine(h.key, h.title, number) for number, h in enumerate(discovery.hosts().values())),
        days=days,
        usage_lines=tuple(page.UsageLine(r["day"], r["host"], r["project"], r["model"], _usage(r)) for r in found["usage"]),
        periods=periods([r["day"] for r in found["usage"] if r["day"] is not None]),
        models=tuple(page.ModelLine(r["host"], r["model"], _usage(r)) for r in found["models"]),
        projects=tuple(_line(page.ProjectLine, r, usage=_usage(r)) for r in found["projects"]),
        sessions=_session_lines(found["sessions"], store.ledger.copied_sessions(), repeated_calls(store, settings)),
        signals=tuple(_signals(found["signals"], found["labels"])),
        aggregates=tuple(_aggregates(connection, store)),
        tops=tuple(
            page.SignalTop(r["signal"], top["host"], top["session_id"], top["value"]) for r in found["signal_tops"] for top in r["tops"]
        ),
        scores=tuple(page.Scores(r["host"], r["session_id"], tuple(r["signals"].split(" ")), tuple(r["values"])) for r in found["scores"]),
        memories=tuple(
            _line(page.MemoryLine, r, **{name: tuple(r[name] or ()) for name in ("flags", "sessions", "methods", "links")})
            for r in found["memories"]
        ),
        dangling={source: tuple(targets) for source, targets in dangling(dict(links)).items()},
        judgements=tuple(_judgements(store)),
        learned=tuple(_line(page.LearnedLine, r) for r in found["learned"]),
        memory_total=sum(r["memories"] for r in found["memory_status"]),
        memory_status={r["status"]: r["memories"] for r in found["memory_status"]},
        tools=tuple(_line(page.ToolLine, r) for r in found["tools"]),
        prompt_hours=tuple(_hours(found["prompt_hours"], settings.timezone)),
        redactions={r["detector"]: r["found"] for r in found["redactions"]},
        expiring=tuple(expiring(store, settings)),
        missing=tuple(_missing(store)),
        prices=tuple(_prices(found["prices"], settings)),
        charges=tuple(
            page.ChargeLine(c.host, c.label, c.amount, c.sessions) for c in other_units(settings, parse_filters(settings), stored=True)
        ),
        working=tuple((_local(r["hour"], settings.timezone).date(), r["host"], r["seconds"]) for r in found["working"]),
    )


def _aggregates(connection: DuckDBPyConnection, store: Store) -> list[dict[str, Any]]:
    """Return what readings add up to: as the build of the warehouse wrote it, else as its tables say, in the same form."""
    if store.files.exists(AGGREGATES):
        kept = kept_records(store.files.read(AGGREGATES), [store.lake.relation_sql(name) for name in MEASURED])
        if kept is not None:
            return kept
    made = summaries(lambda name: signal_sql.rows(connection, name, built=True))
    return list(msgspec.json.decode(msgspec.json.encode(made)))


def session_lines(connection: DuckDBPyConnection) -> tuple[page.SessionLine, ...]:
    """Return the sessions of a warehouse, newest first."""
    return _session_lines(dashboard_queries.rows(connection, "sessions"))


def _session_lines(
    rows: Iterable[Mapping[str, Any]],
    copied: Mapping[tuple[str, str], str] = MappingProxyType({}),
    repeated: Mapping[tuple[str, str], Repeated] = MappingProxyType({}),
) -> tuple[page.SessionLine, ...]:
    none = Repeated()
    return tuple(
        _line(
            page.SessionLine,
            r,
            usage=_usage(r),
            models=tuple(r["models"] or ()),
            copy_of=copied.get((r["host"], r["session_id"]), ""),
            repeated_tool_calls=repeated.get((r["host"], r["session_id"]), none).calls,
            repeated_failed=repeated.get((r["host"], r["session_id"]), none).failed,
        )
        for r in rows
    )


def periods(days: Iterable[date]) -> tuple[tuple[date, date, date], ...]:
    """Return each day with the week and the month that usage counts it to."""
    names = [of for name in ("weekly", "monthly") if (of := GROUPINGS[name].of_time)]
    found = []
    for day in sorted(set(days)):
        first, second = (date.fromisoformat(of(datetime(day.year, day.month, day.day, tzinfo=UTC))) for of in names)
        found.append((day, first, second))
    return tuple(found)


def expiring(store: Store, settings: Settings, now_ns: int | None = None) -> list[page.Expiring]:
    """Return the homes of which the host deletes transcripts soon; ``now_ns`` is in nanoseconds since 1970."""
    homes = retention.retention_by_home(store, settings, now_ns=now_ns)
    return [page.Expiring(h.host, h.leaving, h.oldest_days or 0, h.days) for h in homes if h.days is not None and h.leaving]


def _missing(store: Store) -> Iterator[page.Missing]:
    """Yield what hosts deleted before anybody captured it, and records that could not be read, by session and reason."""
    for gap in retention.gaps(store):
        yield page.Missing("gap", gap.host, "", "deleted by the agent before it was captured", gap.sessions, gap.first, gap.last)
    counts = Counter((q.host, q.session_id, q.reason) for q in store.ledger.quarantined())
    for (host, session_id, reason), count in sorted(counts.items()):
        yield page.Missing("unreadable", host, session_id, reason, count)


def _judgements(store: Store) -> list[page.Judgement]:
    """Return what was said of memories, the newest first."""
    found = [
        fact for kind in ("accepted", "rejected", "retired", "rewarded") for fact in store.journal.newest(f"memory.{kind}", MOST_JUDGEMENTS)
    ]
    found.sort(key=lambda fact: -fact.id)
    return [
        page.Judgement(fact.at, fact.kind.partition(".")[2], str(fact.payload.get("memory_id", "")), fact.actor)
        for fact in found[:MOST_JUDGEMENTS]
    ]


def _hours(rows: list[dict[str, Any]], zone: str | None) -> list[tuple[int, int, int]]:
    """Return (weekday, hour, prompts) in a zone from prompts by hour of UTC; an hour that a zone splits counts where it begins."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in rows:
        local = _local(row["hour"], zone)
        counts[local.weekday(), local.hour] += row["prompts"]
    return [(weekday, hour, prompts) for (weekday, hour), prompts in sorted(counts.items())]


def _local(hour: datetime, zone: str | None) -> datetime:
    """Return the time in a zone of an hour of UTC."""
    moment = hour.replace(tzinfo=UTC)
    return moment + timedelta(seconds=offset_seconds(moment, zone))


def _prices(rows: list[dict[str, Any]], settings: Settings) -> Iterator[page.PriceLine]:
    book = PriceBook.of(settings)
    for row in rows:
        note = book.describe(row["price"])
        yield page.PriceLine(note.provider, note.model, note.since, note.source, row["calls"])


def _usage(row: Mapping[str, Any]) -> page.Usage:
    return page.Usage(*(row[name] for name in dashboard_queries.USAGE))


def _line(kind: Any, row: Mapping[str, Any], **more: Any) -> Any:
    values = dict(row) | more
    return kind(**{name: values[name] for name in kind._fields})


def _signals(rows: list[dict[str, Any]], labels: list[dict[str, Any]]) -> list[page.SignalLine]:
    declared = discovery.signals()
    by_signal: dict[str, list[tuple[str, int]]] = {}
    for row in labels:
        by_signal.setdefault(row["signal"], []).append((row["label"], row["sessions"]))
    lines = []
    for row in rows:
        known = declared.get(row["signal"])
        if known is not None:
            more = {"group": known.group, "better": known.better, "describe": known.describe}
            lines.append(_line(page.SignalLine, row, labels=tuple(by_signal.get(row["signal"], ())[:5]), **more))
    return lines

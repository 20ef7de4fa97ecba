"""Turns warehouse rows, the ledger's sources and what extensions declare into the page's records."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.dashboard import data as page
from ctx_pipeline.dashboard.signal_records import summaries
from ctx_pipeline.errors import CtxError
from ctx_pipeline.findings.rules import find
from ctx_pipeline.findings.week import week
from ctx_pipeline.memory.consolidation import dangling
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import session_errors
from ctx_pipeline.pipeline.capture import retention
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import dashboard_queries, database, signal_sql
from ctx_pipeline.storage.warehouse.days import offset_seconds
from ctx_pipeline.usage.groupings import GROUPINGS, Days

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.pipeline.run import Outcome
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


MOST_JUDGEMENTS = 20
"""Judgements of memories that the page lists."""

"""A transcript that its host deletes within so many days is worth a word."""


def current(settings: Settings) -> page.PageData:
    """Return what a page made now would show; the warehouse is brought up to date first."""
    with open_store(settings) as store:
        build_warehouse(store, settings)
        with database.connect(store.warehouse_path, read_only=True) as connection:
            return collect(connection, store, settings)


def collect(connection: DuckDBPyConnection, store: Store, settings: Settings) -> page.PageData:
    """Return what the page shows of the whole history; ``connection`` reads the warehouse."""
    found = {name: dashboard_queries.rows(connection, name) for name in dashboard_queries.QUERIES}
    links = {r["memory_id"]: tuple(r["links"] or ()) for r in found["memory_links"]}
    days = tuple(page.DayLine(r["day"], r["host"], _usage(r)) for r in found["days"])
    data = page.PageData(
        generated=datetime.now(UTC).replace(microsecond=0),
        timezone=settings.timezone,
        cost_mode=settings.cost_mode,
        hosts=tuple(page.HostLine(h.key, h.title, number) for number, h in enumerate(discovery.hosts().values())),
        days=days,
        usage_lines=tuple(page.UsageLine(r["day"], r["host"], r["project"], r["model"], _usage(r)) for r in found["usage"]),
        periods=periods([r["day"] for r in found["usage"] if r["day"] is not None]),
        models=tuple(page.ModelLine(r["host"], r["model"], _usage(r)) for r in found["models"]),
        projects=tuple(_line(page.ProjectLine, r, usage=_usage(r)) for r in found["projects"]),
        sessions=tuple(_line(page.SessionLine, r, usage=_usage(r), models=tuple(r["models"] or ())) for r in found["sessions"]),
        signals=tuple(_signals(found["signals"], found["labels"])),
        aggregates=tuple(summaries(lambda name: signal_sql.rows(connection, name, built=True))),
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
        memory_total=sum(r["memories"] for r in found["memory_status"]),
        memory_status={r["status"]: r["memories"] for r in found["memory_status"]},
        tools=tuple(_line(page.ToolLine, r) for r in found["tools"]),
        prompt_hours=tuple(_hours(found["prompt_hours"], settings.timezone)),
        redactions={r["detector"]: r["found"] for r in found["redactions"]},
        expiring=tuple(expiring(store, settings)),
        missing=tuple(_missing(store)),
        prices=tuple(_prices(found["prices"], settings)),
        findings=tuple(find(settings=settings)),
        working=tuple((_local(r["hour"], settings.timezone).date(), r["host"], r["seconds"]) for r in found["working"]),
        week=week(settings, Days(settings.timezone).day(time.time_ns() // 1000), stored=True),
    )
    if data.week is None:
        return data
    since, until = data.week.since.isoformat(), data.week.until.isoformat()
    return replace(data, period_findings=tuple(find(since=since, until=until, settings=settings)))


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


# What ctx run tells at its end: the store's totals, what the run did, what needs a look.


KEPT = "summary.json"
_MADE_OF = ("warehouse/duckdb", "dashboard/site")
"""What the kept figures are of: with another content they are collected anew."""

_USAGE = ("calls", "input", "output", "cache_read", "cost")


class Shown(NamedTuple):
    """One thing to look at, with the command that shows more."""

    text: str
    command: str


@dataclass(slots=True)
class RunReport:
    """The object that ``ctx run --json`` prints, and what its text says beside it."""

    sessions: int = 0
    """in the store, after the run; so are the counts up to ``memories``"""
    threads: int = 0
    events: int = 0
    model_calls: int = 0
    """each counted once, as usage is; their rows before there is a warehouse"""
    tool_calls: int = 0
    memories: int = 0
    cells_materialized: int = 0
    """different cells that this run recorded"""
    sessions_parsed: int = 0
    """sessions that this run decoded"""
    quarantined: int = 0
    unknown_events: int = 0
    seconds: float = 0.0
    site: str = ""
    """path of the page; empty before there is one"""
    failed: list[str] = field(default_factory=list)
    sessions_by_host: dict[str, int] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_USAGE, 0))
    """tokens (input without cached ones) and cost in nano-dollars, over the whole history"""
    findings: list[Shown] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    """whose records could not be decoded and why: host, session_id, reason, records; the most first"""
    session_errors: list[dict[str, Any]] = field(default_factory=list)
    """what went wrong with single sessions after that: host, session_id, asset, reason, times"""

    def to_json(self) -> dict[str, Any]:
        """Return the documented keys, ``sessions`` to ``site``, and last the quarantine and the errors of sessions."""
        values = {f.name: getattr(self, f.name) for f in fields(self)[:12]}
        values["seconds"] = round(self.seconds, 3)
        return {**values, "quarantine": self.quarantine, "session_errors": self.session_errors}


def summary(store: Any, settings: Settings, outcome: Outcome | None, *, seconds: float) -> RunReport:
    """Return what is in the store and what ``outcome`` did; None says that nothing had to be done."""
    report = RunReport(seconds=seconds)
    totals = store.ledger.totals()
    for name in ("sessions", "threads", "events", "model_calls", "tool_calls", "quarantined", "unknown_events"):
        setattr(report, name, int(totals.get(name, 0)))
    if report.quarantined:
        reasons = Counter((row.host, row.session_id, row.reason) for row in store.ledger.quarantined())
        ranked = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
        report.quarantine = [dict(zip(("host", "session_id", "reason", "records"), (*who, count), strict=True)) for who, count in ranked]
    report.session_errors = [error._asdict() for error in session_errors.stored_errors(store)]
    memories = store.ledger.asset_cell("memory/consolidated", Cell("", ""))
    report.memories = int(memories.rows) if memories else 0
    page = store.home / "site" / "index.html"
    report.site = str(page) if page.exists() else ""
    report.sessions_by_host = dict(sorted(Counter(row.host for row in store.ledger.sessions()).items()))
    if outcome is not None:
        report.failed = outcome.failed
        report.cells_materialized = outcome.cells_materialized
        report.sessions_parsed = sum(r.totals.get("sessions_parsed", 0) for r in outcome.reports if r.stage == "normalize")
    made = [row.content_hash if row else "" for row in (store.ledger.asset_cell(name, Cell("", "")) for name in _MADE_OF)]
    kept = None if outcome is not None else _read(store, made)
    if kept is None:
        kept = {**_collect(store, settings), "made_of": made}
        if kept["usage"] and not store.read_only:
            store.files.write(KEPT, json.dumps(kept).encode())
    report.usage |= kept["usage"]
    report.model_calls = kept["usage"].get("calls", report.model_calls)
    report.findings = [Shown(*finding) for finding in kept["findings"]]
    return report


def _read(store: Any, made: list[str]) -> dict[str, Any] | None:
    try:
        kept = json.loads(store.files.read(KEPT))
        if kept["made_of"] != made:
            return None
        return {"usage": dict(kept["usage"]), "findings": [(str(text), str(command)) for text, command in kept["findings"]]}
    except (OSError, ValueError, KeyError, TypeError, CtxError):
        return None


def _collect(store: Any, settings: Settings) -> dict[str, Any]:
    """Return usage and findings from the warehouse; nothing where there is none yet."""
    if not store.warehouse_path.exists():
        return {"usage": {}, "findings": []}
    from ctx_pipeline.storage.warehouse import database

    with database.connect(store.warehouse_path, read_only=True) as connection:
        data = collect(connection, store, settings)
    usage = [line.usage for line in data.models]  # calls without a time are in no day
    return {
        "usage": {
            "calls": sum(u.calls for u in usage),
            "input": sum(u.input_tokens for u in usage),
            "output": sum(u.output_tokens for u in usage),
            "cache_read": sum(u.cache_read_tokens for u in usage),
            "cost": sum(u.cost_nano for u in usage),
        },
        "findings": [(f.text, f.command) for f in data.findings[:5]],
    }

"""Turns warehouse rows, the ledger's sources and what extensions declare into the page's records."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.dashboard import data as page
from ctx_pipeline.storage import page_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

SOON_DAYS = 5
"""A transcript that its host deletes within so many days is worth a word."""


def collect(connection: DuckDBPyConnection, store: Store, settings: Settings) -> page.PageData:
    """Return what the page shows of the whole history; ``connection`` reads the warehouse."""
    found = {name: page_rows.rows(connection, name) for name in page_rows.QUERIES}
    return page.PageData(
        generated=datetime.now(UTC).replace(microsecond=0),
        timezone=settings.timezone,
        cost_mode=settings.cost_mode,
        hosts=tuple(page.HostLine(h.key, h.title, number) for number, h in enumerate(discovery.hosts().values())),
        days=tuple(page.DayLine(r["day"], r["host"], _usage(r)) for r in found["days"]),
        models=tuple(page.ModelLine(r["host"], r["model"], _usage(r)) for r in found["models"]),
        projects=tuple(_line(page.ProjectLine, r, usage=_usage(r)) for r in found["projects"]),
        sessions=tuple(_line(page.SessionLine, r, usage=_usage(r), models=tuple(r["models"] or ())) for r in found["sessions"]),
        signals=tuple(_signals(found["signals"], found["labels"])),
        signal_months=tuple(_line(page.SignalMonth, r) for r in found["signal_months"]),
        memories=tuple(
            _line(page.MemoryLine, r, flags=tuple(r["flags"] or ()), sessions=tuple(r["sessions"] or ())) for r in found["memories"]
        ),
        memory_total=sum(r["memories"] for r in found["memory_status"]),
        memory_status={r["status"]: r["memories"] for r in found["memory_status"]},
        tools=tuple(_line(page.ToolLine, r) for r in found["tools"]),
        redactions={r["detector"]: r["found"] for r in found["redactions"]},
        expiring=tuple(expiring(store)),
        prices=tuple(r["price"] for r in found["prices"]),
    )


def expiring(store: Store, now: float | None = None) -> list[page.Expiring]:
    """Return, by host, the transcripts in its homes that it will delete within SOON_DAYS; ``now`` is in seconds since 1970."""
    moment = time.time() if now is None else now
    hosts = discovery.hosts()
    kept_days: dict[tuple[str, str], int | None] = {}
    ages: dict[tuple[str, int], list[int]] = {}
    for source in store.ledger.sources().values():
        host = hosts.get(source.host)
        if source.state != "live" or host is None or host.retention_days is None or source.kind not in host.session_kinds:
            continue
        place = (source.host, source.root)
        if place not in kept_days:
            kept_days[place] = host.retention_days(Path(source.root))
        limit = kept_days[place]
        age = int((moment - source.mtime_ns / 1e9) // 86_400)
        if limit is not None and age >= limit - SOON_DAYS:
            ages.setdefault((source.host, limit), []).append(age)
    return [page.Expiring(host, len(found), max(found), limit) for (host, limit), found in sorted(ages.items())]


def _usage(row: Mapping[str, Any]) -> page.Usage:
    return page.Usage(*(row[name] for name in page_rows.USAGE))


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

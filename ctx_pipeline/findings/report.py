"""The findings of a person's history, and what bare ``ctx`` shows of it: last week's usage and the first of them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.findings.history import history
from ctx_pipeline.findings.rules import findings, signals_read
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.usage.engine import parse_filters, usage
from ctx_pipeline.usage.groupings import Days

if TYPE_CHECKING:
    from ctx_pipeline.model.finding import Finding
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.engine import Usage

SHOWN = 3
"""Findings that bare ``ctx`` shows."""


class Overview(NamedTuple):
    """Last week by day, and findings."""

    usage: Usage
    findings: list[Finding]


def find(
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
    now: int | None = None,
) -> list[Finding]:
    """Return every finding of the sessions that the filters select, by what is at stake; ``now`` in microseconds since 1970.

    With a store its tables are read as they are, without one the homes.
    """
    chosen = settings or settings_module.load()
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, host=host, project=project)
    return findings(history(chosen, filters, signals_read(), now=now))


def for_model(found: list[Finding]) -> list[Finding]:
    """Return findings as an agent may read them: without titles of sessions, and without a detail that reads like an order to it."""
    safe = [one._replace(examples=tuple(shown._replace(title="") for shown in one.examples)) for one in found]
    return [one._replace(detail="") if scan([one.detail]) else one for one in safe]


def overview(*, settings: Settings | None = None, now: int | None = None) -> Overview:
    """Return the seven days up to today and the first three findings; ``now`` in microseconds since 1970."""
    chosen = settings or settings_module.load()
    at = int(time.time() * 1e6) if now is None else now
    today = Days(chosen.timezone).day(at)
    week = usage("daily", since=(today - timedelta(days=6)).isoformat(), until=today.isoformat(), settings=chosen)
    return Overview(week, find(settings=chosen, now=at)[:SHOWN])

"""The findings of a person's history, and what bare ``ctx`` shows of it: last week's usage and the first of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.findings.history import history, history_of_all
from ctx_pipeline.findings.rules import findings, signals_read
from ctx_pipeline.findings.week import week
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.finding import ranked
from ctx_pipeline.storage.marker import begun
from ctx_pipeline.usage.engine import parse_filters, usage
from ctx_pipeline.usage.groupings import Days

if TYPE_CHECKING:
    from ctx_pipeline.findings.week import Week
    from ctx_pipeline.model.finding import Finding
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.engine import Usage

SHOWN = 3
"""Findings that bare ``ctx`` shows."""


QUIET = frozenset({"unreadable-records", "unknown-records", "secrets-in-transcripts"})
"""Rules whose findings are one line at the end, not something to look at each day."""


class Overview(NamedTuple):
    """Seven days, what to look at in them, and what is told in one line."""

    usage: Usage
    findings: list[Finding]
    week: Week
    quiet: list[Finding]


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
    """Return the seven days up to today, or the last ones with usage, and their first three findings; ``now`` in microseconds since 1970.

    Findings are of these days, by the money and time at stake. What is about to be lost
    comes first, whenever it was written.
    """
    chosen = settings or settings_module.load()
    at = int(time.time() * 1e6) if now is None else now
    shown = week(chosen, Days(chosen.timezone).day(at))
    days = {"since": shown.since.isoformat(), "until": shown.until.isoformat()}
    everything = lasting_findings(chosen, now=at)
    of_week = find(**days, settings=chosen, now=at)
    lasting = [one for one in everything if one.urgent and one.rule not in QUIET]
    staked = [one for one in of_week if one.rule not in QUIET and (one.usd or one.seconds or one.signal)]
    newest = [one for one in everything if one.rule not in QUIET and not one.urgent and one.usd and not begun(chosen.home)]
    return Overview(
        usage("daily", since=days["since"], until=days["until"], settings=chosen),
        ranked([*lasting, *staked, *newest])[:SHOWN],
        shown,
        [one for one in everything if one.rule in QUIET],
    )


def lasting_findings(settings: Settings, *, now: int) -> list[Finding]:
    """Return what is so whatever the period: transcripts about to go, records that could not be read, secrets, the newest files."""
    return findings(history_of_all(settings, now=now))

"""What a person sees first: last week's usage, and up to three findings about their own history."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.api.glimpse import Glimpse, glimpse
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.storage.marker import begun
from ctx_pipeline.usage import live_usage as live
from ctx_pipeline.usage.engine import Usage, calls, has_store, usage
from ctx_pipeline.usage.groupings import Days

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
FINDINGS = 3
_KEPT = "summary.json"
"""Findings that the last run kept: secrets, corrections and what else only the tables tell."""
_WORTH = 0.2
"""Share of the cost from which it is worth a word."""
_TOOLS_WORTH = 0.1
"""Share of the cost from which tool output that was sent again is worth a word."""
_SOON = 5
"""Days before the host deletes a transcript that are worth a word."""


class Finding(NamedTuple):
    """One thing to know, with the command that shows more."""

    text: str
    command: str


class Overview(NamedTuple):
    """Last week by day, and findings."""

    usage: Usage
    findings: list[Finding]


def overview(*, settings: Settings | None = None, now: int | None = None) -> Overview:
    """Return the seven days up to today and at most three findings; ``now`` in microseconds since 1970."""
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    zone = chosen.timezone
    at = int(time.time() * 1e6) if now is None else now
    today = Days(zone).day(at)
    first = (today - timedelta(days=6)).isoformat()
    report = usage("daily", since=first, until=today.isoformat(), timezone=zone, settings=chosen)
    found = calls(chosen)
    findings = [*_leaving(chosen, at), *_kept(chosen)]
    if len(findings) < FINDINGS:
        seen = glimpse(chosen, secrets=not begun(chosen.home))
        findings += [*_secrets(seen), *(_tools(seen) or _resent(found.owned, chosen))]
    findings += [*_agents(found.owned), *_dearest(found.owned)]
    return Overview(report, findings[:FINDINGS])


def _leaving(settings: Settings, now: int) -> list[Finding]:
    """Transcripts that their host deletes within days and that nothing has captured."""
    captured = _captured(settings)
    found = []
    for declared in discovery.hosts().values():
        if declared.retention_days is None:
            continue
        for root in settings.roots_of(declared):
            days = declared.retention_days(root)
            if days is None:
                continue
            limit = now * 1000 - (days - _SOON) * 86_400 * 10**9
            old = [s for s in live.sources(settings, host=declared.key) if s.mtime_ns < limit and s.root == str(root)]
            leaving = sum((s.root, s.rel) not in captured for s in old)
            if leaving:
                text = f"{declared.title} deletes transcripts after {days} days: {leaving:,} in {root} go within {_SOON} days"
                found.append(Finding(text, "ctx run"))
    return found


def _captured(settings: Settings) -> set[tuple[str, str]]:
    """Return (root, rel) of the files that the store holds bytes of."""
    if not begun(settings.home):
        return set()
    from ctx_pipeline.api.reader import reading

    with reading(settings) as (store, _):
        return {place for place, source in store.ledger.sources().items() if source.captured}


def _kept(settings: Settings) -> list[Finding]:
    if not has_store(settings):
        return []
    import json

    from ctx_pipeline.storage.files import Files

    try:
        kept = json.loads(Files(settings.home).read(_KEPT))["findings"]
        return [Finding(str(text), str(command)) for text, command in kept][:2]
    except (OSError, ValueError, KeyError, TypeError, CtxError):
        return []


def _secrets(seen: Glimpse) -> list[Finding]:
    """Secrets that stand in the newest sessions; a store's own finding knows of all that it holds."""
    if not seen.secrets:
        return []
    kinds = ", ".join(f"{detector} {count:,}" for detector, count in seen.secrets.most_common(3))
    count = seen.secrets.total()
    said = f"{count:,} secret{'' if count == 1 else 's'} in clear in the newest {seen.sessions:,} transcripts"
    return [Finding(f"{said}: {kinds}; consider renewing them", "ctx run")]


def _tools(seen: Glimpse) -> list[Finding]:
    """What of the cost of the newest sessions was tool output sent again with later calls."""
    share = seen.tool_output_nano / seen.cost_nano if seen.cost_nano else 0
    if share < _TOOLS_WORTH:
        return []
    said = f"{share:.0%} of the cost, ${seen.tool_output_nano / 1e9:,.2f}, was tool output sent again"
    return [Finding(f"about {said} with later calls (newest {seen.sessions:,} sessions)", "ctx usage tool")]


def _resent(owned: list[Any], settings: Settings) -> list[Finding]:
    """How much of the cost paid for context that had been sent before."""
    from ctx_pipeline.pricing import PriceBook

    cost = 0
    read: Counter[str] = Counter()
    example: dict[str, tuple] = {}
    for _, rows in owned:
        for row in rows:
            cost += row[_C["cost"]] or 0
            price = row[_C["price"]]
            if price is not None:
                read[price] += row[_C["cache_read"]]
                example[price] = row
    book = PriceBook.of(settings)
    again = 0
    for price, row in example.items():
        told = {name: row[_C[name]] for name in ("context_tokens", "tier", "speed")}
        nano, _ = book.cost_nano(row[_C["model"]], row[_C["ts"]], cache_read=read[price], **told)
        again += nano or 0
    if not cost or again / cost < _WORTH:
        return []
    text = f"{again / cost:.0%} of the cost, ${again / 1e9:,.2f}, was context sent again from the cache"
    return [Finding(text, "ctx usage tool")]


def _agents(owned: list[Any]) -> list[Finding]:
    below: Counter[bool] = Counter()
    for _, rows in owned:
        for row in rows:
            below[row[_C["thread_id"]] != row[_C["session_id"]]] += row[_C["cost"]] or 0
    share = below[True] / below.total() if below.total() else 0
    return [Finding(f"subagents made {share:.0%} of the cost", "ctx usage thread")] if share >= 0.1 else []


def _dearest(owned: list[Any]) -> list[Finding]:
    costs = sorted(((sum(r[_C["cost"]] or 0 for r in rows), c) for c, rows in owned), key=lambda one: (-one[0], one[1].session_id))
    everything = sum(cost for cost, _ in costs)
    top = costs[: max(1, len(costs) // 10)]
    if not everything or len(costs) < 10:
        return []
    share = sum(cost for cost, _ in top) / everything
    text = f"the dearest tenth of the sessions made {share:.0%} of the cost; first: ${top[0][0] / 1e9:,.2f} in {top[0][1].project}"
    return [Finding(text, f"ctx explain {top[0][1].session_id}")]

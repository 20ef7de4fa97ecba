"""Five-hour windows of use, as plans count them: what each holds, how fast the open one fills, and the host's own percentages."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.api import live
from ctx_pipeline.api.tally import SUMS, moment, tally
from ctx_pipeline.api.usage import calls, chosen_filters
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import iso

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_HOUR = 3_600_000_000
_MINUTE = 60_000_000
LENGTH = 5
"""Hours of a window of the plans of Claude and Codex."""

TOKENS = SUMS[:5]
"""What a window's tokens are: everything sent and received, reasoning inside output."""


@dataclass(slots=True)
class Block:
    """One window of a host: it opens at the full hour of its first call and closes five hours later."""

    host: str
    start: int
    """microseconds since 1970, as are all times here"""
    end: int
    first: int
    last: int
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SUMS, 0))
    models: list[str] = field(default_factory=list)
    active: bool = False
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    """name of an official limit -> used_percent, window_minutes, resets_at, as the host last wrote it in this window"""

    @property
    def tokens(self) -> int:
        """All tokens, cached ones included."""
        return sum(self.sums[name] for name in TOKENS)

    def burn(self) -> dict[str, float] | None:
        """Return tokens a minute and dollars an hour between first and last call; None while there is only one moment."""
        minutes = (self.last - self.first) / _MINUTE
        if minutes <= 0:
            return None
        return {"tokens_per_minute": self.tokens / minutes, "usd_per_hour": self.sums["cost_nano"] / 1e9 / minutes * 60}

    def projection(self, now: int) -> dict[str, Any] | None:
        """Return tokens and dollars at the window's end if it goes on like this; None for a closed window."""
        burn = self.burn()
        if not self.active or burn is None:
            return None
        left = max(0.0, (self.end - now) / _MINUTE)
        return {
            "minutes_left": round(left),
            "tokens": round(self.tokens + burn["tokens_per_minute"] * left),
            "cost_usd": round(self.sums["cost_nano"] / 1e9 + burn["usd_per_hour"] * left / 60, 6),
        }

    def to_json(self, now: int) -> dict[str, Any]:
        """Return the window with times as ISO 8601 text."""
        return {
            "host": self.host,
            "start": iso(self.start),
            "end": iso(self.end),
            "first_call": iso(self.first),
            "last_call": iso(self.last),
            "active": self.active,
            "models": self.models,
            **{name: self.sums[name] for name in SUMS[:7]},
            "total_tokens": self.tokens,
            "cost_usd": round(self.sums["cost_nano"] / 1e9, 9),
            "unpriced_calls": self.sums["unpriced_calls"],
            "burn_rate": self.burn(),
            "projection": self.projection(now),
            "limits": self.limits,
        }


def blocks(
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    cost_mode: str | None = None,
    stored: bool = False,
    settings: Settings | None = None,
    now: int | None = None,
    since_ns: int = 0,
) -> list[Block]:
    """Return the windows of every host, oldest first; a window that holds ``now`` and was used in its last five hours is active.

    ``since`` and ``until`` choose windows by their calls; ``now`` is in microseconds since 1970.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    filters = chosen_filters(
        chosen, since=since, until=until, timezone=timezone, host=host, project=project, model=model, cost_mode=cost_mode
    )
    first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)
    timed = []
    for counted, rows in calls(chosen, host=host, stored=stored, since_ns=since_ns).owned:
        for row in rows if project in {None, counted.project, counted.repository} else ():
            ts = row[4]
            if ts is None or (first is not None and ts < first) or (last is not None and ts >= last):
                continue
            if model in {None, row[5]}:
                timed.append((row[1], ts, counted, row))
    timed.sort(key=lambda one: one[:2])
    found: list[Block] = []
    held: list[tuple[Any, list[tuple]]] = []
    at = int(time.time() * 1e6) if now is None else now
    for name, ts, counted, row in timed:
        if not found or found[-1].host != name or ts >= found[-1].end or ts - found[-1].last > LENGTH * _HOUR:
            start = ts // _HOUR * _HOUR
            _close(found, held, filters.cost_mode, at)
            found.append(Block(name, start, start + LENGTH * _HOUR, ts, ts))
            held = []
        found[-1].last = ts
        held.append((counted, [row]))
    _close(found, held, filters.cost_mode, at)
    _official(found, chosen)
    return sorted(found, key=lambda b: (b.start, b.host))


def _close(found: list[Block], held: list[tuple[Any, list[tuple]]], mode: str, now: int) -> None:
    if not found:
        return
    block = found[-1]
    for row in tally(held, "model", cost_mode=mode):
        block.models.append(row["model"])
        for name in SUMS:
            block.sums[name] += row[name]
    block.active = block.start <= now < block.end


def _official(found: list[Block], settings: Settings) -> None:
    """Give the windows what their host itself wrote about limits while they were open."""
    for declared in discovery.hosts().values():
        mine = [b for b in found if b.host == declared.key]
        if declared.limits is None or not mine:
            continue
        earliest = min(b.start for b in mine) * 1000
        for source in live.sources(settings, host=declared.key):
            if source.mtime_ns < earliest:
                continue
            try:
                told = list(declared.limits(live.content(source)))
            except (CtxError, OSError, ValueError):
                continue
            for ts, name, percent, minutes, reset in told:
                for block in mine:
                    if block.start <= ts < block.end and ts >= block.limits.get(name, {}).get("ts", 0):
                        block.limits[name] = {"used_percent": percent, "window_minutes": minutes, "resets_at": iso(reset), "ts": ts}
    for block in found:
        for limit in block.limits.values():
            limit["at"] = iso(limit.pop("ts"))

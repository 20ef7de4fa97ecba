"""Five-hour windows of use, as plans count them: what each holds, how fast the open one fills, and the host's own percentages."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.display import money
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.usage import groupings
from ctx_pipeline.usage import live_usage as live
from ctx_pipeline.usage.engine import calls, calls_for, cleaner, has_store, kept_at, parse_filters, pricer, total
from ctx_pipeline.usage.groupings import GROUPINGS, Days
from ctx_pipeline.usage.rollup import SUMS, TOKENS, Filters, Rollup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.settings import Settings


_TS, _MODEL, _RECORDED, _COST = (MODEL_CALLS.names.index(name) for name in ("ts", "model", "recorded_cost", "cost"))
_HOUR = 3_600_000_000
_MINUTE = 60_000_000
LENGTH = 5
"""Hours of a window of the plans of Claude and Codex."""

Limit = tuple[int, str, float, int, "int | None"]
"""time of the record, name of the limit, percent used, minutes of its window, time of its reset"""

_time = itemgetter(0)


@dataclass(slots=True)
class Block:
    """One window of a host, five hours long: from when the host says it began, else from the full hour of its first call."""

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

    @property
    def cost(self) -> int | None:
        """Nano-dollars by the cost mode, None where no call has a cost."""
        return self.sums["cost_nano"] if self.sums["unpriced_calls"] < self.sums["calls"] else None

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
            "cost_usd": None if self.cost is None else round(self.cost / 1e9, 9),
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
    branch: str | None = None,
    cost_mode: str | None = None,
    stored: bool = False,
    settings: Settings | None = None,
    now: int | None = None,
    owned: Iterable[tuple[live.Counted, Sequence[tuple]]] | None = None,
) -> list[Block]:
    """Return the windows of every host, oldest first; a window that holds ``now`` and was used in its last five hours is active.

    All calls of a host open its windows; ``since``, ``until``, ``project``, ``model`` and ``branch``
    choose which of them are counted, and windows without any are left out. ``now`` is in
    microseconds since 1970; ``owned`` are the calls where they were read already.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    said = {"host": host, "project": project, "model": model, "branch": branch, "cost_mode": cost_mode}
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, **said)
    keep = filters.keeps()
    if owned is None and (stored or has_store(chosen)) and kept_at(chosen, filters):
        timed = list(_kept_calls(chosen, filters, alone=stored))
    else:
        grouping = GROUPINGS["model" if branch is None else "branch"]
        everything = calls_for(grouping, chosen, host=host, stored=stored)[0].owned if owned is None else owned
        timed = list(_timed(everything, filters.cost_mode))
    timed.sort(key=_place)

    found: list[Block] = []
    told = _limits_by_host(chosen, min((call.ts for call in timed), default=0), {call.counted.host for call in timed})
    resets = {name: sorted({r for *_, minutes, r in rows if r is not None and minutes == LENGTH * 60}) for name, rows in told.items()}
    held: list[_Call] = []
    at = int(time.time() * 1e6) if now is None else now
    for call in timed:
        name, ts = call.counted.host, call.ts
        if not found or found[-1].host != name or ts >= found[-1].end or ts - found[-1].last > LENGTH * _HOUR:
            start = _began(resets.get(name, []), ts) or ts // _HOUR * _HOUR
            _close(found, held, at)
            found.append(Block(name, start, start + LENGTH * _HOUR, ts, ts))
            held = []
        found[-1].last = ts
        if keep is None or keep(call.counted, call.model, ts):
            held.append(call)
    _close(found, held, at)
    found = [block for block in found if block.sums["calls"]]
    _official(found, told)
    return sorted(found, key=lambda b: (b.start, b.host))


class _Call(NamedTuple):
    """A call that counts and has a time."""

    counted: live.Counted
    ts: int
    model: str
    sums: Sequence[int]
    """in the order of :data:`SUMS`"""


def _place(call: _Call) -> tuple[str, int]:
    return call.counted.host, call.ts


def _timed(owned: Iterable[tuple[live.Counted, Sequence[tuple]]], mode: str) -> Iterator[_Call]:
    for counted, rows in owned:
        for row in rows:
            if row[_TS] is not None:
                recorded, calculated = row[_RECORDED], row[_COST]
                cost = cost_of(mode, recorded, calculated)
                tokens = (row[place] for place in groupings.TOKENS)
                sums = (*tokens, 1, cost or 0, int(cost is None), int(recorded is not None), recorded or 0, calculated or 0)
                yield _Call(counted, row[_TS], row[_MODEL], sums)


def _kept_calls(settings: Settings, filters: Filters, *, alone: bool) -> Iterator[_Call]:
    """Yield the calls that are kept of each session, and those of sessions that changed since (``alone``: without a look at these)."""
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.usage.usage_delta import UsageDelta, usage_delta
    from ctx_pipeline.usage.usage_figures import calls_of, places_of

    clean, host = cleaner(settings), filters.host
    with reading(settings) as (store, _):
        new = UsageDelta() if alone else usage_delta(store, settings, whole=filters.branch is not None)
        places = places_of(store, settings)
        for key, rows in calls_of(store, settings, lambda key: host in {None, key[0]} and key not in new.replaced):
            project, repository, branch = places.get(key, ("", "", ""))
            counted = live.Counted(*key, project, None, [], repository=repository, branch=branch)
            yield from (_Call(counted, *row) for row in rows)
    if new.sessions:
        price = pricer(settings)
        mine = [one for one in new.sessions if host in {None, one.host}]
        for one in mine:
            one.branch = clean(one.branch)
        yield from _timed([(one, price(rows)) for one, rows in live.owned(mine, new.decided)], settings.cost_mode)


def _close(found: list[Block], held: Sequence[_Call], now: int) -> None:
    """Sum up the calls of the last window; it ends."""
    if not found:
        return
    block = found[-1]
    if held:
        block.models = sorted({call.model for call in held})
        block.sums = dict(zip(SUMS, map(sum, zip(*(call.sums for call in held), strict=True)), strict=True))
        block.first, block.last = held[0].ts, held[-1].ts
    block.active = block.start <= now < block.end


def _limits_by_host(settings: Settings, earliest: int, hosts: set[str]) -> dict[str, list[Limit]]:
    """Return host -> what it wrote about its limits since a time, in order of time."""
    found: dict[str, list[Limit]] = {}
    for declared in discovery.hosts().values():
        if declared.usage.limits is None or declared.key not in hosts:
            continue
        rows: list[Limit] = []
        for source in live.sources(settings, host=declared.key):
            if source.mtime_ns < earliest * 1000:
                continue
            try:
                rows += declared.usage.limits(live.text(source))
            except (CtxError, OSError, ValueError):
                continue
        found[declared.key] = sorted(rows, key=_time)
    return found


def _began(resets: list[int], ts: int) -> int | None:
    """Return when the window that holds a call began by the host's own times of reset, None where it says nothing of it."""
    place = bisect_right(resets, ts)
    began = resets[place] - LENGTH * _HOUR if place < len(resets) else None
    return began if began is not None and began <= ts else None


def _official(found: list[Block], told: Mapping[str, Sequence[Limit]]) -> None:
    """Give the windows what their host itself wrote about limits while they were open."""
    for block in found:
        rows = told.get(block.host, ())
        inside = rows[bisect_left(rows, block.start, key=_time) : bisect_left(rows, block.end, key=_time)]
        # a host writes them with every answer: of each limit the last one counts
        for name, (ts, _, percent, minutes, reset) in {row[1]: row for row in inside}.items():
            block.limits[name] = {"used_percent": percent, "window_minutes": minutes, "resets_at": iso(reset), "at": iso(ts)}


# One line for an agent's status bar: this session, today, and the open window.


_STATUSLINE_TS = MODEL_CALLS.names.index("ts")
_DAYS = 2
"""Files that were not written to for so many days hold nothing of today's."""


def statusline(told: str = "", *, settings: Settings | None = None, now: int | None = None) -> str:
    """Return the line. ``told`` is the JSON that an agent gives its status command (session id, model, cost), or nothing.

    Only files of the last two days are read, and no store is needed; a session that is
    older than they are is read with all that was written since it began.
    """
    from ctx_pipeline import settings as settings_module

    chosen = settings or settings_module.load()
    at = int(time.time() * 1e6) if now is None else now
    given = _object(told)
    since_ns = at * 1000 - _DAYS * 86_400 * 10**9
    session = given.get("session_id")
    owned = _owned(chosen, since_ns, session) if any(_roots(chosen)) else []
    days = Days(chosen.timezone)
    today = days.day(at)
    parts = []
    model = given.get("model")
    name = model.get("display_name") if isinstance(model, dict) else None
    if isinstance(name, str):
        parts.append(name[:40])
    if isinstance(session, str):
        parts.append(f"{_cost([(c, rows) for c, rows in owned if c.session_id == session], chosen)} session")
    mine = [(c, [r for r in rows if r[_STATUSLINE_TS] is not None and days.day(r[_STATUSLINE_TS]) == today]) for c, rows in owned]
    parts.append(f"{_cost(mine, chosen)} today")
    for block in blocks(settings=chosen, now=at, owned=owned) if owned else ():
        if block.active:
            left = max(0, (block.end - at) // 60_000_000)
            text = f"{block.host} window {_dollars(block.cost)}, {left // 60} h {left % 60:02d} min left"
            burn = block.burn()
            text += f", ${burn['usd_per_hour']:,.2f}/h" if burn else ""
            limit = block.limits.get("primary")
            parts.append(text + (f", {limit['used_percent']:.0f}% of the limit" if limit else ""))
    return " | ".join("".join(ch for ch in part if ch.isprintable()) for part in parts)


def _owned(settings: Settings, since_ns: int, session: object) -> list[Any]:
    """Return the calls of files written to since a time, and of all since the session began: they may be copies of older ones."""
    owned = calls(settings, since_ns=since_ns).owned
    times = [r[_STATUSLINE_TS] for c, rows in owned if c.session_id == session for r in (*rows, *c.calls) if r[_STATUSLINE_TS] is not None]
    began_ns = min(times) * 1000 if times else since_ns
    return calls(settings, since_ns=max(1, began_ns)).owned if began_ns < since_ns else owned


def _cost(owned: list[Any], settings: Settings) -> str:
    rollup = Rollup(GROUPINGS["model"], Filters(cost_mode=settings.cost_mode))
    rollup.add_calls(owned)
    sums = total(rollup.rows())
    known = sums["unpriced_calls"] < sums["calls"] or not sums["calls"]
    return _dollars(sums["cost_nano"] if known else None)


def _dollars(nano: int | None) -> str:
    return "unpriced" if nano is None else money(nano)


def _roots(settings: Settings) -> list[Any]:
    from ctx_pipeline import discovery

    return [root for host in discovery.hosts().values() for root in settings.roots_of(host)]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

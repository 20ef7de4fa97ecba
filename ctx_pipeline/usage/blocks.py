"""Five-hour windows of use, as plans count them: what each holds, how fast the open one fills, and the host's own percentages."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.display import money
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.usage import groupings
from ctx_pipeline.usage.engine import calls, calls_for, cleaner, has_store, kept_at, parse_filters, pricer, total
from ctx_pipeline.usage.groupings import GROUPINGS, Days
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.rollup import SUMS, TOKENS, Filters, Rollup
from ctx_pipeline.usage.usage_figures import TimedCalls, calls_of, limits_of, packed_calls, thinned, unpacked_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.usage_figures import Limit


_TS, _MODEL, _RECORDED, _COST = (MODEL_CALLS.names.index(name) for name in ("ts", "model", "recorded_cost", "cost"))
_HOUR = 3_600_000_000
_MINUTE = 60_000_000
LENGTH = 5
"""Hours of a window of the plans of Claude and Codex."""

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

    def burn(self) -> dict[str, Any] | None:
        """Return tokens a minute and dollars an hour between first and last call; None while there is only one moment.

        Dollars are None where no call has a cost.
        """
        minutes = (self.last - self.first) / _MINUTE
        if minutes <= 0:
            return None
        return {"tokens_per_minute": self.tokens / minutes, "usd_per_hour": None if self.cost is None else self.cost / 1e9 / minutes * 60}

    def projection(self, now: int) -> dict[str, Any] | None:
        """Return tokens and dollars at the window's end if it goes on like this; None for a closed window."""
        burn = self.burn()
        if not self.active or burn is None:
            return None
        left = max(0.0, (self.end - now) / _MINUTE)
        return {
            "minutes_left": round(left),
            "tokens": round(self.tokens + burn["tokens_per_minute"] * left),
            "cost_usd": None if self.cost is None else round(self.cost / 1e9 + burn["usd_per_hour"] * left / 60, 6),
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
    """Return the windows of every host whose plans count in windows, oldest first.

    A window that holds ``now`` and was used in its last five hours is active.
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
        timed, told = _stored_calls(chosen, filters, alone=stored)
    else:
        if owned is None and branch is None and not (stored or has_store(chosen)):
            timed = _calls_of_homes(chosen, host, filters.cost_mode)
        else:
            grouping = GROUPINGS["model" if branch is None else "branch"]
            everything = calls_for(grouping, chosen, host=host, stored=stored)[0].owned if owned is None else owned
            timed = list(_timed(everything, filters.cost_mode))
        told = {}
        for name in {one.session.host for one in timed if discovery.hosts()[one.session.host].usage.limits is not None}:
            told |= _limits(live.sources(chosen, host=name), min(one.times[0] for one in timed), {name})

    at = int(time.time() * 1e6) if now is None else now
    found: list[Block] = []
    for name in sorted({one.session.host for one in timed if discovery.hosts()[one.session.host].usage.five_hour_windows}):
        mine = [one for one in timed if one.session.host == name]
        limits = thinned(told.get(name, ()))
        windows = _windows(name, mine, sorted({r for *_, minutes, r in limits if r is not None and minutes == LENGTH * 60}))
        _fill(windows, mine if keep is None else [kept for one in mine if (kept := _selected(one, keep)).times])
        _official(windows, limits)
        found += windows
    for block in found:
        block.active = block.start <= at < block.end
    return sorted((block for block in found if block.sums["calls"]), key=lambda b: (b.start, b.host))


def _timed(owned: Iterable[tuple[live.Counted, Sequence[tuple]]], mode: str) -> Iterator[TimedCalls]:
    for counted, rows in owned:
        dated = sorted((row for row in rows if row[_TS] is not None), key=itemgetter(_TS))
        if not dated:
            continue
        models = sorted({row[_MODEL] for row in dated})
        sums = []
        for row in dated:
            recorded, calculated = row[_RECORDED], row[_COST]
            cost = cost_of(mode, recorded, calculated)
            tokens = (row[place] for place in groupings.TOKENS)
            sums.append((*tokens, 1, cost or 0, int(cost is None), int(recorded is not None), recorded or 0, calculated or 0))
        at = [models.index(row[_MODEL]) for row in dated]
        yield TimedCalls(counted, models, at, [row[_TS] for row in dated], list(zip(*sums, strict=True)))


def _calls_of_homes(settings: Settings, host: str | None, mode: str) -> list[TimedCalls]:
    """Return the calls of the homes, one session's rows in memory at a time."""
    from ctx_pipeline.usage.folded_homes import fold_homes

    found: list[TimedCalls] = []

    def packed(one: live.Counted, rows: Sequence[tuple]) -> list[list[Any]]:
        return [packed_calls(calls) for calls in _timed([(one, rows)], mode)]

    def add(sessions: list[list[Any]]) -> None:
        found.extend(map(unpacked_calls, sessions))

    fold_homes(live.sessions(live.sources(settings, host=host), settings), pricer(settings), packed, add)
    return found


def _stored_calls(settings: Settings, filters: Filters, *, alone: bool) -> tuple[list[TimedCalls], dict[str, list[Limit]]]:
    """Return the calls that are kept of each session and those of sessions that changed since, and what hosts wrote about limits.

    ``alone``: without a look at what changed.
    """
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.usage.homes.usage_delta import UsageDelta, usage_delta

    clean, host = cleaner(settings), filters.host
    with reading(settings) as (store, _):
        new = UsageDelta() if alone else usage_delta(store, settings, whole=filters.branch is not None)
        found = list(calls_of(store, settings, lambda key: host in {None, key[0]} and key not in new.replaced))
        hosts = {kept.session.host for kept in found} | {one.host for one in new.sessions}
        told = _limits(new.changed, 0, hosts)
        for name, rows in limits_of(store, settings, hosts):
            told.setdefault(name, []).extend(rows)
    if new.sessions:
        price = pricer(settings)
        mine = [one for one in new.sessions if host in {None, one.host}]
        for one in mine:
            one.branch = clean(one.branch)
        found += _timed([(one, price(rows)) for one, rows in live.owned(mine, new.decided)], settings.cost_mode)
    return found, told


def _windows(host: str, timed: Sequence[TimedCalls], resets: list[int]) -> list[Block]:
    """Return the windows that the calls of a host opened, without sums, in order; a call belongs to the first one that ends behind it."""
    times: list[int] = []
    for one in timed:
        times += one.times
    times.sort()
    found: list[Block] = []
    place = 0
    while place < len(times):
        start = _began(resets, times[place]) or times[place] // _HOUR * _HOUR
        end = bisect_left(times, start + LENGTH * _HOUR, place)
        found.append(Block(host, start, start + LENGTH * _HOUR, 0, 0))
        place = end
    return found


def _fill(windows: Sequence[Block], timed: Iterable[TimedCalls]) -> None:
    """Add calls to the windows in which they lie."""
    ends = [block.end for block in windows]
    models: dict[int, set[str]] = defaultdict(set)
    for one in timed:
        place = 0
        while place < len(one.times):
            number = bisect_right(ends, one.times[place])
            block = windows[number]
            end = bisect_left(one.times, block.end, place)
            first, last = one.times[place], one.times[end - 1]
            block.first, block.last = min(block.first or first, first), max(block.last, last)
            for name, column in zip(SUMS, one.sums, strict=True):
                block.sums[name] += sum(column[place:end])
            models[number].update(one.models[model] for model in set(one.at[place:end]))
            place = end
    for number, names in models.items():
        windows[number].models = sorted(names)


def _selected(calls: TimedCalls, keep: Callable[[live.Counted, str, int | None], bool]) -> TimedCalls:
    places = [n for n, (at, ts) in enumerate(zip(calls.at, calls.times, strict=True)) if keep(calls.session, calls.models[at], ts)]
    columns = [[column[n] for n in places] for column in (calls.at, calls.times, *calls.sums)]
    return TimedCalls(calls.session, calls.models, columns[0], columns[1], columns[2:])


def _limits(sources: Iterable[live.LiveSource], earliest: int, hosts: set[str]) -> dict[str, list[Limit]]:
    """Return host -> what it wrote about its limits into files that were written to since a time."""
    found: dict[str, list[Limit]] = {}
    for source in sources:
        read = discovery.hosts()[source.host].usage.limits if source.host in hosts else None
        if read is not None and source.mtime_ns >= earliest * 1000:
            with suppress(CtxError, OSError, ValueError):
                found.setdefault(source.host, []).extend(thinned(read(live.text(source))))
    return found


def limits_now(hosts: Iterable[str], now: int, *, settings: Settings) -> list[tuple[str, Limit]]:
    """Return (host, limit) of every limit of these hosts that has not reset at ``now``, as the newest records tell it.

    ``now`` is in microseconds since 1970; a limit of which no reset is told is left out.
    """
    found = []
    for key, declared in discovery.hosts().items():
        if declared.usage.limits is None or key not in hosts:
            continue
        told = sorted((row for text in live.newest_ends(settings, key) for row in declared.usage.limits(text)), key=_time)
        newest = {row[1]: row for row in told}
        found += [(key, row) for row in newest.values() if row[4] is not None and row[4] > now]
    return found


def _began(resets: list[int], ts: int) -> int | None:
    """Return when the window that holds a call began by the host's own times of reset, None where it says nothing of it."""
    place = bisect_right(resets, ts)
    began = resets[place] - LENGTH * _HOUR if place < len(resets) else None
    return began if began is not None and began <= ts else None


def _official(found: list[Block], rows: Sequence[Limit]) -> None:
    """Give the windows of a host what it wrote itself about limits while they were open."""
    for block in found:
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
            text += f", ${burn['usd_per_hour']:,.2f}/h" if burn and burn["usd_per_hour"] is not None else ""
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

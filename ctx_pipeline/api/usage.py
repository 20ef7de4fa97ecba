"""Tokens and cost, each model call once: from the homes, from the tables, or from the tables and what is newer than them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UsageError
from ctx_pipeline.storage.marker import begun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.api.live import Counted
    from ctx_pipeline.api.newer import Newer
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.usage_sql import Group

GROUPS: dict[str, tuple[Group, str]] = {
    "daily": ("day", "date"),
    "weekly": ("week", "date"),
    "monthly": ("month", "date"),
    "session": ("session", "session_id"),
    "project": ("project", "project"),
    "model": ("model", "model"),
    "thread": ("thread", "thread"),
}
"""name of the grouping -> how the tables are grouped, key of the rows"""

COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "reasoning_tokens",
    "calls",
)
_FIRST, _LAST = date(1971, 1, 1), date(9998, 12, 31)
"""Days that the arithmetic of every zone can reach; no record is older or newer."""
_COSTS = ("cost_nano", "unpriced_calls", "recorded_calls", "recorded_nano", "calculated_nano")


@dataclass(frozen=True)
class Usage:
    """Rows and their sum. Cost is in nano-dollars; ``unpriced_calls`` have none.

    ``input_tokens`` is without cached tokens for every host; ``reasoning_tokens`` are
    part of ``output_tokens``.
    """

    by: str
    timezone: str
    rows: list[dict[str, Any]]
    totals: dict[str, Any] = field(default_factory=dict)
    gone: dict[str, Any] | None = None
    """the part of the totals that is from sessions whose files are gone; None where nothing is"""
    source: str = "stored"
    """homes (no store), stored (the tables alone) or both"""
    cost_mode: str = "auto"
    """which cost is *the* cost"""
    unread: int = 0
    """files that could not be read or parsed: their calls are missing"""
    plans: dict[str, str] = field(default_factory=dict)
    """host -> flat plan that it is used on: the cost of its calls is what they would cost at list prices"""

    def to_json(self) -> dict[str, Any]:
        """Return rows and totals with the cost in dollars and where it is from."""
        told = {"rows": [_priced(r) for r in self.rows], "totals": _priced(self.totals), "source": self.source, "cost_mode": self.cost_mode}
        told |= {"gone": _priced(self.gone)} if self.gone else {}
        told |= {"plans": self.plans} if self.plans else {}
        return told | ({"unread_files": self.unread} if self.unread else {})


class Filters(NamedTuple):
    """Which calls are meant: days (both included) of a zone, host, project, model; and which cost."""

    since: date | None = None
    until: date | None = None
    timezone: str | None = None
    host: str | None = None
    project: str | None = None
    model: str | None = None
    cost_mode: str = "auto"


class Calls(NamedTuple):
    """Sessions with the calls that are counted for them, each row with its cost and price, and which have lost their files."""

    owned: list[tuple[Counted, list[tuple]]]
    gone: set[tuple[str, str]]
    source: str


def usage(
    by: str = "daily",
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
) -> Usage:
    """Return usage by day, session, project, model or kind of thread, each model call counted once.

    Without a store the homes are read; with one the tables answer, and sessions that
    changed since are read live (``stored`` skips the look at the homes). Nothing is
    written. ``since`` and ``until`` are days (``2026-03-01``, both included) of the
    timezone and filter by the time of the call. Raises UsageError for an unknown
    grouping, day or cost mode.
    """
    if by not in GROUPS:
        raise UsageError(f"usage by {by!r} is not known", hint=f"use one of {', '.join(GROUPS)}")
    chosen = settings or settings_module.load()
    filters = chosen_filters(
        chosen, since=since, until=until, timezone=timezone, host=host, project=project, model=model, cost_mode=cost_mode
    )
    group, key = GROUPS[by]
    gone: list[dict[str, Any]] = []
    if stored or has_store(chosen):
        from ctx_pipeline.api.reader import reading

        with reading(chosen) as (store, _):
            rows, gone, source, unread = _stored(store, chosen, group, filters, alone=stored)
    else:
        everything = list(_homes(chosen, filters.host))
        rows, source, unread = _tally(everything, group, filters), "homes", sum(c.unread for c, _ in everything)
    rows = [{key: row.pop(key), **row} for row in rows]
    return Usage(by, filters.timezone or "local time", rows, total(rows), total(gone) if gone else None, source, filters.cost_mode, unread)


def total(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of rows."""
    sums = dict.fromkeys((*COUNTS, *_COSTS), 0)
    for row in rows:
        for name in sums:
            sums[name] += int(row.get(name) or 0)
    return sums


def chosen_filters(
    settings: Settings,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    cost_mode: str | None = None,
) -> Filters:
    """Return the filters that a person's words mean; raises UsageError."""
    mode = cost_mode or settings.cost_mode
    if mode not in settings_module.COST_MODES:
        raise UsageError(f"cost mode {mode!r} is not known", hint=f"use one of {', '.join(settings_module.COST_MODES)}")
    first, last = day(since, "--since"), day(until, "--until")
    if first is not None and last is not None and last < first:
        raise UsageError(f"--until {until} is before --since {since}", hint="--since is the first day, --until the last")
    return Filters(first, last, timezone or settings.timezone, host, project, model, mode)


def has_store(settings: Settings) -> bool:
    """Tell whether anything was captured; with neither a store nor a home, reading fails with what to run."""
    if begun(settings.home):
        return True
    from ctx_pipeline import discovery

    return not any(settings.roots_of(host) for host in discovery.hosts().values())


def calls(
    settings: Settings | None = None,
    *,
    host: str | None = None,
    stored: bool = False,
    since_ns: int = 0,
    seen: Callable[[Counted], None] | None = None,
) -> Calls:
    """Return every call that counts, with its cost; ``seen`` is given each session that is read live with all its rows.

    ``since_ns`` reads the homes alone and leaves out files that were not written to since: their calls are older.
    """
    chosen = settings or settings_module.load()
    if since_ns or not (stored or has_store(chosen)):
        return Calls(list(_homes(chosen, host, since_ns=since_ns, seen=seen)), set(), "homes")
    from ctx_pipeline.api.newer import Newer, newer, stored_calls
    from ctx_pipeline.api.reader import reading

    with reading(chosen) as (store, _):
        new = Newer() if stored else newer(store, chosen, whole=seen is not None)
        if seen is not None:
            for one in new.sessions:
                seen(one)
                one.parsed = None
        rest = [c for c in stored_calls(store) if (c.host, c.session_id) not in new.replaced]
        return Calls(list(_costed([*rest, *new.sessions], chosen, host)), new.gone, "stored" if stored else "both")


def _costed(counted: Iterable[Counted], settings: Settings, host: str | None) -> Iterator[tuple[Counted, list[tuple]]]:
    from ctx_pipeline.api import live

    price = pricer(settings)
    everything = [c for c in counted if host in {None, c.host}]
    for one, rows in live.owned(everything, live.owners(live.candidates(everything))):
        yield one, price(rows)


def _homes(
    settings: Settings, host: str | None, *, since_ns: int = 0, seen: Callable[[Counted], None] | None = None
) -> Iterator[tuple[Counted, list[tuple]]]:
    """Yield the sessions of the homes with the calls that count, without a store."""
    from ctx_pipeline.api import live

    found = [s for s in live.sources(settings, host=host) if s.mtime_ns >= since_ns]
    counted = live.read(live.sessions(found, settings), seen=seen, finish=pricer(settings))
    return live.owned(counted, live.owners(live.candidates(counted)))


def pricer(settings: Settings) -> Callable[[list[tuple]], list[tuple]]:
    """Return what gives rows of model calls their cost and price."""
    from ctx_pipeline.model.tables import MODEL_CALLS
    from ctx_pipeline.pricing import PriceBook

    book = PriceBook.of(settings)
    at = MODEL_CALLS.names.index("cost")

    def priced(rows: list[tuple]) -> list[tuple]:
        return [row[:at] + cost + row[at + 2 :] for row, cost in zip(rows, book.cost_rows(rows), strict=True)]

    return priced


def _tally(owned: Iterable[tuple[Counted, Sequence[tuple]]], group: str, filters: Filters) -> list[dict[str, Any]]:
    from ctx_pipeline.api.tally import moment, tally

    return tally(
        owned,
        group,
        since=moment(filters.since, filters.timezone),
        until=moment(filters.until, filters.timezone, after=True),
        zone=filters.timezone,
        project=filters.project,
        model=filters.model,
        cost_mode=filters.cost_mode,
    )


def _stored(
    store: Store, settings: Settings, group: Group, filters: Filters, *, alone: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str, int]:
    """Return the rows of the tables with those of newer sessions, the part of gone sessions, which of both it is, and unread files."""
    from ctx_pipeline.storage.usage_sql import usage_sql

    new: Newer | None = None
    if not alone:
        from ctx_pipeline.api.newer import newer

        new = newer(store, settings)
    asked = filters._asdict()
    replaced = new.replaced if new else set()
    gone = new.gone - replaced if new else set()
    with closing(store.lake.connect()) as connection:
        store.lake.views(connection)

        def ask(kind: Group, **more: Any) -> list[dict[str, Any]]:
            cursor = connection.execute(*usage_sql(kind, **asked, apart=True, **more))
            names = [d[0] for d in cursor.description]
            return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]

        rows = ask(group, without=replaced)
        lost = ask("model", only=gone) if gone else []
    if new is not None and new.sessions:
        from ctx_pipeline.api import live
        from ctx_pipeline.api.tally import merged

        mine = [c for c in new.sessions if filters.host in {None, c.host}]
        price = pricer(settings)
        owned = [(c, price(r)) for c, r in live.owned(mine, new.decided)]
        rows = merged((rows, _tally(owned, group, filters)), GROUPS_KEY[group])
        lost += _tally([(c, r) for c, r in owned if (c.host, c.session_id) in new.gone], "model", filters)
    unread = sum(c.unread for c in new.sessions) if new is not None else 0
    return rows, lost, "stored" if alone else "both", unread


GROUPS_KEY: dict[str, str] = {group: "" if group == "model" else key for group, key in GROUPS.values()}


def day(text: str | None, option: str) -> date | None:
    """Return a day written as 2026-03-31, or the nearest one that zones can be reckoned for; raises UsageError for anything else."""
    if text is None:
        return None
    try:
        return min(max(date.fromisoformat(text), _FIRST), _LAST)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a day", hint=f"write it as {option} 2026-03-31") from None


def _priced(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for people and programs: dollars, and whether every call had a price."""
    counts = {name: int(row.get(name) or 0) for name in ("unpriced_calls", "recorded_calls", "calls")}
    nano = None if counts["unpriced_calls"] == counts["calls"] != 0 else int(row.get("cost_nano") or 0)
    rest = {k: v for k, v in row.items() if k not in _COSTS}
    if "cache_saved_nano" in rest:
        rest["cache_saved_usd"] = round(int(rest.pop("cache_saved_nano")) / 1e9, 9)
    return {
        **rest,
        "cost_usd": None if nano is None else round(nano / 1e9, 9),
        "cost_source": _source(**counts),
        "unpriced_calls": counts["unpriced_calls"],
        "recorded_usd": round(int(row.get("recorded_nano") or 0) / 1e9, 9),
        "calculated_usd": round(int(row.get("calculated_nano") or 0) / 1e9, 9),
    }


def _source(unpriced_calls: int, recorded_calls: int, calls: int) -> str:
    """Return where a cost is from: calculated, recorded, mixed, or unpriced (in part)."""
    if unpriced_calls == calls != 0:
        return "unpriced"
    known = "recorded" if recorded_calls == calls != 0 else "mixed" if recorded_calls else "calculated"
    return f"{known}, unpriced in part" if unpriced_calls else known

"""Usage: every model call once, from the homes, the tables, or the tables and what is newer than them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.usage_rules import COST_MODES, is_running_total
from ctx_pipeline.storage.own_sessions import holds_sessions
from ctx_pipeline.storage.store_marker import STONES
from ctx_pipeline.usage.groupings import GROUPINGS, grouping_named, live_uses, stored_uses
from ctx_pipeline.usage.periods import day
from ctx_pipeline.usage.rollup import SUMS, TOKENS, Filters, Rollup, StoredSum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.usage.groupings import Grouping, Uses
    from ctx_pipeline.usage.homes.live_usage import Counted, LiveSource
    from ctx_pipeline.usage.homes.usage_delta import About
    from ctx_pipeline.usage.missing_output import MissingOutput
    from ctx_pipeline.usage.other_units import Charged


COUNTS = SUMS[:7]
"""Sums of tokens and calls, without costs"""


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
    filters: Filters = field(default_factory=Filters)
    estimated_missing_output: MissingOutput | None = None
    """output tokens that the records lack, where that was asked for and measured; no total holds them"""
    other_units: list[Charged] | None = None
    """what hosts billed in other units than tokens and dollars, where that was asked for; no total holds it"""
    plans: dict[str, str] = field(default_factory=dict)
    """host -> flat plan that it is used on: the cost of its calls is what they would cost at list prices"""

    def by_key(self) -> list[dict[str, Any]]:
        """Return the rows with one for each key (and repository): sums, and names of hosts and models, the most expensive model first."""
        return with_names(self.by_key_and_model())

    def by_key_and_model(self) -> list[dict[str, Any]]:
        """Return the rows as :meth:`by_key` does, with each model's cost and calls instead of its name alone."""
        found: dict[tuple[Any, Any], dict[str, Any]] = {}
        column = GROUPINGS[self.by].column
        for row in self.rows:
            place = (row[column], row.get("repository"))
            one = found.setdefault(place, {column: row[column], "hosts": {}, "models": {}, "repository": row.get("repository")})
            one["hosts"][row["host"]] = None
            cost, calls = one["models"].get(row["model"], (0, 0))
            one["models"][row["model"]] = cost + (row["cost_nano"] or 0), calls + row["calls"]
            for name in (*SUMS, *_MORE):
                if name in row:
                    one[name] = one.get(name, 0) + row[name]
        return [{**one, "hosts": list(one["hosts"])} for one in found.values()]

    def by_session(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return (host, session) -> the sums of its models, with ``tokens`` as all that was sent and received; of usage by session."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self.rows:
            one = found.setdefault((row["host"], row["session_id"]), dict.fromkeys((*SUMS, "tokens"), 0))
            for name in SUMS:
                one[name] += row[name]
            one["tokens"] += sum(row[name] for name in TOKENS)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return rows and totals with the cost in dollars and where it is from."""
        made: dict[str, Any] = {
            "rows": [_priced(r) for r in self.rows],
            "totals": _priced(self.totals),
            "source": self.source,
            "cost_mode": self.cost_mode,
        }
        made |= {"gone": _priced(self.gone)} if self.gone else {}
        missing = self.estimated_missing_output
        made |= {"estimated_missing_output": missing._asdict() if missing else None}
        made |= {"plans": self.plans} if self.plans else {}
        made |= {"other_units": [one._asdict() for one in self.other_units]} if self.other_units else {}
        return made | ({"unread_files": self.unread} if self.unread else {})


class Calls(NamedTuple):
    """Sessions with the calls that are counted for them, each row with its cost and price, and which have lost their files."""

    owned: list[tuple[Counted, list[tuple]]]
    gone: set[tuple[str, str]]
    source: str


def with_names(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with the names of their models instead of each model's cost and calls, the most expensive model first."""
    return [{**row, "models": _most_first(row["models"])} for row in rows]


def _most_first(sums: dict[str, tuple[int, int]]) -> list[str]:
    """Return names by cost, then by calls, the most first; those of the same in the order they came in."""
    return sorted(sums, key=lambda name: sums[name], reverse=True)


def usage(
    by: str | Grouping = "daily",
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    branch: str | None = None,
    cost_mode: str | None = None,
    cache: bool = False,
    stored: bool = False,
    read: tuple[Calls, Uses] | None = None,
    settings: Settings | None = None,
) -> Usage:
    """Return usage by one of ``GROUPINGS``, each model call counted once.

    Without a store the homes are read; with one the tables answer, and sessions that
    changed since are read live (``stored`` skips the look at the homes). Nothing is
    written. ``since`` and ``until`` are days (``2026-03-01``, both included) of the
    timezone and filter by the time of the call. A session has the branch on which it
    began, and of two homes the one that is first by name. Where a call is shared among
    what it asked for, rows have ``uses``. ``cache`` adds ``cache_hit_share`` (part of the
    prompt tokens that came from the cache, 0 to 1, None where nothing was sent),
    ``cache_rebuilds`` (calls that read less than half of what the call before them in
    their thread left there) and ``cache_saved_nano`` (nano-dollars: the same prompts at
    the price of fresh input less what was paid for the cache). ``read`` are calls that
    were read already. Raises UsageError for an unknown grouping, day or cost mode.
    """
    grouping = grouping_named(by)
    chosen = settings or settings_module.load()
    said = {"host": host, "project": project, "model": model, "branch": branch, "cost_mode": cost_mode}
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, **said)
    grouping = grouping if branch is None else grouping._replace(needs_rows=True)
    kept = kept_at(chosen, filters) if cache or grouping.names is not None else True
    if read is None and (stored or has_store(chosen)) and kept and not (cache and grouping.names is not None):
        rows, gone, source, unread = _from_tables(chosen, grouping, filters, alone=stored, cached=chosen if cache else None)
    elif read is None and not (stored or has_store(chosen) or (cache and grouping.names is not None)):
        rows, unread = _from_homes(chosen, grouping, filters, cache=cache)
        gone, source = [], "homes"
    else:
        found, uses = read or calls_for(grouping, chosen, host=filters.host, stored=stored)
        rows = _of_calls(found.owned, grouping, filters, uses, chosen if cache else None)
        lost = [(c, held) for c, held in found.owned if (c.host, c.session_id) in found.gone]
        gone = _of_calls(lost, grouping, filters, uses) if lost else []
        source, unread = found.source, sum(c.unread for c, _ in found.owned)
    totals, lost_sums = total(rows, _MORE[1:] if cache else ()), total(gone) if gone else None
    if cache:
        rows, totals = [_with_share(row) for row in rows], _with_share(totals)
    return Usage(grouping.name, filters.timezone or "local time", rows, totals, lost_sums, source, filters.cost_mode, unread, filters)


def calls_for(
    grouping: Grouping, settings: Settings, *, host: str | None = None, stored: bool = False, about: About | None = None
) -> tuple[Calls, Uses]:
    """Return every call that counts with what the grouping needs to know of it: what it asked for, its session's branch or home.

    ``about`` may leave out the sessions that hold nothing of it.
    """
    fresh: Uses = {}
    clean = cleaner(settings)

    def seen(counted: Counted) -> None:
        if grouping.names is not None:
            fresh.update(live_uses(counted))
        counted.branch = clean(counted.branch)

    found = calls(settings, host=host, stored=stored, seen=seen if grouping.reads_whole else None, about=about)
    if grouping.needs_home:
        _place(settings, (c for c, _ in found.owned), host, stored=stored)
    if grouping.names is None or found.source == "homes":
        return found, fresh
    return found, stored_uses(settings) | fresh


def _of_calls(
    owned: list[tuple[Counted, list[tuple]]], grouping: Grouping, filters: Filters, uses: Uses, cached: Settings | None = None
) -> list[dict[str, Any]]:
    rollup = Rollup(grouping, filters, uses=uses).with_extra(*(_CACHE if cached else ()))
    _add_calls(rollup, owned, cached)
    return rollup.rows()


def _add_calls(rollup: Rollup, owned: list[tuple[Counted, list[tuple]]], cached: Settings | None) -> None:
    """Add calls that count, with what the cache did for them where its columns are wanted."""
    if cached is None:
        rollup.add_calls(owned)
    else:
        from ctx_pipeline.usage.cache_efficiency import effects_of

        extra = effects_of(cached)
        for one, rows in owned:
            rollup.add_calls([(one, rows)], extra(rows))


def _with_share(row: dict[str, Any]) -> dict[str, Any]:
    from ctx_pipeline.usage.cache_efficiency import hit_share

    share = hit_share(row)
    return {**row, "cache_hit_share": None if share is None else round(share, 4)}


def total(rows: Iterable[Mapping[str, Any]], more: Sequence[str] = ()) -> dict[str, Any]:
    """Return the sums of rows, of the columns ``more`` as well."""
    known, names = list(rows), (*SUMS, *more)
    try:
        sums = list(map(sum, zip(*map(itemgetter(*names), known), strict=True)))
    except (KeyError, TypeError):  # a row has no such column, or nothing in it
        sums = []
    if not sums or not all(type(amount) is int for amount in sums):
        sums = [sum(int(row.get(name) or 0) for row in known) for name in names]
    return dict(zip(names, sums, strict=True))


_CACHE = ("cache_rebuilds", "cache_saved_nano")
_MORE = ("uses", *_CACHE)
"""Sums that only some reports have."""


def parse_filters(
    settings: Settings,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    branch: str | None = None,
    cost_mode: str | None = None,
) -> Filters:
    """Return the filters that a person's words mean; raises UsageError."""
    mode = cost_mode or settings.cost_mode
    if mode not in COST_MODES:
        raise UsageError(f"cost mode {mode!r} is not known", hint=f"use one of {', '.join(COST_MODES)}")
    zone = timezone or settings.timezone
    first, last = day(since, "--since", zone), day(until, "--until", zone)
    if first is not None and last is not None and last < first:
        raise UsageError(f"--until {until} is before --since {since}", hint="--since is the first day, --until the last")
    return Filters(first, last, zone, host, project, model, mode, branch)


def has_store(settings: Settings) -> bool:
    """Tell whether anything was captured or forgotten; with neither a store nor a home, reading fails with what to run."""
    if holds_sessions(settings.home) or (settings.home / STONES).exists():
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
    about: About | None = None,
) -> Calls:
    """Return every call that counts, with its cost; ``seen`` is given each session that is read live with all its rows.

    ``about`` may leave out stored sessions that hold nothing of it.
    ``since_ns`` reads the homes alone and leaves out files that were not written to since: their calls are older.
    """
    chosen = settings or settings_module.load()
    if since_ns or not (stored or has_store(chosen)):
        return Calls(list(_homes(chosen, host, since_ns=since_ns, seen=seen)), set(), "homes")
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.usage.homes import live_usage as live
    from ctx_pipeline.usage.homes.usage_delta import UsageDelta, holders, ownership, stored_calls, usage_delta

    with reading(chosen) as (store, _):
        new = UsageDelta() if stored else usage_delta(store, chosen, whole=seen is not None)
        if seen is not None:
            for one in new.sessions:
                seen(one)
                one.parsed = None
        only = None if about is None else holders(store, about)
        rest = [c for c in stored_calls(store, only) if (c.host, c.session_id) not in new.replaced]
        everything = [c for c in (*rest, *new.sessions) if host in {None, c.host}]
        decided = live.owners(live.candidates(everything)) if only is None else ownership(store, new)
        price = pricer(chosen)
        return Calls([(one, price(rows)) for one, rows in live.owned(everything, decided)], new.gone, "stored" if stored else "both")


def _homes(
    settings: Settings, host: str | None, *, since_ns: int = 0, seen: Callable[[Counted], None] | None = None
) -> Iterator[tuple[Counted, list[tuple]]]:
    """Yield the sessions of the homes with the calls that count, without a store."""
    from ctx_pipeline.usage.homes import live_usage as live

    everything = live.sources(settings, host=host)
    counted = live.read(live.sessions([s for s in everything if s.mtime_ns >= since_ns], settings), seen=seen, finish=pricer(settings))
    older = _parents_left_out(counted, [s for s in everything if s.mtime_ns < since_ns], settings)
    return live.owned(counted, live.owners(live.candidates([*counted, *older])))


def _from_homes(settings: Settings, grouping: Grouping, filters: Filters, *, cache: bool) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of the homes, without a store, and how many files could not be read."""
    from ctx_pipeline.usage.folded_homes import add_home_shares, home_sums

    price, clean = pricer(settings), cleaner(settings)
    rollup = Rollup(grouping, filters).with_extra(*(_CACHE if cache else ()))
    if grouping.names is not None:
        unread = add_home_shares(rollup, settings, price, clean)
        return rollup.rows(), unread
    sums, unread = home_sums(settings, filters, price, cache=cache, clean=clean if grouping.reads_whole else None)
    if grouping.needs_home:
        _place(settings, (one.session for one in sums), filters.host, stored=False)
    rollup.add_sums(sums)
    return rollup.rows(), unread


def _parents_left_out(counted: Sequence[Counted], older: Sequence[LiveSource], settings: Settings) -> list[Counted]:
    """Return the sessions that forks may repeat slowly, of files left out for their age that bear the names of these sessions."""
    from ctx_pipeline.usage.homes import live_usage as live

    found: list[Counted] = []
    known = {(one.host, one.session_id) for one in counted}
    new = list(counted) if older else []
    while new:
        forks = [c for c in new if c.parent and any(is_running_total(row[live.KEY], c.session_id) for row in c.calls)]
        wanted = {(c.host, c.parent) for c in forks if c.parent} - known
        known |= wanted
        files = [s for s in older if any(s.host == host and parent in s.rel for host, parent in wanted)]
        new = [one for one in live.read(live.sessions(files, settings)) if (one.host, one.session_id) in wanted]
        found += new
    return found


def pricer(settings: Settings) -> Callable[[list[tuple]], list[tuple]]:
    """Return what gives rows of model calls their cost and price."""
    from ctx_pipeline.model.tables import MODEL_CALLS
    from ctx_pipeline.pricing import PriceBook

    book = PriceBook.of(settings)
    at = MODEL_CALLS.names.index("cost")

    def priced(rows: list[tuple]) -> list[tuple]:
        return [row[:at] + cost + row[at + 2 :] for row, cost in zip(rows, book.cost_rows(rows), strict=True)]

    return priced


def _from_tables(
    settings: Settings, grouping: Grouping, filters: Filters, *, alone: bool, cached: Settings | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str, int]:
    """Return the rows of the tables with those of newer sessions, the part of gone sessions, which of both it is, and unread files."""
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.usage.homes.usage_delta import UsageDelta, usage_delta

    clean = cleaner(settings)
    fresh: Uses = {}
    rollup, lost = (Rollup(grouping, filters, uses=fresh).with_extra(*(_CACHE if cached else ())) for _ in range(2))
    with reading(settings) as (store, _):
        new = UsageDelta() if alone else usage_delta(store, settings, whole=grouping.reads_whole)
        # of stored sessions whose calls count otherwise now the tables say what they asked for
        again = grouping.names is not None and any(one.parsed is None for one in new.sessions)
        for one in new.sessions:
            if grouping.names is not None:
                fresh.update(live_uses(one))
            one.parsed, one.branch = None, clean(one.branch)
        gone = new.gone - new.replaced
        if grouping.names is not None:
            _add_shares(store, settings, rollup, lambda key: key not in new.replaced)
            if gone:
                _add_shares(store, settings, lost, lambda key: key in gone)
            kept: list[StoredSum] = []
            leaving: list[StoredSum] = []
        else:
            kept = _stored_sums(store, settings, grouping, filters, without=new.replaced)
            leaving = _stored_sums(store, settings, grouping, filters, only=gone) if gone else []
    if grouping.needs_home:
        _place(settings, (*(one.session for one in (*kept, *leaving)), *new.sessions), filters.host, stored=alone)
    rollup.add_sums(kept)
    lost.add_sums(leaving)
    if new.sessions:
        from ctx_pipeline.usage.homes import live_usage

        if again:
            fresh.update({key: uses for key, uses in stored_uses(settings).items() if key not in fresh})
        price = pricer(settings)
        mine = [c for c in new.sessions if filters.host in {None, c.host}]
        owned = [(c, price(rows)) for c, rows in live_usage.owned(mine, new.decided)]
        _add_calls(rollup, owned, cached)
        _add_calls(lost, [(c, rows) for c, rows in owned if (c.host, c.session_id) in new.gone], cached)
    return rollup.rows(), lost.rows(), "stored" if alone else "both", sum(c.unread for c in new.sessions)


def kept_at(settings: Settings, filters: Filters) -> bool:
    """Tell whether what is kept of sessions answers these filters: it holds the cost by one mode."""
    from ctx_pipeline.usage.session_figures import on_border

    return filters.cost_mode == settings.cost_mode and on_border(filters.bounds())


def _add_shares(store: Store, settings: Settings, rollup: Rollup, wanted: Callable[[tuple[str, str]], bool]) -> None:
    """Add the shares of the tables' calls, of the sessions that are wanted and that the filters keep."""
    from ctx_pipeline.usage.usage_figures import fits, shares_of

    filters = rollup.filters
    chosen = fits(store, settings, filters)
    for key, rows in shares_of(store, settings, rollup.grouping, filters.bounds(), lambda key: chosen(key) and wanted(key)):
        rollup.add_shares(key[0], rows if filters.model is None else [row for row in rows if row[0] == filters.model])


def _stored_sums(
    store: Store,
    settings: Settings,
    grouping: Grouping,
    filters: Filters,
    *,
    only: set[tuple[str, str]] | None = None,
    without: Iterable[tuple[str, str]] = (),
) -> list[StoredSum]:
    if kept_at(settings, filters):
        from ctx_pipeline.usage.usage_figures import sums_of

        left_out = set(without)
        if not left_out and only is None:
            return list(sums_of(store, settings))
        return [
            one
            for one in sums_of(store, settings, filters.bounds())
            if (key := (one.session.host, one.session.session_id)) not in left_out and (only is None or key in only)
        ]
    with closing(store.lake.connect()) as connection:
        store.lake.views(connection, ("model_calls", "sessions"))
        return stored_sums(connection, [grouping], filters, only=only, without=without)


def stored_usages(connection: Any, names: Sequence[str | Grouping], filters: Filters, *, warehouse: bool = False) -> dict[str, Usage]:
    """Return grouping -> usage of the tables, the tables read once for all; of any connection with ``model_calls`` and ``sessions``.

    A connection to a ``warehouse`` reads its sums in place of the calls.
    """
    groupings = list(map(grouping_named, names))
    return _usages(stored_sums(connection, groupings, filters, kept=warehouse), groupings, filters)


def kept_usages(store: Store, settings: Settings, names: Sequence[str], filters: Filters) -> dict[str, Usage] | None:
    """Return what :func:`stored_usages` does, from what is kept of sessions; None where that does not answer the filters."""
    if not kept_at(settings, filters):
        return None
    from ctx_pipeline.usage.usage_figures import sums_of

    groupings, bounds = [GROUPINGS[name] for name in names], filters.bounds()
    timed = bounds != (None, None) or any(grouping.of_time or grouping.quarter for grouping in groupings)
    return _usages(list(sums_of(store, settings, bounds, timed=timed)), groupings, filters)


def _usages(kept: Sequence[StoredSum], groupings: Sequence[Grouping], filters: Filters) -> dict[str, Usage]:
    found = {}
    for grouping in groupings:
        rollup = Rollup(grouping, filters)
        rollup.add_sums(kept)
        rows = rollup.rows()
        found[grouping.name] = Usage(
            grouping.name, filters.timezone or "local time", rows, total(rows), cost_mode=filters.cost_mode, filters=filters
        )
    return found


def stored_sums(
    connection: Any,
    groupings: Sequence[Grouping],
    filters: Filters,
    *,
    only: set[tuple[str, str]] | None = None,
    without: Iterable[tuple[str, str]] = (),
    kept: bool = False,
) -> list[StoredSum]:
    """Return the sums of the calls that count, of any connection with the views ``model_calls`` and ``sessions``.

    They are as fine as the groupings and the filters ask for; ``only`` and ``without`` choose (host, session).
    With ``kept`` the connection is to a warehouse, whose sums of calls are read.
    """
    from ctx_pipeline.storage.warehouse.usage_sql import sums_sql
    from ctx_pipeline.usage.homes.live_usage import Counted

    first, after = bounds = filters.bounds()
    timed = any(g.of_time is not None or g.quarter for g in groupings)
    sql, parameters = sums_sql(
        time=timed,
        session=(filters.project, filters.branch) != (None, None) or any(g.of_session is not None or g.quarter for g in groupings),
        thread=any(g.of_thread is not None for g in groupings),
        cost_mode=filters.cost_mode,
        bounds=bounds,
        host=filters.host,
        only=only,
        without=without,
        kept=kept,
    )
    # sums of no moment are told by one of the filters' own, where they have days
    within = first if first is not None else after - 1 if after is not None else None
    found = []
    known: dict[tuple[str, ...], Counted] = {}
    for host, model, ts, main, session_id, project, repository, branch, *sums in connection.execute(sql, parameters).fetchall():
        place = (host, session_id, project, repository, branch)
        session = known.get(place)
        if session is None:
            session = known[place] = Counted(host, session_id, project, None, [], repository=repository, branch=branch)
        found.append(StoredSum(session, model, ts if timed else within, main, sums))
    return found


def _place(settings: Settings, sessions: Iterable[Counted], host: str | None, *, stored: bool) -> None:
    """Give sessions their home: of captured ones as the ledger knows it, of others as they lie now."""
    from ctx_pipeline.usage.homes import live_usage

    found: dict[tuple[str, str], str] = {}
    places: list[tuple[tuple[str, str], str]] = []
    if not stored:
        of_homes = live_usage.sessions(live_usage.sources(settings, host=host), settings)
        places += [((s.host, s.session_id), source.root) for s in of_homes for source, _ in s.sources]
    if stored or has_store(settings):
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            places += [((s.host, s.session_id), s.root) for s in store.ledger.sources().values() if s.session_id]
    for key, root in places:
        found[key] = min(found.get(key, root), root)
    for session in sessions:
        session.home = found.get((session.host, session.session_id), "")


def cleaner(settings: Settings) -> Callable[[str], str]:
    """Return what replaces secrets in a name; their patterns are loaded at the first one."""
    redact: list[Callable[[str], str]] = []

    def clean(text: str) -> str:
        if not text:
            return text
        if not redact:
            from ctx_pipeline.redaction import Redactor

            redact.append(Redactor(settings.patterns).redact)
        return redact[0](text)

    return clean


def _priced(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for people and programs: dollars, and whether every call had a price."""
    counts = {name: int(row.get(name) or 0) for name in ("unpriced_calls", "recorded_calls", "calls")}
    nano = None if counts["unpriced_calls"] == counts["calls"] != 0 else int(row.get("cost_nano") or 0)
    rest = {k: v for k, v in row.items() if k not in SUMS[7:]}
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

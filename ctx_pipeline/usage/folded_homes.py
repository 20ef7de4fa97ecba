"""Usage of the homes as sums: one session in memory at a time, and of its calls only what tells whether another session holds them too."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.usage_rules import ancestors, is_running_total
from ctx_pipeline.usage.cache_efficiency import effects_of, paid_for_cache
from ctx_pipeline.usage.groupings import BY_MOMENT, live_uses
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.homes.two_processes import in_two
from ctx_pipeline.usage.rollup import Filters, Rollup, StoredSum
from ctx_pipeline.usage.session_figures import QUARTER, on_border

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.groupings import Uses
    from ctx_pipeline.usage.homes.live_usage import Counted, LiveSession

_AT_ONCE = 2_000_000
"""Keys that are compared at a time: a set of them takes 130 MB."""


class Folded(NamedTuple):
    """What is kept of a session that was read, in plain values that a process can hand to another."""

    host: str
    session_id: str
    parent: str | None
    unread: int
    keys: bytes
    """the hashes of the keys of the calls that may count for it, eight bytes each"""
    begin: int
    """hash of the moment and the running totals of its first call; 0 where they are not recorded"""
    totals: bool
    """whether a call is known by running totals, as copies of forks are"""
    kept: Any
    """what is made of all these calls"""


class HomeSums(NamedTuple):
    """Every call of the homes, each counted once, as sums, and how many files could not be read."""

    sums: list[StoredSum]
    """behind ``SUMS`` what the cache did, where that was asked for: calls that rebuilt it and nano-dollars that it saved;
    else, inside of ``live_usage.one_look``, the nano-dollars that were paid for what came from it"""
    unread: int


def home_sums(
    settings: Settings,
    filters: Filters,
    price: Callable[[list[tuple]], list[tuple]],
    *,
    cache: bool = False,
    clean: Callable[[str], str] | None = None,
) -> HomeSums:
    """Return the sums of the homes by session, model, thread and quarter of an hour, at the host and cost mode of the filters.

    The other filters are left to the reader, but for days that do not begin with such a quarter. Inside of
    ``live_usage.one_look`` the homes are read once. With ``clean``, which replaces secrets, all rows are read, for the branch.
    """
    bounds, first = filters.bounds(), None
    within = Filters(cost_mode=filters.cost_mode)
    if not on_border(bounds):
        within = within._replace(since=filters.since, until=filters.until, timezone=filters.timezone)
        first, _ = bounds
    several = live.in_one_look()

    def read() -> HomeSums:
        found: list[StoredSum] = []
        rollup = Rollup(BY_MOMENT, within).with_extra(*(("rebuilds", "saved") if cache else ("paid",) if several else ()))
        effects, paid = effects_of(settings), paid_for_cache(settings, filters.cost_mode)

        def packed(one: Counted, rows: Sequence[tuple]) -> list[Any]:
            sums = rollup.of_session(one, rows, effects(rows) if cache else paid if several else None)
            of_session = [(*key, model, row) for (key, _, model, _), row in sums.items()]
            return [one.host, one.session_id, one.project, one.repository, clean(one.branch) if clean else "", of_session]

        def add(told: list[Any]) -> None:
            host, session_id, project, repository, branch, rows = told
            session = live.Counted(host, session_id, project, None, [], repository=repository, branch=branch)
            for n, main, model, row in rows:
                ts = None if n is None else n * QUARTER if first is None else max(n * QUARTER, first)
                found.append(StoredSum(session, model, ts, main, row))

        todo = live.sessions(live.sources(settings, host=filters.host), settings)
        return HomeSums(found, fold_homes(todo, price, packed, add, seen=(lambda _: None) if clean else None))

    return live.once(("sums", filters.host, within, cache, clean is not None), read)


def add_home_shares(rollup: Rollup, settings: Settings, price: Callable[[list[tuple]], list[tuple]], clean: Callable[[str], str]) -> int:
    """Add every call of the homes, shared among what it asked for; return how many files could not be read."""
    asked: dict[tuple[str, str], Uses] = {}

    def seen(one: Counted) -> None:
        asked[one.host, one.session_id] = live_uses(one)
        one.branch = clean(one.branch)

    def packed(one: Counted, rows: Sequence[tuple]) -> list[Any]:
        of_session = Rollup(rollup.grouping, rollup.filters, uses=asked.pop((one.host, one.session_id), None)).of_session(one, rows)
        return [one.host, [[model, name, *sums] for (name, _, model, _), sums in of_session.items()]]

    todo = live.sessions(live.sources(settings, host=rollup.filters.host), settings)
    return fold_homes(todo, price, packed, lambda told: rollup.add_shares(*told), seen=seen)


def fold_homes(
    todo: Sequence[LiveSession],
    price: Callable[[list[tuple]], list[tuple]],
    make: Callable[[Counted, Sequence[tuple]], Any],
    add: Callable[[Any], None],
    *,
    seen: Callable[[Counted], None] | None = None,
) -> int:
    """Add what is made of the calls that count for each of these sessions; return how many files could not be read.

    ``make`` gives plain values that a process can hand to another. Sessions of which another
    may hold a call are read a second time, to tell whose it is. ``seen`` is given each session
    with all its rows, in the process that then makes something of its calls.
    """
    told = in_two(todo, live.sizes(todo), lambda some: [tuple(_folded(one, make)) for one in live.each(some, finish=price, seen=seen)])
    folded = [Folded(*fields) for fields in told]
    again = _entangled(folded)
    for n, one in enumerate(folded):
        if n not in again:
            add(one.kept)
    if again:
        counted = live.read([todo[n] for n in sorted(again)], finish=price, seen=seen)
        candidates = live.candidates(counted)
        for n, one in enumerate(folded):
            if n not in again and one.host in candidates:  # what they descend from decides among the others
                candidates[one.host].append(live.Candidates(one.session_id, one.parent, ()))
        for session, rows in live.owned(counted, live.owners(candidates)):
            add(make(session, rows))
    return sum(one.unread for one in folded)


def _folded(one: Counted, make: Callable[[Counted, Sequence[tuple]], Any]) -> Folded:
    rows = [row for row in one.calls if row[live.OWNER]]
    held = {row[live.KEY]: row[live.TS] for row in rows}
    totals = {key: ts for key, ts in held.items() if is_running_total(key, one.session_id)}
    keys = array("q", map(hash, held)).tobytes()
    return Folded(one.host, one.session_id, one.parent, one.unread, keys, _begin(totals), bool(totals), make(one, rows))


def _begin(totals: dict[str, int | None]) -> int:
    """Return what a copy of the session under another id begins with too; 0 where none can be told by its running totals."""
    if len(totals) < 2:
        return 0
    first = min(totals, key=lambda key: (totals[key] or 0, key))
    return 0 if totals[first] is None else hash((totals[first], first.partition(":")[2]))


def _entangled(folded: Sequence[Folded]) -> set[int]:
    """Return which sessions may share a call with another of their host: by a key, by where they begin, or as forks and their ancestors."""
    found: set[int] = set()
    for host in {one.host for one in folded}:
        mine = {n: one for n, one in enumerate(folded) if one.host == host}
        places = {one.session_id: n for n, one in mine.items()}
        parents = {one.session_id: one.parent for one in mine.values()}
        found |= _with_keys_of_others(mine)
        begins: dict[int, list[int]] = {}
        for n, one in mine.items():
            if one.begin:
                begins.setdefault(one.begin, []).append(n)
            if one.totals and one.parent is not None:
                found |= {n, *(places[each] for each in ancestors(one.session_id, parents) if each in places)}
        found |= {n for group in begins.values() if len(group) > 1 for n in group}
    return found


def _with_keys_of_others(members: dict[int, Folded]) -> set[int]:
    parts = 1 + sum(len(one.keys) for one in members.values()) // (8 * _AT_ONCE)
    found: set[int] = set()
    for part in range(parts):
        seen: set[int] = set()
        twice: set[int] = set()
        for keys in _keys(members.values(), part, parts):
            twice |= seen & keys
            seen |= keys
        if twice:
            found |= {n for n, keys in zip(members, _keys(members.values(), part, parts), strict=True) if not twice.isdisjoint(keys)}
    return found


def _keys(members: Iterable[Folded], part: int, parts: int) -> Iterator[set[int]]:
    """Yield the hashes of the keys of each session, one part of all that there are."""
    for one in members:
        keys = array("q", one.keys)
        yield set(keys) if parts == 1 else {key for key in keys if key % parts == part}

"""What each session did itself: what a copy repeats of another session is told once, for the session that was copied."""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.sessions.file_placement import Access
    from ctx_pipeline.storage import Store

_Done = TypeVar("_Done")

Key = tuple[str, str]
"""Host and id of a session."""


def origins_first(sessions: Mapping[Key, int], copied: Iterable[Key], origins: Mapping[Key, Iterable[Key]]) -> list[Key]:
    """Return sessions with each behind those that it was copied from.

    ``sessions`` are these with the time of what they did last. Where nothing tells which one was
    copied, copies as a whole come last, and what ended earlier comes first: the other one went on.
    """
    whole = set(copied)
    waits = {key: {one for one in origins.get(key, ()) if one in sessions and one != key} for key in sessions}
    before: dict[Key, list[Key]] = {}
    for key, above in waits.items():
        for one in above:
            before.setdefault(one, []).append(key)

    def ready(key: Key) -> tuple[bool, int, Key]:
        return key in whole, sessions[key], key

    free = [ready(key) for key, above in waits.items() if not above]
    heapify(free)
    order: list[Key] = []
    while waits:
        # of sessions that hold calls of each other none is the first: the one that ended first is taken
        key = heappop(free)[2] if free else min(_circle(waits), key=ready)
        order.append(key)
        del waits[key]
        for below in before.get(key, ()):
            if below in waits:
                waits[below].discard(key)
                if not waits[below]:
                    heappush(free, ready(below))
    return order


def _circle(waits: Mapping[Key, set[Key]]) -> list[Key]:
    """Return sessions that wait for each other where every one waits for another."""
    path = [min(waits)]
    while (above := min(waits[path[-1]])) not in path:
        path.append(above)
    return path[path.index(above) :]


def own(
    order: Iterable[Key], done: Mapping[Key, list[_Done]], copied: Mapping[Key, str], same: Callable[[_Done], Any]
) -> Iterator[tuple[Key, list[_Done], list[str]]]:
    """Yield each session with what no session before it in order did, and the ids of those that repeat its own alone."""
    first: dict[Any, Key] = {}
    kept: dict[Key, list[_Done]] = {}
    copies: dict[Key, list[str]] = {}
    for key in order:
        origin = (key[0], copied.get(key, ""))
        mine = [one for one in done[key] if first.setdefault(same(one), key) == key] if origin not in kept else []
        if mine:
            kept[key] = mine
        else:
            copies.setdefault(origin if origin in kept else first[same(done[key][0])], []).append(key[1])
    for key, mine in kept.items():
        yield key, mine, copies.get(key, [])


def own_accesses(store: Store, found: Sequence[Access]) -> list[Access]:
    """Return accesses in their order without those that a copy repeats: the same at the same moment, in a session of the same folder."""
    done: dict[Key, list[Access]] = {}
    for access in found:
        done.setdefault(_SESSION(access), []).append(access)
    last = {key: max(map(_TIME, accesses)) for key, accesses in done.items()}
    copied, began = store.ledger.copied_sessions(), {name: one.cwd for name, one in store.shown().items()}
    compared = alike(done, copied, began)
    order = [key for key in origins_first(last, copied, store.ledger.origins()) if key in compared]
    mine = own(order, done, copied, lambda a: (a.host, began.get((a.host, a.session_id)), a.kind, a.recorded, a.ts))
    kept = {id(access) for _, accesses, _ in mine for access in accesses}
    return [access for access in found if _SESSION(access) not in compared or id(access) in kept]


_TIME, _SESSION = attrgetter("ts"), attrgetter("host", "session_id")


def alike(done: Mapping[Key, list[Access]], copied: Mapping[Key, str], began: Mapping[Key, str | None]) -> set[Key]:
    """Return the sessions that may repeat another: copies, what they were copied from, and those of one folder with a moment in common."""
    found = {key for key in done if key in copied} | {(key[0], origin) for key, origin in copied.items()}
    times = {key: set(map(_TIME, accesses)) for key, accesses in done.items()}
    together: dict[tuple[str, str | None], list[Key]] = {}
    for key in done:
        together.setdefault((key[0], began.get(key)), []).append(key)
    for keys in together.values():
        often = Counter(moment for key in keys for moment in times[key])
        shared = {moment for moment, number in often.items() if number > 1}
        found.update(key for key in keys if not shared.isdisjoint(times[key]))
    return found

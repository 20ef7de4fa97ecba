"""The rules of usage: what a model call costs, which session it counts for, when a cache was rebuilt, what an unnamed row is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# The cost of a model call: which of its two figures counts, in Python and, from the same declaration, in SQL.


COST_RULE: Mapping[str, tuple[str, ...]] = {
    "auto": ("recorded_cost", "cost"),
    "calculate": ("cost",),
    "display": ("recorded_cost",),
}
"""cost mode -> columns of ``model_calls``, the first that is known is the cost: what the host wrote down, the list price"""

COST_MODES = tuple(COST_RULE)


def cost_of(mode: str, recorded: int | None, calculated: int | None) -> int | None:
    """Return the nano-dollars of a call by a cost mode; None where no figure is known."""
    for column in COST_RULE[mode]:
        value = recorded if column == "recorded_cost" else calculated
        if value is not None:
            return value
    return None


# Who a model call is counted for, when more than one session recorded it: the one rule, for the ledger and for live
# reading.


BEFORE_FORK = "declared parent before its fork"
EARLIEST = "earliest own record"
BY_ID = "session id"
SAME_TOTALS = "running totals of its declared parent, call after call"
SAME_CALLS = "the same running totals at the same moments, call after call, under another session's id"

_NEVER = 1 << 62


class Owner(NamedTuple):
    """The session that a call is counted for, and why."""

    session_id: str
    rule: str


def decide(holders: Mapping[str, Sequence[str]], own: Mapping[str, int | None], parents: Mapping[str, str | None]) -> dict[str, Owner]:
    """Return the owner of every call key that more than one session holds.

    ``holders`` is call key -> sessions, ``own`` session -> time of its earliest call that
    no other session holds, ``parents`` session -> the session it was forked from. A
    declared parent goes before its fork, then the earlier own record (a session with
    none goes last), then the smaller id. Depends on these values alone, not on order.
    """
    rank = {session: (_NEVER if own.get(session) is None else own[session], session) for group in holders.values() for session in group}
    owners: dict[str, Owner] = {}
    for key, group in holders.items():
        inside = set(group)
        first = [s for s in inside if not _descends(s, inside, parents)] or sorted(inside)
        best = sorted(first, key=lambda s: rank[s])
        if len(best) < len(inside) and len(best) == 1:
            rule = BEFORE_FORK
        else:
            rule = EARLIEST if len(best) == 1 or rank[best[0]][0] != rank[best[1]][0] else BY_ID
        owners[key] = Owner(best[0], rule)
    return owners


_SLOW = 30_000_000
"""Microseconds between two lines of one copy, at most, on a busy disk, where few calls are alike"""

_SURE = 3
"""Calls with the running totals of an ancestor, one behind the other from the first on, that are a copy however slowly it was written"""


def replays(
    calls: Mapping[str, Mapping[str, int | None]], parents: Mapping[str, str | None], fork: str | None = None
) -> dict[str, tuple[str, str]]:
    """Return call key of a fork -> session and key of the call of an ancestor that it repeats.

    A copy that a busy disk wrote slowly looks like own calls of the fork: their keys are the
    fork's id and running totals, and the same totals, of five numbers each, stand under an
    ancestor's id. Counted from the fork's first call on, as long as each is one that an
    ancestor made before; one alone proves nothing, since threads may begin alike, and two only
    where no half minute passes between them.
    ``calls`` is session -> call key -> time, ``parents`` session -> declared parent. Looked at is one ``fork``, or each that has a parent.
    """
    found: dict[str, tuple[str, str]] = {}
    for session, held in calls.items() if fork is None else ((fork, calls[fork]),):
        if parents.get(session) is None:
            continue
        own = [key for key in _in_order(held) if is_running_total(key, session)]
        above = ancestors(session, parents) if own else []
        repeated: dict[str, tuple[str, str]] = {}
        last, slow = held[own[0]] or 0 if own else 0, False
        for key in own:
            totals = key.partition(":")[2]
            origin = next((a for a in reversed(above) if f"{a}:{totals}" in calls.get(a, {})), None)
            at = held[key] or 0
            if origin is None or (calls[origin][f"{origin}:{totals}"] or 0) > at:
                break
            repeated[key] = (origin, f"{origin}:{totals}")
            last, slow = at, slow or at - last > _SLOW
        if len(repeated) >= _SURE or (len(repeated) > 1 and not slow):
            found.update(repeated)
    return found


def same_calls(calls: Mapping[str, Mapping[str, int | None]]) -> dict[str, tuple[str, str]]:
    """Return call key -> session and key of the call that it is, of sessions whose files were copied under another id.

    Such a copy holds the running totals of another session, of five numbers each, at the very
    same moments: counted from the first call of both on, two at least, up to where one of them went on
    by itself. Of several it is the one with most of the calls, then the smallest id. ``calls`` is session -> call key -> time.
    """
    begins: dict[tuple[int, str], list[str]] = {}
    own: dict[str, list[str]] = {}
    for session, held in sorted(calls.items()):
        keys = [key for key in _in_order(held) if is_running_total(key, session)]
        if len(keys) > 1 and (began := held[keys[0]]) is not None:
            own[session] = keys
            begins.setdefault((began, keys[0].removeprefix(f"{session}:")), []).append(session)
    found: dict[str, tuple[str, str]] = {}
    for group in begins.values():
        # calls before, moment and totals of one -> number of the calls up to it, and the first session that has them
        tree: dict[tuple[int, int | None, str], tuple[int, str]] = {}
        for session in group if len(group) > 1 else ():
            made: list[str] = []
            at, other = 0, session
            for key in own[session]:
                totals = key.removeprefix(f"{session}:")
                at, first = tree.setdefault((at, calls[session][key], totals), (len(tree) + 1, session))
                if first != session:
                    other = first
                    made.append(totals)
            if len(made) > 1:
                found.update({f"{session}:{totals}": (other, f"{other}:{totals}") for totals in made})
    return found


def is_running_total(key: str, session: str) -> bool:
    """Tell whether a call's key is its session's id and the running totals after it."""
    return key.startswith(f"{session}:")


def with_replays(decided: Mapping[str, Owner], repeated: Mapping[str, tuple[str, str]], rule: str = SAME_TOTALS) -> dict[str, Owner]:
    """Return the owners with those of repeated calls: whoever owns the call that each repeats."""
    owners = dict(decided)
    for key in repeated:
        session, origin = repeated[key]
        while origin in repeated:
            session, origin = repeated[origin]
        owners[key] = Owner(decided[origin].session_id if origin in decided else session, rule)
    return owners


def _in_order(held: Mapping[str, int | None]) -> list[str]:
    return sorted(held, key=lambda key: (held[key] or 0, key))


def ancestors(session: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return the declared ancestors, the nearest first; a circle of parents is no ancestry."""
    found: list[str] = []
    above = parents.get(session)
    while above is not None:
        if above == session or above in found:
            return []
        found.append(above)
        above = parents.get(above)
    return found


def _descends(session: str, group: set[str], parents: Mapping[str, str | None]) -> bool:
    """Tell whether a declared ancestor is in the group; a circle of parents is no ancestry."""
    return not group.isdisjoint(ancestors(session, parents))


# What tables print where the records say nothing; the same words name it in filters and in ctx explain.


UNNAMED = "(not recorded)"
"""A model that the records do not name."""

UNDATED = "(no time)"
"""Calls without a time."""


# When a model call had to pay anew for a prompt that the provider's cache had held.


LOST = 0.5
"""A call that reads less than this share of what the call before left in the cache rebuilds it."""
LEAST = 1_024
"""Tokens below which providers cache nothing."""


def rebuilt(held: int, read: int) -> bool:
    """Tell whether a call that read so much rebuilt a cache in which the call before it left ``held`` tokens."""
    return held >= LEAST and read < held * LOST

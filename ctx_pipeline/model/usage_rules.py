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


def _descends(session: str, group: set[str], parents: Mapping[str, str | None]) -> bool:
    """Tell whether a declared ancestor is in the group; a circle of parents is no ancestry."""
    seen = {session}
    above = parents.get(session)
    found = False
    while above is not None:
        if above in seen:
            return False
        found = found or above in group
        seen.add(above)
        above = parents.get(above)
    return found


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

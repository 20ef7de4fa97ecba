"""Who a model call is counted for, when more than one session recorded it: the one rule, for the ledger and for live reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

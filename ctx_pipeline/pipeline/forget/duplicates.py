"""Which other sessions hold what is forgotten: forks, copies under the same ids, and copies in which every id is another one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctx_pipeline.storage.lake.queries import same_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ctx_pipeline.storage import Store

    Name = tuple[str, str]


def copies_of(store: Store, rows: Mapping[Name, Any], chosen: Collection[Name]) -> set[Name]:
    """Return the sessions that hold a part of the chosen ones: what has the same calls, lines or texts, and declared forks of all these."""
    if not chosen:
        return set()
    forks: dict[Name, list[Name]] = {}
    for (host, session), row in rows.items():
        if row.parent_session:
            forks.setdefault((host, row.parent_session), []).append((host, session))
    by_host: dict[str, set[str]] = {}
    for host, session in chosen:
        by_host.setdefault(host, set()).add(session)
    seen = {*chosen, *((host, one) for host, ids in by_host.items() for one in store.ledger.sharing(host, ids))}
    with closing(store.lake.connect()) as connection:
        seen |= same_texts(connection, store.lake.relation_sql("events"), chosen)
    waiting = list(seen)
    while waiting:
        for fork in forks.get(waiting.pop(), ()):
            if fork not in seen:
                seen.add(fork)
                waiting.append(fork)
    return seen.difference(chosen)

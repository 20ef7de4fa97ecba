"""Output tokens that records lack, estimated from the text; a figure of its own beside the recorded totals."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.store_marker import begun
from ctx_pipeline.storage.warehouse.usage_sql import MISSING_OUTPUT_SQL, PLACED_CALLS_SQL
from ctx_pipeline.usage.homes.live_usage import Counted

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.rollup import Filters


class MissingOutput(NamedTuple):
    """Tokens that were estimated, in how many calls, of how many sessions that were measured; recorded totals hold none of them."""

    tokens: int
    calls: int
    sessions_measured: int
    estimate: bool = True


def missing_of_calls(settings: Settings, *, sessions: Collection[str] | None = None) -> tuple[dict[tuple[str, str, str], int], int]:
    """Return (host, session, call key) -> tokens that its record lacks, and how many sessions were measured; none without a store.

    With ``sessions`` all others may be lacking.
    """
    if not begun(settings.home):
        return {}, 0

    with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection, ("readings",), sessions=sessions)
        rows = connection.execute(MISSING_OUTPUT_SQL).fetchall()
    found = {}
    for host, session, metadata in rows:
        for key, tokens in json.loads(metadata or "{}").get("calls", {}).items():
            found[host, session, key] = int(tokens)
    return found, len(rows)


def missing_output(settings: Settings, filters: Filters) -> MissingOutput | None:
    """Return what the records of the selected calls lack; None where no session was measured yet."""
    missing, measured = missing_of_calls(settings)
    if not measured:
        return None
    keep = filters.keeps()
    if keep is None:
        return MissingOutput(sum(missing.values()), len(missing), measured)

    with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        rows = connection.execute(PLACED_CALLS_SQL, [sorted({key for *_, key in missing})]).fetchall()
    kept = [
        missing[host, session, key]
        for host, session, key, ts, model, project, repository, branch in rows
        if (host, session, key) in missing
        and keep(Counted(host, session, project, None, [], repository=repository, branch=branch), model, ts)
    ]
    return MissingOutput(sum(kept), len(kept), measured)

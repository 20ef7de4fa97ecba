"""Model calls of unchanged sessions go from the old part to the new one without becoming Python rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import ContractError
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.storage.lake.columns import arrow_table, columns_of, of_used_values, rows_of, runs_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake import Manifest, Part


def parted(store: Store, old: Manifest, kept: Collection[str], as_they_are: Collection[str]) -> tuple[pa.Table | None, list[Any]]:
    """Return the calls of sessions that stay as they are, and the rows of the other kept ones.

    A session with a copy is never left as it is: its call may have lost its other holder.
    """
    import pyarrow as pa

    tables = [store.lake.read_arrow(part) for part in old.of_table("model_calls")]
    if not tables:
        return None, []
    calls = pa.concat_tables(tables)
    owners = calls.column("owner").to_pylist()
    runs = list(runs_of(calls.column("session_id")))
    copied = {session for session, first, end in runs if not all(owners[first:end])}
    same = set(as_they_are) - copied
    # slices, since a filter imports pyarrow.compute, which takes a tenth of a sync
    stay = [calls.slice(first, end - first) for session, first, end in runs if session in same]
    others = [calls.slice(first, end - first) for session, first, end in runs if session in kept and session not in same]
    return _joined(calls, stay), list(rows_of(MODEL_CALLS, _joined(calls, others)))


def _joined(calls: pa.Table, pieces: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(pieces) if pieces else calls.slice(0, 0)


def written(store: Store, cell: Cell, same: pa.Table, rows: Sequence[tuple]) -> Part | ContractError:
    """Write the calls that stay and the rows as one part; return why not when a row breaks the table."""
    import pyarrow as pa

    try:
        fresh = arrow_table(MODEL_CALLS, columns_of(MODEL_CALLS, rows))
        return store.lake.write_part("normalized", cell, "model_calls", of_used_values(pa.concat_tables([same, fresh])))
    except ContractError as error:
        return error

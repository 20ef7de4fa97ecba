"""Model calls of unchanged sessions go from the old part to the new one without becoming Python rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import ContractError
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.storage.lake.columns import arrow_table, columns_of, rows_of

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
    import pyarrow.compute as pc

    tables = [store.lake.read_arrow(part) for part in old.of_table("model_calls")]
    if not tables:
        return None, []
    calls = pa.concat_tables(tables)
    sessions = calls.column("session_id").cast(pa.string())
    copied = set(sessions.filter(pc.invert(calls.column("owner"))).unique().to_pylist())
    same = pc.is_in(sessions, value_set=pa.array(sorted(set(as_they_are) - copied), pa.string()))
    mine = pc.is_in(sessions, value_set=pa.array(sorted(kept), pa.string()))
    others = calls.filter(pc.and_(mine, pc.invert(same)))
    return calls.filter(same), list(rows_of(MODEL_CALLS, others))


def written(store: Store, cell: Cell, same: pa.Table, rows: Sequence[tuple]) -> Part | ContractError:
    """Write the calls that stay and the rows as one part; return why not when a row breaks the table."""
    import pyarrow as pa

    try:
        fresh = arrow_table(MODEL_CALLS, columns_of(MODEL_CALLS, rows))
        return store.lake.write_part("normalized", cell, "model_calls", pa.concat_tables([same, fresh]).unify_dictionaries())
    except ContractError as error:
        return error

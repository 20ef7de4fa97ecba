"""Rows of a member's table that are what they say; everything else is refused and noted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.tables import MEMORIES, SESSIONS, TABLES
from ctx_pipeline.storage.lake.columns import SQL_TYPES
from ctx_pipeline.team.published_tables import LESSONS, PLACE

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 5_000_000
"""Rows of one table, member and month; more is refused and named by ``ctx hub refresh``."""

MOST_SESSIONS = 200_000
"""The same of sessions, which are measured one by one: a million of them took more than 6 GB and four minutes."""

_MOST_FIGURE = 1 << 53
"""Largest integer of a row that is exact in every reader."""

_LATEST = 7_258_118_400_000_000
"""The year 2200 in microseconds since 1970."""


def checked(name: str, member: str, month: str, rows: pa.Table, problems: list[str]) -> pa.Table | None:
    """Return the rows of a member's table that are what they say, with the columns that are known; None where none can be used.

    A row of another member or with figures that would make any sum of them meaningless, a table of other types or without its key,
    or one too large is refused and noted.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {c.name: c for c in (*PLACE, *(MEMORIES.columns if name == LESSONS else TABLES[name].columns))}
    place = f"{member}|{month} {name}"
    most = MOST_SESSIONS if name == SESSIONS.name else MOST_ROWS
    if rows.num_rows > most:
        problems.append(f"{place}: {rows.num_rows:,} rows are more than {most:,}")
        return None
    keys = {"member", "machine", "month", *(("memory_id",) if name == LESSONS else TABLES[name].key)}
    if missing := sorted(keys - set(rows.column_names)):
        problems.append(f"{place}: no column {', '.join(missing)}")
        return None
    kept = {}
    for column in rows.column_names:
        if column in columns:
            try:
                kept[column] = rows.column(column).cast(_arrow_type(columns[column].type))
            except pa.ArrowException:
                problems.append(f"{place}: {column} is no {SQL_TYPES[columns[column].type]}")
                return None
    found = pa.table(kept)
    own = pc.and_(pc.equal(found["member"], member), pc.equal(found["month"], month))
    for key in keys:
        own = pc.and_(own, pc.is_valid(found[key]))
    for column in found.column_names:
        # a null is no value of any range, and is none here
        own = pc.and_(own, pc.fill_null(_in_range(name, found[column]), True))
    own = pc.fill_null(own, False)
    refused = found.num_rows - (pc.sum(own).as_py() or 0)
    if refused:
        problems.append(f"{place}: {refused:,} rows without a key, of another member or month, or with figures or times that cannot be")
        found = found.filter(own)
    return found


def _in_range(name: str, values: pa.ChunkedArray) -> Any:
    """Return which values a machine could send: tokens and costs from zero on, figures that sums can hold, times of this age."""
    import pyarrow as pa
    import pyarrow.compute as pc

    least, most = (0, _LATEST) if pa.types.is_timestamp(values.type) else (0 if name == "model_calls" else -_MOST_FIGURE, _MOST_FIGURE)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif not pa.types.is_integer(values.type):
        return pa.scalar(True)
    return pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "list": pa.list_(pa.string())}
    return kinds.get(kind) or pa.timestamp("us")

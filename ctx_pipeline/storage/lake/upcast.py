"""Parts of an earlier version of a table, read as the newest: a column that came later holds what is declared for the rows before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.storage.lake.columns import SQL_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ctx_pipeline.model.tables import Column, Table


def newest(table: Table, arrow: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return what was read of a part with all the named columns of its table, in the order of the table."""
    present = set(arrow.column_names)
    if present.issuperset(names):
        return arrow
    import pyarrow as pa

    from ctx_pipeline.storage.lake.columns import arrow_array

    found = {name: arrow.column(name) for name in arrow.column_names}
    for column in table.columns:
        if column.name in names and column.name not in present:
            found[column.name] = arrow_array(table, column, [column.before] * arrow.num_rows)
    return pa.table({column.name: found[column.name] for column in table.columns if column.name in found})


def selected(table: Table, version: int) -> str:
    """Return the columns of the newest version as SQL over a part of some version."""
    return ", ".join(f'"{c.name}"' if c.since <= version else f'{_literal(c)} AS "{c.name}"' for c in table.columns)


def _literal(column: Column) -> str:
    value = column.before
    if isinstance(value, bool):
        said = str(value).upper()
    elif isinstance(value, str):
        said = "'" + value.replace("'", "''") + "'"
    elif isinstance(value, tuple):
        said = "[]"
    else:
        said = "NULL" if value is None else repr(value)
    return f"{said}::{SQL_TYPES[column.type]}"

"""Between rows of a table and Arrow columns: typed, with a dictionary where values repeat."""

from __future__ import annotations

import sys
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from ctx_pipeline.model.tables import Column, Table


SQL_TYPES = {"str": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "time": "TIMESTAMP", "list": "VARCHAR[]"}
"""Type of a column in DuckDB."""


def columns_of(table: Table, rows: Sequence[tuple]) -> list[Sequence[Any]]:
    """Return rows as one sequence a column."""
    return list(zip(*rows, strict=True)) if rows else [() for _ in table.columns]


def arrow_table(table: Table, columns: Sequence[Sequence[Any]]) -> pa.Table:
    """Return an Arrow table of columns in the order of the table.

    Lone surrogates become ``?``. Raises ContractError for a value of a wrong type and
    for a null in a column that has none.
    """
    import pyarrow as pa

    if len(columns) != len(table.columns):
        raise ContractError(f"{table.name}: {len(columns)} columns where {len(table.columns)} are declared", table=table.name)
    return pa.table([arrow_array(table, column, values) for column, values in zip(table.columns, columns, strict=True)], names=table.names)


def arrow_array(table: Table, column: Column, values: Sequence[Any]) -> pa.Array:
    """Return one column as Arrow; errors are those of :func:`arrow_table`."""
    import pyarrow as pa

    kind = _arrow_type(column.type)
    if column.repeated and column.type == "str":
        # made of the values at once: encoding an array afterwards imports pyarrow.compute, a tenth of a sync
        kind = pa.dictionary(pa.int32(), kind)
    try:
        try:
            array = pa.array(values, kind)
        except UnicodeEncodeError:
            values = [_encodable(v) for v in values]
            array = pa.array(values, kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ContractError(
            f"{table.name}.{column.name} holds a value that is no {column.type}", table=table.name, column=column.name
        ) from error
    if array.null_count and not column.nullable:
        raise ContractError(f"{table.name}.{column.name} holds a null", table=table.name, column=column.name)
    if column.type == "time":
        return array.view(pa.timestamp("us"))
    return array


def plain(table: Table, arrow: pa.Table) -> pa.Table:
    """Return rows of a part with no dictionary but where the table has one now: an earlier version may have written another."""
    import pyarrow as pa

    for place, column in enumerate(table.columns):
        if not column.repeated and isinstance(arrow.schema.field(place).type, pa.DictionaryType):
            arrow = arrow.set_column(place, column.name, arrow.column(place).cast(pa.string()))
    return arrow


def of_used_values(arrow: pa.Table) -> pa.Table:
    """Return rows whose dictionaries hold the values of these rows alone: a slice or a filter keeps those of the rows that went."""
    import pyarrow as pa

    arrow = arrow.combine_chunks().unify_dictionaries()
    for place, field in enumerate(arrow.schema):
        if isinstance(field.type, pa.DictionaryType) and any(map(_has_unused, arrow.column(place).chunks)):
            # by way of Python: pyarrow.compute takes a tenth of a sync to import
            arrow = arrow.set_column(place, field.name, pa.array(arrow.column(place).to_pylist(), field.type))
    return arrow


def _has_unused(chunk: pa.DictionaryArray) -> bool:
    import pyarrow as pa

    known = len(chunk.dictionary)
    if chunk.null_count or chunk.indices.type != pa.int32():
        return len(set(chunk.indices.to_pylist()) - {None}) < known
    return len(set(_numbers(chunk.indices))) < known


def _numbers(indices: pa.Int32Array) -> Sequence[int]:
    """Return the numbers of an array without nulls, not copied."""
    if not len(indices):
        return ()
    return memoryview(indices.buffers()[1]).cast("B").cast("i")[indices.offset : indices.offset + len(indices)]


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    types = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "time": pa.int64()}
    return types[kind] if kind in types else pa.list_(pa.string())


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return [_encodable(v) for v in value] if isinstance(value, list | tuple) else value


def rows_of(table: Table, arrow: pa.Table) -> Iterator[Any]:
    """Yield named tuples of the table; columns that ``arrow`` lacks are None in them."""
    present = set(arrow.column_names)
    columns: list[Iterable[Any]] = [
        values_of(column, arrow.column(column.name)) if column.name in present else repeat(None, arrow.num_rows) for column in table.columns
    ]
    return map(table.row._make, zip(*columns, strict=True))


_FEW = 64
"""Up to so many values numpy is not worth its import: a search reads a handful of rows."""


def values_of(column: Column, data: pa.ChunkedArray) -> list[Any]:
    """Return the Python values of one column; times as microseconds."""
    import pyarrow as pa

    if not len(data):
        return []
    array = data.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if len(array) <= _FEW:
        return _without_numpy(column, array)
    if "numpy" in sys.modules and sys.modules["numpy"] is None:
        return _without_numpy(column, array)
    import numpy as np

    if isinstance(array, pa.DictionaryArray):
        known = np.array([*array.dictionary.to_pylist(), None], dtype=object)
        indices = array.indices
        places = (indices.fill_null(len(known) - 1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
        return known[places].tolist()  # type: ignore[no-any-return]
    if column.type == "list":
        return _lists(array)
    if column.type == "time":
        array = array.view(pa.int64())
    if column.type == "str" or not array.null_count:
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def _without_numpy(column: Column, array: pa.Array) -> list[Any]:
    import pyarrow as pa

    if isinstance(array, pa.DictionaryArray):  # as a whole it makes a scalar of each value
        known = array.dictionary.to_pylist()
        return [None if place is None else known[place] for place in array.indices.to_pylist()]
    if column.type == "time":
        array = array.view(pa.int64())
    return [v or [] for v in array.to_pylist()] if column.type == "list" else array.to_pylist()


def runs_of(data: pa.ChunkedArray) -> Iterator[tuple[Any, int, int]]:
    """Yield each run of equal values in a column: the value, its first row, the row after its last."""
    import pyarrow as pa

    row = 0
    for chunk in data.chunks:
        values: Iterable[Any]
        if isinstance(chunk, pa.DictionaryArray) and chunk.indices.type == pa.int32() and not chunk.null_count:
            known = chunk.dictionary.to_pylist()
            values = _numbers(chunk.indices)
        else:
            known, values = None, chunk.to_pylist()
        for value, members in groupby(values):
            first, row = row, row + sum(1 for _ in members)
            yield value if known is None else known[value], first, row


def _lists(array: pa.ListArray) -> list[list[str]]:
    flat = array.flatten().to_pylist()
    ends = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).cumsum().tolist()
    lists = []
    start = 0
    for end in ends:
        lists.append(flat[start:end])
        start = end
    return lists


# Parts of an earlier version of a table, read as the newest: a column that came later holds what is declared for the
# rows before it.


def newest(table: Table, arrow: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return what was read of a part with all the named columns of its table, in the order of the table."""
    present = set(arrow.column_names)
    if present.issuperset(names):
        return arrow
    import pyarrow as pa

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

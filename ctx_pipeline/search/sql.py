"""A person's own SQL over the tables."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


def query(text: str, *, settings: Settings | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the column names and rows of one SELECT over the tables.

    The connection is in memory and sees the lake's live rows only; it can neither write
    nor read another file. Raises UsageError with the nearest names for a query that is
    no single SELECT or that fails.
    """
    import duckdb

    with reading(settings) as (store, _):
        connection = store.lake.connect()
        try:
            store.lake.views(connection)
            statements = _statements(connection, text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("only one SELECT at a time", hint='ctx sql "select host, count(*) from sessions group by 1"')
            cursor = connection.execute(text)
            return [d[0] for d in cursor.description], cursor.fetchall()
        except duckdb.Error as error:
            raise _in_plain_words(str(error), connection) from error
        finally:
            connection.close()


_COLUMN = re.compile(r'Referenced column "([^"]+)"(?: \w+)* not found')
_TABLE = re.compile(r"Table with name (\S+) does not exist")
_SYNTAX = re.compile(r'syntax error at (?:or near "([^"]*)"|end of input)')
_FUNCTION = re.compile(r"Function with name (\S+) does not exist")


def _in_plain_words(said: str, connection: Any) -> UsageError:
    """Return what is wrong with a query, and the nearest tables or columns; of another error the database's first line."""
    tables = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()]
    if found := _TABLE.search(said):
        near = get_close_matches(found[1], tables, n=3, cutoff=0.5)
        return UsageError(
            f"there is no table {found[1]!r}", hint=f"{'did you mean' if near else 'the tables are'} {', '.join(near or tables)}"
        )
    if found := _COLUMN.search(said):
        sql = "SELECT DISTINCT column_name FROM information_schema.columns ORDER BY 1"
        near = get_close_matches(found[1], [row[0] for row in connection.execute(sql).fetchall()], n=3, cutoff=0.5)
        listed = 'ctx sql "describe TABLE" lists the columns of a table'
        return UsageError(
            f"there is no column {found[1]!r} in these tables", hint=f"did you mean {', '.join(near)}? {listed}" if near else listed
        )
    if found := _SYNTAX.search(said):
        where = f"near {found[1]!r}" if found[1] else "at its end"
        return UsageError(f"this is not SQL {where}", hint='write it as: ctx sql "select host, count(*) from sessions group by 1"')
    if found := _FUNCTION.search(said):
        return UsageError(f"there is no function {found[1]!r}", hint="the functions are DuckDB's")
    first = next(iter(said.splitlines()), "").partition(" Error: ")
    return UsageError(f"the query failed: {first[2] or first[0]}", hint=f"the tables are {', '.join(tables)}")


def _statements(connection: Any, text: str) -> list[Any]:
    return list(connection.extract_statements(text))

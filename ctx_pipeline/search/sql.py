"""A person's own SQL over the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


def query(text: str, *, settings: Settings | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the column names and rows of one SELECT over the tables.

    The connection is in memory and sees the lake's live rows only; it can neither write
    nor read another file. Raises UsageError with DuckDB's own message for a query that
    is no single SELECT or that fails.
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
            raise UsageError(str(error), hint="the tables: docs/reference/tables.md") from error
        finally:
            connection.close()


def _statements(connection: Any, text: str) -> list[Any]:
    return list(connection.extract_statements(text))

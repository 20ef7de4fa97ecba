"""Signals written as SQL: one query over the tables of a cell, one answer a session."""

from __future__ import annotations

from contextlib import closing
from threading import Timer
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage.lake import Lake

SECONDS = 60.0
"""A query that takes longer is ended."""

_COLUMNS = frozenset({"session_id", "value", "evidence", "confidence", "reason"})


def readings_of(lake: Lake, cell: Cell, sql: str, tables: Collection[str], *, seconds: float = SECONDS) -> dict[str, dict[str, Any]]:
    """Return session id -> row (value, and evidence, confidence, reason where given) of a signal's query.

    The query sees the live rows of these tables in one cell and nothing else: no file,
    no network, no extension. Raises ContractError for a query that fails, takes longer
    than ``seconds``, gives other columns, or has two rows for one session.
    """
    import duckdb

    with closing(lake.connect()) as connection:
        for table in tables:
            connection.execute(f'CREATE TEMP VIEW "{table}" AS {lake.relation_sql(table, [cell])}')
        stop = Timer(seconds, connection.interrupt)
        stop.daemon = True
        stop.start()
        try:
            if len(statements := connection.extract_statements(sql)) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ContractError("a signal is one SELECT", hint="leave out everything else, and what follows a semicolon")
            cursor = connection.execute(f"SELECT * FROM (\n{sql.strip().rstrip(';')}\n) AS answer")
            names = [str(column[0]) for column in cursor.description or ()]
            rows = cursor.fetchall()
        except duckdb.Error as error:
            raise ContractError(
                f"the query failed: {type(error).__name__}", hint=f"run it with: ctx sql. {str(error).splitlines()[0][:200]}"
            ) from error
        finally:
            stop.cancel()
    if not {"session_id", "value"} <= set(names) or not set(names) <= _COLUMNS:
        raise ContractError(
            f"the query gives the columns {', '.join(names)}",
            hint="give session_id and value, and only evidence, confidence and reason beside",
        )
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        answer = dict(zip(names, row, strict=True))
        session = str(answer.pop("session_id"))
        if session in found:
            raise ContractError("the query gives two rows for one session", hint="group by session_id")
        found[session] = answer
    return found

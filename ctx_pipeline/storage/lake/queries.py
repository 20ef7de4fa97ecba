"""SQL over exactly the live rows of the manifests' parts."""

from __future__ import annotations

import os
import re
from contextlib import closing, contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import ContractError, StoreDamaged
from ctx_pipeline.storage import connections, temporary
from ctx_pipeline.storage.connections import quoted
from ctx_pipeline.storage.lake.columns import SQL_TYPES, selected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path
    from typing import Self

    import duckdb

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.storage.lake import Lake
    from ctx_pipeline.storage.lake.manifests import Part


def relation(table: Table, parts: Iterable[tuple[str, Part]], *, more: Collection[str] = ()) -> str:
    """Return a DuckDB SELECT over the live rows of (absolute path, part), typed even when there is none.

    ``more`` are columns behind those of the table that DuckDB gives the rows of a file, such as its path as ``filename``.
    """
    whole: dict[str, list[str]] = {}
    selects = []
    for path, part in parts:
        names = ", ".join((selected(table, part.version), *more))
        if not part.dead:
            whole.setdefault(names, []).append(quoted(path))
            continue
        dead = ", ".join(quoted(s) for s in part.dead)
        selects.append(f"SELECT {names} FROM read_parquet({quoted(path)}, hive_partitioning = false) WHERE session_id NOT IN ({dead})")
    selects[:0] = [f"SELECT {names} FROM read_parquet([{', '.join(paths)}], hive_partitioning = false)" for names, paths in whole.items()]
    if not selects:
        typed = ", ".join(f'NULL::{SQL_TYPES[c.type]} AS "{c.name}"' for c in table.columns)
        return f"SELECT {typed} WHERE false"
    return " UNION ALL ".join(selects)


_REFUSED = "cannot be trusted: "


def refusal(table: Table, error: StoreDamaged) -> str:
    """Return a SELECT with the columns of a table that fails with the error's message as soon as it is asked for anything."""
    said = f"error({quoted(f'the table {table.name} {_REFUSED}{error.message}')})"
    typed = ", ".join(f'CAST({said} AS {SQL_TYPES[c.type]}) AS "{c.name}"' for c in table.columns)
    return f"SELECT {typed} FROM range(1) WHERE {said} IS NULL"


class LakeConnection:
    """A DuckDB connection that raises StoreDamaged where a file of the lake cannot be read; all else is DuckDB's own."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def execute(self, *asked: Any) -> LakeConnection:
        """Run a query and return what its rows are fetched from."""
        with _translated():
            return LakeConnection(self._connection.execute(*asked))

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        with _translated():
            return self._connection.fetchall()

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""
        with _translated():
            return self._connection.fetchone()

    def __enter__(self) -> Self:
        """Return the connection itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self._connection.close()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of DuckDB's connection."""
        return getattr(self._connection, name)


@contextmanager
def _translated() -> Iterator[None]:
    import duckdb

    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:
        # a message that quotes bytes of a damaged file is itself no text
        text = "" if isinstance(error, UnicodeDecodeError) else str(error)
        hint = "it is made again from raw by: ctx run"
        if _REFUSED in text:
            table, _, what = text.partition(_REFUSED)
            raise StoreDamaged(f"{table[table.index('the table') :]}{_REFUSED}{what.splitlines()[0]}", hint=hint) from error
        if not text or (
            ".parquet" in text and isinstance(error, duckdb.IOException | duckdb.InvalidInputException | duckdb.InternalException)
        ):
            named = re.search(r"part-[0-9a-f]{24}\.parquet", text)
            raise StoreDamaged(f"{named[0] if named else 'a part of the lake'} cannot be read", hint=hint) from error
        raise


class SharedDatabase:
    """The database in memory that a process which answers for long keeps open: a connection to the lake of its store begins at once.

    What connections make in it is temporary, so that none sees what another made.
    """

    def __init__(self) -> None:
        self.kept_by: int | None = None
        """process that keeps it; a child of that one does not"""
        self._lock = Lock()
        self._open: tuple[Path, duckdb.DuckDBPyConnection] | None = None

    def keep(self) -> None:
        """Keep it open from the next connection on, as long as this process lives."""
        self.kept_by = os.getpid()

    def connect(self, home: Path) -> duckdb.DuckDBPyConnection:
        """Return a connection that reads the lake's files only and loads no extension."""
        if self.kept_by != os.getpid():
            return _database(home)
        with self._lock:
            if self._open is None or self._open[0] != home:
                self._open = home, _database(home)
            return self._open[1].cursor()


def _database(home: Path) -> duckdb.DuckDBPyConnection:
    return connections.connect(":memory:", reads=home / "lake", scratch=home / temporary.shared_name(), memory="400MB")


shared_database = SharedDatabase()


def connect(home: Path) -> LakeConnection:
    """Return a connection in memory that reads the lake's files only and loads no extension."""
    return LakeConnection(shared_database.connect(home))


# Sessions that say the same, whatever their ids are.


_LEAST_SAID = 12
"""Characters; a shorter text ("go on") may be anybody's, even at the same moment."""
_LEAST_WRITTEN = 40
"""Characters of an answer or a thought from which it is compared without its time."""
_LONG = 200
"""Characters that no model writes twice: questions that are asked again get answers that begin alike."""

_SAME_TEXTS = f"""
WITH said AS (
    SELECT DISTINCT host, session_id, ts, text, kind <> 'prompt' AND length(text) >= {_LEAST_WRITTEN} AS written
    FROM ({{events}}) WHERE kind IN ('prompt', 'answer', 'reasoning') AND length(text) >= {_LEAST_SAID}
), own AS (SELECT * FROM said SEMI JOIN (SELECT unnest(?) AS host, unnest(?) AS session_id) USING (host, session_id)),
other AS (SELECT * FROM said ANTI JOIN (SELECT DISTINCT host, session_id FROM own) USING (host, session_id)),
texts AS (SELECT DISTINCT host, session_id, text FROM said WHERE written),
sizes AS (SELECT host, session_id, sum(length(text)) AS size FROM texts GROUP BY ALL),
pairs AS (
    SELECT o.host, o.session_id, least(any_value(p.size), any_value(s.size)) AS least,
        max(length(o.text)) AS longest, sum(length(o.text)) AS same
    FROM (SELECT DISTINCT host, session_id, text FROM other WHERE written) o
    JOIN (SELECT DISTINCT host, session_id, text FROM own WHERE written) w USING (text)
    JOIN sizes p ON p.host = o.host AND p.session_id = o.session_id
    JOIN sizes s ON s.host = w.host AND s.session_id = w.session_id
    GROUP BY o.host, o.session_id, w.host, w.session_id
)
SELECT DISTINCT o.host, o.session_id FROM other o JOIN own w USING (ts, text)
UNION SELECT host, session_id FROM pairs WHERE longest >= {_LONG} OR same * 2 >= least
"""


def same_texts(connection: LakeConnection, events: str, chosen: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the other sessions that hold texts of the chosen ones: one of the same moment, a long one, or half of what either wrote.

    Only what was typed and what a model wrote is compared: a file that both read makes no copy.
    """
    hosts, ids = zip(*sorted(chosen), strict=True)
    return set(connection.execute(_SAME_TEXTS.format(events=events), [list(hosts), list(ids)]).fetchall())


# Signals written as SQL: one query over the tables of a cell, one answer a session.


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

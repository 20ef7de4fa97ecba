"""SQL over exactly the live rows of the manifests' parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.lake.columns import SQL_TYPES
from ctx_pipeline.storage.lake.upcast import selected

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import duckdb

    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.storage.lake.manifests import Part


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def relation(table: Table, parts: Iterable[tuple[str, Part]]) -> str:
    """Return a DuckDB SELECT over the live rows of (absolute path, part), typed even when there is none."""
    whole: dict[str, list[str]] = {}
    selects = []
    for path, part in parts:
        names = selected(table, part.version)
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


def connect(home: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection in memory that reads the lake's files only and loads no extension."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": 2, "memory_limit": "400MB"})
    for setting in (
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        f"temp_directory = {quoted(str(home / temporary.shared_name()))}",
        f"allowed_directories = [{quoted(str(home / 'lake') + '/')}]",
        "enable_external_access = false",
    ):
        connection.execute(f"SET {setting}")
    return connection

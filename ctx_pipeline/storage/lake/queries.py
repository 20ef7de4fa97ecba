"""SQL over exactly the live rows of the manifests' parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.storage import duckdb_connection
from ctx_pipeline.storage.duckdb_connection import quoted
from ctx_pipeline.storage.lake.columns import SQL_TYPES
from ctx_pipeline.storage.lake.upcast import selected

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import duckdb

    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.storage.lake.manifests import Part


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
    return duckdb_connection.connect(":memory:", reads=home / "lake", scratch=home / "tmp" / "duckdb", memory="400MB")

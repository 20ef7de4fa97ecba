"""Rows of the lake's tables written as Parquet files, with only the columns that a test cares about."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ctx_pipeline.model.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

_ARROW = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "list": pa.list_(pa.string()),
}
_EMPTY: dict[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False, "time": None, "list": []}


def at(text: str) -> datetime:
    """Return the naive UTC time of ``2026-03-01 12:00``."""
    return datetime.fromisoformat(text)


def relations(folder: Path, **tables: list[dict[str, Any]]) -> dict[str, str]:
    """Write the rows and return the relation of every table, empty where no rows are given."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, table in TABLES.items():
        schema = pa.schema([(c.name, _ARROW[c.type]) for c in table.columns])
        rows = [
            {c.name: row.get(c.name, None if c.nullable else _EMPTY[c.type]) for c in table.columns} | row for row in tables.get(name, [])
        ]
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        found[name] = f"SELECT * FROM read_parquet('{path}')"
    return found


def call(  # noqa: PLR0917 - a call is written on one line of a test
    session: str, key: str, ts: str | None, model: str, tokens: tuple[int, ...], cost: int | None, **more: Any
) -> dict[str, Any]:
    """Return a model call that owns its usage; tokens are input, output, cache write 5m and 1h, cache read, reasoning."""
    names = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning")
    return {
        "host": "claude",
        "session_id": session,
        "thread_id": session,
        "call_key": key,
        "ts": at(ts) if ts else None,
        "model": model,
        **dict(zip(names, tokens, strict=True)),
        "context_tokens": tokens[0] + tokens[2] + tokens[3] + tokens[4],
        "cost": cost,
        "owner": True,
        "rule": "only",
        **more,
    }


def session(session_id: str, first: str | None, **more: Any) -> dict[str, Any]:
    """Return a session of one hour."""
    start = at(first) if first else None
    return {
        "host": "claude",
        "session_id": session_id,
        "month": first[:7] if first else "2025-01",
        "project": "shop",
        "first_ts": start,
        "last_ts": start + timedelta(hours=1) if start else None,
        "status": "completed",
        "title_source": "prompt",
        "threads": 1,
        "content_hash": f"hash-of-{session_id}",
        **more,
    }

"""Numbers of writers in the log of a Delta table, all at once: from its last checkpoint, and the entries after it.

delta-rs reads the whole log again for each writer that is asked for; what is known as of a version needs only the entries since.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.team_tables.bucket import at_once, json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.storage.team_tables.bucket import Bucket


class Numbers(NamedTuple):
    """Writer -> number of its last commit, as of a version of the table."""

    version: int
    of: Mapping[str, int]


def numbers_at(bucket: Bucket, path: str, version: int, known: Numbers | None = None) -> Numbers | None:
    """Return the numbers of all writers as of a version; None where the log is not as delta-rs writes it.

    ``known`` are those of an earlier version: where the entries since are there, nothing else is read.
    """
    if known is not None and known.version <= version and (found := _since(bucket, path, known, version)) is not None:
        return found
    start = _checkpoint(bucket, path)
    return _since(bucket, path, start, version) if start is not None and start.version <= version else None


def _since(bucket: Bucket, path: str, known: Numbers, version: int) -> Numbers | None:
    """Return the numbers after the entries that follow a version; None where one is not there or cannot be read."""
    numbers = dict(known.of)
    entries = range(known.version + 1, version + 1)
    for body in at_once(lambda number: bucket.read(f"{path}/_delta_log/{number:020}.json"), entries):
        if body is None:
            return None
        try:
            actions = [json.loads(line) for line in body.splitlines() if b'"txn"' in line]
            numbers |= {str(one["txn"]["appId"]): int(one["txn"]["version"]) for one in actions if "txn" in one}
        except (ValueError, KeyError, TypeError):
            return None
    return Numbers(version, numbers)


def _checkpoint(bucket: Bucket, path: str) -> Numbers | None:
    """Return the numbers of the last checkpoint; those before the first entry where there is none, None where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    said = bucket.read(f"{path}/_delta_log/_last_checkpoint")
    if said is None:
        return Numbers(-1, {})
    told = json_object(said)
    version = told.get("version")
    if not isinstance(version, int) or told.get("parts"):
        return None
    body = bucket.read(f"{path}/_delta_log/{version:020}.checkpoint.parquet")
    if body is None:
        return None
    try:
        file = pq.ParquetFile(io.BytesIO(body))
        if "txn" not in file.schema_arrow.names:
            return None
        rows = file.read(columns=["txn"]).column("txn").drop_null().to_pylist()
        return Numbers(version, {str(row["appId"]): int(row["version"]) for row in rows if row["appId"] is not None})
    except (pa.ArrowException, KeyError, TypeError, ValueError):
        return None

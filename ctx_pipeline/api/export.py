"""The tables as plain files that other programs read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline.api.reader import reading
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.tables import TABLES

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


def parquet(folder: Path | str, *, settings: Settings | None = None) -> dict[str, int]:
    """Write the live rows of every table to ``folder/<table>.parquet`` and return table -> rows.

    Files are replaced whole (0600); a table without rows is not written. Raises
    StoreError when the folder lies in the store or cannot be written.
    """
    import pyarrow.parquet as pq

    target = Path(folder).absolute()
    counts: dict[str, int] = {}
    with reading(settings) as (store, chosen):
        if target.resolve().is_relative_to(chosen.home.resolve()):
            raise StoreError(f"{target} lies in the store", hint="name a folder outside it", path=str(target))
        try:
            target.mkdir(parents=True, exist_ok=True, mode=0o700)
            for table in TABLES:
                counts[table] = 0
                writer = None
                path = target / f"{table}.parquet"
                partial = target / f".{table}.parquet.{os.getpid()}"
                for part in store.lake.parts(table):
                    rows = store.lake.read_arrow(part)
                    if writer is None:
                        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
                        writer = pq.ParquetWriter(partial, rows.schema, compression="zstd")
                    writer.write_table(rows.cast(writer.schema))
                    counts[table] += rows.num_rows
                if writer is not None:
                    writer.close()
                    partial.replace(path)
        except OSError as error:
            raise StoreError(
                f"{target} cannot be written: {error.strerror or error}", hint="name another folder", path=str(target)
            ) from error
    return counts

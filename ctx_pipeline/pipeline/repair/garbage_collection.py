"""Removes the parts of the lake that nothing names any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreDamaged, StoreLocked

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store

WAREHOUSE = "warehouse/duckdb"


def collect_garbage(store: Store, cells: Collection[Cell]) -> int:
    """Remove the unnamed parts of some cells and return how many; none while the warehouse is being built.

    The views of the warehouse name parts by their paths: what is older than its file stays until it is built anew.
    """
    try:
        built = store.warehouse_path.stat().st_mtime
    except FileNotFoundError:
        built = 0.0
    try:
        with store.ledger.lease(WAREHOUSE, wait=0):
            return store.lake.collect_garbage(cells, since=built)
    except (StoreLocked, StoreDamaged):
        # what a manifest names that cannot be read is not known to be unnamed
        return 0

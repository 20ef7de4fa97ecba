"""What the ledger calls made and the disk does not have, or not as it says: derived data may be deleted or put back at any time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreDamaged, StoreError, StoreLocked
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage import store_marker
from ctx_pipeline.storage.files import Made
from ctx_pipeline.storage.lake.manifests import manifest_path
from ctx_pipeline.storage.warehouse import database

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.ledger.rows import AssetCell


FILES = {
    "search/index": "search.db",
    "memory/used": "uses.json",
    "memory/index": "memory.db",
    "memory/effect": "effect.json",
    "warehouse/duckdb": "serving/ctx.duckdb",
    "dashboard/site": "site/index.html",
}
"""asset -> the file without which it is gone"""

BESIDE = {
    "memory/consolidated": ["cases.db", "memory_checks.json", "combined_candidates.json"],
    "warehouse/duckdb": ["serving/made.json", "signals/summary.md", "signals/aggregates.json"],
}
"""asset -> the files that it makes beside its table or file"""

PAGE_NOTE = "made.json"
"""File of the page's folder that says of what the page was made."""

_RAW = "raw/segments"
SEARCH = "search.db"


def reconcile_missing_outputs(store: Store) -> list[tuple[str, Cell]]:
    """Forget the records of assets whose file or manifest is gone, or is not the recorded one, so that they are made again; return them.

    What is made of the whole store says itself of which input it was made: a crash, or a
    file from a backup, may leave another one than the ledger knows.

    Sessions of a cell without tables are decoded from raw again. Raw objects are not
    looked at: they cannot be made again, and ``ctx doctor`` checks them. Raises
    StoreDamaged where the journal is lost: what it forbids must not come back.
    """
    store.journal.demand()
    lost = [
        (asset, cell)
        for asset, cell in store.ledger.recorded()
        if asset != _RAW and not (all(map(store.files.exists, _outputs(asset, cell))) and _as_recorded(store, asset, cell))
    ]
    for asset, cell in lost:
        store.ledger.forget_asset(asset, [cell])
    undone = sorted({cell for asset, cell in lost if asset.startswith("normalized/")})
    if undone:
        store.ledger.forget_decoded(undone)
    return lost


def _outputs(asset: str, cell: Cell) -> list[str]:
    return [FILES.get(asset) or manifest_path(asset, cell), *BESIDE.get(asset, ())]


def _as_recorded(store: Store, asset: str, cell: Cell) -> bool:
    asked = _ASKED.get(asset)
    row = store.ledger.asset_cell(asset, cell) if asked else None
    return asked is None or row is None or asked(store, row)


def _consolidated(store: Store, row: AssetCell) -> bool:
    manifest = store.lake.manifest(row.asset, Cell(row.host, row.month))
    cases = store.cases.made()
    as_made = manifest is not None and (manifest.input_fp, manifest.code_version, manifest.content_hash) == _fingerprint(row)
    return as_made and cases is not None and cases[:2] == _fingerprint(row)[:2]


def _searched(store: Store, row: AssetCell) -> bool:
    try:
        return store.search.made_of() == row.input_fp
    except StoreError:
        # one that cannot be read is made anew where it is written
        return True


def page_made(store: Store) -> Made | None:
    """Return what the page that lies there now was made of; None where there is none, or one that does not say."""
    try:
        return Made(**json.loads(store.files.read(f"site/{PAGE_NOTE}")))
    except (StoreError, ValueError, TypeError):
        return None


def _fingerprint(row: AssetCell) -> tuple[str, str, str]:
    return row.input_fp, row.code_version, row.content_hash


def _same(made: Made | None, row: AssetCell) -> bool:
    return made is not None and made[:3] == _fingerprint(row)


_ASKED: dict[str, Callable[[Store, AssetCell], bool]] = {
    "memory/consolidated": _consolidated,
    "memory/index": lambda store, row: _same(store.memories.made(), row),
    "search/index": _searched,
    "warehouse/duckdb": lambda store, row: _same(database.made(store.warehouse_path), row),
    "dashboard/site": lambda store, row: _same(page_made(store), row),
}
"""asset of the whole store -> whether its file is what the ledger says"""


def noted_of(store: Store) -> dict[str, Any]:
    """Return what the last run noted of derived files, by their names; nothing where that cannot be read."""
    return store_marker.noted(store.home)


def save_notes(store: Store, noted: Mapping[str, Any]) -> None:
    """Replace what is noted of derived files."""
    store.files.write(store_marker.NOTED, json.dumps(noted).encode())


def unnote_search(store: Store) -> None:
    """Let go of what was noted of the search index: it is being written to."""
    noted = noted_of(store)
    if noted.pop(SEARCH, None) is not None:
        save_notes(store, noted)


# Removes the parts of the lake that nothing names any more.


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

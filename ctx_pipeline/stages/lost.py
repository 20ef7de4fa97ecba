"""What the ledger calls made and the disk no longer has: derived data may be deleted at any time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import CtxError
from ctx_pipeline.storage.lake.manifests import manifest_path

if TYPE_CHECKING:
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage import Store

FILES = {
    "search/index": "search.db",
    "memory/used": "uses.json",
    "memory/index": "memory.db",
    "memory/effect": "effect.json",
    "warehouse/duckdb": "serving/ctx.duckdb",
    "dashboard/site": "site/index.html",
}
"""asset -> the file without which it is gone"""

BESIDE = {"memory/consolidated": "cases.db"}
"""asset -> the file that it makes beside its table"""

_RAW = "raw/segments"
SEARCH = "search.db"
NOTED = "checked.json"
"""Sizes, times and digests of derived files as the last run left them."""


def settle_lost(store: Store) -> list[tuple[str, Cell]]:
    """Forget the records of assets whose file or manifest is gone, so that they are made again; return them.

    Sessions of a cell without tables are decoded from raw again. Raw objects are not
    looked at: they cannot be made again, and ``ctx doctor`` checks them. Raises
    StoreDamaged where the journal is lost: what it forbids must not come back.
    """
    store.journal.demand()
    lost = [
        (asset, cell)
        for asset, cell in store.ledger.recorded()
        if asset != _RAW and not all(map(store.files.exists, _outputs(asset, cell)))
    ]
    for asset, cell in lost:
        store.ledger.forget_asset(asset, [cell])
    undone = sorted({cell for asset, cell in lost if asset.startswith("normalized/")})
    if undone:
        store.ledger.forget_decoded(undone)
    return lost


def _outputs(asset: str, cell: Cell) -> list[str]:
    return [FILES.get(asset) or manifest_path(asset, cell), *([BESIDE[asset]] if asset in BESIDE else [])]


def noted_of(store: Store) -> dict[str, Any]:
    """Return what the last run noted of derived files, by their names; nothing where that cannot be read."""
    try:
        found = json.loads(store.files.read(NOTED))
    except (CtxError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def unnote_search(store: Store) -> None:
    """Let go of what was noted of the search index: it is being written to."""
    noted = noted_of(store)
    if noted.pop(SEARCH, None) is not None:
        store.files.write(NOTED, json.dumps(noted).encode())

"""Input fingerprints of the assets that read other assets: one rule for stages and plan.

A stage records ``of_cell`` (or ``of_all`` for an unpartitioned asset) as ``input_fp``
in the ledger; the plan computes the same text and compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage.ledger import Ledger


def combine(hashes: Iterable[tuple[str, str, str]], *extra: object) -> str:
    """Return the fingerprint of (asset, cell key, content hash) rows in any order, and of further input."""
    return digest(sorted(hashes), *extra)


def of_cell(contents: Mapping[str, Mapping[Cell, str]], upstream: Iterable[str], cell: Cell) -> str:
    """Return the fingerprint of one cell's input: the content hashes of its upstream assets there.

    ``contents`` is asset key -> cell -> content hash; an upstream asset without the cell counts as empty.
    """
    return combine((asset, cell.key, contents.get(asset, {}).get(cell, "")) for asset in upstream)


def of_all(contents: Mapping[str, Mapping[Cell, str]], upstream: Iterable[str], *extra: object) -> str:
    """Return the fingerprint of an unpartitioned asset's input: every upstream content hash in every cell."""
    return combine(((asset, cell.key, text) for asset in upstream for cell, text in contents.get(asset, {}).items()), *extra)


def of_now(ledger: Ledger, upstream: Iterable[str], *extra: object) -> str:
    """Return :func:`of_all` of what the ledger says now."""
    contents = {key: {cell: row.content_hash for cell, row in ledger.asset_cells(key).items()} for key in upstream}
    return of_all(contents, contents, *extra)

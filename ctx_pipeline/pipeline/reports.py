"""What a stage is made of and what it says when it has ended: input fingerprints, one report a stage, one line a cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError
from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage.ledger import Ledger


# What a stage says when it has ended: one report a stage, one line a cell.


DONE = "done"
UNCHANGED = "unchanged"
HELD = "held"


def reason(error: BaseException) -> str:
    """Return what may be told of an error: our own message, of any other its class and place.

    The text of another error may quote a session, and reports go to logs and to Dagster.
    """
    if isinstance(error, CtxError):
        return error.message
    place: TracebackType | None = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" in {PurePath(place.tb_frame.f_code.co_filename).name}, line {place.tb_lineno}" if place else ""
    return f"{type(error).__name__}{where}"


@dataclass(slots=True)
class CellReport:
    """How one cell of one stage went."""

    status: str = DONE
    """done, unchanged, or held: it raised or broke the contract and was not committed"""
    counts: dict[str, int] = field(default_factory=dict)
    """what was read and written, by name; numbers only"""
    content_hash: str = ""
    seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    """shares and means, by name"""
    error: str = ""
    """why the cell is held; never text of a session"""


@dataclass(slots=True)
class StageReport:
    """How one stage went; an unpartitioned asset reports the cell key ``""``."""

    stage: str
    cells: dict[str, CellReport] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def held(self) -> dict[str, str]:
        """Cell key -> error of the cells that were not committed."""
        return {key: cell.error for key, cell in self.cells.items() if cell.status == HELD}

    @property
    def changed(self) -> bool:
        """Whether a cell was written."""
        return any(cell.status == DONE for cell in self.cells.values())


# Input fingerprints of the assets that read other assets: one rule for stages and plan.


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

"""What a stage is made of and what it says when it has ended: input fingerprints, one report a stage, one line a cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError, scarce
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.source_versions import version_of
from ctx_pipeline.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.storage.ledger import Ledger


# What a stage says when it has ended: one report a stage, one line a cell.


DONE = "done"
UNCHANGED = "unchanged"
HELD = "held"


def reason(error: BaseException) -> str:
    """Return what may be told of an error: our own message, what the system refused, of any other its class and place.

    The text of another error may quote a session, and reports go to logs and to Dagster.
    """
    known = error if isinstance(error, CtxError) else scarce(error)
    if known is not None:
        return known.message
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
    made: tuple[str, ...] = ()
    """assets that were written, where the stage makes some and not others"""
    held: dict[str, str] = field(default_factory=dict)
    """asset -> why it is held; empty in a held cell where all are"""
    recomputed: dict[str, dict[str, int]] = field(default_factory=dict)
    """asset -> why -> sessions whose rows were made, where a stage knows it"""

    def wrote(self, asset: str) -> bool:
        """Tell whether an asset of the stage was written."""
        return asset in self.made if self.made or self.held else self.status == DONE

    def failure_of(self, asset: str) -> str:
        """Return why an asset of the stage was not committed; empty where it was."""
        return self.error if self.status == HELD and not self.held else self.held.get(asset, "")


@dataclass(slots=True)
class StageReport:
    """How one stage went; an unpartitioned asset reports the cell key ``""``."""

    stage: str
    cells: dict[str, CellReport] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failed_partitions(self) -> dict[str, str]:
        """Partition key -> error of the partitions that were not committed."""
        return {key: cell.error for key, cell in self.cells.items() if cell.status == HELD}

    @property
    def changed(self) -> bool:
        """Whether a cell was written."""
        return any(cell.status == DONE for cell in self.cells.values())


# Input fingerprints of the assets, and the versions of cells and normalized tables: one rule for stages and plan.


DECODING = "2"
"""Declared version of decoding and of the normalized tables; a rise makes every session be decoded again."""

_DECODE = "ctx_pipeline.pipeline.ingest.decoding:*"


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


def table_version(asset: str, decoder: str, prices: str) -> str:
    """Return the code version of a normalized table that a decoder made; model calls carry their cost."""
    return f"{decoder}+{prices}" if asset == "normalized/model_calls" else decoder


def placed(version: str, settings: Settings) -> str:
    """Return the version of what places sessions into cells: another first month places them anew."""
    return f"{version}.{settings.first_month}"


def decoders(hosts: Mapping[str, Host], redactor: Redactor, whole_file_bytes: int = Settings.whole_file_bytes) -> dict[str, str]:
    """Return host -> version of all that makes the rows of its sessions: decoding and parser by source, redaction, cuts of archives."""
    cut = "" if whole_file_bytes == Settings.whole_file_bytes else f".{whole_file_bytes}"
    decoding = f"{DECODING}.{version_of(_DECODE)}"
    return {key: f"{decoding}.{host.decoder}.{redactor.version}{cut}" for key, host in hosts.items()}

"""What a stage says when it has ended: one report a stage, one line a cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    from types import TracebackType

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
    def failed_partitions(self) -> dict[str, str]:
        """Partition key -> error of the partitions that were not committed."""
        return {key: cell.error for key, cell in self.cells.items() if cell.status == HELD}

    @property
    def changed(self) -> bool:
        """Whether a cell was written."""
        return any(cell.status == DONE for cell in self.cells.values())

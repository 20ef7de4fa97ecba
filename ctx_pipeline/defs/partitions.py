"""Cells as Dagster partitions: host by month, and the boxes that a range run can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import dagster as dg

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"


def definition(first_month: str) -> dg.MultiPartitionsDefinition:
    """Return host by month from ``first_month`` up to and including the current month (UTC).

    One definition for every partitioned asset: conditions over differing windows ask for
    cells that the upstream asset does not have.
    """
    months = dg.TimeWindowPartitionsDefinition(cron_schedule="0 0 1 * *", start=first_month, fmt="%Y-%m", end_offset=1)
    return dg.MultiPartitionsDefinition({"host": dg.StaticPartitionsDefinition(sorted(discovery.hosts())), "month": months})


def key_of(cell: Cell) -> dg.MultiPartitionKey:
    """Return the partition key of a cell; Dagster orders the dimensions, we never join text ourselves."""
    return dg.MultiPartitionKey({"host": cell.host, "month": cell.month})


def cell_of(key: str) -> Cell:
    """Return the cell of a partition key."""
    if isinstance(key, dg.MultiPartitionKey):
        return Cell(key.keys_by_dimension["host"], key.keys_by_dimension["month"])
    return Cell.of(key)


class Box(NamedTuple):
    """Cells of one host in a row of months: what one range run covers."""

    host: str
    first: str
    last: str

    @property
    def tags(self) -> dict[str, str]:
        """Run tags that name the range."""
        return {RANGE_START: str(key_of(Cell(self.host, self.first))), RANGE_END: str(key_of(Cell(self.host, self.last)))}

    @property
    def cells(self) -> list[Cell]:
        """The cells in order of time."""
        months = range(_number(self.first), _number(self.last) + 1)
        return [Cell(self.host, f"{(number - 1) // 12:04d}-{(number - 1) % 12 + 1:02d}") for number in months]

    @property
    def title(self) -> str:
        """Short name for progress and logs."""
        return f"{self.host} {self.first}" if self.first == self.last else f"{self.host} {self.first} to {self.last}"


def boxes(cells: Iterable[Cell], *, apart: Iterable[Cell] = ()) -> list[Box]:
    """Return the fewest ranges over the cells, host by host in order of time.

    A range holds no month that is not among the cells, since each would be recorded as
    made. Each cell of ``apart`` that is among them is a range of its own, at the end.
    """
    alone = set(apart)
    found: list[Box] = []
    for cell in sorted(set(cells) - alone):
        last = found[-1] if found else None
        if last and last.host == cell.host and _number(last.last) + 1 == _number(cell.month):
            found[-1] = last._replace(last=cell.month)
            continue
        found.append(Box(cell.host, cell.month, cell.month))
    return [*found, *(Box(c.host, c.month, c.month) for c in sorted(set(cells) & alone))]


def _number(month: str) -> int:
    year, _, part = month.partition("-")
    return int(year) * 12 + int(part)

"""Cells as Dagster partitions: one key for each host and month that holds a session, and the ranges that a run can name."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import dagster as dg

from ctx_pipeline.model.raw import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"

NAME = "host_month"


def definition() -> dg.DynamicPartitionsDefinition:
    """Return the one definition of every partitioned asset: the keys (``claude|2026-03``) that its instance knows.

    A grid of all hosts and months would show most of a healthy store as never made.
    """
    return dg.DynamicPartitionsDefinition(name=NAME)


def add(instance: dg.DagsterInstance, cells: Iterable[Cell]) -> list[Cell]:
    """Make the cells known to an instance and return all that it knows, in its own order, which ranges follow.

    New ones go in by month, so that what several hosts wrote in one month is one range.
    """
    found = instance.get_dynamic_partitions(NAME)
    if new := {cell for cell in cells if cell.key not in found}:
        instance.add_dynamic_partitions(NAME, [cell.key for cell in sorted(new, key=lambda cell: (cell.month, cell.host))])
        found = instance.get_dynamic_partitions(NAME)
    return [Cell.of(key) for key in found]


def synchronize(instance: dg.DagsterInstance, cells: Iterable[Cell]) -> None:
    """Make an instance know these cells, and forget those that were captured and that their last session left.

    A cell that a sensor saw and that nobody has captured yet stays: a run of it may be about to begin.
    """
    wanted = set(cells)
    if others := [cell.key for cell in add(instance, wanted) if cell not in wanted]:
        captured = instance.get_materialized_partitions(dg.AssetKey(["raw", "segments"]))
        for key in captured.intersection(others):
            instance.delete_dynamic_partition(NAME, key)


def requested(cells: Iterable[Cell]) -> list[dg.AddDynamicPartitionsRequest]:
    """Return what a sensor says, so that Dagster knows the cells; those that it knows stay as they are."""
    return [definition().build_add_request([cell.key for cell in cells])]


class Box(NamedTuple):
    """Cells that stand in a row in the order of the instance: what one range run covers."""

    cells: tuple[Cell, ...]

    @property
    def tags(self) -> dict[str, str]:
        """Run tags that name the range."""
        return {RANGE_START: self.cells[0].key, RANGE_END: self.cells[-1].key}

    @property
    def title(self) -> str:
        """Short name for progress and logs."""
        first, last = self.cells[0], self.cells[-1]
        end = last.month if last.host == first.host else f"{last.host} {last.month}"
        return f"{first.host} {first.month}" + (f" to {end}" if last != first else "")


def boxes(cells: Iterable[Cell], known: Sequence[Cell], *, apart: Iterable[Cell] = ()) -> list[Box]:
    """Return the fewest ranges over the cells, in the order of the known ones; what is not known is left out.

    A range holds nothing but these cells, since all of it is recorded as made. Each cell of
    ``apart`` that is among them is a range of its own, at the end.
    """
    wanted, alone = set(cells), set(apart)
    places = [place for place, cell in enumerate(known) if cell in wanted and cell not in alone]
    starts = [0, *(at for at, (before, place) in enumerate(pairwise(places), 1) if place != before + 1)]
    found = [Box(tuple(known[place] for place in places[a:b])) for a, b in pairwise([*starts, len(places)]) if a != b]
    return [*found, *(Box((cell,)) for cell in known if cell in wanted and cell in alone)]

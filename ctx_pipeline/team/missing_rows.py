"""Rows that a machine says it sent and that its tables do not hold: somebody else took them out, and the machine has them still."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError
from ctx_pipeline.storage.team_tables.bucket import NotATable, at_once
from ctx_pipeline.storage.team_tables.delta import TeamTable
from ctx_pipeline.team.published_tables import LESSONS, LESSONS_MONTH, PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from ctx_pipeline.storage.team_tables.bucket import Bucket
    from ctx_pipeline.team.heads import Head


def missing(heads: Iterable[Head], member: str, month: str, tables: Mapping[str, pa.Table | StoreError | None]) -> str:
    """Return which rows of a member's month its tables lack of those that its machines said they sent; empty where none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for head in heads:
        said = head.rows.get(month, {}) if head.member == member else {}
        for name, count in said.items():
            rows = tables.get(name)
            if isinstance(rows, StoreError) or name not in tables or (rows is not None and "machine" not in rows.column_names):
                continue
            try:
                found = 0 if rows is None else pc.sum(pc.equal(rows["machine"], head.machine)).as_py() or 0
            except pa.ArrowException:  # a column of another type holds none of its rows
                found = 0
            if found < count:
                return f"{name} holds {found:,} of the {count:,} rows that {head.machine} says it sent"
    return ""


def missing_rows(bucket: Bucket, heads: Iterable[Head]) -> list[str]:
    """Return what members' tables lack of the rows that their machines say they sent, and what mends it, a sentence each.

    The logs of the tables are read, some at once, and no rows. Raises StoreError for a bucket that does not answer.
    """
    members: dict[str, list[Head]] = defaultdict(list)
    for head in heads:
        members[head.member].append(head)
    named = {member: {name for head in own for months in head.rows.values() for name in months} for member, own in members.items()}
    tables = [(member, name) for member in members for name in (*(t.name for t in PUBLISHED), LESSONS) if name in named[member]]

    def lacks(place: tuple[str, str]) -> list[str]:
        member, name = place
        return list(_compared(TeamTable(bucket, f"members/{member}/{name}"), name, members[member]))

    return [line for lines in at_once(lacks, tables) for line in lines]


def _compared(table: TeamTable, name: str, heads: Iterable[Head]) -> Iterator[str]:
    try:
        there = table.row_counts("machine", "month")
    except NotATable as error:
        yield f"{error.message}; on a machine of the member: ctx publish --all"
        return
    for head in heads:
        for month in sorted(head.rows.keys() & {*head.months, LESSONS_MONTH}):
            found, sent = there.get((head.machine, month), 0), head.rows[month].get(name, 0)
            if found is not None and found < sent:
                lacks = f"{table.path} holds {found:,} of the {sent:,} rows of {month} that {head.machine} says it sent"
                yield f"{lacks}; on that machine: ctx publish --all"

"""Rows that a machine said it sent and that its tables do not hold: somebody else took them out, and the machine has them still."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError
from ctx_pipeline.storage.team_tables.delta import TeamTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from ctx_pipeline.storage.team_tables.bucket import Bucket, BucketEntry
    from ctx_pipeline.team.heads import Head

_LOG = re.compile(r"members/([^/]+)/([^/]+)/_delta_log/(\d{20})\.json")


def missing(heads: Iterable[Head], member: str, month: str, tables: Mapping[str, pa.Table | StoreError | None]) -> str:
    """Return which rows of a member's month its tables lack of those that its machines said they sent; empty where none."""
    import pyarrow.compute as pc

    for head in heads:
        said = head.rows.get(month, {}) if head.member == member else {}
        for name, count in said.items():
            rows = tables.get(name)
            if isinstance(rows, StoreError) or name not in tables or (rows is not None and "machine" not in rows.column_names):
                continue
            found = 0 if rows is None else pc.sum(pc.equal(rows["machine"], head.machine)).as_py() or 0
            if found < count:
                return f"{name} holds {found:,} of the {count:,} rows that {head.machine} sent"
    return ""


def missing_rows(bucket: Bucket, heads: Iterable[Head], entries: Iterable[BucketEntry]) -> Iterator[str]:
    """Yield what members' tables lack of the rows that their machines said they sent, a sentence each.

    A table whose log ends where its machines said is as they left it. Only the logs of the others are read, and no rows.
    """
    versions: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        if found := _LOG.fullmatch(entry.path):
            versions[found[1], found[2]] = max(versions[found[1], found[2]], int(found[3]) + 1)
    members: dict[str, list[Head]] = defaultdict(list)
    for head in heads:
        members[head.member].append(head)
    for member, own in members.items():
        for name in sorted({name for head in own for months in head.rows.values() for name in months}):
            left = max((head.tables[name] + 1 for head in own if name in head.tables), default=0)
            if versions[member, name] != left:
                yield from _compared(TeamTable(bucket, f"members/{member}/{name}"), name, own)


def _compared(table: TeamTable, name: str, heads: Iterable[Head]) -> Iterator[str]:
    try:
        there = table.row_counts("machine", "month")
    except StoreError as error:
        yield error.message
        return
    for head in heads:
        for month, said in sorted(head.rows.items()):
            found, sent = there.get((head.machine, month), 0), said.get(name, 0)
            if found is not None and found < sent:
                yield f"{table.path} holds {found:,} of the {sent:,} rows of {month} that {head.machine} sent: somebody else removed them"

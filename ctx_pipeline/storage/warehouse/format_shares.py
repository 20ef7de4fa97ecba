"""How well each version of a host is understood, from the tables: records, types, and where that drops."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.raw import Cell

DROP = 0.01
"""A version of a host whose share of understood records is this much below that of the host's others is worth a warning."""

FEW = 20
"""Records of a version below which its share says little."""


class VersionShare(NamedTuple):
    """How many records of one version of a host were understood."""

    host: str
    version: str
    sessions: int
    records: int
    unreadable: int
    """records that could not be decoded"""
    unknown: int
    """events of a type that is not known"""

    @property
    def share(self) -> float:
        """Share of the records that were understood."""
        return 1 - min(self.records, self.unreadable + self.unknown) / self.records if self.records else 1.0


def dropped(here: Sequence[VersionShare], everywhere: Sequence[VersionShare]) -> dict[str, float]:
    """Return host and version -> share, of the versions that are understood worse than the others of their host."""
    found = {}
    for one in here:
        others = [v for v in everywhere if v.host == one.host and v.version != one.version]
        records = sum(v.records for v in others)
        usual = 1 - sum(min(v.records, v.unreadable + v.unknown) for v in others) / records if records else 1.0
        if one.records >= FEW and one.share < usual - DROP:
            found[f"{one.host} {one.version or '(no version)'}"] = round(one.share, 4)
    return found


def versions(store: Any, cells: Sequence[Cell] | None = None) -> list[VersionShare]:
    """Return how well each version of each host was understood, over some cells or all."""
    with closing(store.lake.connect()) as connection:
        rows = connection.execute(
            "SELECT host, coalesce(version, ''), count(*), sum(lines), sum(quarantined), sum(unknown) "
            f"FROM ({store.lake.relation_sql('sessions', cells)}) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    return [VersionShare(host, version, *map(int, numbers)) for host, version, *numbers in rows]


def types(store: Any) -> list[tuple[str, str, str, bool, int]]:
    """Return (host, version, type of record, whether it is known, how often) over all events."""
    with closing(store.lake.connect()) as connection:
        return list(
            connection.execute(
                "SELECT e.host, coalesce(s.version, ''), coalesce(e.subtype, e.kind), e.kind <> 'unknown', count(*) "
                f"FROM ({store.lake.relation_sql('events')}) e "
                f"JOIN ({store.lake.relation_sql('sessions')}) s ON s.host = e.host AND s.session_id = e.session_id "
                "GROUP BY ALL ORDER BY ALL"
            ).fetchall()
        )


def version_of(store: Any) -> dict[tuple[str, str], str]:
    """Return (host, session) -> version of the host, empty where it did not say."""
    with closing(store.lake.connect()) as connection:
        rows = connection.execute(f"SELECT host, session_id, coalesce(version, '') FROM ({store.lake.relation_sql('sessions')})").fetchall()
    return {(host, session): version for host, session, version in rows}

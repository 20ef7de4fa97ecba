"""Whether the tables keep their contract, counted over the lake in one pass a question."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.storage.warehouse.database import connect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctx_pipeline.model.raw import Cell


# How well each version of a host is understood, from the tables: records, types, and where that drops.


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


def format_shares_dropped(here: Sequence[VersionShare], everywhere: Sequence[VersionShare]) -> dict[str, float]:
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


PARSE_RATE = 0.99
"""Share of records that must decode; below it a host's format has probably changed."""

MATCH_RATE = 0.9
"""Share of tool calls that must have a result; a live or interrupted session leaves a few open."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: the numbers behind it, and whether it holds."""

    passed: bool
    numbers: dict[str, Any] = field(default_factory=dict)


def run(store: Any, cells: Sequence[Cell]) -> dict[str, Finding]:
    """Return every check of the normalized tables over some cells, by name."""
    connection = store.lake.connect()
    try:
        tables = {name: store.lake.relation_sql(name, cells) for name in ("events", "sessions", "tool_calls")}
        everywhere = store.lake.relation_sql("sessions")

        def one(query: str) -> Any:
            return connection.execute(query).fetchone()

        events, unique = one(f"SELECT count(*), count(DISTINCT event_id) FROM ({tables['events']})")
        sessions, twice = one(
            f"SELECT count(*), coalesce(sum(CAST(n > 1 AS INTEGER)), 0) FROM "
            f"(SELECT host, session_id, count(*) AS n FROM ({everywhere}) GROUP BY ALL)"
        )
        calls, answered = one(f"SELECT count(*), count(result_event) FROM ({tables['tool_calls']})")
        lines, bad, read = one(
            f"SELECT coalesce(sum(lines), 0), coalesce(sum(quarantined), 0), coalesce(sum(bytes), 0) FROM ({tables['sessions']})"
        )
    finally:
        connection.close()
    unknown = _unknown(store, cells)
    captured = _captured(store, cells)
    return {
        "bytes_conserved": Finding(int(read) == captured, {"captured_bytes": captured, "read_bytes": int(read)}),
        "unique_event_ids": Finding(events == unique, {"events": events, "duplicates": events - unique}),
        "session_in_one_cell": Finding(not twice, {"sessions": sessions, "in_several_cells": int(twice)}),
        "calls_have_results": Finding(not calls or answered / calls >= MATCH_RATE, {"calls": calls, "open": calls - answered}),
        "parse_rate": Finding(not lines or 1 - bad / lines >= PARSE_RATE, {"records": int(lines), "quarantined": int(bad)}),
        "formats_understood": _formats(store, cells),
        "known_types": Finding(not unknown, {"unknown": dict(sorted(unknown.items(), key=lambda i: (-i[1], i[0]))[:50])}),
    }


def _formats(store: Any, cells: Sequence[Cell]) -> Finding:
    """Return whether every version of a host in the cells is understood as well as its other versions."""
    here = versions(store, cells)
    dropped = format_shares_dropped(here, versions(store))
    lowest = min((one.share for one in here if one.records >= FEW), default=1.0)
    return Finding(not dropped, {"versions": len(here), "lowest_share": round(lowest, 4), "dropped": dropped})


def _captured(store: Any, cells: Sequence[Cell]) -> int:
    """Return the bytes that raw holds of the cells' sessions, all generations."""
    wanted = set(cells)
    streams = [s.stream for s in store.ledger.sources().values() if s.month and (s.host, s.month) in wanted]
    segments = store.ledger.segments_of(streams)
    return sum(segment.end - segment.start for rows in segments.values() for segment in rows)


def _unknown(store: Any, cells: Sequence[Cell]) -> dict[str, int]:
    """Return how often each unknown record, block or value type occurs in the cells."""
    wanted = set(cells)
    months = {(s.host, s.session_id) for s in store.ledger.sessions() if (s.host, s.month) in wanted}
    found: dict[str, int] = {}
    for host, session_id, label, times in store.ledger.unknown_rows():
        if (host, session_id) in months:
            found[label] = found.get(label, 0) + times
    return found


# What was redacted, counted in the warehouse.


class Redacted(NamedTuple):
    """How often a detector found something in a session; never what."""

    host: str
    session_id: str
    project: str
    detector: str
    found: int


def counts(warehouse: Path) -> list[Redacted]:
    """Return the redactions of every session by detector. Raises StoreError where no warehouse was built."""
    with connect(warehouse, read_only=True) as connection:
        rows = connection.execute(
            "SELECT r.host, r.session_id, coalesce(s.project, ''), r.detector, r.found FROM redactions r "
            "LEFT JOIN session_overview s ON s.host = r.host AND s.session_id = r.session_id ORDER BY ALL"
        ).fetchall()
    return [Redacted._make(row) for row in rows]

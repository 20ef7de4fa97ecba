"""Whether the tables keep their contract, counted over the lake in one pass a question."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage.warehouse.database import connect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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


def versions(store: Any) -> list[VersionShare]:
    """Return how well each version of each host was understood."""
    with closing(store.lake.connect()) as connection:
        return _versions(store, connection)


def _versions(store: Any, connection: Any) -> list[VersionShare]:
    rows = connection.execute(
        "SELECT host, coalesce(version, ''), count(*), sum(lines), sum(quarantined), sum(unknown) "
        f"FROM ({store.lake.relation_sql('sessions')}) GROUP BY ALL ORDER BY ALL"
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


def run(store: Any, cells: Sequence[Cell]) -> dict[Cell, dict[str, Finding]]:
    """Return every check of the normalized tables in each of some cells, by name; the tables are read once for all."""
    if not cells:
        return {}
    with closing(store.lake.connect()) as connection:

        def by_cell(table: str, figures: str) -> dict[str, tuple[int, ...]]:
            """Return cell key -> figures over its rows of a table."""
            rows = connection.execute(f"SELECT cell, {figures} FROM ({_with_cell(store, table, cells)}) GROUP BY cell").fetchall()
            return {cell: tuple(map(int, numbers)) for cell, *numbers in rows}

        everywhere = store.lake.relation_sql("sessions")
        query = f"SELECT host, session_id FROM ({everywhere}) GROUP BY ALL HAVING count(*) > 1"
        twice = set(connection.execute(query).fetchall())
        events = by_cell("events", "count(*), count(DISTINCT event_id)")
        calls = by_cell("tool_calls", "count(*), count(result_event)")
        read = by_cell("sessions", "count(*), coalesce(sum(lines), 0), coalesce(sum(quarantined), 0), coalesce(sum(bytes), 0)")
        named = connection.execute(f"SELECT cell, host, session_id FROM ({_with_cell(store, 'sessions', cells)})").fetchall()
        formats = _formats(store, connection, cells)
    sessions: dict[Cell, set[tuple[str, str]]] = {cell: set() for cell in cells}
    for key, *session in named:
        sessions[Cell.of(key)].add(tuple(session))
    unknown, captured = _unknown(store), _captured(store)
    found = {}
    for cell in cells:
        rows, unique = events.get(cell.key, (0, 0))
        made, answered = calls.get(cell.key, (0, 0))
        count, lines, bad, octets = read.get(cell.key, (0, 0, 0, 0))
        strange: Counter[str] = Counter()
        for session in sessions[cell]:
            strange.update(unknown.get(session, {}))
        found[cell] = {
            "bytes_conserved": Finding(octets == captured[cell], {"captured_bytes": captured[cell], "read_bytes": octets}),
            "unique_event_ids": Finding(rows == unique, {"events": rows, "duplicates": rows - unique}),
            "session_in_one_cell": Finding(
                not twice & sessions[cell], {"sessions": count, "in_several_cells": len(twice & sessions[cell])}
            ),
            "calls_have_results": Finding(not made or answered / made >= MATCH_RATE, {"calls": made, "open": made - answered}),
            "parse_rate": Finding(not lines or 1 - bad / lines >= PARSE_RATE, {"records": lines, "quarantined": bad}),
            "formats_understood": formats[cell],
            "known_types": Finding(not strange, {"unknown": dict(sorted(strange.items(), key=lambda i: (-i[1], i[0]))[:50])}),
        }
    return found


def _with_cell(store: Any, table: str, cells: Sequence[Cell]) -> str:
    """Return a query for the rows of a table with the key of their cell."""
    return " UNION ALL BY NAME ".join(f"SELECT '{cell.key}' AS cell, * FROM ({store.lake.relation_sql(table, [cell])})" for cell in cells)


def _formats(store: Any, connection: Any, cells: Sequence[Cell]) -> dict[Cell, Finding]:
    """Return whether every version of a host in each cell is understood as well as its other versions."""
    rows = connection.execute(
        "SELECT cell, host, coalesce(version, ''), count(*), sum(lines), sum(quarantined), sum(unknown) "
        f"FROM ({_with_cell(store, 'sessions', cells)}) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    everywhere = _versions(store, connection)
    found = {}
    for cell in cells:
        here = [VersionShare(host, version, *map(int, numbers)) for key, host, version, *numbers in rows if key == cell.key]
        dropped = format_shares_dropped(here, everywhere)
        lowest = min((one.share for one in here if one.records >= FEW), default=1.0)
        found[cell] = Finding(not dropped, {"versions": len(here), "lowest_share": round(lowest, 4), "dropped": dropped})
    return found


def _captured(store: Any) -> Counter[Cell]:
    """Return the bytes that raw holds of each cell's sessions, all generations."""
    streams = {s.stream: Cell(s.host, s.month) for s in store.ledger.sources().values() if s.month}
    found: Counter[Cell] = Counter()
    for stream, segments in store.ledger.segments_of(list(streams)).items():
        found[streams[stream]] += sum(segment.end - segment.start for segment in segments)
    return found


def _unknown(store: Any) -> dict[tuple[str, str], Counter[str]]:
    """Return how often each unknown record, block or value type occurs in each session."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for host, session_id, label, times in store.ledger.unknown_rows():
        found.setdefault((host, session_id), Counter())[label] += times
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

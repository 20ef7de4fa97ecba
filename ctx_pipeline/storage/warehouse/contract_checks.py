"""Whether the tables keep their contract, counted over the lake in one pass a question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.storage.warehouse import format_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.raw import Cell

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
    here = format_shares.versions(store, cells)
    dropped = format_shares.dropped(here, format_shares.versions(store))
    lowest = min((one.share for one in here if one.records >= format_shares.FEW), default=1.0)
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

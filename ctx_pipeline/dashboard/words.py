"""What the page searches from disk: what was said and called, in packed pieces of some hundred sessions, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.dashboard.data import PAGE_VERSION
from ctx_pipeline.dashboard.encode import chunk, packed, seen
from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.dashboard.data import SessionLine

SESSIONS, MOST = 300, 5_000
"""Sessions of a piece, and the newest sessions that are searched from disk."""

KINDS = ("prompt", "answer", "title", "compaction", "error", "tool_call")
"""Kinds of events that are searched from disk, by their number in a document."""
LONGEST = 1_200
"""Characters of an event that are searched."""


class Piece(NamedTuple):
    """Some sessions of one month, in the order in which they began; the name is a hash of what they are made of."""

    name: str
    sessions: tuple[SessionLine, ...]


def pieces(sessions: Sequence[SessionLine]) -> list[Piece]:
    """Return the pieces that hold the newest sessions, newest first; a new session changes the last piece of its month alone."""
    by_month: dict[str, list[SessionLine]] = {}
    for line in sessions[:MOST]:
        by_month.setdefault(f"{line.first_ts:%Y-%m}" if line.first_ts else "", []).append(line)
    found = []
    for month in sorted(by_month, reverse=True):
        members = by_month[month][::-1]
        cut = [tuple(members[first : first + SESSIONS]) for first in range(0, len(members), SESSIONS)]
        found += [
            Piece(digest(PAGE_VERSION, "words", [(s.host, s.session_id, s.stamp) for s in some], size=24), some) for some in cut[::-1]
        ]
    return found


def script(piece: Piece, rows: Iterable[tuple[int, str, int, int | None, str]]) -> bytes:
    """Return the script of a piece from (number of the session in it, kind, crc of the event id, milliseconds, text) in reading order.

    It holds the keys of the sessions and documents of [session, kind, crc, milliseconds, text].
    """
    documents: list[list[Any]] = [[n, KINDS.index(kind), mark, at, seen(text)] for n, kind, mark, at, text in rows]
    return chunk(f"words-{piece.name}", packed({"sessions": [s.key for s in piece.sessions], "documents": documents}))

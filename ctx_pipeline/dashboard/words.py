"""What the page searches from disk: what was said and called, in packed pieces of some hundred sessions, the newest first."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.dashboard.data import PAGE_VERSION
from ctx_pipeline.dashboard.page import chunk, packed, seen
from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.dashboard.data import SessionLine
    from ctx_pipeline.storage.warehouse.transcript_queries import WholeSession

SESSIONS, MOST = 100, 5_000
"""Sessions of a piece, and the newest sessions that are searched from disk."""

KINDS = ("prompt", "answer", "title", "compaction", "error", "tool_call")
"""Kinds of events that are searched from disk, by their number in a document."""
LONGEST, LONGEST_CALL = 1_200, 400
"""Characters of an event, and of a tool call, that are searched: what a call is about stands first."""


Document = list[Any]
"""[session, kind, crc of the event id, milliseconds, text]"""


class Piece(NamedTuple):
    """Some sessions of one month, in the order in which they began.

    The name begins with a hash of which piece it is, and ends with one of what it is made of.
    """

    name: str
    sessions: tuple[SessionLine, ...]


PLACE = 8
"""Characters of a name that say which piece it is."""


def pieces(sessions: Sequence[SessionLine]) -> list[Piece]:
    """Return the pieces that hold the newest sessions, newest first; a new session changes the last piece of its month alone."""
    by_month: dict[str, list[SessionLine]] = {}
    for line in sessions[:MOST]:
        by_month.setdefault(f"{line.first_ts:%Y-%m}" if line.first_ts else "", []).append(line)
    found = []
    for month in sorted(by_month, reverse=True):
        members = by_month[month][::-1]
        cut = [tuple(members[first : first + SESSIONS]) for first in range(0, len(members), SESSIONS)]
        for number, some in reversed(list(enumerate(cut))):
            made_of = digest(PAGE_VERSION, [(s.host, s.session_id, s.stamp) for s in some], size=24 - PLACE)
            found.append(Piece(digest("words", month, number, size=PLACE) + made_of, some))
    return found


def documents_of(script: bytes) -> dict[tuple[str, str], list[Document]]:
    """Return (key, stamp) of a session -> its documents, of a piece as :func:`script` wrote it; empty for anything else."""
    try:
        text = script[script.index(b",") + 1 : script.rindex(b")")]
        held = json.loads(zlib.decompress(base64.b64decode(json.loads(text))))
        found: dict[tuple[str, str], list[Document]] = {
            (key, stamp): [] for key, stamp in zip(held["sessions"], held["stamps"], strict=True)
        }
        names = list(found)
        for document in held["documents"]:
            found[names[document[0]]].append(document)
    except (ValueError, KeyError, IndexError, TypeError, zlib.error):
        return {}
    return found


def documents_of_rows(rows: WholeSession) -> list[Document]:
    """Return the documents of a session whose events are at hand, the same as those that :func:`documents` makes."""
    ids = [thread.thread_id for thread in rows.threads]
    said = sorted(
        (event for event in rows.events if event.text and event.kind in KINDS),
        key=lambda event: (ids[event.thread] if event.thread < len(ids) else "", event.seq),
    )
    most = {kind: LONGEST_CALL if kind == "tool_call" else LONGEST for kind in KINDS}
    told = ((0, e.kind, zlib.crc32(e.event_id.encode()), e.at, (e.text or "")[: most[e.kind]]) for e in said)
    return documents(told, 1)[0]


def documents(rows: Iterable[tuple[int, str, int, int | None, str]], sessions: int) -> list[list[Document]]:
    """Return the documents of each session from (its number, kind, crc of the event id, milliseconds, text) in reading order."""
    found: list[list[Document]] = [[] for _ in range(sessions)]
    for n, kind, mark, at, text in rows:
        found[n].append([n, KINDS.index(kind), mark, at, seen(text)])
    return found


def script(piece: Piece, held: Sequence[list[Document]]) -> bytes:
    """Return the script of a piece from the documents of each of its sessions."""
    told = [[n, *document[1:]] for n, own in enumerate(held) for document in own]
    value = {"sessions": [s.key for s in piece.sessions], "stamps": [s.stamp for s in piece.sessions], "documents": told}
    return chunk(f"words-{piece.name}", packed(value))

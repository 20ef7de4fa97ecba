"""What the page searches from disk, in pieces, the newest first: all that the index holds of newest sessions, what was said of others."""

from __future__ import annotations

import zlib
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ctx_pipeline.dashboard.data import PAGE_VERSION
from ctx_pipeline.dashboard.page import packed_chunk, unpacked_chunk, without_hidden
from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.search_index.tokenize import DONE, DONE_CHARS, SAID, SAID_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.dashboard.data import SessionLine
    from ctx_pipeline.storage.warehouse.transcript_queries import WholeSession

SESSIONS, BYTES = 100, 16_000_000
"""Sessions of a piece, and their recorded bytes (one larger session is a piece of its own)."""
WHOLE, MOST = 64_000_000, 320_000_000
"""Recorded bytes of the newest sessions of which everything is searched that the index holds, and of all that are searched from disk."""

KINDS = ("prompt", "answer", "title", "compaction", "error", "tool_call", "tool_result", "reasoning", "injected", "todo")
"""Kinds of events that are searched, by their number in a document."""
BRIEF = KINDS[:6]
"""Those of a session that is not searched whole."""
LONGEST_WHOLE = max(SAID_CHARS, DONE_CHARS)
LONGEST, LONGEST_CALL = 1_200, 400
"""Characters of an event, and of a tool call, that are searched in such a session: what a call is about stands first."""


_encode = msgspec.json.Encoder().encode

Document = tuple[int, int, int | None, str, int]
"""kind, crc of the event id, milliseconds, text, number of the event in its session"""


class Searched(NamedTuple):
    """A session that is searched from disk, and whether it is searched as the index holds it."""

    line: SessionLine
    whole: bool

    @property
    def id(self) -> tuple[str, str]:
        """Key of the session, and text that differs when anything differs that its documents are made from."""
        return self.line.key, f"{self.line.content}{'+' * self.whole}"

    def longest(self, kind: str) -> int:
        """Return how many characters of an event are searched, none of kinds that are not."""
        if self.whole:
            return SAID_CHARS if kind in SAID else DONE_CHARS if kind in DONE else 0
        return LONGEST_CALL if kind == "tool_call" else LONGEST if kind in BRIEF else 0


class Piece(NamedTuple):
    """Some sessions of one month, in the order in which they began.

    The name begins with a hash of which piece it is, and ends with one of what it is made of.
    """

    name: str
    sessions: tuple[Searched, ...]


PLACE = 8
"""Characters of a name that say which piece it is."""


def pieces(sessions: Sequence[SessionLine]) -> list[Piece]:
    """Return the pieces that hold the newest sessions, newest first; a new session changes the last piece of its month alone."""
    by_month: dict[str, list[SessionLine]] = {}
    for line in sessions:
        by_month.setdefault(f"{line.first_ts:%Y-%m}" if line.first_ts else "", []).append(line)
    found: list[Piece] = []
    newer = 0
    for month in sorted(by_month, reverse=True):
        for number, members in reversed(list(enumerate(_cut(by_month[month][::-1])))):
            if newer >= MOST:
                return found
            some = tuple(Searched(line, newer < WHOLE) for line in members)
            made_of = digest(PAGE_VERSION, [(s.line.host, s.line.session_id, s.id[1]) for s in some], size=24 - PLACE)
            found.append(Piece(digest("words", month, number, size=PLACE) + made_of, some))
            newer += sum(line.bytes for line in members)
    return found


def _cut(members: Sequence[SessionLine]) -> list[list[SessionLine]]:
    """Return the sessions of a month in pieces, from the oldest on."""
    cut: list[list[SessionLine]] = []
    held = 0
    for line in members:
        if not cut or len(cut[-1]) == SESSIONS or held + line.bytes > BYTES:
            cut.append([])
            held = 0
        cut[-1].append(line)
        held += line.bytes
    return cut


def documents_of(script: bytes) -> dict[tuple[str, str], list[Document]]:
    """Return (key, stamp) of a session -> its documents, of a piece as :func:`script` wrote it; empty for anything else."""
    try:
        held = unpacked_chunk(script)
        rows = zip(held["kinds"], held["marks"], _whole(held["times"]), held["texts"], accumulate(held["numbers"]), strict=True)
        names = zip(held["sessions"], held["stamps"], held["counts"], strict=True)
        found: dict[tuple[str, str], list[Document]] = {(key, stamp): list(islice(rows, count)) for key, stamp, count in names}
    except (ValueError, KeyError, IndexError, TypeError):
        return {}
    return found


def documents_of_rows(session: Searched, rows: WholeSession) -> list[Document]:
    """Return the documents of a session whose events are at hand, the same as those that :func:`documents` makes."""
    ids = [thread.thread_id for thread in rows.threads]
    ordered = sorted(rows.events, key=lambda event: (ids[event.thread] if event.thread < len(ids) else "", event.seq))
    return documents(session, ((e.kind, e.event_id, e.at, e.text) for e in ordered if session.whole or e.kind in BRIEF))


def documents(session: Searched, rows: Iterable[tuple[str, str, int | None, str | None]]) -> list[Document]:
    """Return the documents of a session from (kind, event id, milliseconds, text) of its events in reading order.

    The events of a session that is searched whole are all there: how many stand between two of them counts.
    """
    found: list[Document] = []
    for row, (kind, event_id, at, text) in enumerate(rows):
        if text and (told := text[: session.longest(kind)]):
            found.append((KINDS.index(kind), zlib.crc32(event_id.encode()), at, without_hidden(told), row))
    return found


def script(piece: Piece, held: Sequence[list[Document]]) -> bytes:
    """Return the script of a piece from the documents of each of its sessions.

    What is alike stands together, and of times and numbers how far each is from the one before: it packs into a tenth less.
    """
    kinds, marks, times, texts, numbers = zip(*chain.from_iterable(held), strict=True) if any(held) else ((),) * 5
    keys, stamps = zip(*(s.id for s in piece.sessions), strict=True)
    rows = [s.line.events if s.whole else len(own) for s, own in zip(piece.sessions, held, strict=True)]
    value = {
        "sessions": keys,
        "stamps": stamps,
        "rows": rows,
        "counts": [len(own) for own in held],
        "kinds": kinds,
        "marks": marks,
        "times": _steps(times),
        "texts": texts,
        "numbers": _steps(numbers),
    }
    return packed_chunk(f"words-{piece.name}", _encode(value))


def _steps(values: Iterable[int | None]) -> list[int | None]:
    """Return how far each number is from the one before it; None stays."""
    steps: list[int | None] = []
    last = 0
    for value in values:
        steps.append(None if value is None else value - last)
        last = last if value is None else value
    return steps


def _whole(steps: Iterable[int | None]) -> Iterator[int | None]:
    """Yield the numbers of which :func:`_steps` made steps."""
    last = 0
    for step in steps:
        last += step or 0
        yield None if step is None else last


def places(first_rows: Mapping[tuple[str, str], int], top: int) -> tuple[str, bytes]:
    """Return name and script of the piece that numbers the first event of each (host, session id) over all, and how many events there are.

    Rows that score alike are told apart by them, and how seldom a word is depends on all rows.
    """
    value = {"keys": [digest(*session, size=16) for session in first_rows], "firsts": list(first_rows.values()), "top": top}
    name = digest(PAGE_VERSION, value, size=24)
    return name, packed_chunk(f"words-{name}", _encode(value))

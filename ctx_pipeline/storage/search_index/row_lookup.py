"""The small tables of the index in memory: whose row it is, where it lies, which rows are meant, and counts by facet."""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import partial
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged, StoreError, StoreFull
from ctx_pipeline.model.tables import EVENT_KINDS
from ctx_pipeline.storage.connections import is_full, is_unwritable, reading
from ctx_pipeline.storage.search_index.row_attributes import OUTCOMES, Marks, blank, thread_of, tool_of, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


Session = tuple[str, str]
"""(host, session id)"""


class Wanted(NamedTuple):
    """Which rows are meant; None is any. Tools are in lower case. Times are quarters of an hour since 1970, ``until`` is not included."""

    session: Callable[[str, str], bool] | None = None
    kinds: Collection[str] | None = None
    tools: Collection[str] | None = None
    outcomes: Collection[str] | None = None
    since: int | None = None
    until: int | None = None

    @property
    def by_row(self) -> bool:
        """Whether rows of one session differ."""
        return any(chosen is not None for chosen in self[1:])


class Span(NamedTuple):
    """The rows of one session in one part."""

    first: int
    last: int
    host: str
    session_id: str

    @property
    def session(self) -> Session:
        """Host and session id."""
        return self.host, self.session_id


class RowAttributes(NamedTuple):
    """Kind, tool, outcome, thread and time of a row."""

    kind: str
    tool: str | None
    outcome: str
    thread_id: str | None
    quarter: int
    """quarters of an hour since 1970, 0 where no time is known"""


class Documents(NamedTuple):
    """How many documents there are, and how many words all of them have."""

    number: int
    words: int

    def __add__(self, other: Documents) -> Documents:  # type: ignore[override]
        """Return both together."""
        return Documents(self.number + other.number, self.words + other.words)

    @property
    def usual(self) -> float:
        """Words of a document, at least one."""
        return max(1.0, self.words / max(1, self.number))


def numbers_of(packed: bytes) -> list[int]:
    """Return the numbers that FTS5 packed, seven bits a byte, the highest first."""
    numbers, value = [], 0
    for byte in packed:
        value = value << 7 | byte & 127
        if byte < 128:
            numbers.append(value)
            value = 0
    return numbers


def documents_between(connection: sqlite3.Connection, first: int, last: int) -> Documents:
    """Return the documents of a range of rows."""
    sizes = [sum(numbers_of(size)) for (size,) in connection.execute(_SIZES, (first, last))]
    return Documents(len(sizes), sum(sizes))


def dead_documents(connection: sqlite3.Connection) -> Documents:
    """Return the documents of dead rows; those of an index that has not counted them, as an older version did not, are counted."""
    known = dict(connection.execute("SELECT name, value FROM state WHERE name IN (?, ?)", DEAD))
    if known:
        return Documents(*(int(known[name]) for name in DEAD))
    ranges = connection.execute("SELECT first, last FROM dead").fetchall()
    return sum((documents_between(connection, *each) for each in ranges), Documents(0, 0))


DEAD = ("dead_documents", "dead_words")
"""Names in the state under which dead documents are counted."""

_SIZES = "SELECT sz FROM history_docsize WHERE id BETWEEN ? AND ?"


class RowLookup:
    """What the index holds, as of one state of its file."""

    def __init__(self, connection: sqlite3.Connection, stamp: tuple[int, int]) -> None:
        self.stamp = stamp
        self.spans = list(map(Span._make, connection.execute("SELECT first, last, host, session_id FROM spans ORDER BY first")))
        self._firsts = [span.first for span in self.spans]
        self._parts: list[tuple[int, int, str, int]] = connection.execute(
            "SELECT base, rows, part, first_row FROM parts ORDER BY base"
        ).fetchall()
        self._bases = [part[0] for part in self._parts]
        self._marked: list[tuple[int, int]] = connection.execute("SELECT base, rows FROM marks ORDER BY base").fetchall()
        self._mark_bases = [base for base, _ in self._marked]
        self._marks: dict[int, Marks] = {}
        self.connection = connection
        dead = connection.execute("SELECT coalesce(max(last), 0) FROM dead").fetchone()[0]
        self.top: int = max([dead, *(span.last for span in self.spans), *(base + rows - 1 for base, rows, _, _ in self._parts)])
        """highest row id"""
        self.live = sum(span.last - span.first + 1 for span in self.spans)
        """rows of sessions that are found"""
        self.gaps = self.live < self.top
        """whether some row up to there is dead"""
        self._alive: bytes | None = None
        self._documents: tuple[Documents, Documents] | None = None
        self._places: dict[int, int] = {}
        place = 1
        months = dict(connection.execute("SELECT s.first, p.month FROM spans s JOIN parts p ON p.part = s.part"))
        for span in sorted(self.spans, key=lambda span: (months.get(span.first, ""), span.host, span.session_id, span.first)):
            self._places[span.first] = place
            place += span.last - span.first + 1

    def span_of(self, rowid: int) -> Span | None:
        """Return the session that a row belongs to, None for a dead row."""
        number = bisect_right(self._firsts, rowid) - 1
        return self.spans[number] if number >= 0 and rowid <= self.spans[number].last else None

    def counted(self, rowids: Sequence[int]) -> list[tuple[Span, int]]:
        """Return each session that has some of the ascending row ids, and how many; dead rows are left out."""
        firsts, spans = self._firsts, self.spans
        place, count = 0, len(rowids) if spans else 0
        found = []
        while place < count:
            number = bisect_right(firsts, rowids[place]) - 1
            span = spans[number]
            if number < 0 or rowids[place] > span[1]:
                if number + 1 >= len(spans):
                    break
                place = bisect_left(rowids, firsts[number + 1], place)
                continue
            end = bisect_right(rowids, span[1], place)
            found.append((span, end - place))
            place = end
        return found

    def by_span(self, rowids: Sequence[int]) -> Iterator[tuple[Span, int, int]]:
        """Yield each session that has some of the ascending row ids, and from which place to which; dead rows are left out."""
        place, count = 0, len(rowids)
        while place < count:
            number = bisect_right(self._firsts, rowids[place]) - 1
            if number < 0 or rowids[place] > self.spans[number].last:
                if number + 1 >= len(self.spans):
                    return
                place = bisect_left(rowids, self._firsts[number + 1], place)
                continue
            end = bisect_right(rowids, self.spans[number].last, place)
            yield self.spans[number], place, end
            place = end

    def place_of(self, rowid: int) -> tuple[str, int] | None:
        """Return the part and the row in it, None where no part has it."""
        number = bisect_right(self._bases, rowid) - 1
        if number < 0:
            return None
        base, rows, part, first_row = self._parts[number]
        return (part, first_row + rowid - base) if rowid < base + rows else None

    def rows_of_parts(self) -> list[tuple[int, int, str, int]]:
        """Return (first row id, rows, part, its first row) of every piece of a part, in order of the row ids."""
        return self._parts

    def attributes_of(self, rowid: int) -> RowAttributes:
        """Return what the marks say of a row."""
        base, marks = self._marks_at(rowid)
        row = rowid - base
        kind, outcome = EVENT_KINDS[marks.kinds[row]], OUTCOMES[marks.outcomes[row]]
        return RowAttributes(kind, tool_of(marks, row), outcome, thread_of(marks, row), marks.quarters[row])

    def mask(self, wanted: Wanted) -> bytes:
        """Return a byte for each row id up to the highest, 1 where the row is alive and meant."""
        chosen = bytearray(self.top + 1)
        for first, last, host, session_id in self.spans:
            if wanted.session is None or wanted.session(host, session_id):
                chosen[first : last + 1] = b"\1" * (last - first + 1)
        if not wanted.by_row:
            return bytes(chosen)
        meant = bytearray(self.top + 1)
        for base, rows, marks in self._all_marks():
            end = min(rows, self.top + 1 - base)
            if end > 0 and (piece := _meant(marks, wanted)) is not None:
                meant[base : base + end] = piece[:end]
        both = int.from_bytes(chosen, "little") & int.from_bytes(meant, "little")
        return both.to_bytes(self.top + 1, "little")

    def alive(self, rowids: Sequence[int], mask: bytes | None) -> list[int]:
        """Return those of some row ids that are alive and, with a mask, meant; in their order."""
        if mask is not None:
            end = len(mask)
            return list(compress(rowids, [mask[r] if r < end else 0 for r in rowids]))
        return self.alive(rowids, self.living()) if self.gaps else list(rowids)

    def living(self) -> bytes:
        """Return a byte for each row id up to the highest, 1 where the row is alive."""
        if self._alive is None:
            self._alive = self.mask(Wanted())
        return self._alive

    def documents(self) -> tuple[Documents, Documents]:
        """Return all documents, as FTS5 counts them, and those that are alive."""
        if self._documents is None:
            count, *words = numbers_of(self.connection.execute("SELECT block FROM history_data WHERE id = 1").fetchone()[0])
            every, gone = Documents(count, sum(words)), dead_documents(self.connection)
            self._documents = every, Documents(every.number - gone.number, every.words - gone.words)
        return self._documents

    def newest_first(self, rowids: Sequence[int]) -> list[int]:
        """Return ascending row ids by the time of their events, the newest first; those without a time last.

        Events of one time are in the order of their sessions, of one session the later one first, whenever they were captured.
        """
        placed: list[tuple[int, int, int]] = []
        for base, rows, marks in self._all_marks():
            own = rowids[bisect_left(rowids, base) : bisect_left(rowids, base + rows)]
            placed += [(marks.quarters[row - base], self._place_of_event(row), row) for row in own]
        placed.sort(reverse=True)
        return [row for _, _, row in placed]

    def order_of(self, rowid: int) -> tuple[int, int]:
        """Return what orders a row among its equals: the higher the newer, the same however the sessions came into the index."""
        base, marks = self._marks_at(rowid)
        return marks.quarters[rowid - base], self._place_of_event(rowid)

    def places(self) -> dict[Session, int]:
        """Return the number of each session's first row over the sessions in the order of months and ids."""
        return {span.session: self._places[span.first] for span in self.spans}

    def _place_of_event(self, rowid: int) -> int:
        """Return the number of a row, from 1, over the sessions in the order of months and ids; 0 for a dead row."""
        span = self.span_of(rowid)
        return self._places[span.first] + rowid - span.first if span else 0

    def counts(self, rowids: Sequence[int], month: Callable[[int], str], project: Mapping[Session, str]) -> dict[str, dict[str, int]]:
        """Return how many of ascending live row ids each host, project, session, kind, tool, outcome and month has, the most first.

        Every facet but ``tool`` and ``outcome`` (which only tool calls and their results have) adds up to the number of rows.
        """
        found: dict[str, Counter[Any]] = {name: Counter() for name in ("host", "project", "session", "kind", "tool", "outcome", "month")}
        for span, start, end in self.by_span(rowids):
            found["host"][span.host] += end - start
            found["project"][project.get(span.session) or "unknown"] += end - start
            found["session"]["/".join(span.session)] += end - start
        quarters: Counter[int] = Counter()
        for base, rows, marks in self._all_marks():
            start, end = bisect_left(rowids, base), bisect_left(rowids, base + rows)
            if start < end:
                own = [r - base for r in rowids[start:end]]
                # one row more, since an itemgetter of a single one gives no tuple
                chosen = itemgetter(*own, own[0])
                _add(found["kind"], _counted(chosen(marks.kinds)[:-1]), lambda n: EVENT_KINDS[n])
                _add(found["outcome"], _counted(chosen(marks.outcomes)[:-1]), lambda n: OUTCOMES[n])
                _add(found["tool"], _counted(chosen(marks.tools)[:-1]), partial(_tool, marks.names))
                quarters.update(chosen(marks.quarters)[:-1])
        for quarter, count in quarters.items():
            found["month"][month(quarter) if quarter else "unknown"] += count
        found["tool"].pop("", None)
        found["outcome"].pop("none", None)
        return {name: dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))) for name, counted in found.items()}

    def tools(self) -> set[str]:
        """Return the names of all tools whose calls are indexed."""
        return {name for _, _, marks in self._all_marks() for name in marks.names if name}

    def _all_marks(self) -> Iterator[tuple[int, int, Marks]]:
        if len(self._marks) < len(self._marked):
            for base, rows, record in self.connection.execute("SELECT base, rows, packed FROM marks ORDER BY base"):
                if base not in self._marks:
                    self._marks[base] = unpacked(record, rows) if record else blank(rows)
        for base, rows in self._marked:
            yield base, rows, self._marks[base]

    def _marks_at(self, rowid: int) -> tuple[int, Marks]:
        number = bisect_right(self._mark_bases, rowid) - 1
        if number < 0 or rowid >= sum(self._marked[number]):
            return rowid, blank(1)
        base, rows = self._marked[number]
        if base not in self._marks:
            record = self.connection.execute("SELECT packed FROM marks WHERE base = ?", (base,)).fetchone()[0]
            self._marks[base] = unpacked(record, rows) if record else blank(rows)
        return base, self._marks[base]


def _tool(names: Sequence[str], number: int) -> str:
    return "" if number == 0 else names[number - 1] if number <= len(names) else "(other)"


def _counted(values: Iterable[int]) -> dict[int, int]:
    """Return how often each byte is there."""
    packed = bytes(values)
    return {value: packed.count(value) for value in set(packed)}


def _add(into: Counter[Any], counted: Mapping[int, int], name: Callable[[int], str]) -> None:
    for number, count in counted.items():
        into[name(number)] += count


def _meant(marks: Marks, wanted: Wanted) -> bytes | None:
    """Return 1 for each row of a part that is meant by kind, tool, outcome and time; None where none is."""
    pieces = []
    if wanted.kinds is not None:
        pieces.append(marks.kinds.translate(_table(n for n, kind in enumerate(EVENT_KINDS) if kind in wanted.kinds)))
    if wanted.outcomes is not None:
        pieces.append(marks.outcomes.translate(_table(n for n, outcome in enumerate(OUTCOMES) if outcome in wanted.outcomes)))
    if wanted.tools is not None:
        numbers = [n for n, tool in enumerate(marks.names, 1) if tool.lower() in wanted.tools]
        if not numbers:
            return None
        pieces.append(marks.tools.translate(_table(min(n, 255) for n in numbers)))
    if wanted.since is not None or wanted.until is not None:
        low, high = wanted.since or 1, wanted.until if wanted.until is not None else 1 << 32
        pieces.append(bytes([low <= quarter < high for quarter in marks.quarters]))
    both = int.from_bytes(pieces[0], "little")
    for piece in pieces[1:]:
        both &= int.from_bytes(piece, "little")
    return both.to_bytes(len(marks.kinds), "little")


def _table(numbers: Iterable[int]) -> bytes:
    chosen = bytearray(256)
    for number in numbers:
        chosen[number] = 1
    return bytes(chosen)


# The file of the search index: its tables, its settings, and what its errors mean.


_SCHEMA = """
CREATE TABLE parts(base INTEGER PRIMARY KEY, rows INTEGER NOT NULL, host TEXT NOT NULL, month TEXT NOT NULL,
                   part TEXT NOT NULL, first_row INTEGER NOT NULL);
CREATE INDEX parts_by_path ON parts(part);
CREATE TABLE spans(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, host TEXT NOT NULL, session_id TEXT NOT NULL, part TEXT NOT NULL);
CREATE INDEX spans_by_session ON spans(host, session_id);
CREATE TABLE dead(first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE marks(base INTEGER PRIMARY KEY, rows INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE TABLE pages(part TEXT PRIMARY KEY, places BLOB NOT NULL);
CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE history USING fts5(done, said, content='', tokenize='unicode61');
"""
VERSION = 2
HASH_BYTES = 32 * 1024 * 1024
SPARE_PAGES = 2_048
"""Free pages of 4 kB that a file may always have: small additions use them."""

_ANEW = "run `ctx run`: it is made anew"


def create(path: Path) -> sqlite3.Connection:
    """Return a connection to a new, empty index that nobody else sees yet: it is not durable before :func:`sync`."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.executescript(_SCHEMA)
    connection.execute(f"PRAGMA user_version={VERSION}")
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to an index that exists; StoreDamaged when it is no index of this version."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        try:
            version = scalar(connection, "PRAGMA user_version")
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not (is_unwritable(error) or is_full(error)):
                raise
            connection.close()
            connection = reading(path, check_same_thread=False)
            version = scalar(connection, "PRAGMA user_version")
        connection.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.OperationalError as error:
        connection.close()
        raise StoreError(f"the search index cannot be opened: {error}", hint="ctx doctor", path=str(path)) from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise StoreDamaged("the search index search.db is damaged", hint=_ANEW, path=str(path)) from error
    if version != VERSION:
        connection.close()
        raise StoreDamaged(f"the search index search.db has version {version}, not {VERSION}", hint=_ANEW, path=str(path))
    return connection


def tune(connection: sqlite3.Connection) -> None:
    """Make the index ready for small additions."""
    # automerge 4 and crisismerge 16 would merge the bulk segment again: commits of a second, a doubled file
    connection.execute("INSERT INTO history(history, rank) VALUES('automerge', 8)")
    connection.execute("INSERT INTO history(history, rank) VALUES('crisismerge', 64)")


def mostly_free(connection: sqlite3.Connection) -> bool:
    """Tell whether a large part of the file is free pages, which a merge of the index leaves: enough to be worth a copy of the rest."""
    pages, free = (scalar(connection, f"PRAGMA {name}") for name in ("page_count", "freelist_count"))
    return free > max(SPARE_PAGES, pages // 4)


def copy_without_free(connection: sqlite3.Connection, path: Path) -> None:
    """Write what an index holds into a new file, without its free pages; it is not durable before :func:`sync`."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection.execute("VACUUM INTO ?", (str(path),))


def scalar(connection: sqlite3.Connection, sql: str) -> int:
    """Return the first value of the first row as a number."""
    return int(connection.execute(sql).fetchone()[0])


def rows_of(connection: sqlite3.Connection, ranges: str) -> int:
    """Return how many rows the ranges in ``dead`` or ``spans`` cover."""
    return scalar(connection, f"SELECT coalesce(sum(last - first + 1), 0) FROM {ranges}")


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from another one of its name; zeros where there is none."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def sync(path: Path) -> None:
    """Make a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def full(error: sqlite3.OperationalError) -> StoreFull | None:
    """Return the error to raise instead when there is no room, else None."""
    return StoreFull("no room for the search index", hint="free some space and run again") if is_full(error) else None

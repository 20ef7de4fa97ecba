"""Full-text indexes over single texts: artifacts by headings, ranked by BM25, and texts as of a moment."""

from __future__ import annotations

import math
import os
import re
import sqlite3
from array import array
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, Self

from ctx_pipeline.errors import StoreDamaged, StoreError, StoreLocked
from ctx_pipeline.storage.connections import is_locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np


# Full-text index over artifacts and documents: chunks that follow headings, ranked by BM25, whose term weight
# saturates.


FILE = "artifacts.db"
LONGEST_CHUNK = 2_000
"""Characters of a chunk; a longer section is cut at a blank line, else at a line."""

MOST_CHUNKS = 400
"""Chunks of one document; what is behind them is not found."""

_HEADING = re.compile(r"^(#{1,6})\s+(\S.*?)\s*#*$")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, stamp TEXT NOT NULL)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS chunks USING fts5(heading, body, document UNINDEXED, line UNINDEXED, tokenize = 'unicode61')",
)


class Document(NamedTuple):
    """Something to be found: its stamp changes when its text does, and only then the text is asked for."""

    id: str
    name: str
    kind: str
    stamp: str
    text: Callable[[], str]


class Chunk(NamedTuple):
    """A part of a text under its headings."""

    heading: str
    """headings above it, from the outermost"""
    line: int
    """first line, from 1"""
    body: str


class Found(NamedTuple):
    """A chunk that answers a question."""

    document: str
    name: str
    kind: str
    heading: str
    line: int
    snippet: str
    """the words found stand between brackets"""
    score: float
    """higher is better"""


class Synced(NamedTuple):
    """What a look at the documents changed in the index."""

    added: int
    changed: int
    unchanged: int
    removed: int


def chunks_of(text: str) -> list[Chunk]:
    """Return a text in chunks that follow its Markdown headings; fenced code holds none."""
    found: list[Chunk] = []
    stack: list[tuple[int, str]] = []
    lines: list[str] = []
    start = 1
    fenced = False

    def close() -> None:
        if any(line.strip() for line in lines):
            heading = " > ".join(name for _, name in stack)
            found.extend(_cut(heading, start, lines))

    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        match = None if fenced else _HEADING.match(line)
        if match:
            close()
            level = len(match[1])
            stack = [*(pair for pair in stack if pair[0] < level), (level, match[2])]
            lines, start = [], number
        lines.append(line)
    close()
    return found[:MOST_CHUNKS]


def _cut(heading: str, start: int, lines: list[str]) -> list[Chunk]:
    """Return a section as chunks of bearable length, cut at blank lines where there are some; a longer line is cut itself."""
    made: list[Chunk] = []
    held: list[str] = []
    first, size = start, 0
    for number, line in enumerate(lines, start):
        for piece in [line[n : n + LONGEST_CHUNK] for n in range(0, max(len(line), 1), LONGEST_CHUNK)]:
            full = size + len(piece) > LONGEST_CHUNK
            if held and (full or (not line.strip() and size > LONGEST_CHUNK // 2)):
                made.append(Chunk(heading, first, "\n".join(held)))
                held, first, size = [], number, 0
            held.append(piece)
            size += len(piece) + 1
    if any(line.strip() for line in held):
        made.append(Chunk(heading, first, "\n".join(held)))
    return made


class ArtifactIndex:
    """The index of one store; made when it is first used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        fresh = not path.exists()
        if fresh:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._connection.execute("PRAGMA secure_delete = ON")
            for statement in _TABLES:
                self._connection.execute(statement)
        except sqlite3.DatabaseError as error:
            raise _store_error(error, path) from error

    def sync(self, documents: Iterable[Document]) -> Synced:
        """Bring the index to exactly these documents: new and changed ones are read, others left alone, missing ones removed."""
        wanted = {d.id: d for d in documents}
        try:
            known = dict(self._connection.execute("SELECT id, stamp FROM documents"))
            fresh = [d for d in wanted.values() if known.get(d.id) != d.stamp]
            gone = [i for i in known if i not in wanted]
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._drop([*gone, *(d.id for d in fresh if d.id in known)])
                for d in fresh:
                    self._connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?)", (d.id, d.name, d.kind, d.stamp))
                    rows = [(c.heading, c.body, d.id, c.line) for c in chunks_of(d.text())]
                    self._connection.executemany("INSERT INTO chunks (heading, body, document, line) VALUES (?, ?, ?, ?)", rows)
        except sqlite3.DatabaseError as error:
            raise _store_error(error, self.path) from error
        if gone:
            self._optimize()
        changed = sum(d.id in known for d in fresh)
        return Synced(len(fresh) - changed, changed, len(wanted) - len(fresh), len(gone))

    def remove(self, ids: Iterable[str]) -> None:
        """Take documents out with all their chunks, so that the file holds no trace of them."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._drop(list(ids))
        self._optimize()

    def search(self, query: str, *, limit: int) -> list[Found]:
        """Return the chunks that hold some of the words, best first; headings count double."""
        words = re.findall(r"\w+", query)[:40]
        if not words:
            return []
        asked = " OR ".join(f'"{word}"' for word in words)
        sql = (
            "SELECT d.id, d.name, d.kind, c.heading, c.line, snippet(chunks, 1, '[', ']', '…', 24), -bm25(chunks, 2.0, 1.0) AS score "
            "FROM chunks c JOIN documents d ON d.id = c.document WHERE chunks MATCH ? ORDER BY score DESC, d.name, c.line LIMIT ?"
        )
        try:
            return [Found._make(row) for row in self._connection.execute(sql, (asked, limit))]
        except sqlite3.DatabaseError as error:
            raise _store_error(error, self.path) from error

    def counts(self) -> dict[str, int]:
        """Return how many documents and chunks it holds."""
        return {
            "documents": self._connection.execute("SELECT count(*) FROM documents").fetchone()[0],
            "chunks": self._connection.execute("SELECT count(*) FROM chunks").fetchone()[0],
        }

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _drop(self, ids: list[str]) -> None:
        for one in ids:
            self._connection.execute("DELETE FROM chunks WHERE document = ?", (one,))
            self._connection.execute("DELETE FROM documents WHERE id = ?", (one,))

    def _optimize(self) -> None:
        # FTS5 keeps deleted words in its segments until they are merged
        self._connection.execute("INSERT INTO chunks(chunks) VALUES ('optimize')")
        self._connection.execute("VACUUM")


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    if is_locked(error):
        return StoreLocked(f"{path} is locked by another process", hint="wait for the other ctx process to end")
    return StoreDamaged(f"{path} cannot be used: {error}", hint=f"remove {path.name}: the next search makes it anew")


# A full-text index over texts with a number and a place, for asking as of an earlier moment; kept nowhere. SQLite cuts and
# holds the words. BM25 is summed here, as FTS5 does: it would count the texts of every word anew for every question.


LONGEST = 8_192
"""Characters of a text that are looked at."""

_WORDS = 16
"""Words of a question that are looked for, the rarest."""

_MOST_HELD = 32_000_000
"""Places and scores of words that are held at most, eight and twelve bytes each."""

_SATURATION, _BY_LENGTH = 1.2, 0.75
_LEAST_WEIGHT = 1e-6
"""Constants of BM25 in FTS5."""

_OFFSETS = 16
"""Bits of a word's place in a text, which has at most ``LONGEST`` words."""

_PLACE = 2
"""Words that a text's place counts for in its length."""


class PastText:
    """Texts with numbers; a question is asked of those below a number, at some places."""

    def __init__(self) -> None:
        # an empty name is a file that SQLite keeps in memory while it is small and removes at the end
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE VIRTUAL TABLE past USING fts5(text, content='', tokenize='unicode61', columnsize=1);"
            "CREATE VIRTUAL TABLE words USING fts5vocab(past, 'instance');"
            "CREATE VIRTUAL TABLE asked USING fts5(text, content='', tokenize='unicode61');"
            "CREATE VIRTUAL TABLE asked_words USING fts5vocab(asked, 'instance');"
        )
        self._numbers, self._places = array("q"), array("q")
        self._lengths: np.ndarray | None = None
        self._scores: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._parts: dict[str, np.ndarray] = {}
        self._held = 0

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it; it is gone."""
        self._db.close()

    def add(self, texts: Iterable[tuple[int, int, str]]) -> None:
        """Index (number, place, text) rows."""
        self._lengths, self._scores, self._parts, self._held = None, {}, {}, 0
        self._db.execute("BEGIN")
        for number, place, text in texts:
            self._db.execute("INSERT INTO past(rowid, text) VALUES (?, ?)", [len(self._numbers), text[:LONGEST]])
            self._numbers.append(number)
            self._places.append(place)
        self._db.execute("COMMIT")

    def best(self, words: Sequence[str], *, places: Iterable[int], before: int, limit: int) -> list[int]:
        """Return the numbers below ``before`` of the texts at these places that fit best by BM25, best first."""
        import numpy as np

        if not self._numbers:
            return []
        scores = np.zeros(len(self._numbers))
        for word in self._rarest(words):
            rows, gains = self._found(word)
            scores[rows] += gains
        hits = np.flatnonzero(scores > 0)  # ten times as fast as of numbers
        numbers = np.frombuffer(self._numbers, dtype=np.int64)[hits]
        seen = (numbers < before) & np.isin(np.frombuffer(self._places, dtype=np.int64)[hits], list(places))
        numbers, scores = numbers[seen], scores[hits[seen]]
        if len(numbers) > limit:
            high = scores >= np.partition(scores, -limit)[-limit]
            numbers, scores = numbers[high], scores[high]
        return numbers[np.lexsort((numbers, -scores))][:limit].tolist()  # type: ignore[no-any-return]

    def _rarest(self, words: Sequence[str]) -> list[str]:
        """Return the words that are found in the fewest texts, those of several parts first; other words in none are left out."""
        counted = []
        for word in dict.fromkeys(w.lower() for w in words):
            count = len(self._found(word)[0])
            if count or not word.isalnum():
                counted.append((count if word.isalnum() else 0, word))
        return [word for _, word in sorted(counted)[:_WORDS]]

    def _found(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts that hold a word, its parts in a row, and what that adds to the score of each."""
        found = self._scores.get(word)
        if found is None:
            found = self._scored(word)
            self._keep(len(found[0]))
            self._scores[word] = found
        return found

    def _scored(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        self._db.execute("INSERT INTO asked(rowid, text) VALUES (1, ?)", [word])
        parts = [part for (part,) in self._db.execute("SELECT term FROM asked_words ORDER BY offset")]
        self._db.execute("INSERT INTO asked(asked) VALUES ('delete-all')")
        begins = np.zeros(0, dtype=np.int64)
        places = sorted(((n, self._positions(part)) for n, part in enumerate(parts)), key=lambda found: len(found[1]))
        for number, (n, at) in enumerate(places):
            meets = np.searchsorted(at, begins + n).clip(max=len(at) - 1)
            begins = begins[at[meets] == begins + n] if number and len(at) else at - n
        rows, times = np.unique(begins >> _OFFSETS, return_counts=True)
        if self._lengths is None:
            sizes = self._db.execute("SELECT sz FROM past_docsize ORDER BY id")
            self._lengths = np.fromiter((_varint(size) + _PLACE for (size,) in sizes), dtype=np.int64)
        weight = max(math.log((len(self._lengths) - len(rows) + 0.5) / (len(rows) + 0.5)), _LEAST_WEIGHT) if len(rows) else 0.0
        length = self._lengths[rows] / self._lengths.mean()
        return rows.astype(np.int32), weight * (times * (_SATURATION + 1)) / (times + _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length))

    def _positions(self, part: str) -> np.ndarray:
        """Return where a word without parts stands: texts and places in them, in one number."""
        import numpy as np

        found = self._parts.get(part)
        if found is None:
            rows = self._db.execute(f"SELECT group_concat((doc << {_OFFSETS}) + offset) FROM words WHERE term = ?", [part])
            found = np.fromstring(rows.fetchone()[0] or "", dtype=np.int64, sep=",")
            self._keep(len(found))
            self._parts[part] = found
        return found

    def _keep(self, count: int) -> None:
        """Make room for so many more, if need be by forgetting all."""
        if self._held + count > _MOST_HELD:
            self._scores, self._parts, self._held = {}, {}, 0
        self._held += count


def _varint(size: bytes) -> int:
    """Return the number of words that FTS5 keeps for a text of one column."""
    return reduce(lambda n, byte: n << 7 | byte & 127, size, 0)

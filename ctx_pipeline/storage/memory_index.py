"""``memory.db``: full-text index over the memories, rebuilt whole and read with nothing but sqlite3."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.memories import WOVEN, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

VERSION = 1
_TOKENIZER = "porter unicode61 remove_diacritics 2 tokenchars '_'"
_FIELDS = Memory._fields
_LISTS = frozenset({"flags", "methods", "sessions", "evidence", "candidates", "links"})
_SCHEMA = f"""
CREATE TABLE memory (
    rowid INTEGER PRIMARY KEY, memory_id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, place INTEGER NOT NULL,
    shown INTEGER NOT NULL, row TEXT NOT NULL
);
CREATE TABLE places (place INTEGER PRIMARY KEY, scope TEXT NOT NULL, repository TEXT, cwd TEXT);
CREATE VIRTUAL TABLE memory_fts USING fts5(text, situation, body, names, place, content='', tokenize="{_TOKENIZER}");
CREATE VIRTUAL TABLE memory_words USING fts5vocab(memory_fts, 'row');
CREATE TABLE words (word TEXT PRIMARY KEY, items INTEGER NOT NULL) WITHOUT ROWID;
"""
_COMMON = 0.05
"""A word in more than this share of the items is looked for only where rarer words hit too few."""

_ENOUGH = 32
_MOST_OF_PLACES = 2_000
_TELLING = 6
"""A query weighs at most as much as so many unknown words: of a pasted page a lesson need not hold a third."""

_UNSAID = frozenset({"signature", "folder"})
"""Parts of a body that no search looks into."""

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_./:-][A-Za-z0-9]+)+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*")


class Recall(NamedTuple):
    """A memory that holds words of a query: BM25 (higher is better) and the share of the query's weight that it covers."""

    memory: Memory
    score: float
    covered: float


class MemoryIndex:
    """The memories of one store, for retrieval."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._stamp: tuple[int, int] | None = None
        self._stemmer: sqlite3.Connection | None = None

    def rebuild(self, memories: Iterable[Memory]) -> int:
        """Write all memories to a new file and put it in place of the old one; return how many there are."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with closing(sqlite3.connect(fresh, isolation_level=None)) as db:
                count = _fill(db, memories)
            descriptor = os.open(fresh, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            fresh.replace(self.path)
        finally:
            fresh.unlink(missing_ok=True)
        return count

    def recall(
        self, words: Sequence[str], *, allowed: Callable[[str, str | None, str | None], bool], accepted_only: bool = False, limit: int = 40
    ) -> list[Recall]:
        """Return at most ``limit`` memories that hold any of the words, best first.

        ``allowed(scope, repository, cwd)`` says whose memories may be seen; those held
        back for review, rejected, retired or superseded are never among them.
        """
        db = self._open()
        if db is None:
            return []
        places = [p for p, *where in db.execute("SELECT place, scope, repository, cwd FROM places") if allowed(*where)]
        terms = self._terms(db, words)
        if not places or not terms:
            return []
        everywhere = len(places) == db.execute("SELECT count(*) FROM places").fetchone()[0]
        status = ("accepted",) if accepted_only else WOVEN
        items = db.execute("SELECT count(*) FROM memory").fetchone()[0]
        total = min(sum(weight for _, _, weight, _ in terms), _TELLING * _weight(items, 0))
        hits: dict[int, float] = {}
        common = max(50.0, _COMMON * items)
        rare = [t for t in terms if t[3] <= common]
        for chosen in ([rare] if rare else []) + ([terms] if len(rare) < len(terms) else []):
            match = " OR ".join(phrase for _, phrase, _, _ in chosen)
            if not everywhere:
                match = f"({match}) AND place : ({' OR '.join(f'p{p}' for p in places)})"
            if chosen is terms and rare:
                match = " AND ".join(phrase for _, phrase, _, _ in terms) if hits else match
            hits |= dict(_matching(db, match, status, limit))
            if len(hits) >= min(limit, _ENOUGH):
                break
        rows = _rows(db, sorted(hits, key=lambda r: (-hits[r], r))[:limit])
        held = self._stems([_searched(memory) for _, memory in rows])
        return [
            Recall(memory, hits[rowid], min(1.0, _covered(stems, terms) / total)) for (rowid, memory), stems in zip(rows, held, strict=True)
        ]

    def of_places(self, *, allowed: Callable[[str, str | None, str | None], bool], accepted_only: bool = False) -> list[Memory]:
        """Return memories of the places that ``allowed`` lets through, some thousands at most, in no order; none that is held back."""
        db = self._open()
        if db is None:
            return []
        places = [p for p, *where in db.execute("SELECT place, scope, repository, cwd FROM places") if allowed(*where)]
        if not places:
            return []
        status = ("accepted",) if accepted_only else WOVEN
        rows = db.execute(
            "SELECT row FROM memory WHERE rowid IN (SELECT rowid FROM memory_fts WHERE memory_fts MATCH ? LIMIT ?)"
            f" AND shown AND status IN ({', '.join('?' * len(status))})",
            [f"place : ({' OR '.join(f'p{p}' for p in places)})", _MOST_OF_PLACES, *status],
        )
        return [_memory(text) for (text,) in rows]

    def get(self, memory_ids: Sequence[str]) -> list[Memory]:
        """Return the memories of these ids that exist, whatever their status."""
        db = self._open()
        if db is None or not memory_ids:
            return []
        marks = ", ".join("?" * len(memory_ids))
        return [
            _memory(text)
            for (text,) in db.execute(f"SELECT row FROM memory WHERE memory_id IN ({marks}) ORDER BY memory_id", list(memory_ids))
        ]

    def memories(self, *, status: str | None = None) -> Iterator[Memory]:
        """Yield every memory, or those of one status, by id."""
        db = self._open()
        if db is not None:
            where, values = ("WHERE status = ?", [status]) if status else ("", [])
            for (text,) in db.execute(f"SELECT row FROM memory {where} ORDER BY memory_id", values):
                yield _memory(text)

    def counts(self) -> dict[str, int]:
        """Return status -> how many memories have it."""
        db = self._open()
        return dict(db.execute("SELECT status, count(*) FROM memory GROUP BY status ORDER BY status")) if db is not None else {}

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._connection, self._stemmer):
            if connection is not None:
                connection.close()
        self._connection = self._stemmer = self._stamp = None

    def _open(self) -> sqlite3.Connection | None:
        """Return a connection to the file that lies there now, None when there is none yet."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns)
        if self._connection is None or stamp != self._stamp:
            if self._connection is not None:
                self._connection.close()
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
            try:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
            except sqlite3.DatabaseError as error:
                connection.close()
                raise StoreError(f"{self.path.name} cannot be read: {error}", hint="run `ctx memory reindex`") from error
            if version != VERSION:
                connection.close()
                return None
            self._connection, self._stamp = connection, stamp
        return self._connection

    def _stems(self, texts: Sequence[str]) -> list[set[str]]:
        """Return the stems of each text as the index makes them."""
        if self._stemmer is None:
            self._stemmer = sqlite3.connect(":memory:", isolation_level=None)
            self._stemmer.execute(f"CREATE VIRTUAL TABLE some USING fts5(text, content='', tokenize=\"{_TOKENIZER}\")")
            self._stemmer.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(some, 'instance')")
        found: list[set[str]] = [set() for _ in texts]
        self._stemmer.execute("BEGIN")
        try:
            self._stemmer.executemany("INSERT INTO some(rowid, text) VALUES (?, ?)", enumerate(texts))
            for stem, text in self._stemmer.execute("SELECT term, doc FROM stems"):
                found[text].add(stem)
        finally:
            self._stemmer.execute("ROLLBACK")
        return found

    def _terms(self, db: sqlite3.Connection, words: Sequence[str]) -> list[tuple[frozenset[str], str, float, float]]:
        """Return (stems, FTS phrase, weight, items that hold it) of each word that the index knows or might know.

        The weight is the inverse document frequency of the word's rarest stem, so that an
        unknown word lowers what is covered.
        """
        total = db.execute("SELECT count(*) FROM memory").fetchone()[0]
        terms: dict[frozenset[str], tuple[frozenset[str], str, float, float]] = {}
        for word, stems in zip(words, map(frozenset, self._stems(words)), strict=True):
            if not stems:
                continue
            counts = [found[0] if (found := db.execute("SELECT items FROM words WHERE word = ?", [s]).fetchone()) else 0 for s in stems]
            fewest = min(counts)
            phrase = '{text situation body names} : "' + word.replace('"', '""') + '"'
            terms[stems] = (stems, phrase, _weight(total, fewest), fewest)
        return list(terms.values())


def _fill(db: sqlite3.Connection, memories: Iterable[Memory]) -> int:
    db.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA user_version = {VERSION}; {_SCHEMA} BEGIN;")
    places: dict[tuple, int] = {}
    count = 0
    for count, memory in enumerate(memories, 1):
        general = memory.scope in ("user", "global")
        place = places.setdefault((memory.scope, None, None) if general else (memory.scope, memory.repository, memory.cwd), len(places))
        shown = int(memory.status in WOVEN and not memory.flags and memory.superseded_by is None)
        db.execute(
            "INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)",
            [count, memory.memory_id, memory.status, place, shown, json.dumps(memory, ensure_ascii=True, separators=(",", ":"))],
        )
        if shown:
            body = " ".join(_texts(memory.structured))
            names = identifiers(f"{memory.text} {memory.when_to_use or ''} {body}")
            db.execute(
                "INSERT INTO memory_fts(rowid, text, situation, body, names, place) VALUES (?, ?, ?, ?, ?, ?)",
                [count, memory.text, memory.when_to_use or "", body, names, f"p{place}"],
            )
    db.executemany("INSERT INTO places VALUES (?, ?, ?, ?)", [(number, *where) for where, number in places.items()])
    db.execute("INSERT INTO memory_fts(memory_fts) VALUES ('optimize')")
    db.execute("INSERT INTO words SELECT term, doc FROM memory_words")
    db.execute("COMMIT")
    return count


def identifiers(text: str) -> str:
    """Return the parts of the identifiers and paths in a text, so that ``cache`` finds ``getCacheKey`` and ``cache_key``."""
    parts: dict[str, None] = {}
    for name in _IDENTIFIER.findall(text):
        for part in _PARTS.findall(name):
            if len(part) > 2:
                parts.setdefault(part.lower(), None)
    return " ".join(parts)


def _texts(structured: str | None) -> Iterator[str]:
    stack: list[Any] = [json.loads(structured)] if structured else []
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += [v for k, v in value.items() if k not in _UNSAID]
        elif isinstance(value, list):
            stack += value


def _matching(db: sqlite3.Connection, match: str, status: Sequence[str], limit: int) -> Iterator[tuple[int, float]]:
    sql = "SELECT rowid, bm25(memory_fts, 1.0, 0.8, 0.5, 0.4, 0.0) AS cost FROM memory_fts WHERE memory_fts MATCH ? ORDER BY cost LIMIT ?"
    found = db.execute(sql, [match, limit * 4 if len(status) == 1 else limit]).fetchall()
    if len(status) == 1 and found:
        marks = ", ".join("?" * len(found))
        kept = {
            r
            for (r,) in db.execute(f"SELECT rowid FROM memory WHERE status = ? AND rowid IN ({marks})", [status[0], *(r for r, _ in found)])
        }
        found = [pair for pair in found if pair[0] in kept]
    yield from ((rowid, -cost) for rowid, cost in found[:limit])


def _rows(db: sqlite3.Connection, rowids: Sequence[int]) -> list[tuple[int, Memory]]:
    marks = ", ".join("?" * len(rowids))
    rows = dict(db.execute(f"SELECT rowid, row FROM memory WHERE rowid IN ({marks})", list(rowids)))
    return [(rowid, _memory(rows[rowid])) for rowid in rowids if rowid in rows]


def _memory(text: str) -> Memory:
    return Memory._make(json.loads(text))


def _searched(memory: Memory) -> str:
    body = " ".join(_texts(memory.structured))
    whole = f"{memory.text} {memory.when_to_use or ''} {body}"
    return f"{whole} {identifiers(whole)}"


def _weight(items: int, holding: int) -> float:
    """Return the inverse document frequency of a word that so many of the items hold (the form of BM25)."""
    return math.log(1 + (items - holding + 0.5) / (holding + 0.5))


def _covered(held: set[str], terms: Sequence[tuple[frozenset[str], str, float, float]]) -> float:
    return sum(weight for stems, _, weight, _ in terms if stems <= held)

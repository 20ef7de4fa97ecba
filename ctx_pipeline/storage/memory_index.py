"""``memory.db``: full-text index over the memories, rebuilt whole and read with nothing but sqlite3."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing, suppress
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.model.memories import WOVEN, Memory
from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.files import Made
from ctx_pipeline.storage.memory_words import (
    TOKENIZER,
    Stemmer,
    Term,
    body_of,
    covered,
    identifiers,
    significant_terms,
    terms_of,
    whole,
    words_of,
)
from ctx_pipeline.storage.store_marker import noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    import numpy as np


# Vectors of memories in memory.db: made once for each text by a function that the person chose, and compared with a
# question's.


SCHEMA = """
CREATE TABLE vectors (row INTEGER PRIMARY KEY, model TEXT NOT NULL, content TEXT NOT NULL, vector BLOB NOT NULL);
"""
_BATCH = 256
_AT_ONCE = 8_192
_FORM = "<f2"
"""Half-precision numbers: a thousandth of a cosine is lost, and half of the room."""


class Embedder(NamedTuple):
    """A function that turns texts into vectors of length one, and the name under which its vectors are kept."""

    name: str
    embed: Callable[[Sequence[str]], np.ndarray]


def fill(db: sqlite3.Connection, texts: Iterable[tuple[int, str]], embedder: Embedder, old: Path | None) -> int:
    """Write the vectors of rows and return how many had to be made; those of the same words in the old file are taken over."""
    kept = _stored_vectors(old, embedder.name) if old is not None else {}
    missing: list[tuple[int, str, str]] = []
    sql = "INSERT INTO vectors VALUES (?, ?, ?, ?)"
    for row, text in texts:
        content = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if content in kept:
            db.execute(sql, [row, embedder.name, content, kept[content]])
        else:
            missing.append((row, content, text))
    for start in range(0, len(missing), _BATCH):
        some = missing[start : start + _BATCH]
        vectors = embedder.embed([text for *_, text in some]).astype(_FORM)
        db.executemany(sql, [(row, embedder.name, content, v.tobytes()) for (row, content, _), v in zip(some, vectors, strict=True)])
    return len(missing)


def nearest(
    db: sqlite3.Connection, question: np.ndarray, model: str, *, where: str, values: Sequence[object], limit: int
) -> dict[str, float]:
    """Return memory id -> cosine of the rows that lie nearest to a question's vector; ``where`` narrows the rows of ``memory``."""
    import numpy as np

    found: list[tuple[float, str]] = []
    rows = db.execute(
        "SELECT memory.memory_id, vectors.vector FROM vectors JOIN memory ON memory.rowid = vectors.row"
        f" WHERE vectors.model = ? AND length(vectors.vector) = ? AND {where}",
        [model, 2 * len(question), *values],
    )
    while some := rows.fetchmany(_AT_ONCE):
        near = np.frombuffer(b"".join(v for _, v in some), dtype=_FORM).reshape(len(some), -1).astype(np.float32) @ question
        found = sorted([*found, *zip(near.tolist(), (m for m, _ in some), strict=True)], reverse=True)[:limit]
    return {memory_id: cosine for cosine, memory_id in found}


def _stored_vectors(path: Path, model: str) -> dict[str, bytes]:
    """Return content -> vector of a model in a file; none where there is no such file or it is of another form."""
    kept: dict[str, bytes] = {}
    if path.exists():
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db, suppress(sqlite3.DatabaseError):
            kept.update(db.execute("SELECT content, vector FROM vectors WHERE model = ?", [model]))
    return kept


VERSION = 4
_SCHEMA = f"""
CREATE TABLE memory (
    rowid INTEGER PRIMARY KEY, memory_id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, place INTEGER NOT NULL,
    shown INTEGER NOT NULL, row TEXT NOT NULL, names TEXT NOT NULL
);
CREATE TABLE places (place INTEGER PRIMARY KEY, scope TEXT NOT NULL, repository TEXT, cwd TEXT);
CREATE VIRTUAL TABLE memory_fts USING fts5(text, situation, body, names, place, content='', tokenize="{TOKENIZER}");
CREATE VIRTUAL TABLE memory_words USING fts5vocab(memory_fts, 'row');
CREATE TABLE made (input_fp TEXT NOT NULL, code_version TEXT NOT NULL, content_hash TEXT NOT NULL, rows INTEGER NOT NULL);
CREATE TABLE words (word TEXT PRIMARY KEY, items INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
{SCHEMA}
"""
_REPOSITORIES_AT = (
    "SELECT DISTINCT repository FROM places WHERE cwd = ? AND repository IS NOT NULL AND scope IN ('repo', 'task') ORDER BY repository"
)
_FOLDERS = (
    "SELECT repository AS folder FROM places WHERE scope IN ('repo', 'task') AND repository LIKE '/%'"
    " UNION SELECT cwd FROM places WHERE scope IN ('repo', 'task') AND cwd LIKE '/%' LIMIT ?"
)
_RANKED = 5_000
"""So many rows at most are scored: words that more memories hold are looked for only where rarer ones hit too few."""

_ENOUGH = 32
_MOST_OF_PLACES = 2_000
_NEARLY = 0.75
"""A memory that holds this share of an error's line answers the text around it."""

_AROUND = 2
"""Memories of the same session before and after one, in the order of their times, that make its surroundings."""

_SATURATION = 1.2
"""How soon a word that comes again in the surroundings stops to count."""


class Recall(NamedTuple):
    """A memory that holds words of a query: BM25 (higher is better) and the share of the query's weight that it covers."""

    memory: Memory
    score: float
    covered: float
    close: float | None = None
    """cosine to the question, where vectors were compared too"""
    around: float = 0.0
    """share of the query's weight that its surroundings hold, itself included; 0 where they were not looked at"""
    held: int = 0
    """how many words of the query it holds"""


class MemoryIndex:
    """The memories of one store, for retrieval."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._stamp: tuple[int, int] | None = None
        self._stemmer = Stemmer()

    def rebuild(
        self, memories: Iterable[Memory], *, embedder: Embedder | None = None, afresh: bool = False, made: Made | None = None
    ) -> int:
        """Write all memories to a new file and put it in place of the old one; return how many there are.

        The file says itself what it was ``made`` of. With an embedder each also gets a vector, those of unchanged words from the old
        file unless they are to be made ``afresh``.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.path.with_name(temporary.name())
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with closing(sqlite3.connect(fresh, isolation_level=None)) as db:
                count = _fill(db, memories)
                if embedder is not None:
                    rows = ((row, embedded(_memory(text))) for row, text in db.execute("SELECT rowid, row FROM memory WHERE shown"))
                    db.execute("BEGIN")
                    fill(db, list(rows), embedder, None if afresh else self.path)
                    db.execute("COMMIT")
                if made is not None:
                    db.execute("INSERT INTO made VALUES (?, ?, ?, ?)", made)
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
        self,
        words: Sequence[str],
        *,
        allowed: Callable[[str, str | None, str | None], bool],
        error: Sequence[str] = (),
        least: float = 0.0,
        accepted_only: bool = False,
        around: bool = False,
        limit: int = 40,
        as_of: int = 0,
    ) -> list[Recall]:
        """Return at most ``limit`` memories that hold any of the words, best first.

        Words weigh as in an index of ``as_of`` memories at least: a few say nothing of how rare a word is.

        ``error`` are the words of the line of a longer text that says what went wrong: a
        memory that holds nearly all of them covers the text, whatever else was pasted.
        Memories that cover less than ``least`` may be left out, which spares looking at
        every memory with a common word. With ``around`` those are found too that hold some of the words and whose
        surroundings hold ``least``, and irregular forms of words will do. ``allowed(scope, repository, cwd)`` says whose
        memories may be seen; those held back for review, rejected, retired or superseded
        are never among them.
        """
        db = self._open()
        if db is None:
            return []
        places = self._places(db, allowed)
        # rows are numbered without a gap, and counting a hundred thousand takes a millisecond
        items = max(as_of, db.execute("SELECT coalesce(max(rowid), 0) FROM memory").fetchone()[0])
        every, line = (terms_of(db, some, self._stemmer, items, irregular=around) for some in (words, error))
        if places is None or not (every or line):
            return []
        needed = sorted(
            {*significant_terms(every, items, least), *significant_terms(line, items, max(least, _NEARLY))}, key=lambda t: t.holding
        )
        scope = " AND ".join([*places, *([f"place : {_is('accepted')}"] if accepted_only else [])])
        hits = _matching(db, needed, scope, limit)
        best = sorted(hits, key=lambda r: (-hits[r], r))[:limit]
        windows = _windows(db, best) if around else {}
        rows = list(dict.fromkeys([*best, *windows, *chain.from_iterable(windows.values())]))
        memories, texts = _read(db, rows)
        held = dict(zip(rows, self._stemmer.stems_found(texts, [*every, *line]), strict=True))
        total = whole(every, items)
        found: list[Recall] = []
        for row, memory in zip(rows, memories, strict=True):
            stems = held[row]
            if row not in hits and (row not in windows or not stems or (accepted_only and memory.status != "accepted")):
                continue
            of_line = covered(stems, line, items)
            share = max(covered(stems, every, items), of_line if of_line >= _NEARLY else 0.0)
            beside = _beside([held[other] for other in windows.get(row, (row,))], every) / total if around and total else 0.0
            if max(share, beside) >= least:
                words_held = max(sum(term.stands_in(stems) for term in some) for some in (every, line))
                found.append(Recall(memory, hits.get(row, 0.0), share, around=min(1.0, beside), held=words_held))
        return found

    def near(
        self,
        question: np.ndarray,
        model: str,
        *,
        allowed: Callable[[str, str | None, str | None], bool],
        accepted_only: bool = False,
        limit: int = 200,
    ) -> dict[str, float]:
        """Return memory id -> cosine of the memories nearest to a vector of this model, of those that :meth:`recall` may return."""
        db = self._open()
        if db is None:
            return {}
        places = [p for p, *where in db.execute("SELECT place, scope, repository, cwd FROM places") if allowed(*where)]
        status = ("accepted",) if accepted_only else WOVEN
        where = f"shown AND status IN ({', '.join('?' * len(status))}) AND place IN (SELECT value FROM json_each(?))"
        return nearest(db, question, model, where=where, values=[*status, json.dumps(places)], limit=limit)

    def of_places(self, *, allowed: Callable[[str, str | None, str | None], bool], accepted_only: bool = False) -> list[Memory]:
        """Return memories of the places that ``allowed`` lets through, some thousands at most, in no order; none that is held back."""
        db = self._open()
        places = self._places(db, allowed) if db is not None else None
        if db is None or places is None:
            return []
        wanted = " AND ".join([*places, f"place : ({' OR '.join(map(_is, ('accepted',) if accepted_only else WOVEN))})"])
        rows = db.execute(
            "SELECT row FROM memory WHERE rowid IN (SELECT rowid FROM memory_fts WHERE memory_fts MATCH ? LIMIT ?)",
            [wanted, _MOST_OF_PLACES],
        )
        return [_memory(text) for (text,) in rows]

    def repositories_at(self, folder: str) -> list[str]:
        """Return the repositories of what was learned in exactly this folder."""
        db = self._open()
        return [name for (name,) in db.execute(_REPOSITORIES_AT, [folder])] if db is not None else []

    def folders(self) -> list[str]:
        """Return the folders in which something was learned that holds in a repository, at most two thousand."""
        db = self._open()
        return [folder for (folder,) in db.execute(_FOLDERS, [_MOST_OF_PLACES])] if db is not None else []

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

    def made(self) -> Made | None:
        """Return what the file that lies there now was made of; None where there is none, or one that does not say."""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                row = db.execute("SELECT input_fp, code_version, content_hash, rows FROM made").fetchone()
        except sqlite3.Error:
            return None
        return Made._make(row) if row else None

    def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            self._connection.close()
        self._stemmer.close()
        self._connection = self._stamp = None

    def _open(self) -> sqlite3.Connection | None:
        """Return a connection to the file that lies there now, None when there is none yet."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if self.path.name in noted(self.path.parent):
                raise StoreDamaged(f"{self.path.name} is missing", hint="make it again: ctx run", path=str(self.path)) from None
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
                raise StoreDamaged(f"{self.path.name} is damaged: {error}", hint="make it again: ctx run", path=str(self.path)) from error
            if version == 0:
                connection.close()
                raise StoreDamaged(f"{self.path.name} is damaged: it holds no tables", hint="make it again: ctx run", path=str(self.path))
            if version != VERSION:
                connection.close()
                return None
            self._connection, self._stamp = connection, stamp
        return self._connection

    def _places(self, db: sqlite3.Connection, allowed: Callable[[str, str | None, str | None], bool]) -> list[str] | None:
        """Return the condition that keeps to the allowed places, none where all are; None where no place is allowed."""
        known = db.execute("SELECT place, scope, repository, cwd FROM places").fetchall()
        places = [place for place, *where in known if allowed(*where)]
        if not places:
            return None
        return [] if len(places) == len(known) else [f"place : ({' OR '.join(map(_at, places))})"]


def _shown(memory: Memory) -> bool:
    """Tell whether a search may find a memory."""
    return memory.status in WOVEN and not memory.flags and memory.superseded_by is None


def _order(memory: Memory) -> tuple[bool, str, str, str, str, int]:
    """Return where a memory stands: those of a session and place together, as they came up, what no search may find at the end."""
    session = memory.sessions[0] if memory.sessions else ""
    return not _shown(memory), session, memory.scope, memory.repository or "", memory.cwd or "", memory.first_ts or 0


def _fill(db: sqlite3.Connection, memories: Iterable[Memory]) -> int:
    db.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA user_version = {VERSION}; {_SCHEMA} BEGIN;")
    places: dict[tuple, int] = {}
    count = 0
    told: list[tuple] = []
    for count, memory in enumerate(sorted(memories, key=_order), 1):
        general = memory.scope in ("user", "global")
        place = places.setdefault((memory.scope, None, None) if general else (memory.scope, memory.repository, memory.cwd), len(places))
        shown = _shown(memory)
        body = body_of(memory.structured) if shown else ""
        names = identifiers(f"{memory.text} {memory.when_to_use or ''} {body}") if shown else ""
        row = json.dumps(memory, ensure_ascii=True, separators=(",", ":"))
        db.execute(
            "INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?, ?)", [count, memory.memory_id, memory.status, place, int(shown), row, names]
        )
        if shown:
            db.execute(
                "INSERT INTO memory_fts(rowid, text, situation, body, names, place) VALUES (?, ?, ?, ?, ?, ?)",
                [count, memory.text, memory.when_to_use or "", body, names, f"{_at(place)} {_is(memory.status)}"],
            )
            told.append((memory.sessions[0] if memory.sessions else None, place))
    first = 1
    for (session, _), members in groupby(told):
        last = first + sum(1 for _ in members) - 1
        if session is not None and last > first:
            db.execute("INSERT INTO runs VALUES (?, ?)", [first, last])
        first = last + 1
    db.executemany("INSERT INTO places VALUES (?, ?, ?, ?)", [(number, *where) for where, number in places.items()])
    db.execute("INSERT INTO memory_fts(memory_fts) VALUES ('optimize')")
    db.execute("INSERT INTO words SELECT term, doc FROM memory_words")
    db.execute("COMMIT")
    return count


def _matching(db: sqlite3.Connection, needed: Sequence[Term], scope: str, limit: int) -> dict[int, float]:
    """Return row -> BM25 (higher is better) of memories that hold one of the terms, which come rarest first."""
    sql = (
        "SELECT rowid, cost FROM (SELECT rowid, bm25(memory_fts, 1.0, 0.8, 0.5, 0.4, 0.0) AS cost FROM memory_fts"
        " WHERE memory_fts MATCH ? LIMIT ?) ORDER BY cost LIMIT ?"
    )
    rows, rare = 0, []
    for term in needed:
        rows += term.holding
        if rows > _RANKED:
            break
        rare.append(term)
    hits: dict[int, float] = {}
    for chosen in ([rare] if rare else []) + ([needed] if len(rare) < len(needed) else []):
        match = f"({' OR '.join(t.phrase for t in chosen)})" + (f" AND {scope}" if scope else "")
        hits |= {rowid: -cost for rowid, cost in db.execute(sql, [match, _RANKED, limit])}
        if len(hits) >= min(limit, _ENOUGH):
            break
    return hits


def _windows(db: sqlite3.Connection, rows: Iterable[int]) -> dict[int, range]:
    """Return the surroundings, themselves included, of rows that have some and of the rows in these."""
    found: dict[int, range] = {}
    for row in rows:
        run = db.execute("SELECT first, last FROM runs WHERE first <= ? ORDER BY first DESC LIMIT 1", [row]).fetchone()
        if run is not None and row <= run[1]:
            for other in range(max(run[0], row - _AROUND), min(run[1], row + _AROUND) + 1):
                found.setdefault(other, range(max(run[0], other - _AROUND), min(run[1], other + _AROUND) + 1))
    return found


def _beside(window: Sequence[AbstractSet[str]], terms: Iterable[Term]) -> float:
    """Return the weight of a query that some memories hold together; a word that several hold counts a little more."""
    counts = [(term.weight, sum(map(term.stands_in, window))) for term in terms]
    return sum(weight * (1 + _SATURATION) * n / (n + _SATURATION) for weight, n in counts)


def _read(db: sqlite3.Connection, rows: Sequence[int]) -> tuple[list[Memory], list[str]]:
    """Return the memories of some rows, in their order, and the words of all that the index looks into."""
    marks = ", ".join("?" * len(rows))
    found = {
        row: (_memory(text), names)
        for row, text, names in db.execute(f"SELECT rowid, row, names FROM memory WHERE rowid IN ({marks})", list(rows))
    }
    memories = [found[row][0] for row in rows]
    return memories, [words_of(f"{_texts(found[row][0])} {found[row][1]}") for row in rows]


def _texts(memory: Memory) -> str:
    return f"{memory.text} {memory.when_to_use or ''} {body_of(memory.structured)}"


def embedded(memory: Memory) -> str:
    """Return the words of a memory that its vector stands for."""
    return f"{memory.text} {memory.when_to_use or ''}".strip()


def _at(place: int) -> str:
    """Return the token of a place, which no text holds."""
    return f"at__{place}"


def _is(status: str) -> str:
    """Return the token of a status, which no text holds."""
    return f"is__{status}"


def _memory(text: str) -> Memory:
    return Memory._make(json.loads(text))

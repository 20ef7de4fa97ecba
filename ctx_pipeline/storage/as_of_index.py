"""A full-text index over texts in the order in which they were written, for asking as of an earlier moment; kept nowhere."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST = 8_192
"""Characters of a text that are looked at."""

_WORDS = 16
"""Words of a question that are looked for, the rarest."""


class PastText:
    """Texts with growing numbers; a question is asked of those below a number, at some places."""

    def __init__(self) -> None:
        # an empty name is a file that SQLite keeps in memory while it is small and removes at the end
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE VIRTUAL TABLE past USING fts5(text, place, content='', tokenize='unicode61', columnsize=1);"
            "CREATE VIRTUAL TABLE words USING fts5vocab(past, 'row');"
        )

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it; it is gone."""
        self._db.close()

    def add(self, texts: Iterable[tuple[int, int, str]]) -> None:
        """Index (number, place, text) rows."""
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT INTO past(rowid, text, place) VALUES (?, ?, ?)", ((n, text[:LONGEST], f"at__{place}") for n, place, text in texts)
        )
        self._db.execute("COMMIT")

    def best(self, words: Sequence[str], *, places: Iterable[int], before: int, limit: int) -> list[int]:
        """Return the numbers below ``before`` of the texts at these places that fit best by BM25, best first."""
        phrases = ['"' + word.replace('"', '""') + '"' for word in self._rarest(words)]
        where = " OR ".join(f"at__{place}" for place in places)
        if not phrases or not where:
            return []
        match = f"text : ({' OR '.join(phrases)}) AND place : ({where})"
        rows = self._db.execute(
            "SELECT rowid FROM past WHERE past MATCH ? AND rowid < ? ORDER BY bm25(past, 1.0, 0.0), rowid LIMIT ?", [match, before, limit]
        )
        return [number for (number,) in rows]

    def _rarest(self, words: Sequence[str]) -> list[str]:
        """Return the words that are found in the fewest texts; those in none are left out."""
        counted = []
        for word in dict.fromkeys(w.lower() for w in words):
            found = self._db.execute("SELECT doc FROM words WHERE term = ?", [word]).fetchone()
            parts = not word.isalnum()
            if found or parts:
                counted.append((found[0] if found else 0, word))
        return [word for _, word in sorted(counted)[:_WORDS]]

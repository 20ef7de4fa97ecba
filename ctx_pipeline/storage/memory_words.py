"""Words of memories: how they are cut and stemmed, what they weigh, and how much of a query a memory holds."""

from __future__ import annotations

import json
import math
import sqlite3
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.vocabulary.irregular_words import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

TOKENIZER = "porter unicode61 remove_diacritics 2 tokenchars '_'"
_COLUMNS = "{text situation body names}"
_UNSAID = frozenset({"signature", "folder"})
"""Parts of a body that no search looks into."""

_TELLING = 6
"""A query weighs at most as much as so many unknown words: of a pasted page a lesson need not hold a third."""

_MOST_WORDS = 20_000
"""Words whose stems are kept at most, beside those of one question."""

_TOKEN = lazy_pattern(r"\w+")
_PARTS = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# what stands before a match spares trying each later letter of a word that is none
_IDENTIFIER = lazy_pattern(r"(?<![A-Za-z])[A-Za-z][A-Za-z0-9]*(?:[_./:-][A-Za-z0-9]+)+|(?<![a-z])[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*")


class Term(NamedTuple):
    """One word of a query: its stems, how FTS5 finds it, what it weighs, and how many memories hold its rarest stem.

    ``others`` are stems of its irregular forms (``ran`` of ``run``), any of which will do.
    """

    stems: frozenset[str]
    phrase: str
    weight: float
    holding: int
    others: frozenset[str] = frozenset()

    def stands_in(self, stems: AbstractSet[str]) -> bool:
        """Tell whether a text of these stems holds the word."""
        return self.stems <= stems or not self.others.isdisjoint(stems)


class Stemmer:
    """The stems of texts as the index makes them, from SQLite itself."""

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None
        self._known: dict[str, frozenset[str]] = {}

    def stems(self, words: Sequence[str]) -> list[frozenset[str]]:
        """Return the stems of each word."""
        missing = [word for word in dict.fromkeys(words) if word not in self._known]
        if not missing:
            return [self._known[word] for word in words]
        db = self._opened()
        found: list[set[str]] = [set() for _ in missing]
        db.execute("BEGIN")
        try:
            db.executemany("INSERT INTO some(rowid, text) VALUES (?, ?)", enumerate(missing))
            for stem, row in db.execute("SELECT term, doc FROM stems"):
                found[row].add(stem)
        finally:
            db.execute("ROLLBACK")
        fresh = dict(zip(missing, map(frozenset, found), strict=True))
        answer = [self._known.get(word) or fresh.get(word, frozenset()) for word in words]
        if len(self._known) > _MOST_WORDS:
            self._known.clear()
        self._known.update(fresh)
        return answer

    def stems_found(self, texts: Sequence[str], terms: Iterable[Term]) -> list[set[str]]:
        """Return which stems of the terms each text holds; a text is words with blanks between, as :func:`said` gives it."""
        wanted = {stem for term in terms for stem in term.stems | term.others}
        # a stem begins as its word does, but for a y that became i
        starts = {stem[:2] for stem in wanted if len(stem) > 2}
        firsts = {stem[0] for stem in wanted if len(stem) <= 2}
        words = [text.split() for text in texts]
        likely = {w for some in words for w in some if w[:2] in starts or w[0] in firsts or not w.isascii()}
        known: dict[str, str] = {}
        for word, found in zip(likely, self.stems(list(likely)), strict=True):
            for stem in found & wanted:
                known[word] = stem
        return [{known[w] for w in some if w in known} for some in words]

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None)
            self._db.execute(f"CREATE VIRTUAL TABLE some USING fts5(text, content='', tokenize=\"{TOKENIZER}\")")
            self._db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(some, 'instance')")
        return self._db


def terms_of(db: sqlite3.Connection, words: Sequence[str], stemmer: Stemmer, items: int, *, irregular: bool) -> list[Term]:
    """Return the words of a query as terms, the rarest first.

    The weight is the inverse document frequency of the word's rarest stem, so that an
    unknown word lowers what is covered. With ``irregular`` other forms of irregular words will do.
    """
    stems = stemmer.stems(words)
    groups: list[tuple[str, ...]] = [()] * len(words)
    if irregular:
        groups = [GROUPS.get(word) or next((GROUPS[s] for s in parts if s in GROUPS), ()) for word, parts in zip(words, stems, strict=True)]
    forms = list(dict.fromkeys(form for group in groups for form in group))
    stem_of = dict(zip(forms, stemmer.stems(forms) if forms else (), strict=True))

    def holding(stem: str) -> int:
        found = db.execute("SELECT items FROM words WHERE word = ?", [stem]).fetchone()
        return found[0] if found else 0

    terms: dict[frozenset[str], Term] = {}
    for word, parts, group in zip(words, stems, groups, strict=True):
        if not parts:
            continue
        others = frozenset().union(*(stem_of[form] for form in group)) - parts if len(parts) == 1 else frozenset()
        fewest = min(items, min(map(holding, parts)) + sum(map(holding, others)))
        spelled = (word, *(form for form in group if stem_of[form] <= others))
        phrase = " OR ".join('"{}"'.format(one.replace('"', '""')) for one in spelled)
        terms[parts | others] = Term(
            parts, f"{_COLUMNS} : ({phrase})" if others else f"{_COLUMNS} : {phrase}", weight_of(items, fewest), fewest, others
        )
    return sorted(terms.values(), key=lambda t: (t.holding, t.phrase))


def weight_of(items: int, holding: int) -> float:
    """Return the inverse document frequency of a word that so many of the items hold (the form of BM25)."""
    return math.log(1 + (items - holding + 0.5) / (holding + 0.5))


def whole(terms: Iterable[Term], items: int) -> float:
    """Return what all terms of a query weigh together, or the most that a query weighs."""
    return min(sum(t.weight for t in terms), _TELLING * weight_of(items, 0))


def covered(held: AbstractSet[str], terms: Sequence[Term], items: int) -> float:
    """Return the share of a query's weight that these stems hold, 0 to 1."""
    total = whole(terms, items)
    return min(1.0, sum(t.weight for t in terms if t.stands_in(held)) / total) if total else 0.0


def significant_terms(terms: Sequence[Term], items: int, least: float) -> list[Term]:
    """Return the rarest terms, of which a memory must hold one to cover ``least`` of a query."""
    allowed = least * whole(terms, items)
    left = sum(t.weight for t in terms)
    found = []
    for term in terms:
        if left < allowed:
            break
        found.append(term)
        left -= term.weight
    return found


def identifiers(text: str) -> str:
    """Return the parts of the identifiers and paths in a text, so that ``cache`` finds ``getCacheKey`` and ``cache_key``."""
    parts: dict[str, None] = {}
    for name in _IDENTIFIER.findall(text):
        parts |= _parts_of(name)
    return " ".join(parts)


@lru_cache(maxsize=8_192)
def _parts_of(identifier: str) -> dict[str, None]:
    """Return the parts of an identifier that are looked into, in their order; memories of one project share most."""
    return dict.fromkeys(part.lower() for part in _PARTS.findall(identifier) if len(part) > 2)


def body_of(structured: str | None) -> str:
    """Return the texts in the body of a memory that are looked into."""
    return " ".join(_words_texts(structured))


def words_of(text: str) -> str:
    """Return the words of a text in small letters, each once."""
    composed = text if text.isascii() else unicodedata.normalize("NFC", text)
    return " ".join(dict.fromkeys(_TOKEN.findall(composed.lower())))


def _words_texts(structured: str | None) -> Iterator[str]:
    stack: list[Any] = [json.loads(structured)] if structured else []
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += [v for k, v in value.items() if k not in _UNSAID]
        elif isinstance(value, list):
            stack += value

"""From a question to rows in order: the phrase, all words, any words; each row scored with its neighbours and its session."""

from __future__ import annotations

import json
from heapq import nlargest
from itertools import groupby
from math import log, sqrt
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.search_index.row_lookup import numbers_of
from ctx_pipeline.storage.search_index.word_forms import forms_of, synonyms_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

    from ctx_pipeline.storage.search_index.row_lookup import RowLookup, Span
    from ctx_pipeline.storage.search_index.tokenize import Question

LEVELS = ("phrase", "all", "any", "beginning")
"""How far a question was relaxed: its words in their order, all of them, any of them, words that begin with them."""

ENOUGH = 5
"""Rows from which on a question is not relaxed further."""

MOST_WORDS_AT_ONCE = 3
"""Questions of more telling words (an identifier is one) are not asked for rows with all of them: a long output has them by chance."""

READ_WHOLE = 50_000
"""Rows of an index up to which all rows of a word are read: no answer depends on what was captured last."""

POOL = 2_500
"""Newest rows that are looked at of a word of a larger index, all of whose rows are known then where there are fewer."""

STRICT = 600
"""Newest rows with the phrase, or with all words, that are scored."""

COUNTED = 6_000
"""Rows of the rarer words together, of which it is known how often a word stands in them."""

SAMPLE = 1_000
"""Newest rows of a word that are looked at to know how common it is, and where it stands."""

SCORED = 300
"""Rows, the best by themselves, that are scored with their surroundings."""


class Scoring(NamedTuple):
    """How rows are scored."""

    alone: float
    around: float
    session: float
    """what the row by itself, its surroundings and its session weigh, each as standard deviations over the rows that are scored"""
    length: float
    """b of BM25: how much a row loses by its length, up to ``long`` times the usual one"""
    long: float
    """from here on a row loses in proportion to its length"""


WORK = Scoring(1.0, 0.5, 0.4, 0.6, 1.5)
"""Where some rows are calls or outputs of tools: sessions with many of them have all words at some place."""

TALK = Scoring(1.0, 0.8, 0.6, 0.4, 3.0)
"""Where all rows were said: turns are short, and what one is about stands in those around it."""

AROUND = 2
"""Rows before and after one that make its surroundings; of these only what was said counts."""

SATURATION = 1.2
"""k1 of BM25: how soon a word that comes again stops to count."""

SAID_COUNTS = 2.0
"""How often a word counts that stands once in what was said."""

_BM25 = f"-bm25(history, 1.0, {SAID_COUNTS})"


class Score(NamedTuple):
    """What a row got: tier (0 the phrase, 1 all words, 2 any), the sum, and its parts before they were weighed."""

    tier: int
    total: float
    alone: float
    around: float
    session: float


class Ranking(NamedTuple):
    """Rows in order; ``expression`` finds all that the level covers, of which ``rows`` may be the first ones.

    ``missing`` are the words of the question, in small letters, that no row has which is meant;
    ``with_all`` is how many of the scored rows have the phrase or all words.
    """

    rows: list[int]
    scores: dict[int, Score]
    level: str
    expression: str
    missing: tuple[str, ...] = ()
    with_all: int = 0


class _Way(NamedTuple):
    """One way to look for a word: as it was typed, or in all its forms."""

    word: str
    typed: bool
    expression: str
    rows: list[int]
    """the newest ones that are alive, ascending"""
    times: int
    """about how many rows there are"""
    held: int
    """the same with dead rows, as FTS5 counts"""
    complete: bool
    """whether ``rows`` are all"""
    share: float
    """half where a word is looked for in both ways"""
    weight: float
    """its share of the inverse document frequency"""


def ranked(connection: sqlite3.Connection, shelf: RowLookup, question: Question, mask: bytes | None) -> Ranking:
    """Return the best rows for a question among those that the mask has (None: all that are alive)."""
    if not question.tokens or not shelf.top:
        return Ranking([], {}, LEVELS[0], "")
    finder = _Finder(connection, shelf, mask)
    tiers: dict[int, int] = {}
    otherwise: dict[int, float] = {}
    level, expression = LEVELS[0], question.phrase
    words = [way for word in question.significant_terms for way in _ways(finder, word)]
    sought = words + [way for name in question.identifiers for way in _named(finder, name)]
    others = [way for word in question.significant_terms for way in _others(finder, word)] if question.telling > MOST_WORDS_AT_ONCE else []
    ways = sought + others
    missing: tuple[str, ...] = ()
    if len(question.tokens) > 1 and _may_meet(words):
        if 1 < question.telling <= MOST_WORDS_AT_ONCE:
            level, expression = LEVELS[1], question.every
            tiers = dict.fromkeys(finder.strict(expression), 1)
        tiers |= dict.fromkeys(finder.strict(question.phrase), 0)
    if len(tiers) < ENOUGH:
        level, expression = LEVELS[2 if len(question.tokens) > 1 else 1], " OR ".join({way.word: way.expression for way in sought}.values())
        tiers = dict.fromkeys(finder.most_of(sought, others), 2) | tiers
        if not tiers:
            # no row of the samples is meant: look among all
            otherwise = finder.scored(expression) or finder.scored(question.any)
            tiers = dict.fromkeys(otherwise, 2)
        if len(tiers) < ENOUGH:
            beginnings = finder.scored(question.beginnings)
            if beginnings.keys() - tiers.keys():
                level, expression = LEVELS[3], f"{expression} OR {question.beginnings}"
                tiers = dict.fromkeys(beginnings, 3) | tiers
                otherwise = beginnings | otherwise
        missing = _missing(finder, words, beginnings=level == LEVELS[3])
    sizes = finder.sizes(tiers)
    scoring = WORK if any(not sizes[row][1] for row in tiers) else TALK
    own = finder.alone(list(tiers), ways, scoring)
    own |= {row: score for row, score in otherwise.items() if not own[row]}
    scores = _in_context(finder, ways, own, tiers, scoring)
    rest = [row for row in _best(own, tiers, shelf) if row not in scores] if len(scores) < len(own) else []
    order = [*_best({row: score.total for row, score in scores.items()}, tiers, shelf), *rest]
    with_all = sum(tier <= LEVELS.index("all") for tier in tiers.values())
    return Ranking(order, scores, level, expression, missing, with_all)


def meets(connection: sqlite3.Connection, shelf: RowLookup, question: Question, mask: bytes | None) -> bool:
    """Tell whether some row that the mask has holds the phrase or all words, as far as a question is asked for these."""
    finder = _Finder(connection, shelf, mask)
    strict = [question.phrase, *([question.every] if question.telling <= MOST_WORDS_AT_ONCE else [])]
    return any(expression and finder.newest(expression, 1) for expression in strict)


def rows_with(connection: sqlite3.Connection, shelf: RowLookup, word: str, mask: bytes | None, most: int) -> int:
    """Return how many rows that the mask has (None: all that are alive) hold a word, up to so many."""
    return len(_Finder(connection, shelf, mask).newest(f'"{word}"', most))


def words_beginning_with(connection: sqlite3.Connection, letters: str) -> list[str]:
    """Return the words of the index, those of dead rows too, that begin with some letters."""
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.history_words USING fts5vocab(main, history, row)")
    asked = "SELECT term FROM temp.history_words WHERE term >= ? AND term < ?"
    return [word for (word,) in connection.execute(asked, (letters, letters[:-1] + chr(ord(letters[-1]) + 1)))]


def matching_rows(connection: sqlite3.Connection, expression: str) -> list[int]:
    """Return the row ids that an expression finds, dead ones too, ascending."""
    return _listed(connection, "SELECT rowid FROM history WHERE history MATCH ?", (expression,)) if expression else []


def _listed(connection: sqlite3.Connection, asked: str, values: tuple[object, ...]) -> list[int]:
    """Return the row ids that a query gives: one list as text takes half of the time of as many rows."""
    listed: list[int] = json.loads(connection.execute(f"SELECT json_group_array(rowid) FROM ({asked})", values).fetchone()[0])
    return listed


class _Finder:
    """Asks the index for rows that a mask has."""

    def __init__(self, connection: sqlite3.Connection, shelf: RowLookup, mask: bytes | None) -> None:
        self.connection = connection
        self.shelf = shelf
        self.mask = shelf.living() if mask is None and shelf.gaps else mask
        self.narrowed = mask is not None and not (shelf.gaps and mask == shelf.living())
        """whether some rows that are alive are not meant"""
        self._sizes: dict[int, tuple[int, int]] = {}
        self.whole = shelf.live <= READ_WHOLE

    def strict(self, expression: str) -> list[int]:
        """Return the rows of an expression that the mask has: of a large index the newest ones."""
        if not self.whole:
            return self.newest(expression, STRICT)
        rows = matching_rows(self.connection, expression)
        return rows if self.mask is None else self.shelf.alive(rows, self.mask)

    def sizes(self, rows: Collection[int]) -> dict[int, tuple[int, int]]:
        """Return how many words rows, among others, have of what was done and of what was said."""
        if missing := [row for row in rows if row not in self._sizes]:
            asked = "SELECT id, sz FROM history_docsize WHERE id IN (SELECT value FROM json_each(?))"
            found = {row: numbers_of(size) for row, size in self.connection.execute(asked, (json.dumps(missing),))}
            self._sizes |= dict.fromkeys(missing, (0, 0)) | {row: (size[0], size[1]) for row, size in found.items()}
        return self._sizes

    def scored(self, expression: str) -> dict[int, float]:
        """Return the newest rows of an expression that the mask has with their BM25 (higher is better)."""
        asked = f"SELECT rowid, {_BM25} FROM history WHERE history MATCH ?{self._of_mask()} ORDER BY rowid DESC LIMIT ?"
        return dict(self.connection.execute(asked, (expression, -1 if self.whole else POOL)).fetchall())

    def newest(self, expression: str, most: int, below: int | None = None, *, meant: bool = True) -> list[int]:
        """Return the newest rows that an expression finds, the newest first: with ``meant`` only those that the mask has."""
        only, values = (" AND rowid < ?", (below,)) if below is not None else ("", ())
        if meant:
            only += self._of_mask()
        asked = f"SELECT rowid FROM history WHERE history MATCH ?{only} ORDER BY rowid DESC LIMIT ?"
        return _listed(self.connection, asked, (expression, *values, most))

    def most_of(self, ways: Sequence[_Way], others: Sequence[_Way]) -> list[int]:
        """Return the rows of the samples that are meant and have the most of the words by weight, with all equals of the last.

        Synonyms, the ``others``, count where a row has one of the words.
        """
        covered: dict[int, float] = {}
        known = covered.get
        for way in ways:
            weight = way.weight
            for row in self.shelf.alive(way.rows, self.mask) if self.narrowed else way.rows:
                covered[row] = known(row, 0.0) + weight
        for way in others:
            for row in covered.keys() & way.rows:
                covered[row] += way.weight
        least = min(nlargest(SCORED, covered.values()), default=0.0)
        return [row for row, weight in covered.items() if weight >= least]

    def alone(self, rows: Sequence[int], ways: Sequence[_Way], scoring: Scoring) -> dict[int, float]:
        """Return BM25 of rows, each word as it was typed and in all its forms."""
        sizes = self.sizes(rows)
        every, alive = self.shelf.documents()
        length = {row: sum(sizes[row]) / alive.usual for row in rows}
        lost = {row: SATURATION * _loss(long, scoring) for row, long in length.items()}
        once = {row: SAID_COUNTS if sizes[row][1] else 1.0 for row in rows}
        rarer = self._rarer([way for way in ways if way.typed], alive.number)
        counted = self._counted(rarer, every.number, {row: long * alive.usual / every.usual for row, long in length.items()})
        own = dict.fromkeys(rows, 0.0)
        for number, way in enumerate(ways):
            weight = way.weight * (SATURATION + 1)
            counts = counted.get(way.word, {})
            # a row with another form of a word has it once more than it has the word
            typed = frozenset() if way.typed else frozenset(ways[number - 1].rows)
            for row in own.keys() & way.rows:
                times = counts.get(row, once[row]) if way.typed or row in typed else once[row]
                own[row] += weight * times / (times + lost[row])
        return own

    @staticmethod
    def _rarer(typed: Sequence[_Way], documents: int) -> list[_Way]:
        """Return the words that are counted: the rarest, with so many rows together and each in less than half of the documents."""
        found: list[_Way] = []
        budget = COUNTED
        for way in sorted((way for way in typed if way.times), key=lambda way: (way.times, way.word)):
            budget -= way.times
            if budget < 0 or 2 * way.times >= documents or not way.complete:
                break
            found.append(way)
        return found

    def _counted(self, ways: Sequence[_Way], documents: int, length: Mapping[int, float]) -> dict[str, dict[int, float]]:
        """Return word -> row -> how often the word stands there.

        FTS5 tells a count only as BM25, which is solved for it, dead documents and all. ``length`` is that of the rows, 1 the usual one.
        """
        self.connection.create_function("ctx_wanted", 1, frozenset(length).__contains__)
        asked = f"SELECT rowid, {_BM25} FROM history WHERE history MATCH ? AND ctx_wanted(rowid)"
        found: dict[str, dict[int, float]] = {}
        for way in ways:
            rarity = log((documents - way.held + 0.5) / (way.held + 0.5)) if way.held < documents else 0.0
            most = (SATURATION + 1) * (rarity if rarity > 0 else _LEAST_RARITY)
            scored = self.connection.execute(asked, (way.expression,)).fetchall()
            found[way.word] = {row: score * 1.2 * (0.25 + 0.75 * length[row]) / (most - score) for row, score in scored if 0 < score < most}
        return found

    def _of_mask(self) -> str:
        if self.mask is None:
            return ""
        self.connection.create_function("ctx_wanted", 1, self.mask.__getitem__)
        return f" AND rowid < {len(self.mask)} AND ctx_wanted(rowid)"


_LEAST_RARITY = 1e-6
"""What FTS5 takes for the inverse document frequency of a word that most documents have."""


def _ways(finder: _Finder, word: str) -> list[_Way]:
    """Return how a word is looked for: as it was typed, and in all its forms where these are in more rows."""
    expression = f'"{word}"'
    found = [(True, expression, *_newest(finder, expression))]
    if forms := forms_of(word):
        others = " OR ".join((expression, *(f'"{form}"' for form in forms)))
        in_forms = _newest(finder, others)
        if in_forms[1] > found[0][3]:
            found.append((False, others, *in_forms))
    share = 1 / len(found)
    return [_Way(word, *one, share, _weight(finder, share, one[3])) for one in found]


def _named(finder: _Finder, name: str) -> list[_Way]:
    """Return how a name in code is looked for, at half weight since its words are too; nothing where no row has it."""
    expression = f'"{name}"'
    rows, times, held, complete = _newest(finder, expression)
    return [_Way(name, True, expression, rows, times, held, complete, _OF_NAME, _weight(finder, _OF_NAME, times))] if rows else []


_OF_NAME = 0.5


def _others(finder: _Finder, word: str) -> list[_Way]:
    """Return how the synonyms of a word are looked for; nothing where no row has one."""
    expression = " OR ".join(f'"{other}"' for other in synonyms_of(word))
    rows, times, held, complete = _newest(finder, expression) if expression else ([], 0, 0, True)
    return [_Way("", False, expression, rows, times, held, complete, OF_SYNONYM, _weight(finder, OF_SYNONYM, times))] if rows else []


OF_SYNONYM = 0.2
"""What a synonym weighs where a word of the question weighs 1."""


def _weight(finder: _Finder, share: float, times: int) -> float:
    total = finder.shelf.live
    return share * max(log((total - times + 0.5) / (times + 0.5)) if times < total else 0.0, 0.05)


def _missing(finder: _Finder, ways: Sequence[_Way], *, beginnings: bool) -> tuple[str, ...]:
    """Return the words that no row has which is meant: in no form and, with ``beginnings``, not as the beginning of another word."""
    held = {way.word for way in ways if (finder.newest(way.expression, 1) if finder.narrowed else way.rows)}
    words = [word for word in dict.fromkeys(way.word for way in ways) if word not in held]
    return tuple(word for word in words if not (beginnings and finder.newest(f'"{word}" *', 1)))


def _may_meet(ways: Sequence[_Way]) -> bool:
    """Tell whether some row may have all words: told from the rarer ones, whose rows are all known."""
    known = sorted((way.rows for way in ways if way.typed and way.complete), key=len)
    return not known or bool(set(known[0]).intersection(*known[1:]))


def _newest(finder: _Finder, expression: str) -> tuple[list[int], int, int, bool]:
    """Return the newest rows of an expression (ascending), about how many there are, alive and in all, and whether these are all."""
    shelf = finder.shelf
    if finder.whole:
        found = matching_rows(finder.connection, expression)
        rows = shelf.alive(found, None)
        return rows, len(rows), len(found), True
    found = finder.newest(expression, SAMPLE, meant=False)
    held = len(found)
    more = held == SAMPLE
    if more:
        held = max(held, held * shelf.top // max(1, shelf.top - found[-1] + 1))
        if held < POOL:
            rest = finder.newest(expression, POOL, found[-1], meant=False)
            found += rest
            held, more = len(found), len(rest) == POOL
    found.reverse()
    rows = shelf.alive(found, None)
    return rows, held * shelf.live // shelf.top if more else len(rows), held, not more


def _loss(length: float, scoring: Scoring) -> float:
    """Return what a row loses in BM25 by its length, 1 being the usual one."""
    return 1 - scoring.length + scoring.length * min(length, scoring.long) + max(0.0, length - scoring.long)


def _in_context(
    finder: _Finder, ways: Sequence[_Way], own: Mapping[int, float], tiers: Mapping[int, int], scoring: Scoring
) -> dict[int, Score]:
    """Return the scores of the best rows by themselves, with those of their neighbours and of their session."""
    best = _best(own, tiers, finder.shelf)[:SCORED]
    spans = [finder.shelf.span_of(row) for row in best]
    near = _around(finder, ways, best, spans)
    whole = _sessions(finder.shelf, ways)
    sessions = [whole.get(span[2:], 0.0) if span else 0.0 for span in spans]
    alone = [own[row] for row in best]
    standard = [_standard(values) for values in (alone, near, sessions)]
    totals = [sum(map(mul, scoring, values)) for values in zip(*standard, strict=True)]
    told = zip((tiers[row] for row in best), totals, alone, near, sessions, strict=True)
    return dict(zip(best, map(Score._make, told), strict=True))


def _best(own: Mapping[int, float], tiers: Mapping[int, int], shelf: RowLookup) -> list[int]:
    """Return the rows by tier, then by their score, then the newest first."""
    order = sorted(own, key=own.__getitem__, reverse=True)
    if len(set(tiers.values())) > 1:
        order.sort(key=tiers.__getitem__)
    equals = groupby(order, key=lambda row: (tiers.get(row), own[row]))
    return [row for _, rows in equals for row in _newest_of(list(rows), shelf)]


def _newest_of(rows: list[int], shelf: RowLookup) -> list[int]:
    return sorted(rows, key=shelf.order_of, reverse=True) if len(rows) > 1 else rows


def _around(finder: _Finder, ways: Sequence[_Way], rows: Sequence[int], spans: Sequence[Span | None]) -> list[float]:
    """Return for each row how much of the question stands in it and in what was said around it in the same session."""
    where: dict[int, int] = {}
    near = {other for row in rows for other in range(row - AROUND, row + AROUND + 1)}
    for number, way in enumerate(ways):
        one = 1 << (_BITS * number)
        for row in near.intersection(way.rows):
            where[row] = where.get(row, 0) + one
    sizes = finder.sizes(where)
    said = {row: packed for row, packed in where.items() if sizes[row][1]}
    weights = [(SATURATION + 1) * way.weight for way in ways]
    known: dict[int, float] = {0: 0.0}
    scores = []
    there = said.get
    for row, span in zip(rows, spans, strict=True):
        packed = where.get(row, 0)
        if span is not None:
            first, last, _, _ = span
            for other in range(1, AROUND + 1):
                if row - other >= first:
                    packed += there(row - other, 0)
                if row + other <= last:
                    packed += there(row + other, 0)
        if packed not in known:
            counts = [(packed >> (_BITS * number)) & _FIELD for number in range(len(ways))]
            known[packed] = sum(weight * n / (n + SATURATION) for weight, n in zip(weights, counts, strict=True))
        scores.append(known[packed])
    return scores


_BITS = 4
_FIELD = 15
"""Counts of words in a window are added up as fields of one number: four bits for up to five rows."""


def _sessions(shelf: RowLookup, ways: Sequence[_Way]) -> dict[tuple[str, str], float]:
    """Return the BM25 of whole sessions, in which a word counts once a row."""
    scores: dict[tuple[str, str], float] = {}
    total = len(shelf.spans)
    usual = max(1.0, shelf.live / max(1, total))
    for way in ways:
        found = shelf.counted(way.rows)
        weight = way.share * log((total - len(found) + 0.5) / (len(found) + 0.5) + 1)
        for span, times in found:
            first, last, host, session_id = span
            length = (last - first + 1) / usual
            gain = weight * times * (SATURATION + 1) / (times + SATURATION * (0.25 + 0.75 * length))
            scores[host, session_id] = scores.get((host, session_id), 0.0) + gain
    return scores


def _standard(values: Sequence[float]) -> list[float]:
    """Return the values as standard deviations from their mean; zeros where they are all alike."""
    if not values:
        return []
    mean = sum(values) / len(values)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread for value in values] if spread > 1e-9 else [0.0] * len(values)

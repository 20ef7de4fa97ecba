"""From a question to rows in order: the phrase, all words, any words; each row scored with its neighbours and its session."""

from __future__ import annotations

import json
from math import log, sqrt
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.storage.search_index.word_forms import forms_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.storage.search_index.row_lookup import RowLookup, Span
    from ctx_pipeline.storage.search_index.tokenize import Question

LEVELS = ("phrase", "all", "any", "beginning")
"""How far a question was relaxed: its words in their order, all of them, any of them, words that begin with them."""

ENOUGH = 5
"""Rows from which on a question is not relaxed further."""

MOST_WORDS_AT_ONCE = 3
"""Questions of more telling words (an identifier is one) are not asked for rows with all of them: a long output has them by chance."""

_POOL = 2_500
"""Newest rows of the rarer words whose own score is computed."""

_STRICT = 600
"""Newest rows with the phrase, or with all words where these are common, that are scored."""

_RARE = 4_000
"""Rows of the rarer words together, over which BM25 goes."""

_SAMPLE = 1_000
"""Newest rows of a word that are looked at to know how common it is, and where it stands."""

_SCORED = 300
"""Rows, the best by themselves, that are scored with their surroundings."""

_AROUND = 2
"""Rows before and after one that make its surroundings."""

WEIGHTS = (1.0, 0.5, 0.4)
"""What the row alone, its surroundings and its session weigh, each as standard deviations over the rows that are scored."""

_COMMON = 0.3
"""Share of all rows from which on a word says nothing beside a rarer one."""

SELDOM = 10
"""Rows up to which a word is looked for in its other forms too: of common words they only blur what was asked."""

_NOT_ALONE = 0.75
"""Share of its weight that a common word adds to a row: what BM25 gives a word that stands once in a row of usual length."""


class Score(NamedTuple):
    """What a row got: tier (0 the phrase, 1 all words, 2 any), the sum, and its parts before they were weighed."""

    tier: int
    total: float
    alone: float
    around: float
    session: float


class Ranking(NamedTuple):
    """Rows in order; ``expression`` finds all that the level covers, of which ``rows`` may be the first ones."""

    rows: list[int]
    scores: dict[int, Score]
    level: str
    expression: str


class _Words(NamedTuple):
    """Telling words with the newest rows of each (ascending), how many rows there are, and their weight."""

    rows: dict[str, list[int]]
    times: dict[str, int]
    weight: dict[str, float]
    complete: set[str]
    """words all of whose rows are here"""
    expressions: dict[str, str]
    """what each word is looked for as: itself, and where it hardly stands anywhere its other forms"""

    def may_meet(self) -> bool:
        """Whether some row may have all words: told from the rarer ones, whose rows are all known."""
        known = sorted((self.rows[word] for word in self.complete), key=len)
        return not known or bool(set(known[0]).intersection(*known[1:]))


def ranked(connection: sqlite3.Connection, shelf: RowLookup, question: Question, mask: bytes | None) -> Ranking:
    """Return the best rows for a question among those that the mask has (None: all that are alive)."""
    if not question.tokens or not shelf.top:
        return Ranking([], {}, LEVELS[0], "")
    finder = _Finder(connection, shelf, mask)
    tiers: dict[int, int] = {}
    own: dict[int, float] = {}
    level, expression = LEVELS[0], question.phrase
    words = _words(finder, question.significant_terms)
    if len(question.tokens) > 1 and words.may_meet():
        if 1 < question.telling <= MOST_WORDS_AT_ONCE:
            level, expression = LEVELS[1], question.every
            own = finder.all_of(expression, words)
            tiers = dict.fromkeys(own, 1)
        phrase = finder.newest(question.phrase, _STRICT)
        own |= finder.weighed([row for row in phrase if row not in own], words)
        tiers |= dict.fromkeys(phrase, 0)
    if len(tiers) < ENOUGH:
        level, expression = LEVELS[2 if len(question.tokens) > 1 else 1], question.some
        for row, score in finder.any_of(words).items():
            tiers.setdefault(row, 2)
            own[row] = max(score, own.get(row, score))
        if not tiers:
            expression = question.any
            own = finder.scored(expression)
            tiers = dict.fromkeys(own, 2)
        if len(tiers) < ENOUGH:
            beginnings = finder.scored(question.beginnings)
            if beginnings.keys() - own.keys():
                level, expression = LEVELS[3], f"{expression} OR {question.beginnings}"
                for row, score in beginnings.items():
                    tiers.setdefault(row, 3)
                    own.setdefault(row, score)
    scores = _in_context(shelf, words, own, tiers)
    rest = [row for row in _best(own, tiers) if row not in scores] if len(scores) < len(own) else []
    return Ranking([*sorted(scores, key=lambda row: (scores[row].tier, -scores[row].total, -row)), *rest], scores, level, expression)


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
        self.mask = mask

    def scored(self, expression: str, rows: frozenset[int] | None = None) -> dict[int, float]:
        """Return the newest rows of an expression with their BM25 (higher is better); what a person typed weighs more than output.

        Only ``rows`` of them where these are given, else those that the mask has.
        """
        if rows is not None:
            self.connection.create_function("ctx_wanted", 1, rows.__contains__)
            only = " AND ctx_wanted(rowid)"
        else:
            only = self._of_mask()
        found = self.connection.execute(
            f"SELECT rowid, -bm25(history, 1.0, 2.0) FROM history WHERE history MATCH ?{only} ORDER BY rowid DESC LIMIT ?",
            (expression, _POOL),
        )
        return dict(found.fetchall())

    def newest(self, expression: str, most: int, below: int | None = None, *, meant: bool = True) -> list[int]:
        """Return the newest rows that an expression finds, the newest first: with ``meant`` only those that the mask has."""
        only, values = (" AND rowid < ?", (below,)) if below is not None else ("", ())
        if meant:
            only += self._of_mask()
        asked = f"SELECT rowid FROM history WHERE history MATCH ?{only} ORDER BY rowid DESC LIMIT ?"
        return _listed(self.connection, asked, (expression, *values, most))

    def _of_mask(self) -> str:
        if self.mask is None:
            return ""
        self.connection.create_function("ctx_wanted", 1, self.mask.__getitem__)
        return f" AND rowid < {len(self.mask)} AND ctx_wanted(rowid)"

    def all_of(self, expression: str, words: _Words) -> dict[int, float]:
        """Return rows with all words: by BM25, whose count of rows goes over all of every word, only where these are few."""
        if sum(words.times.values()) <= _RARE:
            return self.scored(expression)
        return self.weighed(self.newest(expression, _STRICT), words)

    def weighed(self, rows: Sequence[int], words: _Words) -> dict[int, float]:
        """Return the weight of all words for rows that have them all: BM25 as if each stood there once, less in a long row."""
        whole = sum(words.weight.values())
        found = self.connection.execute(
            "SELECT id, sz FROM history_docsize WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(rows)),)
        )
        lengths = {row: sum(_varints(size)) for row, size in found.fetchall()}
        usual = max(1.0, sum(lengths.values()) / max(1, len(lengths)))
        return {row: whole * 2.2 / (1 + 1.2 * (0.25 + 0.75 * lengths.get(row, 0) / usual)) for row in rows}

    def any_of(self, words: _Words) -> dict[int, float]:
        """Return the rows with most of the words: the rarer ones by BM25, to which common ones add their weight."""
        rare: list[str] = []
        budget = _RARE
        for word in sorted(words.times, key=lambda w: (words.times[w], w)):
            if rare and (words.times[word] > budget or words.times[word] > _COMMON * self.shelf.top):
                break
            budget -= words.times[word]
            if words.times[word]:
                rare.append(word)
        best = self._most_of(words)
        if not best:
            # no row of the samples is meant: look among all
            return self.scored(" OR ".join(words.expressions.values()))
        found = self.scored(" OR ".join(words.expressions[word] for word in rare), frozenset(best)) if rare else {}
        for word in [word for word in words.rows if word not in rare]:
            added = words.weight[word] * _NOT_ALONE
            for row in set(best).intersection(words.rows[word]):
                found[row] = found.get(row, 0.0) + added
        return found

    def _most_of(self, words: _Words) -> list[int]:
        """Return the rows of the samples that are meant and have the most of the words by weight, the best first."""
        held = words.rows if self.mask is None else {word: self.shelf.alive(rows, self.mask) for word, rows in words.rows.items()}
        covered: dict[int, float] = {}
        for word, rows in held.items():
            more = dict.fromkeys(rows, words.weight[word])
            for row in covered.keys() & more.keys():
                more[row] += covered[row]
            covered |= more
        return _best(covered, {})[:_SCORED]


def _varints(data: bytes) -> list[int]:
    """Return the numbers that FTS5 packed, seven bits a byte, the highest first."""
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 127
        if byte < 128:
            numbers.append(value)
            value = 0
    return numbers


def _words(finder: _Finder, significant_terms: Sequence[str]) -> _Words:
    words = _Words({}, {}, {}, set(), {})
    total = finder.shelf.top
    for word in significant_terms:
        expression = f'"{word}"'
        found, seen, complete = _newest(finder, expression)
        if seen <= SELDOM and (forms := forms_of(word)):
            others = " OR ".join((expression, *(f'"{form}"' for form in forms)))
            known, times, every = _newest(finder, others)
            if times > seen:
                expression, found, seen, complete = others, known, times, every
        if complete:
            words.complete.add(word)
        words.expressions[word], words.rows[word], words.times[word] = expression, found, seen
        words.weight[word] = max(log((total - seen + 0.5) / (seen + 0.5)), 0.05) if seen < total else 0.05
    return words


def _newest(finder: _Finder, expression: str) -> tuple[list[int], int, bool]:
    """Return the newest rows of an expression (ascending), about how many there are, and whether these are all."""
    total = finder.shelf.top
    found = finder.newest(expression, _SAMPLE, meant=False)
    seen = len(found)
    more = seen == _SAMPLE
    if more:
        seen = max(seen, seen * total // max(1, total - found[-1] + 1))
        if seen < _POOL:
            rest = finder.newest(expression, _POOL, found[-1], meant=False)
            found += rest
            seen, more = len(found), len(rest) == _POOL
    found.reverse()
    return found, seen, not more


def _in_context(shelf: RowLookup, words: _Words, own: Mapping[int, float], tiers: Mapping[int, int]) -> dict[int, Score]:
    """Return the scores of the best rows by themselves, with those of their neighbours and of their session."""
    best = _best(own, tiers)[:_SCORED]
    spans = [shelf.span_of(row) for row in best]
    near = _around(words, best, spans)
    whole = _sessions(shelf, words)
    sessions = [whole.get(span[2:], 0.0) if span else 0.0 for span in spans]
    alone = [own[row] for row in best]
    standard = [_standard(values) for values in (alone, near, sessions)]
    totals = [sum(map(mul, WEIGHTS, values)) for values in zip(*standard, strict=True)]
    told = zip((tiers[row] for row in best), totals, alone, near, sessions, strict=True)
    return dict(zip(best, map(Score._make, told), strict=True))


def _best(own: Mapping[int, float], tiers: Mapping[int, int]) -> list[int]:
    """Return the rows by tier, then by their own score, then the newest first."""
    order = sorted(own, reverse=True)
    order.sort(key=own.__getitem__, reverse=True)
    if len(set(tiers.values())) > 1:
        order.sort(key=tiers.__getitem__)
    return order


def _around(words: _Words, rows: Sequence[int], spans: Sequence[Span | None]) -> list[float]:
    """Return for each row how much of the question stands in it and its neighbours of the same session."""
    where: dict[int, int] = {}
    used = list(words.rows)[:_FIELDS]
    near = {other for row in rows for other in range(row - _AROUND, row + _AROUND + 1)}
    for number, word in enumerate(used):
        one = 1 << (_BITS * number)
        for row in near.intersection(words.rows[word]):
            where[row] = where.get(row, 0) + one
    weights = [2 * words.weight[word] for word in used]
    known: dict[int, float] = {0: 0.0}
    scores = []
    there = where.get
    for row, span in zip(rows, spans, strict=True):
        packed = there(row, 0)
        if span is not None:
            first, last, _, _ = span
            for other in range(1, _AROUND + 1):
                if row - other >= first:
                    packed += there(row - other, 0)
                if row + other <= last:
                    packed += there(row + other, 0)
        if packed not in known:
            counts = [(packed >> (_BITS * number)) & _FIELD for number in range(len(used))]
            known[packed] = sum(weight * n / (n + 1) for weight, n in zip(weights, counts, strict=True))
        scores.append(known[packed])
    return scores


_BITS = 4
_FIELD = 15
_FIELDS = 24
"""Counts of words in a window are added up as fields of one number: four bits for up to five rows."""


def _sessions(shelf: RowLookup, words: _Words) -> dict[tuple[str, str], float]:
    """Return the BM25 of whole sessions, in which a word counts once a row."""
    scores: dict[tuple[str, str], float] = {}
    total = len(shelf.spans)
    usual = max(1.0, shelf.top / max(1, total))
    for rows in words.rows.values():
        found = shelf.counted(rows)
        weight = log((total - len(found) + 0.5) / (len(found) + 0.5) + 1)
        for span, times in found:
            first, last, host, session_id = span
            length = (last - first + 1) / usual
            gain = weight * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length))
            scores[host, session_id] = scores.get((host, session_id), 0.0) + gain
    return scores


def _standard(values: Sequence[float]) -> list[float]:
    """Return the values as standard deviations from their mean; zeros where they are all alike."""
    if not values:
        return []
    mean = sum(values) / len(values)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread for value in values] if spread > 1e-9 else [0.0] * len(values)

"""The reading side of the index: questions in, hits with their texts out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.storage.search_index import near_words, row_lookup
from ctx_pipeline.storage.search_index.ranking import Ranking, matching_rows, meets, ranked, rows_with, words_beginning_with
from ctx_pipeline.storage.search_index.regex import Coverage, scan
from ctx_pipeline.storage.search_index.row_attributes import quarter_of
from ctx_pipeline.storage.search_index.row_lookup import RowLookup, Wanted
from ctx_pipeline.storage.search_index.snippets import Snippet, around, snippet
from ctx_pipeline.storage.search_index.tokenize import DONE, SAID, named, question

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from ctx_pipeline.storage.lake import Lake
    from ctx_pipeline.storage.lake.parquet_text import PageReader
    from ctx_pipeline.storage.search_index.ranking import Ranking, Score
    from ctx_pipeline.storage.search_index.row_lookup import Session


_MOST = 20
"""Rows that are read to see whether they are copies of one hit."""


class Alike:
    """Rows of an order that may be copies of each other: scored alike by themselves, of one kind and quarter of an hour."""

    def __init__(self, shelf: RowLookup, order: Sequence[int], ranking: Ranking | None) -> None:
        self._shelf = shelf
        self._scores = ranking.scores if ranking else {}
        self._by_score: dict[float, list[int]] = {}
        self._places: dict[int, int] = {}
        self._together: dict[int, dict[int, Session | None]] = {}
        if self._scores:
            for place, row in enumerate(order[: len(self._scores)]):
                if row in self._scores:
                    self._places[row] = place
                    self._by_score.setdefault(self._scores[row].alone, []).append(row)

    def of(self, row: int) -> list[int]:
        """Return rows of other sessions that may be copies of a row, in order; none for a row that was not scored."""
        score = self._scores.get(row)
        alike = self._by_score.get(score.alone, []) if score else []
        if len(alike) < 2:
            return []
        if row not in self._together:
            self._group(alike)
        together = self._together[row]
        return [other for other, session in together.items() if session != together[row]][:_MOST]

    def _group(self, rows: Sequence[int]) -> None:
        """Note which rows are of one kind, tool and quarter of an hour, each with its session."""
        groups: dict[tuple[str, str | None, int], dict[int, Session | None]] = {}
        for row in rows:
            told, span = self._shelf.attributes_of(row), self._shelf.span_of(row)
            group = self._together[row] = groups.setdefault((told.kind, told.tool, told.quarter), {})
            group[row] = span.session if span else None

    def place(self, row: int) -> int:
        """Return where a row that was given by :meth:`of` stands in the order."""
        return self._places[row]


class Asked(NamedTuple):
    """A question and which rows are meant; without text, pattern and file the newest of these.

    ``file`` keeps to rows of tools that name a file, ``without`` leaves out sessions and counts what it leaves out,
    ``seconds`` ends a regular expression.
    """

    text: str
    wanted: Wanted = Wanted()
    without: Callable[[str, str], bool] | None = None
    file: str | None = None
    regex: bool = False
    seconds: float = 5.0


class Counting(NamedTuple):
    """What facets need that the index has not: the month of a quarter of an hour, the projects of sessions."""

    month: Callable[[int], str]
    project: Mapping[Session, str]


class Hit(NamedTuple):
    """A row of an events part; a higher ``score`` is better."""

    rowid: int
    part: str
    row: int
    score: float


class FoundEvent(NamedTuple):
    """The event of a hit."""

    event_id: str
    host: str
    session_id: str
    thread_id: str
    ts: int | None
    kind: str
    tool: str | None
    outcome: str
    text: str | None


class Found(NamedTuple):
    """A hit with its event, the text around the match, how it was scored, and its place among all hits, from 0.

    ``copies`` are the same event in other sessions, which are no hits of their own.
    """

    hit: Hit
    event: FoundEvent
    snippet: Snippet
    score: Score | None
    place: int
    copies: tuple[FoundEvent, ...] = ()


class Answer(NamedTuple):
    """Hits in order, best first, and at which place the next ones begin, None at the end.

    ``total``, ``facets`` and ``left_out`` are of all hits, copies too, and None and 0 where they were not asked for.
    """

    found: list[Found]
    level: str
    next: int | None
    total: int | None = None
    left_out: int = 0
    facets: dict[str, dict[str, int]] | None = None
    covered: Coverage | None = None
    missing: tuple[str, ...] = ()
    """words of the question, in small letters, that no row has which is meant"""
    with_all: int = 0


class _Rows(NamedTuple):
    order: list[int]
    ranking: Ranking | None
    every: list[int] | None
    left_out: int
    matched: dict[int, str]
    covered: Coverage | None


class Texts(Protocol):
    """Where the texts of hits are read: a store, whose lake is opened only when the pages do not suffice."""

    @property
    def lake(self) -> Lake:
        """The parts, read by Arrow."""

    @property
    def page_reader(self) -> PageReader:
        """Single events without Arrow."""


class _Texts:
    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.page_reader = lake.page_reader


class Reading(ABC):
    """The part of the index that answers; opened by the class that has the file."""

    _shelf: RowLookup | None = None

    @abstractmethod
    def _reading(self) -> sqlite3.Connection:
        """Return a connection to the file; raises StoreError when there is none."""

    @property
    def rows_of_index(self) -> RowLookup:
        """What the index holds now."""
        return self._shelved()

    @property
    def connection(self) -> sqlite3.Connection:
        """A connection to the file; raises StoreError when there is none."""
        return self._reading()

    def query(self, text: str, *, host: str | None = None, limit: int = 20, offset: int = 0) -> list[Hit]:
        """Return the best rows for a text, whatever characters it has.

        The whole phrase comes first, then rows with all its words, then, when these are
        few, rows with any of them, at last words that begin with them. Raises StoreError when there is no index.
        """
        wanted = Wanted(session=(lambda h, _: h == host) if host else None)
        shelf = self._shelved()
        rows = self._rows(shelf, Asked(text, wanted), need=offset + limit, count=False)
        return self._hits(shelf, rows, offset, offset + limit)

    def search(self, lake: Lake, text: str, *, limit: int = 20) -> list[Found]:
        """Return the best hits for a text."""
        return self.ask(_Texts(lake), Asked(text), limit=limit).found

    def meets(self, asked: Asked) -> bool:
        """Tell whether some hit of a question would hold its phrase or all its words: cheaper than to ask it."""
        shelf = self._shelved()
        return meets(shelf.connection, shelf, question(asked.text), self._mask(shelf, asked))

    def near_words(self, words: Sequence[str], asked: Asked) -> dict[str, str]:
        """Return those of some words that stand nowhere but differ in one letter from a word of a row that is meant: word -> that word.

        What sessions hold that are left out stands nowhere.
        """
        shelf = self._shelved()
        doubted = [word for word in words if near_words.may_be_typo(word)][: near_words.MOST]
        if not doubted:
            return {}
        anywhere = self._mask_of_shown(shelf, Asked("", without=asked.without))
        doubted = [word for word in doubted if not rows_with(shelf.connection, shelf, word, anywhere, 1)]
        meant = self._mask_of_shown(shelf, asked)
        near = {
            word: near_words.near_word(
                word,
                lambda other: rows_with(shelf.connection, shelf, other, meant, near_words.ENOUGH),
                lambda letters: words_beginning_with(shelf.connection, letters),
            )
            for word in doubted
        }
        return {word: other for word, other in near.items() if other}

    def ask(
        self, texts: Texts, asked: Asked, *, limit: int = 20, offset: int = 0, width: int = 240, counting: Counting | None = None
    ) -> Answer:
        """Return hits with their events and the text around the match; hits whose part is gone are left out.

        With ``counting`` all hits are counted, in all and by facet; without it only as many as are shown are looked for.
        Where a writer changed the index meanwhile, so that a hit is not where it was, the answer is made anew.
        Raises StoreDamaged where a hit is not there since a file of the tables is damaged.
        """
        shelf = self._shelved()
        answer, whole = self._answer(shelf, texts, asked, limit=limit, offset=offset, width=width, counting=counting)
        if not whole and (now := self._shelved()) is not shelf:
            answer, whole = self._answer(now, texts, asked, limit=limit, offset=offset, width=width, counting=counting)
        if not whole:
            texts.lake.demand("events")
        return answer

    def _answer(
        self, shelf: RowLookup, texts: Texts, asked: Asked, *, limit: int, offset: int, width: int, counting: Counting | None
    ) -> tuple[Answer, bool]:
        """Return the answer from one state of the index, and whether every hit was where that says."""
        rows = self._rows(shelf, asked, need=offset + limit + 1, count=counting is not None, texts=texts)
        found, end, whole = self._shown(shelf, texts, rows, asked, limit=limit, offset=offset, width=width)
        level = rows.ranking.level if rows.ranking else "regex" if asked.regex else "file" if asked.file else "newest"
        missing, with_all = (rows.ranking.missing, rows.ranking.with_all) if rows.ranking else ((), 0)
        if counting is None or rows.every is None:
            return Answer(
                found, level, end if len(rows.order) > end else None, covered=rows.covered, missing=missing, with_all=with_all
            ), whole
        facets = shelf.counts(rows.every, counting.month, counting.project)
        more = end if len(rows.every) > end else None
        return Answer(found, level, more, len(rows.every), rows.left_out, facets, rows.covered, missing, with_all), whole

    def _shown(
        self, shelf: RowLookup, texts: Texts, rows: _Rows, asked: Asked, *, limit: int, offset: int, width: int
    ) -> tuple[list[Found], int, bool]:
        """Return the hits of a page, the place behind the last row that was looked at, and whether every hit was where it should be.

        An event that several sessions hold is one hit, at the best of its places, which may be on an earlier page.
        """
        alike = Alike(shelf, rows.order, rows.ranking)
        meant = question(asked.text)
        words = (*meant.significant_terms, *meant.identifiers) or question(asked.file or "").significant_terms
        found: dict[int, Found] = {}
        known: dict[_Told, int] = {}
        read: dict[int, FoundEvent | None] = {}
        whole, end = True, offset
        while len(found) < limit and end < len(rows.order):
            begin, end = end, min(end + limit - len(found), len(rows.order))
            hits = self._hits(shelf, rows, begin, end)
            others = {row: alike.of(row) for row in rows.order[begin:end]}
            # a session with many copies is met again and again: each of its rows is read once
            unread = [row for row in dict.fromkeys((*others, *chain.from_iterable(others.values()))) if row not in read]
            further = self._hits_of(shelf, rows, unread)
            read |= zip((h.rowid for h in further), self._events(shelf, texts, further), strict=True)
            places = {row: begin + number for number, row in enumerate(rows.order[begin:end])}
            for hit in hits:
                event = read[hit.rowid]
                if event is None:
                    whole = False
                    continue
                same = [row for row in others[hit.rowid] if _is_copy(event, read.get(row))]
                if any(alike.place(row) < offset for row in same):
                    continue
                first = known.setdefault(_event_key(event), hit.rowid) if event.ts is not None else hit.rowid
                if first != hit.rowid and _is_copy(event, found[first].event):
                    copies = found[first].copies
                    if event not in copies:
                        found[first] = found[first]._replace(copies=(*copies, event))
                    continue
                text = event.text or ""
                matched = rows.matched.get(hit.rowid)
                place = text.find(matched) if matched else -1
                cut = around(text, place, place + len(matched), width) if matched and place >= 0 else snippet(text, words, width)
                score = rows.ranking.scores.get(hit.rowid) if rows.ranking else None
                copies = tuple(copy for row in same if (copy := read.get(row)) is not None)
                found[hit.rowid] = Found(hit, event, cut, score, places[hit.rowid], copies)
        return list(found.values()), end, whole

    def _rows(self, shelf: RowLookup, asked: Asked, *, need: int, count: bool, texts: Texts | None = None) -> _Rows:
        """Return at least ``need`` rows in order where there are so many; with ``count`` all of them."""
        connection = shelf.connection
        bare = not (asked.regex or asked.file or asked.text.strip()) and (asked.wanted.by_row or asked.wanted.session is not None)
        if bare:
            asked = asked._replace(wanted=_searched(asked.wanted))
        every: list[int] | None
        base = self._mask(shelf, asked)
        mask = base if asked.without is None else self._mask_of_shown(shelf, asked)
        if asked.regex:
            matched, covered = scan(
                texts.lake if texts else None, shelf, mask, asked.text, seconds=asked.seconds, most=None if count else need
            )
            every = sorted(matched)
            return _Rows(shelf.newest_first(every), None, every if count else None, 0, matched, covered)
        ranking: Ranking | None = None
        order: list[int] = []
        expression = named(asked.file) if asked.file else ""
        if not bare and (asked.text.strip() or not asked.file):
            ranking = ranked(connection, shelf, question(asked.text), mask)
            order, expression = ranking.rows, ranking.expression
        every = None
        left_out = 0
        if count or ranking is None or 0 < len(order) < need:
            rows = range(shelf.top + 1) if bare else matching_rows(connection, expression)
            every = shelf.alive(rows, mask)
            if base is not mask:
                left_out = len(shelf.alive(rows, base)) - len(every)
            if ranking is None:
                order = shelf.newest_first(every)
            elif len(order) < need:
                known = set(order)
                order = [*order, *(row for row in shelf.newest_first(every) if row not in known)]
        return _Rows(order, ranking, every, left_out, {}, None)

    def _mask_of_shown(self, shelf: RowLookup, asked: Asked) -> bytes | None:
        """Return which rows are meant without those of the sessions that are left out, None for all of an index without dead rows."""
        if asked.without is None:
            return self._mask(shelf, asked)
        leave = asked.without
        inner = asked.wanted.session
        both = asked.wanted._replace(session=lambda h, s: not leave(h, s) and (inner is None or inner(h, s)))
        return self._mask(shelf, asked._replace(wanted=both))

    def _mask(self, shelf: RowLookup, asked: Asked) -> bytes | None:
        """Return which rows are meant, None for all of an index without dead rows."""
        connection = shelf.connection
        wanted = asked.wanted
        if not asked.file:
            return shelf.mask(wanted) if shelf.gaps or wanted.by_row or wanted.session else None
        naming = bytearray(shelf.top + 1)
        for row in matching_rows(connection, named(asked.file)):
            if row <= shelf.top:
                naming[row] = 1
        both = int.from_bytes(naming, "little") & int.from_bytes(shelf.mask(wanted), "little")
        return both.to_bytes(shelf.top + 1, "little")

    def _hits(self, shelf: RowLookup, rows: _Rows, start: int, end: int) -> list[Hit]:
        return self._hits_of(shelf, rows, rows.order[start:end])

    def _hits_of(self, shelf: RowLookup, rows: _Rows, chosen: Sequence[int]) -> list[Hit]:
        hits = []
        for row in chosen:
            place = shelf.place_of(row)
            if place is not None:
                score = rows.ranking.scores.get(row) if rows.ranking else None
                hits.append(Hit(row, *place, score.total if score else 0.0))
        return hits

    def _events(self, shelf: RowLookup, texts: Texts, hits: Sequence[Hit]) -> list[FoundEvent | None]:
        """Return the events of hits, from the noted pages where they can be read, else by Arrow; None for one that is another's."""
        by_part: dict[str, list[int]] = {}
        for number, hit in enumerate(hits):
            by_part.setdefault(hit.part, []).append(number)
        events: list[FoundEvent | None] = [None] * len(hits)
        others = []
        for part, numbers in by_part.items():
            note = shelf.connection.execute("SELECT places FROM pages WHERE part = ?", (part,)).fetchone()
            found = texts.page_reader.events(part, [hits[n].row for n in numbers], note[0]) if note and note[0] else None
            if found is None:
                others += numbers
                continue
            for number, event in zip(numbers, found, strict=True):
                span, told = shelf.span_of(hits[number].rowid), shelf.attributes_of(hits[number].rowid)
                if span is None or quarter_of(event.ts) != told.quarter:
                    others.append(number)
                else:
                    who = (span.host, span.session_id, told.thread_id or span.session_id)
                    events[number] = FoundEvent(event.event_id, *who, event.ts, told.kind, told.tool, told.outcome, event.text)
        names = ("event_id", "host", "session_id", "thread_id", "ts", "kind", "text")
        for number, row in zip(
            others, texts.lake.reader.rows(EVENTS, [(hits[n].part, hits[n].row) for n in others], names) if others else (), strict=True
        ):
            span = shelf.span_of(hits[number].rowid)
            if row is not None and span is not None and (row.host, row.session_id) == span.session:
                told = shelf.attributes_of(hits[number].rowid)
                events[number] = FoundEvent(
                    row.event_id, row.host, row.session_id, row.thread_id, row.ts, row.kind, told.tool, told.outcome, row.text
                )
        return events

    def _shelved(self) -> RowLookup:
        connection = self._reading()
        stamp = (row_lookup.scalar(connection, "PRAGMA data_version"), connection.total_changes)
        if self._shelf is None or self._shelf.stamp != stamp:
            self._shelf = RowLookup(connection, stamp)
        return self._shelf


_Told = tuple[str, str, int | None, str | None]


def _event_key(event: FoundEvent) -> _Told:
    return event.host, event.kind, event.ts, event.text


def _is_copy(event: FoundEvent, other: FoundEvent | None) -> bool:
    """Tell whether two events are one that two sessions hold: the same words at the same microsecond."""
    return other is not None and event.ts is not None and event.session_id != other.session_id and _event_key(event) == _event_key(other)


def _searched(wanted: Wanted) -> Wanted:
    """Return what is meant with the kinds of events alone that have words."""
    kinds = SAID | DONE
    return wanted._replace(kinds=kinds if wanted.kinds is None else kinds.intersection(wanted.kinds))
